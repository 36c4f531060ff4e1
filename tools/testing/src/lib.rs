//! Helpers of the tests of several packages: free [`addresses`](free_addresses), [skips](skipped) that are seen, jobs of
//! [programs](launched), options with [`numbers`], the calls that are [`documented`], the device of [`loco nic`](on_nic), tests in a
//! process of their [own](own_process), and whether there is a [`browser`].
//!
//! Relies on nothing of ours, and panics where a test should fail. Used by tests only.
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used)]

mod addresses;
pub mod browser;
pub mod documented;
pub mod launched;
pub mod numbers;
pub mod on_nic;
mod own_process;
mod skip;

pub use addresses::free_addresses;
pub use own_process::own_process;
pub use skip::skipped;
