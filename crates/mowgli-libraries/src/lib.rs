//! The Mowgli framework of LOCO'26: programs that call methods of libraries (*clients*, section 3.1), what a library
//! promises (3.2), and when an implementation keeps the promise (3.5, 3.6).
//!
//! Pure: no I/O, no operating system, no unsafe code. Relies on `mowgli` for the form of texts, for values of
//! programs and for the stamp order. Used by `mowgli outcomes` and `mowgli refine`, and by whoever runs clients on other
//! things than specifications: the types in [`client`] and [`outcome`] are all that they need.
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod client;
pub mod enumerate;
pub mod event;
pub mod execution;
pub mod explain;
pub mod implementation;
pub mod implementations;
pub mod judge;
pub mod libraries;
pub mod library;
pub mod local;
pub mod memory;
pub mod order;
pub mod outcomes;
pub mod over_clients;
pub mod past;
pub mod plain;
pub mod refine;
pub mod value;

pub use client::outcome;
