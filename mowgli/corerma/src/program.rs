//! Programs of coreRMA (coreRMA'16 section 3, Table 1).
//!
//! A process runs alone on its node, so that a process is named by its node. Locations, nodes and registers are those of
//! [`mowgli::program`]. The parser, the generator and the translation of [`crate::common`] make programs; [`crate::action`] reads
//! them.

use mowgli::program::{Expr, Loc, Location, Node, Reg};
use serde::{Deserialize, Serialize};

/// A program.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Program {
    /// Number of nodes; nodes are `0..nodes`.
    pub nodes: u8,
    /// Every shared location, with its node and initial value.
    pub locations: Vec<Location>,
    /// Every process; no two have one node.
    pub processes: Vec<Process>,
}

/// A process, which is the one thread of its node.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Process {
    /// Node that runs it.
    pub node: Node,
    /// Register names; registers start at 0.
    pub registers: Vec<String>,
    /// Its statements.
    pub code: Vec<Statement>,
}

/// A location in a statement, and whether the access to it is atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Access {
    /// The location.
    pub loc: Loc,
    /// Whether the access is atomic.
    pub atomic: bool,
}

impl Access {
    /// Returns an atomic access to a location.
    pub const fn atomic(loc: Loc) -> Access {
        Access { loc, atomic: true }
    }
}

/// Statements (coreRMA'16 Table 1). A target may be any location, the others belong to the process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Statement {
    /// `u := x`: local read.
    Read {
        /// Destination.
        reg: Reg,
        /// Source.
        from: Access,
    },
    /// `x := e`: local write.
    Write {
        /// Destination.
        to: Access,
        /// Expression over the process's registers.
        value: Expr,
    },
    /// `x := get(z^n)`: remote get.
    Get {
        /// Local destination.
        to: Access,
        /// Location at the target.
        from: Access,
    },
    /// `put(z^n, x)`: remote put.
    Put {
        /// Location at the target.
        to: Access,
        /// Local source.
        from: Access,
    },
    /// `x := rga(z^n, y)`: remote get accumulate, which adds `y` to `z` and returns the old value of `z`.
    Rga {
        /// Local destination of the old value.
        to: Access,
        /// Location at the target.
        target: Access,
        /// Local addend.
        addend: Access,
    },
    /// `x := cas(z^n, y, w)`: remote compare and swap, which writes `w` to `z` if `z` equals `y`, and returns the old value
    /// of `z`.
    Cas {
        /// Local destination of the old value.
        to: Access,
        /// Location at the target.
        target: Access,
        /// Local location of the expected value.
        expected: Access,
        /// Local location of the new value.
        new: Access,
    },
    /// `flush(n)`: waits until all earlier remote statements towards node `n` are complete.
    Flush {
        /// The target.
        node: Node,
    },
}

impl Program {
    /// Returns a location. The parser and the generators make no other indices.
    pub fn location(&self, loc: Loc) -> &Location {
        &self.locations[usize::from(loc.0)]
    }
}
