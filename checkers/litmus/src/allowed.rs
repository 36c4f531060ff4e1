//! The outcomes that a model allows a test to show. Used by [`crate::oracle`] and by the tests of coreRMA.

use std::collections::BTreeSet;

use mowgli::outcome::Outcome;

/// The outcomes that the model allows.
#[derive(Clone, Debug, Default)]
pub struct Allowed {
    /// The model's name.
    pub model: String,
    /// The outcomes.
    pub outcomes: BTreeSet<Outcome>,
    /// Whether these are all, so that every other one is forbidden.
    pub complete: bool,
}
