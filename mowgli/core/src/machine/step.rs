//! The steps that the machine takes by itself, and the footprint of each step.
//!
//! Relies on [`super::ops`]. Used by explorers: a schedule is a sequence of [`Step`]s, and [`Footprint`]s say which words they access.

use std::fmt;

use super::ops::{Addr, QpId};

/// A step of the hardware: silent transitions of RDMA-TSO'24 Figs. 7, 19, 20 and of `docs/rmw.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Step {
    /// The oldest entry leaves the thread's store buffer: a store goes to memory, a remote operation to its
    /// queue pair.
    Drain {
        /// The thread.
        thread: u16,
    },
    /// A queue pair makes progress.
    Nic {
        /// The queue pair.
        qp: QpId,
        /// The rule that it applies.
        rule: Rule,
        /// The entry that it concerns, counted from the oldest: of the pipe, or among the writes of a write-back buffer. A write-back buffer
        /// places another write than the oldest only where the bus reorders, or if both are words of one transfer.
        index: u16,
    },
}

/// A rule of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rule {
    /// A remote fence is done. It is at the head, or the network reorders and only puts are ahead of it.
    Fence,
    /// NIC local read: a put reads its source.
    LocalRead,
    /// A put's remote write enters `wb_R`; the put becomes an acknowledgement.
    RemoteWrite,
    /// A write of `wb_R` reaches the peer's memory: the oldest, a later word of the same transfer, or any that the bus lets pass.
    PlaceRemote,
    /// NIC remote read: a get reads its source.
    RemoteRead,
    /// A fulfilled get or RMW leaves the pipe: its local write enters `wb_L`, and its notification behind it.
    Respond,
    /// An acknowledged put leaves the pipe: its notification enters `wb_L`.
    Complete,
    /// A write of `wb_L`, the oldest unless the bus reorders, reaches the thread's memory.
    PlaceLocal,
    /// NIC atomic read: an RMW reads its target (under `glob`, also writes it).
    AtomicRead,
    /// The remote write of an RMW enters `wb_R`.
    AtomicWrite,
    /// Concrete pipeline only: an entry moves to the next buffer.
    Forward,
}

impl Rule {
    /// Returns one or two words for traces.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Fence => "fence",
            Rule::LocalRead => "local read",
            Rule::RemoteWrite => "remote write",
            Rule::PlaceRemote => "place remote",
            Rule::RemoteRead => "remote read",
            Rule::Respond => "respond",
            Rule::Complete => "complete",
            Rule::PlaceLocal => "place local",
            Rule::AtomicRead => "atomic read",
            Rule::AtomicWrite => "atomic write",
            Rule::Forward => "forward",
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Step::Drain { thread } => write!(f, "P{thread}: drain"),
            Step::Nic { qp, rule, index: 0 } => write!(f, "P{}->{}: {}", qp.thread, qp.peer, rule.name()),
            Step::Nic { qp, rule, index } => {
                write!(f, "P{}->{}: {} #{index}", qp.thread, qp.peer, rule.name())
            }
        }
    }
}

/// The words and the atomic unit that a step reads, writes, takes or releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Memory word read.
    pub reads: Option<Addr>,
    /// Memory word written.
    pub writes: Option<Addr>,
    /// Node whose atomic unit is taken or released.
    pub unit: Option<u16>,
}
