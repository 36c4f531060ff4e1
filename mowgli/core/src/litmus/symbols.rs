//! The symbol tables: locations, registers of a thread, and nodes, by the names that the text gives them.

use std::collections::BTreeMap;

use super::receive_queues::Queues;
use crate::program::{Loc, Location, Node, Reg};
use crate::syntax::limits::{NODES_MAX, REGISTERS_MAX};
use crate::syntax::{Diagnostic, Kind, Name, Number, nearest};

/// The locations by name, with the places that later messages point at.
#[derive(Default)]
pub(super) struct Globals {
    /// The place at which each location is declared, in order.
    pub(super) declared: Vec<Name>,
    /// Name to index.
    pub(super) index: BTreeMap<String, Loc>,
    /// The program's locations.
    pub(super) locations: Vec<Location>,
    /// Largest node mentioned.
    pub(super) nodes: u8,
    /// The receive queues.
    pub(super) queues: Queues,
}

impl Globals {
    /// Returns the location called `name`.
    pub(super) fn find(&self, name: &str) -> Option<(Loc, &Location)> {
        let &loc = self.index.get(name)?;
        Some((loc, &self.locations[usize::from(loc.0)]))
    }

    /// Returns the declaration's place, for a message.
    pub(super) fn declaration(&self, loc: Loc) -> &Name {
        &self.declared[usize::from(loc.0)]
    }
}

/// The registers of one thread, in order.
#[derive(Default)]
pub(super) struct Registers {
    /// Names by index.
    pub(super) names: Vec<String>,
    /// Index by name.
    pub(super) index: BTreeMap<String, Reg>,
}

impl Registers {
    /// Adds a register unless it is there.
    pub(super) fn add(&mut self, name: &Name) -> Result<Reg, TooMany> {
        if let Some(&reg) = self.index.get(&name.text) {
            return Ok(reg);
        }
        if self.names.len() == REGISTERS_MAX {
            return Err(TooMany);
        }
        // Bounded by REGISTERS_MAX.
        let reg = Reg(self.names.len() as u16);
        self.index.insert(name.text.clone(), reg);
        self.names.push(name.text.clone());
        Ok(reg)
    }
}

/// A thread has [`REGISTERS_MAX`] registers already.
pub(super) struct TooMany;

pub(super) fn too_many_registers(name: &Name) -> Diagnostic {
    let message = format!("more registers in a thread than REGISTERS_MAX ({REGISTERS_MAX})");
    Diagnostic::new(Kind::LimitExceeded, name.span.clone(), message)
}

/// Returns the node written as `number` (nodes are written from 1), remembered as mentioned. Node 1 if out of range.
pub(super) fn node(number: &Number, globals: &mut Globals, diagnostics: &mut Vec<Diagnostic>) -> Node {
    let index = usize::try_from(number.value)
        .ok()
        .filter(|n| (1..=NODES_MAX).contains(n));
    let Some(n) = index else {
        let message = format!(
            "there is no node {}; nodes are numbered from 1 to NODES_MAX ({NODES_MAX})",
            number.value
        );
        diagnostics.push(Diagnostic::new(Kind::OutOfRange, number.span.clone(), message));
        return Node(0);
    };
    // Bounded by NODES_MAX.
    globals.nodes = globals.nodes.max(n as u8);
    Node(n as u8 - 1)
}

/// Returns the error that no location has this name.
pub(super) fn unknown_location(globals: &Globals, name: &Name) -> Diagnostic {
    let message = format!("unknown location `{}`", name.text);
    let diagnostic = Diagnostic::new(Kind::UnknownLocation, name.span.clone(), message);
    match nearest(&name.text, globals.index.keys().map(String::as_str)) {
        Some(known) => diagnostic.help(format!("did you mean `{known}`?")),
        None => diagnostic.help(format!("place it in the init block: `{}@1=0;`", name.text)),
    }
}
