//! The fabric that is chosen at run time: one enum over the fabrics of this build.
//!
//! The features `shm`, `verbs`, `tcp` and `ofi`, all on by default, choose these fabrics. Dispatch is a match, which
//! inlines; there are no virtual calls. Another fabric would be another crate, a feature, and a variant of
//! the enums and macros here. The feature `model`, which is off by default, adds a variant for tests, by which a program as it is runs on the
//! model fabric of `loco-sim`: the only one with virtual calls.

#![forbid(unsafe_code)]

#[cfg(not(any(feature = "shm", feature = "verbs", feature = "tcp", feature = "ofi")))]
compile_error!("a program needs a fabric: enable the feature `shm`, `verbs`, `tcp` or `ofi`, or several");

/// Declares an enum over the fabrics' types.
macro_rules! either {
    ($(#[$meta:meta])* $name:ident $(<$w:ident>)?, $shm:ty, $verbs:ty, $tcp:ty, $ofi:ty, $erased:ty) => {
        $(#[$meta])*
        pub enum $name $(<$w>)? {
            /// A value of the shared-memory fabric.
            #[cfg(feature = "shm")]
            Shm($shm),
            /// A value of the verbs fabric.
            #[cfg(feature = "verbs")]
            Verbs($verbs),
            /// A value of the TCP fabric.
            #[cfg(feature = "tcp")]
            Tcp($tcp),
            /// A value of the libfabric fabric.
            #[cfg(feature = "ofi")]
            Ofi($ofi),
            /// A value of the model fabric, or of any other.
            #[cfg(feature = "model")]
            Model($erased),
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
            #[cfg(feature = "tcp")]
            Self::Tcp($inner) => $body,
            #[cfg(feature = "ofi")]
            Self::Ofi($inner) => $body,
            #[cfg(feature = "model")]
            Self::Model($inner) => $body,
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
            #[cfg(feature = "tcp")]
            Self::Tcp($inner) => $body.map($to::Tcp),
            #[cfg(feature = "ofi")]
            Self::Ofi($inner) => $body.map($to::Ofi),
            #[cfg(feature = "model")]
            Self::Model($inner) => $body.map($to::Model),
        }
    };
}

mod agreement;
mod choice;
mod config;
#[cfg(feature = "model")]
pub mod erased;
mod fabric;
mod foreign;
mod memory;
#[cfg(feature = "model")]
pub mod played;
mod queue_pair;

pub use choice::{FabricChoice, ProviderName};
pub use config::AnyConfig;
pub use fabric::AnyFabric;
pub use loco_host::HugePages;
pub use memory::{AnyCell, AnyMemory, AnyRemote};
pub use queue_pair::AnyQueuePair;
