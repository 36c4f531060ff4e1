//! A state on the way, as workers keep it and give it to one another.

use crate::bounds::Spent;

/// A state on the way, with what a search knows of it.
#[derive(Clone)]
pub(crate) struct Node<S> {
    pub(crate) state: S,
    pub(crate) spent: Spent,
    /// How much of the search tree is below: 1 at the root, shared out evenly among the moves of a state.
    pub(crate) share: f64,
    /// Moves that led here.
    pub(crate) depth: u64,
}
