//! A small service on the key-value store (LOCO'25 6, LOCO'26 6.2): nodes that put a store under a workload, or let a
//! person at it.
//!
//! - [`workload`]: operations of a chosen mix on keys of a chosen distribution, timed, each result checked;
//! - [`shell`]: commands, a line each, from a terminal or a pipe;
//! - [`pick`]: the distributions.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod error;
pub mod pick;
pub mod shell;
pub mod workload;

pub use error::{KvError, Result};
