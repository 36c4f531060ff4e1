//! Measures `loco check` by mutations of the shipped objects.
//!
//! A *mutation* replaces one piece of text in one source file of `loco/objects`: a fence dropped or narrowed, a wait
//! dropped, two posts swapped, an index off by one, a release before its data. The files under `mutations/` list them
//! by object. [`Tree`] is a copy of the workspace into which all mutations are built at once. One is chosen at run
//! time, and [`Tree`] runs the ladder of its object. [`Results`] keeps the outcomes.
//!
//! Relies on `cargo` being there. Used by the command `loco-mutants`.

#![forbid(unsafe_code)]

mod mutation;
mod results;
mod schemata;
mod tree;

pub use mutation::{Misfit, Mutation, all, in_turns};
pub use results::{Line, Results};
pub use tree::{Outcome, Tree, TreeError};
