//! The makers of tests behind `mowgli generate`, as the writer sees them.
//!
//! A source divides its work into units. Each unit yields its tests in a fixed order. The writer runs units on several
//! threads, and skips those that are already on disk and those of other shards. A model family adds a file beside this
//! one that implements [`Source`], and a line in [`plans`](super::plans).

use std::sync::atomic::AtomicBool;

use mowgli::outcome::Limit;

/// A test that a source made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The name in the test's header, which is also its file's name. No two tests of a source have one name.
    pub(crate) name: String,
    /// The text.
    pub(crate) text: String,
    /// Outcomes that the model allows.
    pub(crate) outcomes: usize,
}

/// Makes tests, unit by unit.
pub(crate) trait Source: Sync {
    /// Says in one line what is made: model, pivot and bounds. Two sources that make different tests have different
    /// lines. A run does not continue in a folder that was begun by another source.
    fn describe(&self) -> String;

    /// Returns the number of units, which does not depend on the number of workers or on the shard.
    fn units(&self) -> usize;

    /// Makes the tests of one unit.
    ///
    /// # Errors
    ///
    /// Returns the limit that stopped a search, [`Limit::Cancelled`] if `cancel` was set meanwhile.
    fn unit(&self, unit: usize, cancel: &AtomicBool) -> Result<Vec<Made>, Limit>;
}

/// A source and the folder below `--out` for its tests; empty for `--out` itself.
pub(crate) struct Plan {
    /// The folder.
    pub(crate) folder: String,
    /// The source.
    pub(crate) source: Box<dyn Source>,
}
