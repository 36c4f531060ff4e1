//! Options of the shared-memory fabric.

use std::time::Duration;

#[cfg(feature = "deferred-nic")]
use loco_fabric::Tier;
use loco_fabric::{FabricError, Order, Result};
use loco_host::HugePages;

/// The configuration of one node's shared-memory fabric.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ShmConfig {
    /// The bytes of address space of one arena (default 1 GiB). Small pages are taken from the system only
    /// when they are touched. Reserved huge pages are set aside for a whole arena at once. A longer
    /// allocation gets an arena of its own.
    pub arena_bytes: usize,
    /// The bytes of all arenas of this node together (default 8 GiB).
    pub memory_limit_bytes: usize,
    /// The page size of the arenas.
    pub huge_pages: HugePages,
    /// The executor of posted operations.
    pub nic: Nic,
    /// The time that the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
}

loco_fabric::setters!(ShmConfig {
    arena_bytes: usize,
    memory_limit_bytes: usize,
    huge_pages: HugePages,
    nic: Nic,
    set_up_timeout: Duration,
});

/// The executor of posted operations.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum Nic {
    /// The posting call itself executes the operation: it is [`Done`](loco_fabric::Posted::Done) when the
    /// call returns.
    #[default]
    Synchronous,
    #[cfg(feature = "deferred-nic")]
    /// A thread of each node executes operations later, in every order that a network of tier `ibta` allows. This is a test
    /// aid without useful speed. With it, code that must work with pending operations and unplaced puts can be tested
    /// without an RDMA device. [`Nic::tier`] chooses another tier.
    Deferred {
        /// The seed of the choice among the permitted steps and of the delays. (The seed does not control the
        /// operating system's scheduling, so it does not replay a run.)
        seed: u64,
        /// The longest delay of one step of an operation. About half of the steps are not delayed.
        delay_max: Duration,
        /// The maximum number of operations in a queue pair that have not been polled (see
        /// [`QueueFull`](FabricError::QueueFull)).
        queue_depth: usize,
    },
    #[cfg(feature = "deferred-nic")]
    /// As [`Nic::Deferred`], but in every order that a discipline allows. It may be weaker than every tier, to check that
    /// a test notices that.
    Disciplined {
        /// As in [`Nic::Deferred`].
        seed: u64,
        /// As in [`Nic::Deferred`].
        delay_max: Duration,
        /// As in [`Nic::Deferred`].
        queue_depth: usize,
        /// The orders that are kept.
        discipline: crate::Discipline,
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

    /// Returns the NIC with the orders of a tier, and no others. A synchronous NIC stays as it is: it keeps every order.
    #[must_use]
    pub fn tier(self, tier: Tier) -> Nic {
        match self {
            Nic::Synchronous => self,
            Nic::Deferred {
                seed,
                delay_max,
                queue_depth,
            }
            | Nic::Disciplined {
                seed,
                delay_max,
                queue_depth,
                ..
            } => Nic::Disciplined {
                seed,
                delay_max,
                queue_depth,
                discipline: crate::Discipline::of(tier),
            },
        }
    }
}

impl Nic {
    /// Returns the orders that the executor keeps, and the costs of the others.
    pub(crate) fn order(&self) -> Order {
        match self {
            Nic::Synchronous => Order::IMMEDIATE,
            #[cfg(feature = "deferred-nic")]
            Nic::Deferred { .. } => Order::IN_ORDER,
            #[cfg(feature = "deferred-nic")]
            Nic::Disciplined { discipline, .. } => Order::of_card(discipline.tier()),
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
    /// Returns the default configuration with another NIC.
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
            Nic::Deferred { queue_depth: 0, .. } | Nic::Disciplined { queue_depth: 0, .. } => {
                Err(FabricError::Config(
                    "`queue_depth` of `Nic::Deferred` is 0: a queue pair needs room for one operation".into(),
                ))
            }
            _ => Ok(()),
        }
    }
}
