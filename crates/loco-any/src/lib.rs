//! The fabric that is chosen at run time: one enum over the fabrics that this build has.
//!
//! The features `shm` and `verbs`, both on by default, say which those are. Dispatch is a match, which inlines; there are
//! no virtual calls. Another fabric is another crate, a feature, and a variant of the enums and macros here.

#![forbid(unsafe_code)]

#[cfg(not(any(feature = "shm", feature = "verbs")))]
compile_error!("a program needs a fabric: enable the feature `shm`, `verbs`, or both");

/// Declares an enum over the fabrics' types.
macro_rules! either {
    ($(#[$meta:meta])* $name:ident $(<$w:ident>)?, $shm:ty, $verbs:ty) => {
        $(#[$meta])*
        pub enum $name $(<$w>)? {
            /// Of the shared-memory fabric.
            #[cfg(feature = "shm")]
            Shm($shm),
            /// Of the verbs fabric.
            #[cfg(feature = "verbs")]
            Verbs($verbs),
        }
    };
}

/// The same expression for each variant.
macro_rules! each {
    ($value:expr, $inner:ident => $body:expr) => {
        match $value {
            #[cfg(feature = "shm")]
            Self::Shm($inner) => $body,
            #[cfg(feature = "verbs")]
            Self::Verbs($inner) => $body,
        }
    };
}

/// The same for an expression whose result becomes the same variant of another enum.
macro_rules! wrapped {
    ($value:expr, $inner:ident => $body:expr => $to:ident) => {
        match $value {
            #[cfg(feature = "shm")]
            Self::Shm($inner) => $body.map($to::Shm),
            #[cfg(feature = "verbs")]
            Self::Verbs($inner) => $body.map($to::Verbs),
        }
    };
}

mod config;
mod fabric;
mod memory;
mod queue_pair;

pub use config::{AnyConfig, FabricChoice};
pub use fabric::AnyFabric;
pub use loco_host::HugePages;
pub use memory::{AnyCell, AnyMemory, AnyRemote};
pub use queue_pair::AnyQueuePair;
