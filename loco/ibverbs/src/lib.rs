//! The C structures that hold data only, and the constants, of `infiniband/verbs.h` and `rdma/rdma_cma.h`.
//!
//! They are written by hand, so that no header and no library is needed to build; a test (`layout`) compares them with the headers where
//! these are installed. Names are the C names in Rust's case, and fields are the C fields. The structures behind which there is an object,
//! such as contexts and queues, are declared by those who call or implement their functions: `loco-verbs` calls the libraries, and
//! `loco-nic` plays them.
#![forbid(unsafe_code)]
#![allow(missing_docs)] // The headers' manual pages document fields and constants.

mod constants;
mod structures;

#[cfg(test)]
mod layout;

pub use constants::*;
pub use structures::*;
