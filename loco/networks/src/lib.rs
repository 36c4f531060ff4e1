//! Networks made for tests: what they do is as weak as the contract allows, or broken in a way that a test chooses.
//!
//! The fabrics of the release know nothing of them. Each is put in where a fabric meets its network:
//!
//! - [`altered`]: the device of `loco nic` with faults and smaller limits, in place of libibverbs and librdmacm;
//! - [`deferred`]: a network card played by a thread, around a fabric that executes operations as they are posted;
//! - [`weak`]: a provider as weak as its attributes allow, in place of libfabric.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod altered;
pub mod deferred;
#[allow(unsafe_code)]
pub mod weak;
