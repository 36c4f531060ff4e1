//! The settings that a program chooses once for a node: deadlines, polling of completions, block size of the
//! pools.

use std::time::Duration;

/// Settings of a [`Manager`](crate::Manager).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Config {
    /// The time that any blocking call waits unless it has its own deadline. The default is 10 s.
    pub deadline: Duration,
    /// The thread that polls for completions. The default is [`Polling::CallerDriven`].
    pub polling: Polling,
    /// The size of one block of a thread's [`MemRef`](crate::MemRef) pool, in bytes: a positive multiple of 64. Larger
    /// requests get memory of their own, which is slower. The default is 4096.
    pub block_bytes: usize,
}

loco_fabric::setters!(Config {
    deadline: Duration,
    polling: Polling,
    block_bytes: usize,
});

impl Default for Config {
    fn default() -> Config {
        Config {
            deadline: Duration::from_secs(10),
            polling: Polling::CallerDriven,
            block_bytes: 4096,
        }
    }
}

/// The thread that polls for completions. On a fabric that completes operations within the call, nobody
/// polls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Polling {
    /// Every waiting thread polls, and records the completions that it finds for all threads. Polling needs no core of
    /// its own.
    #[default]
    CallerDriven,
    /// One thread of the node polls (LOCO'26 C.1.2). It waits by the fabric's waiting primitive, which yields
    /// and sleeps when idle. It therefore does not starve workers where cores are few. Where completions are events of
    /// the device, as on verbs, it sleeps in the kernel until the next one comes.
    Thread,
}
