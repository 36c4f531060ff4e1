//! One row of the table that `mowgli check` prints, and of its JSON.

use mowgli::litmus::Verdict;
use serde::Serialize;

/// The result for one condition of one test under one setting.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    /// The name: `NAME` or `NAME#2`.
    pub(crate) name: String,
    /// The path of the test.
    pub(crate) path: String,
    /// The model, with `/glob` for the other atomicity.
    pub(crate) setting: String,
    /// The condition asked.
    pub(crate) condition: String,
    /// The verdict: allowed, forbidden or required; nothing if unknown, vacuous or not applicable.
    pub(crate) verdict: Option<Verdict>,
    /// The verdict that the test states.
    pub(crate) expected: Option<Verdict>,
    /// Whether the statement is right; nothing if there is none or it cannot be decided.
    pub(crate) as_expected: Option<bool>,
    /// Whether the two engines contradict each other.
    pub(crate) engines_disagree: bool,
    /// The reason why the model does not apply.
    pub(crate) not_applicable: Option<String>,
    /// Whether no execution reaches the end, so that the test asks nothing.
    pub(crate) vacuous: bool,
    /// The reason why the search stopped early.
    pub(crate) limit: Option<String>,
    /// The states, as the report shows them.
    pub(crate) states: Vec<String>,
    /// States that satisfy the formula.
    pub(crate) positive: usize,
    /// States that do not.
    pub(crate) negative: usize,
    /// Seconds of the search (shared by the conditions of a test).
    pub(crate) time_s: f64,
}
