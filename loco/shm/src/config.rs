//! Options of the shared-memory fabric.

use std::time::Duration;

use loco_fabric::{FabricError, Result};
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
    /// The page size of the arenas (default [`HugePages::TwoMiB`]).
    pub huge_pages: HugePages,
    /// The time that the nodes wait for one another at set-up (default 30 s).
    pub set_up_timeout: Duration,
}

loco_fabric::setters!(ShmConfig {
    arena_bytes: usize,
    memory_limit_bytes: usize,
    huge_pages: HugePages,
    set_up_timeout: Duration,
});

impl Default for ShmConfig {
    fn default() -> ShmConfig {
        ShmConfig {
            arena_bytes: 1 << 30,
            memory_limit_bytes: 8 << 30,
            huge_pages: HugePages::default(),
            set_up_timeout: Duration::from_secs(30),
        }
    }
}

impl ShmConfig {
    pub(super) fn check(&self) -> Result<()> {
        if self.arena_bytes == 0 {
            return Err(FabricError::Config(
                "`arena_bytes` of `ShmConfig` is 0: 1 GiB is usual".into(),
            ));
        }
        Ok(())
    }
}
