//! The answer to `check`, which is the same for every language of tests.

use std::collections::BTreeSet;

use mowgli::check::{Judgement, judge};
use mowgli::litmus::{Dialect, Litmus, QueryOf, Verdict};
use mowgli::outcome::{Limit, Search};
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

/// Answers with the outcomes of a test, and what they say about its conditions. `stated` returns the verdict that a test states.
pub(super) fn found<P: Dialect>(
    litmus: &Litmus<P>,
    search: &Search<P::Outcome>,
    stated: &dyn Fn(&QueryOf<P>) -> Option<Verdict>,
) -> Answer {
    let operands = litmus.all_shown();
    let row = |outcome| operands.iter().map(|o| o.value(outcome)).collect();
    let rows: BTreeSet<Vec<P::Value>> = search.outcomes.iter().map(row).collect();
    let text = |row: &Vec<P::Value>| row.iter().map(ToString::to_string).collect();
    let condition = |(at, query): (usize, &QueryOf<P>)| {
        let judgement = judge(litmus, at, search);
        let text = query.condition.display(&litmus.program);
        Condition::judged(litmus.query_name(at), text, &judgement, stated(query))
    };
    Answer {
        conditions: litmus.queries.iter().enumerate().map(condition).collect(),
        columns: operands.iter().map(|o| o.display(&litmus.program)).collect(),
        rows: rows.iter().take(ROWS_MAX).map(text).collect(),
        total: rows.len(),
        limit: search.completeness.limit().map(Limit::advice),
        count: search.states,
        ..Answer::default()
    }
}
