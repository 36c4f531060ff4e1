//! The C structures and constants of `infiniband/verbs.h` and `rdma/rdma_cma.h`, as programs see them. A test compares them with
//! the headers where these are installed.

pub(crate) mod constants;
pub(crate) mod handles;
pub(crate) mod structures;

#[cfg(test)]
mod layout;

pub(crate) use constants::*;
pub(crate) use handles::*;
pub(crate) use structures::*;
