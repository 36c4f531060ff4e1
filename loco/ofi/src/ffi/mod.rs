//! Bindings to libfabric, opened at run time.
//!
//! Programs that bring a library along ([`Library`](crate::Library)) find the module in the crate, and others nothing in its
//! documentation: the interface is that of the C library.
//!
//! [`types`] are the C structures, written by hand and compared with the real headers by the test of `layout`. [`Api`] is
//! the table of the library's few real functions. Everything else is reached through the tables of functions in
//! libfabric's own objects, as the inline functions of its headers do.
//!
//! Relies on nothing of this crate. Used by `provider`, which asks what there is, and `port`, which opens it.

mod api;
#[cfg(test)]
mod layout;
pub mod types;

pub use api::{Api, system};
