//! Changes of a built-in model, one cell or one term at a time, and which of them programs notice.
//!
//! A change that takes away is a *rule* of the model for [`crate::suite`]; a change that adds is a freedom that a test shows by being
//! allowed. [`coverage`] finds for every change the smallest program with other outcomes, or shows that no program of a
//! language has any. [`Features`] excludes at little cost most programs for most changes.

mod coverage;
mod features;

pub use coverage::{Coverage, Notice, coverage};
pub use features::Features;

use std::collections::BTreeSet;
use std::fmt;

use mowgli::declarative;
use mowgli::models::tables::{Cell, Order, Table};
use mowgli::models::{Part, Spec};
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::Program;

/// The relation, or both, that a change concerns: the first is `ippo` or `ib`, the second `oppo` or `ob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    /// Issue.
    Issue,
    /// Observation.
    Observe,
    /// Both at once.
    Both,
}

impl Side {
    const ALL: [Side; 3] = [Side::Issue, Side::Observe, Side::Both];

    /// Returns whether the change concerns issue.
    fn issue(self) -> bool {
        self != Side::Observe
    }

    /// Returns whether the change concerns observation.
    fn observe(self) -> bool {
        self != Side::Issue
    }
}

/// A change of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Change {
    /// A cell of an ordering table gets another entry.
    Cell {
        /// The table: `ippo`, `oppo` or both.
        side: Side,
        /// The cell.
        cell: Cell,
        /// The new entry.
        to: Entry,
    },
    /// A relation loses a term.
    Term {
        /// The relation: `ib`, `ob` or both.
        side: Side,
        /// The term.
        part: Part,
    },
    /// Requests for strong order are ignored.
    Strong,
    /// The issue of an instantaneous event is no longer its observation ([`Spec::joint`]).
    Joint,
}

/// An entry of a table: an [`Order`] that can be sorted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Entry {
    /// Not ordered.
    No,
    /// Ordered on one queue pair.
    SameQueuePair,
    /// Ordered.
    Yes,
}

impl Entry {
    fn order(self) -> Order {
        match self {
            Entry::No => Order::No,
            Entry::SameQueuePair => Order::SameQueuePair,
            Entry::Yes => Order::Yes,
        }
    }
}

/// Returns every change of one cell or one term, and those that take a cell or a term from both of two relations. An entry `sqp` is
/// tried only between two events of the network card; a CPU event has no queue pair.
pub fn changes(spec: &Spec) -> Vec<Change> {
    let mut out = Vec::new();
    let uses_tables = spec.ob.contains(Part::Oppo) || spec.ib.contains(Part::Ippo);
    for cell in Cell::all().filter(|_| uses_tables) {
        let nic = !cell.earlier.is_cpu() && !cell.later.is_cpu();
        for side in Side::ALL {
            for to in [Entry::No, Entry::SameQueuePair, Entry::Yes] {
                let meant = nic || to != Entry::SameQueuePair;
                let differs = |table: &Table| table.get(cell) != to.order();
                let changes = match side {
                    Side::Issue => differs(&spec.ippo),
                    Side::Observe => differs(&spec.oppo),
                    Side::Both => to == Entry::No && differs(&spec.ippo) && differs(&spec.oppo),
                };
                if meant && changes {
                    out.push(Change::Cell { side, cell, to });
                }
            }
        }
    }
    for part in Part::ALL {
        let (ib, ob) = (spec.ib.contains(part), spec.ob.contains(part));
        for (side, has) in [(Side::Issue, ib), (Side::Observe, ob), (Side::Both, ib && ob)] {
            if has {
                out.push(Change::Term { side, part });
            }
        }
    }
    if spec.network.as_ref().is_some_and(|network| network.requests) {
        out.push(Change::Strong);
    }
    out.push(Change::Joint);
    out
}

impl Change {
    /// Returns whether the change takes away, so that the model allows at least what it allowed.
    pub fn removes(&self) -> bool {
        !matches!(self, Change::Cell { to, .. } if *to != Entry::No)
    }

    /// Returns whether one cell of one table, or one term of one relation, changes.
    pub fn is_single(&self) -> bool {
        !matches!(
            self,
            Change::Cell { side: Side::Both, .. } | Change::Term { side: Side::Both, .. }
        )
    }

    /// Returns the changed model.
    #[must_use]
    pub fn apply(&self, spec: &Spec) -> Spec {
        let mut changed = spec.clone();
        match *self {
            Change::Cell { side, cell, to } => {
                if side.issue() {
                    changed.ippo = changed.ippo.with(cell, to.order());
                }
                if side.observe() {
                    changed.oppo = changed.oppo.with(cell, to.order());
                }
            }
            Change::Term { side, part } => {
                if side.issue() {
                    changed.ib = changed.ib.without(part);
                }
                if side.observe() {
                    changed.ob = changed.ob.without(part);
                }
            }
            Change::Strong => {
                if let Some(network) = &mut changed.network {
                    network.requests = false;
                }
            }
            Change::Joint => changed.joint = false,
        }
        changed
    }

    /// Finds the outcomes of a program under the model that [`Self::apply`] made. A relation without a term may leave a read that
    /// nobody looks at without a source, so that every read is decided then.
    ///
    /// # Errors
    /// Returns the limit that stopped the search.
    pub fn outcomes(
        &self,
        changed: &Spec,
        program: &Program,
        budget: &Budget<'_>,
    ) -> Result<BTreeSet<Outcome>, Limit> {
        crate::complete::all(match self {
            Change::Cell { .. } | Change::Strong => declarative::outcomes_under(program, changed, budget),
            _ => declarative::outcomes_exhaustive(program, changed, budget),
        })
    }

    /// Says in a few words what changes.
    pub fn summary(&self) -> String {
        match self {
            Change::Cell { side, cell, to } => {
                let table = match side {
                    Side::Issue => "ippo",
                    Side::Observe => "oppo",
                    Side::Both => "ippo and oppo",
                };
                let entry = match to {
                    Entry::No => "not ordered",
                    Entry::SameQueuePair => "ordered on one queue pair",
                    Entry::Yes => "ordered",
                };
                let (earlier, later) = (cell.earlier.prose(), cell.later.prose());
                format!("{table} {cell}: {earlier} before {later}, {entry}")
            }
            Change::Term { side, part } => {
                let relation = match side {
                    Side::Issue => "ib",
                    Side::Observe => "ob",
                    Side::Both => "ib and ob",
                };
                format!("{relation} without {}", part.name())
            }
            Change::Strong => "requests for strong order are not heard".to_owned(),
            Change::Joint => "issue and observation of instantaneous events apart".to_owned(),
        }
    }
}

/// Writes the name that options and files use: `ippo:G8` for a cell made *not ordered*, `oppo:G10=yes` for one made *ordered*, `G8` for a
/// cell of both tables, `ib:rf`, `ob:rf` and `rf` for terms, `strong`, and `joint`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Change::Cell { side, cell, to } => {
                let table = match side {
                    Side::Issue => "ippo:",
                    Side::Observe => "oppo:",
                    Side::Both => "",
                };
                let entry = match to {
                    Entry::No => "",
                    Entry::SameQueuePair => "=sqp",
                    Entry::Yes => "=yes",
                };
                write!(f, "{table}{cell}{entry}")
            }
            Change::Term { side, part } => {
                let relation = match side {
                    Side::Issue => "ib:",
                    Side::Observe => "ob:",
                    Side::Both => "",
                };
                let name = match part {
                    Part::PfGet => "pf-get",
                    Part::PfPut => "pf-put",
                    part => part.name(),
                };
                write!(f, "{relation}{name}")
            }
            Change::Strong => write!(f, "strong"),
            Change::Joint => write!(f, "joint"),
        }
    }
}
