//! Any other fabric as an arm of [`AnyFabric`]: its types are erased behind trait objects (feature `model`).
//!
//! So a program that names no fabric, by `loco::run` and types such as `loco::Manager`, runs on the model fabric of `loco-sim`.
//! Without the feature there is nothing of this: neither the arm nor a branch for it. With it, the [platform](crate::AnyFabric) is an
//! [`AnyPlatform`] in place of [`Std`](loco_fabric::Std), as locks, atomics and threads are the model's where the model runs.
//!
//! Relies on the fabric contract. Used by the enums of this crate, as one of their arms.

mod fabric;
mod memory;
mod platform;
mod player;
mod primitives;
mod queue_pair;

pub use fabric::ErasedFabric;
pub use memory::{ErasedCell, ErasedMemory, ErasedRemote};
pub use platform::{
    AnyAtomic, AnyGuard, AnyMutex, AnyPlatform, AnyReadGuard, AnyRwLock, AnyTask, AnyWriteGuard,
};
pub(crate) use player::install;
pub use queue_pair::ErasedQueuePair;

/// A value whose own traits have object-safe forms here.
struct Of<T>(T);
