//! Measures `loco check` by mutations of the shipped objects.
//!
//! A *mutation* replaces one piece of text in one source file of `crates/loco`. It drops or narrows a fence,
//! drops a wait, swaps two posts, moves an index by one, or releases something before its data. The files
//! under `mutations/` list the mutations by object. [`Tree`] is a copy of the workspace in which one mutation
//! at a time is built and checked by the object's ladder.
//!
//! Relies on `cargo` and `git`. Used by the command `loco-mutants`, which CI runs on a sample.

#![forbid(unsafe_code)]

mod mutation;
mod tree;

pub use mutation::{Misfit, Mutation, all};
pub use tree::{Outcome, Tree, TreeError};
