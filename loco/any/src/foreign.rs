//! Refuses memory of one fabric that is given to another: the error, and the key that no node accepts.

use loco_fabric::{FabricError, RegionKey};

/// The key of memory that no node accepts.
pub(crate) const NO_KEY: RegionKey = RegionKey {
    arena: u64::MAX,
    address: u64::MAX,
    len: u64::MAX,
    rkey: 0,
};

/// Returns the error for memory of one fabric that was given to another.
#[cold]
pub(crate) fn mixed() -> FabricError {
    FabricError::Config(
        "memory of one fabric used with another: make both by the same `AnyFabric`".to_owned(),
    )
}
