//! The provider that a test puts before the real one, or nobody in builds without it.

#[cfg(feature = "weak-provider")]
mod layer;
#[cfg(feature = "weak-provider")]
pub(crate) use layer::Weak;

#[cfg(not(feature = "weak-provider"))]
mod absent;
#[cfg(not(feature = "weak-provider"))]
pub(crate) use absent::Weak;
