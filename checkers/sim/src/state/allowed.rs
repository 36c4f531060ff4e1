//! The faults that executions may have, and how many.
//!
//! Relies on nothing of this crate. Used by [`super::faults`], which makes moves of them, and by every configuration.

use std::cell::Cell;
use std::fmt;

use serde::Serialize;

/// The faults that may happen in an execution, and how often. By default no deadline passes and no node is
/// lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Faults {
    /// The largest number of waits that end by their deadline while something else could still happen.
    ///
    /// Clocks promise order only. A node's clock never goes back, and when a wait has ended by its deadline,
    /// the node's clock has reached that deadline. Nothing relates clocks of different nodes, or a duration
    /// to the events that happen meanwhile. A wait whose deadline has already passed may end at any time;
    /// that is not counted.
    pub expiries: u32,
    /// The largest number of nodes that stop for good, at any step. A stopped node's posted operations may or
    /// may not arrive.
    pub crashes: u32,
    /// The largest number of nodes that are declared lost although they live.
    ///
    /// Membership is enforced and agreed, as the fabric contract says. First a node is cut off: from then on
    /// none of its operations takes effect at others, not even those under way, and its own next call fails.
    /// Then each survivor learns of the loss, at any later time. A node that has stopped is also cut off
    /// before anybody learns of it.
    pub suspicions: u32,
    /// The largest number of links that are cut for a while. While the link between two nodes is cut, no operation of one of them
    /// gets through to the other, and no acknowledgement or result comes back. What was under way then goes on: the link
    /// loses nothing, and comes back sooner or later. A partition cuts every link between its sides. Operations may take any time
    /// anyway, so a cut link leads to nothing new; searches within bounds and random schedules find what it leads to sooner. It
    /// has no effect on fabrics without links ([`FabricKind::is_synchronous`](crate::FabricKind::is_synchronous)), and set-up
    /// messages pass it.
    pub cuts: u32,
    /// Leaves membership unenforced, as it was before the contract demanded it. A suspected node does not learn of it
    /// and goes on writing, and survivors may learn of a loss while the lost node's operations are still
    /// under way.
    pub unenforced: bool,
    /// Lets time pass when nothing else can happen: the earliest deadline of some node then passes, and is
    /// not counted. The clocks of the other nodes move by as much, so that a wait that was to end sooner ends
    /// before time passes again. Without this setting, an execution in which only deadlines could end the
    /// waits is a deadlock.
    pub idle_expiries: bool,
}

thread_local! {
    /// The faults of the world that this OS thread runs.
    static CURRENT: Cell<Option<Faults>> = const { Cell::new(None) };
}

impl Faults {
    /// Says which faults the world has that this OS thread runs from now on.
    pub(crate) fn set_current(self) {
        CURRENT.set(Some(self));
    }

    /// Returns the faults of the world that this OS thread runs.
    pub(crate) fn current() -> Faults {
        CURRENT.get().unwrap_or_default()
    }

    /// Returns whether deadlines may pass.
    pub(crate) fn timed(self) -> bool {
        self.expiries > 0 || self.idle_expiries
    }

    /// Returns whether anything can go wrong.
    pub(crate) fn any(self) -> bool {
        self.timed() || self.lossy() || self.cuts > 0
    }

    /// Returns whether nodes may be lost.
    pub(crate) fn lossy(self) -> bool {
        self.crashes > 0 || self.suspicions > 0
    }
}

impl fmt::Display for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            (self.expiries, "expiry", "expiries"),
            (self.crashes, "crash", "crashes"),
            (self.suspicions, "suspicion", "suspicions"),
            (self.cuts, "cut link", "cut links"),
        ];
        let parts: Vec<String> = parts
            .into_iter()
            .filter(|&(n, ..)| n > 0)
            .map(|(n, one, more)| format!("{n} {}", if n == 1 { one } else { more }))
            .collect();
        match parts.is_empty() {
            true => write!(f, "no fault"),
            false => write!(f, "{}", parts.join(" and ")),
        }
    }
}
