//! Measures `loco check` by mutations of the shipped objects.
//!
//! A *mutation* replaces one piece of text in one source file of `crates/loco`: a fence dropped or narrowed, a wait dropped,
//! two posts swapped, an index off by one, a release before its data. The files under `mutations/` list them by object.
//! [`Tree`] is a copy of the workspace in which mutations are built, and checked by the ladder of their object; those of which
//! no ladder sees two are built together.
//!
//! Relies on `cargo` being there. Used by the command `loco-mutants`.

#![forbid(unsafe_code)]

mod mutation;
mod tree;

pub use mutation::{Misfit, Mutation, all, groups};
pub use tree::{Outcome, Tree, TreeError};
