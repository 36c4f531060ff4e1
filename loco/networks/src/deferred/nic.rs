//! The options of a deferred NIC.

use std::time::Duration;

use loco_fabric::Tier;

use super::discipline::Discipline;

/// A deferred NIC. It has no useful speed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nic {
    /// The seed of the choice among the permitted steps and of the delays. (The seed does not control the
    /// operating system's scheduling, so it does not replay a run.)
    pub seed: u64,
    /// The longest delay of one step of an operation. About half of the steps are not delayed.
    pub delay_max: Duration,
    /// The maximum number of operations in a queue pair that have not been polled (see
    /// [`QueueFull`](loco_fabric::FabricError::QueueFull)).
    pub queue_depth: usize,
    /// The orders that are kept: those of a tier, or others, to check that a test notices them.
    pub discipline: Discipline,
}

impl Nic {
    /// Returns a NIC of tier `ibta` with delays up to 20 us and a queue of 64 operations.
    pub fn deferred(seed: u64) -> Nic {
        Nic {
            seed,
            delay_max: Duration::from_micros(20),
            queue_depth: 64,
            discipline: Discipline::ibta(),
        }
    }

    /// Returns the NIC with the orders of a tier, and no others.
    #[must_use]
    pub fn tier(self, tier: Tier) -> Nic {
        Nic {
            discipline: Discipline::of(tier),
            ..self
        }
    }
}
