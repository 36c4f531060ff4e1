//! What a program chooses once for a node: deadlines, how completions are polled, block size of the pools.

use std::time::Duration;

/// Settings of a [`Manager`](crate::Manager).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// How long any blocking call waits unless it is given its own deadline.
    pub deadline: Duration,
    /// Who looks for completions.
    pub polling: Polling,
    /// Size of one block of a thread's [`MemRef`](crate::MemRef) pool, in bytes. Larger requests get memory of
    /// their own, which is slower.
    pub block_bytes: usize,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            deadline: Duration::from_secs(10),
            polling: Polling::CallerDriven,
            block_bytes: 4096,
        }
    }
}

/// Who polls for completions. On a fabric that completes operations at the call nobody does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Polling {
    /// Whoever waits polls, and marks what it finds for everybody. Needs no core of its own.
    #[default]
    CallerDriven,
    /// One thread of the node polls (LOCO'26 C.1.2). It waits by the fabric's waiting primitive, which yields
    /// and sleeps when idle, so that it does not starve workers where cores are few.
    Thread,
}
