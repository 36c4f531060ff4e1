//! Limits of an exploration, and reports on its progress.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The number of moves between two looks at the clock. A move can take long, where it runs much of an execution again.
const LOOK: u64 = 16;

/// The limits at which an exploration gives up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits<'a> {
    /// The instant at which it gives up.
    pub deadline: Option<Instant>,
    /// The number of states after which it gives up.
    pub states_max: Option<u64>,
    /// A flag that ends it when it becomes true.
    pub cancel: Option<&'a AtomicBool>,
    /// The limit on memory in use.
    pub memory: Option<MemoryLimit>,
}

/// A bound on the memory in use, with the caller's way to measure it.
#[derive(Clone, Copy, Debug)]
pub struct MemoryLimit {
    /// Returns the bytes in use now. Every worker calls it now and then.
    pub used: fn() -> u64,
    /// The most bytes in use.
    pub bytes_max: u64,
}

/// The limit that an exploration has reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// The deadline passed.
    Time,
    /// This many states were seen.
    States(u64),
    /// An execution has more than this many moves.
    Depth(u64),
    /// More than this many bytes of memory were in use.
    Memory(u64),
    /// The caller asked to stop.
    Cancelled,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::Time => write!(f, "time limit reached"),
            Limit::States(n) => write!(f, "limit of {n} states reached"),
            Limit::Depth(n) => write!(f, "an execution has more than {n} steps"),
            Limit::Memory(bytes) => write!(f, "memory limit of {bytes} bytes reached"),
            Limit::Cancelled => write!(f, "interrupted"),
        }
    }
}

impl Limits<'_> {
    /// Looks at the clock if a caller that has made so many moves is to look, once in [`LOOK`] moves. Returns whether the deadline has
    /// passed. Unlike [`exceeded`](Limits::exceeded), which asks the caller's functions, it is cheap enough to be called at
    /// every move.
    pub(crate) fn is_late_after(&self, moves: u64) -> bool {
        moves.is_multiple_of(LOOK) && self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// Returns the limit that has been reached after `states` states, if any.
    pub fn exceeded(&self, states: u64) -> Option<Limit> {
        if self.states_max.is_some_and(|max| states >= max) {
            return Some(Limit::States(states));
        }
        // Relaxed: a late view of the flag only delays the stop.
        if self.cancel.is_some_and(|c| c.load(Ordering::Relaxed)) {
            return Some(Limit::Cancelled);
        }
        if let Some(memory) = self.memory
            && (memory.used)() > memory.bytes_max
        {
            return Some(Limit::Memory(memory.bytes_max));
        }
        if self.deadline.is_some_and(|d| Instant::now() >= d) {
            return Some(Limit::Time);
        }
        None
    }
}

/// A report that a running exploration gives now and then.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// The states remembered so far; 0 for random executions.
    pub states: u64,
    /// The executions that have ended.
    pub executions: u64,
    /// The part that is done, from 0 to 1. It is exact for random executions and an estimate for searches.
    /// Each state hands its share of the search tree on to its moves in equal parts, and the shares of closed
    /// branches add up (the weighted backtrack estimator of Kilby et al., AAAI 2006). The estimate is low,
    /// because later branches of a state lead more often to known states.
    pub done: f64,
}
