//! The Mowgli framework of LOCO'26. It has programs that call methods of libraries (*clients*, section 3.1),
//! the promises of libraries (3.2), and the conditions under which an implementation keeps a promise (3.5,
//! 3.6).
//!
//! The crate is pure: no I/O, no operating system, no unsafe code. It relies on `mowgli` for the form of
//! texts, for values of programs and for the stamp order. It is used by `mowgli outcomes` and `mowgli
//! refine`, and by code that runs clients on other things than specifications. Such code needs only the types
//! in [`client`] and [`outcome`].
#![forbid(unsafe_code)]

pub mod catalogue;
pub mod client;
pub mod draw;
pub mod enumerate;
pub mod event;
pub mod execution;
pub mod explain;
pub mod implementation;
pub mod implementations;
pub mod judge;
mod justified;
pub mod libraries;
pub mod library;
pub mod local;
pub mod memory;
pub mod network;
pub mod order;
pub mod outcomes;
pub mod over_clients;
pub mod past;
pub mod plain;
pub mod refine;
pub mod text;
pub mod tower;
pub mod value;

pub use client::outcome;
