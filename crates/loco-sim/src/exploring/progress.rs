//! How far an exploration has come, and how large it will be.

use std::time::Duration;

/// What a running exploration tells now and then (see [`Config::progress`](crate::Config::progress)).
#[derive(Clone, Debug, PartialEq)]
pub struct Progress {
    /// Which search this is: an exhaustive one begins again when it has learned of a conflict.
    pub pass: u64,
    /// States seen in this search; nothing for random strategies.
    pub states: u64,
    /// Executions ended.
    pub executions: u64,
    /// How much is done, from 0 to 1. For random strategies exact. For searches an estimate: each state hands its share of the
    /// search tree on to its moves in equal parts, and the shares of closed branches add up (the weighted backtrack
    /// estimator of Kilby et al., AAAI 2006). It comes out low, as the later branches of a state lead more often to
    /// states that are known.
    pub done: f64,
    /// Time since the exploration began.
    pub elapsed: Duration,
}

impl Progress {
    /// About how many states the search will have seen in the end; nothing while there is too little to tell from.
    pub fn states_estimated(&self) -> Option<u64> {
        (self.states > 0 && self.done > 1e-9).then(|| (self.states as f64 / self.done.min(1.0)) as u64)
    }
}
