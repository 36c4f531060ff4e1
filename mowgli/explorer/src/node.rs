//! An open state, as workers keep it and give it to one another.

use crate::bounds::Spent;

/// An open state, with the facts that a search knows of it.
#[derive(Clone)]
pub(crate) struct Node<S> {
    pub(crate) state: S,
    pub(crate) spent: Spent,
    /// The share of the search tree below this state. It is 1 at the root, and shared out evenly among the
    /// moves of a state.
    pub(crate) share: f64,
    /// The number of moves that led here.
    pub(crate) depth: u64,
}
