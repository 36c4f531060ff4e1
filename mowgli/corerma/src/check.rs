//! Checks a test under a model: the verdict on a condition, and the report in herd7's form.

use std::collections::BTreeSet;
use std::fmt::Write;

use mowgli::check::Judgement;
use mowgli::litmus::{Quantifier, Verdict};
use mowgli::outcome::Budget;

use crate::litmus::Litmus;
use crate::outcome::{self, Search};
use crate::switches::Model;
use crate::value::Value;

/// Finds the outcomes of a test under a model.
pub fn run(litmus: &Litmus, model: Model, budget: &Budget<'_>) -> Search {
    outcome::outcomes(&litmus.program, &model.switches(), budget)
}

/// Counts the states that satisfy query `index` of a test, and those that do not.
pub fn judge(litmus: &Litmus, index: usize, search: &Search) -> Judgement {
    let shown = litmus.shown(index);
    let formula = litmus.queries.get(index).map(|q| &q.condition.formula);
    let mut states: [BTreeSet<Vec<Value>>; 2] = Default::default();
    for outcome in &search.outcomes {
        let holds = formula.is_some_and(|f| f.holds(outcome));
        states[usize::from(holds)].insert(shown.iter().map(|o| o.value(outcome)).collect());
    }
    Judgement {
        positive: states[1].len(),
        negative: states[0].len(),
        limit: search.completeness.limit().cloned(),
    }
}

/// Lists the distinct states of query `index`, one line each, in the order of their values; an undefined value is `T`.
pub fn states(litmus: &Litmus, index: usize, search: &Search) -> Vec<String> {
    let shown = litmus.shown(index);
    let names: Vec<String> = shown.iter().map(|o| o.display(&litmus.program)).collect();
    let values: BTreeSet<Vec<Value>> = search
        .outcomes
        .iter()
        .map(|outcome| shown.iter().map(|o| o.value(outcome)).collect())
        .collect();
    let line = |values: &Vec<Value>| {
        let parts = names.iter().zip(values).map(|(n, v)| format!("{n}={v};"));
        parts.collect::<Vec<_>>().join(" ")
    };
    values.iter().map(line).collect()
}

/// Writes the report on query `index`, as [`mowgli::report`] does for tests of RDMA. It is empty if there is no such query.
pub fn report(litmus: &Litmus, index: usize, search: &Search, time_s: Option<f64>) -> String {
    let Some(query) = litmus.queries.get(index) else {
        return String::new();
    };
    let name = litmus.query_name(index);
    let judgement = judge(litmus, index, search);
    let (kind, verdict) = match query.condition.quantifier {
        Quantifier::Exists => ("Allowed", Verdict::Allowed),
        Quantifier::NotExists => ("Forbidden", Verdict::Forbidden),
        Quantifier::Forall => ("Required", Verdict::Required),
    };
    let states = states(litmus, index, search);
    let mut out = format!("Test {name} {kind}\nStates {}\n", states.len());
    for state in &states {
        let _ = writeln!(out, "{state}");
    }
    let status = match (judgement.meets(verdict), &judgement.limit) {
        (Some(true), _) => "Ok".to_owned(),
        (Some(false), _) => "No".to_owned(),
        (None, Some(limit)) => format!("Unknown ({limit})"),
        (None, None) => "Unknown".to_owned(),
    };
    let (positive, negative) = (judgement.positive, judgement.negative);
    let _ = writeln!(
        out,
        "{status}\nWitnesses\nPositive: {positive} Negative: {negative}"
    );
    let _ = writeln!(out, "Condition {}", query.condition.display(&litmus.program));
    let _ = writeln!(
        out,
        "Observation {name} {:?} {positive} {negative}",
        judgement.observation()
    );
    if let Some(seconds) = time_s {
        let _ = writeln!(out, "Time {name} {seconds:.2}");
    }
    let _ = writeln!(out, "Hash={}", litmus.fingerprint());
    out
}
