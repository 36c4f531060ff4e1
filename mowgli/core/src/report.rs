//! Writes reports in herd7's form, which other tools parse.
//!
//! ```text
//! Test SB Allowed
//! States 4
//! 0:a=0; 1:b=0;
//! ...
//! Ok
//! Witnesses
//! Positive: 1 Negative: 3
//! Condition exists (0:a=0 /\ 1:b=0)
//! Observation SB Sometimes 1 3
//! Hash=...
//! ```
//!
//! herd7 counts candidate executions in `Positive` and `Observation`; here the counts are of states, since the engines
//! stop at the first execution of a state. Where herd7 writes `Ok` or `No`, a search that stopped at a limit writes
//! `Unknown` if the limit could change the answer, and a test without any execution writes `Vacuous`.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::check::{Judgement, judge};
use crate::litmus::{Dialect, Litmus, Quantifier, fingerprint};
use crate::outcome::Search;

/// Writes the report on query `index` of a test without the `Time` line. It is empty if there is no such query.
pub fn herd<P: Dialect>(litmus: &Litmus<P>, index: usize, search: &Search<P::Outcome>) -> String {
    herd_with_time(litmus, index, search, None)
}

/// Writes the report with herd7's `Time` line, in seconds.
pub fn herd_with_time<P: Dialect>(
    litmus: &Litmus<P>,
    index: usize,
    search: &Search<P::Outcome>,
    time_s: Option<f64>,
) -> String {
    let Some(query) = litmus.queries.get(index) else {
        return String::new();
    };
    let name = litmus.query_name(index);
    let judgement = judge(litmus, index, search);
    let kind = match query.condition.quantifier {
        Quantifier::Exists => "Allowed",
        Quantifier::NotExists => "Forbidden",
        Quantifier::Forall => "Required",
    };
    let states = states(litmus, index, search);
    let mut out = format!("Test {name} {kind}\nStates {}\n", states.len());
    for state in &states {
        let _ = writeln!(out, "{state}");
    }
    let _ = writeln!(
        out,
        "{}\nWitnesses",
        status(&judgement, judgement.validates(&query.condition))
    );
    let (positive, negative) = (judgement.positive, judgement.negative);
    let _ = writeln!(out, "Positive: {positive} Negative: {negative}");
    let _ = writeln!(out, "Condition {}", query.condition.display(&litmus.program));
    let _ = writeln!(
        out,
        "Observation {name} {:?} {positive} {negative}",
        judgement.observation()
    );
    if let Some(seconds) = time_s {
        let _ = writeln!(out, "Time {name} {seconds:.2}");
    }
    let _ = writeln!(out, "Hash={}", fingerprint(litmus));
    out
}

/// Lists the distinct states of query `index`, one line each, in the order of their values.
pub fn states<P: Dialect>(litmus: &Litmus<P>, index: usize, search: &Search<P::Outcome>) -> Vec<String> {
    let shown = litmus.shown(index);
    let names: Vec<String> = shown.iter().map(|o| o.display(&litmus.program)).collect();
    let values: BTreeSet<Vec<P::Value>> = search
        .outcomes
        .iter()
        .map(|outcome| shown.iter().map(|o| o.value(outcome)).collect())
        .collect();
    let line = |values: &Vec<P::Value>| {
        let mut text = String::new();
        for (name, value) in names.iter().zip(values) {
            let space = if text.is_empty() { "" } else { " " };
            text.extend([space, name.as_str(), "=", &value.to_string(), ";"]);
        }
        text
    };
    values.iter().map(line).collect()
}

fn status(judgement: &Judgement, validated: Option<bool>) -> String {
    if judgement.is_vacuous() {
        return "Vacuous (no execution reaches the end)".to_owned();
    }
    match (validated, &judgement.limit) {
        (Some(true), _) => "Ok".to_owned(),
        (Some(false), _) => "No".to_owned(),
        (None, Some(limit)) => format!("Unknown ({limit})"),
        (None, None) => "Unknown".to_owned(),
    }
}
