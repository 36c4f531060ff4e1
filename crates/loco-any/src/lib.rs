//! The fabric that is chosen at run time: one enum over the fabrics of this build.
//!
//! The features `shm` and `verbs`, both on by default, choose these fabrics. Dispatch is a match, which
//! inlines; there are no virtual calls. Another fabric would be another crate, a feature, and a variant of
//! the enums and macros here.

#![forbid(unsafe_code)]

#[cfg(not(any(feature = "shm", feature = "verbs")))]
compile_error!("a program needs a fabric: enable the feature `shm`, `verbs`, or both");

/// Declares an enum over the fabrics' types.
macro_rules! either {
    ($(#[$meta:meta])* $name:ident $(<$w:ident>)?, $shm:ty, $verbs:ty) => {
        $(#[$meta])*
        pub enum $name $(<$w>)? {
            /// A value of the shared-memory fabric.
            #[cfg(feature = "shm")]
            Shm($shm),
            /// A value of the verbs fabric.
            #[cfg(feature = "verbs")]
            Verbs($verbs),
        }
    };
}

/// Expands one expression for each variant.
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

/// Expands an expression for each variant. Its result becomes the variant with the same name of another enum.
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
