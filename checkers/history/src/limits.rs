//! The limits of a search, and its cost. Used by the search and by its report.

use std::time::Duration;

/// The limits of a search. When one is reached, the verdicts that are left open are *unknown*.
#[derive(Clone, Debug)]
pub struct Limits {
    /// The time for the whole check.
    pub time: Duration,
    /// The memory for the whole check, in bytes, as far as the searches account for it.
    pub memory_bytes: usize,
    /// The configurations that the search of one partition may visit. This bound does not depend on the machine.
    pub configurations: u64,
}

impl Default for Limits {
    /// Returns a minute, 2 GiB, and any number of configurations.
    fn default() -> Self {
        Limits {
            time: Duration::from_secs(60),
            memory_bytes: 2 << 30,
            configurations: u64::MAX,
        }
    }
}

/// The limit that ended a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// [`Limits::time`].
    Time,
    /// [`Limits::memory_bytes`].
    Memory,
    /// [`Limits::configurations`].
    Configurations,
}

/// The cost of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Configurations visited: sets of placed operations with a state.
    pub configurations: u64,
    /// Times a configuration had been visited before.
    pub repeats: u64,
    /// Bytes accounted for at the end.
    pub memory_bytes: usize,
}
