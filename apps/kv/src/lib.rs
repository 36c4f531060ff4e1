//! A small service on the key-value store (LOCO'25 6, LOCO'26 6.2). Its nodes put a store under a workload,
//! or let a person use it.
//!
//! - [`workload`]: operations of a chosen mix on keys of a chosen distribution, timed, each result checked;
//! - [`window`]: the operations of a thread under way at a time;
//! - [`shell`]: commands from a terminal or a pipe, one in each line;
//! - [`pick`]: the distributions;
//! - [`command`]: the options of the command.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

pub mod command;
mod error;
mod orders;
pub mod pick;
pub mod shell;
pub mod window;
pub mod workload;

pub use error::{KvError, Result};
