//! The answer to `check`, which is the same for every language of tests.

use mowgli::check::Judgement;
use mowgli::litmus::Verdict;
use serde::Serialize;

/// Most outcomes that are sent.
pub(super) const ROWS_MAX: usize = 2000;

#[derive(Default, Serialize)]
pub(crate) struct Answer {
    pub(super) setting: String,
    /// Why the model has no meaning for the test; everything else is then empty.
    pub(super) not_applicable: Option<String>,
    pub(super) conditions: Vec<Condition>,
    /// The operands that the outcomes show.
    pub(super) columns: Vec<String>,
    /// The outcomes: a value for each operand.
    pub(super) rows: Vec<Vec<String>>,
    /// The number of outcomes. At most `ROWS_MAX` of them are sent.
    pub(super) total: usize,
    pub(super) limit: Option<String>,
    /// The kind of thing that was searched: `candidate executions` or `executions`.
    pub(super) searched: &'static str,
    pub(super) count: u64,
    pub(super) time_ms: f64,
}

#[derive(Serialize)]
pub(super) struct Condition {
    pub(super) name: String,
    pub(super) condition: String,
    pub(super) verdict: Option<String>,
    pub(super) stated: Option<String>,
    /// Whether the statement is right; null if there is none or a limit left it open.
    pub(super) as_stated: Option<bool>,
}

impl Condition {
    /// Returns the entry of a condition that was judged, for which the test states the verdict `stated`.
    pub(super) fn judged(
        name: String,
        condition: String,
        judgement: &Judgement,
        stated: Option<Verdict>,
    ) -> Condition {
        let verdict = match judgement.is_vacuous() {
            true => Some("vacuous".to_owned()),
            false => judgement.verdict().map(|v| v.to_string()),
        };
        Condition {
            name,
            condition,
            verdict,
            stated: stated.map(|v| v.to_string()),
            as_stated: stated.and_then(|v| judgement.meets(v)),
        }
    }
}
