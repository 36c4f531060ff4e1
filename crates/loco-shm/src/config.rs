//! How the shared-memory fabric is set up.

use std::time::Duration;

use loco_fabric::{FabricError, Result};
use loco_host::HugePages;

/// Configuration of the shared-memory fabric, one node's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShmConfig {
    /// Bytes of address space of one arena (default 1 GiB). Small pages are taken from the system only as they are
    /// touched; reserved huge pages are set aside for a whole arena at once. An allocation that is longer gets an
    /// arena of its own.
    pub arena_bytes: usize,
    /// Bytes of all arenas of this node together (default 8 GiB).
    pub memory_limit_bytes: usize,
    /// Pages of the arenas.
    pub huge_pages: HugePages,
    /// Who executes posted operations.
    pub nic: Nic,
    /// How long the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
}

/// Who executes posted operations.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Nic {
    /// The posting call itself: every operation is [`Done`](loco_fabric::Posted::Done) when it returns.
    #[default]
    Synchronous,
    #[cfg(feature = "deferred-nic")]
    /// A thread per node, later, in every order that the contract allows. A test aid: it lets code that must work
    /// with pending operations and unplaced puts be tested without an RDMA device, at no useful speed.
    Deferred {
        /// Seeds the choice among the permitted steps and the delays. (The operating system's scheduling is not
        /// under its control: a seed does not replay a run.)
        seed: u64,
        /// Longest delay of one step of an operation; about half of the steps are not delayed.
        delay_max: Duration,
        /// Operations in a queue pair that have not been polled (see [`QueueFull`](FabricError::QueueFull)).
        queue_depth: usize,
    },
}

#[cfg(feature = "deferred-nic")]
impl Nic {
    /// Returns a deferred NIC with delays up to 20 us and a queue of 64 operations.
    pub fn deferred(seed: u64) -> Nic {
        Nic::Deferred {
            seed,
            delay_max: Duration::from_micros(20),
            queue_depth: 64,
        }
    }
}

impl Default for ShmConfig {
    fn default() -> ShmConfig {
        ShmConfig {
            arena_bytes: 1 << 30,
            memory_limit_bytes: 8 << 30,
            huge_pages: HugePages::default(),
            nic: Nic::default(),
            set_up_timeout: Duration::from_secs(30),
        }
    }
}

impl ShmConfig {
    /// Returns the default with another NIC.
    pub fn with_nic(nic: Nic) -> ShmConfig {
        ShmConfig {
            nic,
            ..ShmConfig::default()
        }
    }

    pub(super) fn check(&self) -> Result<()> {
        if self.arena_bytes == 0 {
            return Err(FabricError::Config(
                "`arena_bytes` of `ShmConfig` is 0: 1 GiB is usual".into(),
            ));
        }
        match self.nic {
            #[cfg(feature = "deferred-nic")]
            Nic::Deferred { queue_depth: 0, .. } => Err(FabricError::Config(
                "`queue_depth` of `Nic::Deferred` is 0: a queue pair needs room for one operation".into(),
            )),
            _ => Ok(()),
        }
    }
}
