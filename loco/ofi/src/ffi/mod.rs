//! Bindings to libfabric, opened at run time.
//!
//! [`types`] are the C structures, written by hand and compared with the real headers by [`layout`]'s test. [`Api`] is
//! the table of the library's few real functions. Everything else is reached through the tables of functions in
//! libfabric's own objects, as the inline functions of its headers do.
//!
//! Relies on nothing of this crate. Used by `provider`, which asks what there is, and `port`, which opens it.

mod api;
#[cfg(test)]
mod layout;
pub(crate) mod types;

pub(crate) use api::{Api, system};
