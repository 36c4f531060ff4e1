//! The progress of an exploration: how far it has come, and how large it will be.

use std::time::Duration;

/// A report that a running exploration gives now and then (see
/// [`Config::progress`](crate::Config::progress)).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// The number of this search: an exhaustive exploration searches again when it has learned of a conflict.
    pub pass: u64,
    /// The number of states seen in this search; 0 for random strategies.
    pub states: u64,
    /// Executions ended.
    pub executions: u64,
    /// The part of the exploration that is done, from 0 to 1. The figure is exact for random strategies and
    /// an estimate for searches. Each state hands its share of the search tree on to its moves in equal
    /// parts, and the shares of closed branches add up (the weighted backtrack estimator of Kilby et al.,
    /// AAAI 2006). The estimate comes out low, because the later branches of a state lead more often to
    /// states that are known.
    pub done: f64,
    /// Time since the exploration began.
    pub elapsed: Duration,
}

impl Progress {
    /// Estimates how many states the search will have seen in the end. Returns `None` while too little is
    /// known for an estimate.
    pub fn states_estimated(&self) -> Option<u64> {
        (self.states > 0 && self.done > 1e-9).then(|| (self.states as f64 / self.done.min(1.0)) as u64)
    }
}
