//! `mowgli check` for tests of coreRMA: rows like those of other tests, under the models of coreRMA.

use std::time::Instant;

use mowgli_corerma::check;
use mowgli_corerma::switches::Model;

use crate::budget::Run;
use crate::choice::Loaded;
use crate::row::Row;
use crate::source::CoreRmaTest;

/// Returns the tests with the models under which they are checked: those named, or all of coreRMA. Any other model is
/// reported as one that does not apply.
pub(crate) fn jobs<'a>(tests: &'a [CoreRmaTest], named: &[Loaded]) -> Vec<(&'a CoreRmaTest, Loaded)> {
    let models = if named.is_empty() {
        Model::ALL.map(Loaded::CoreRma).to_vec()
    } else {
        named.to_vec()
    };
    tests
        .iter()
        .flat_map(|test| models.iter().map(move |model| (test, model.clone())))
        .collect()
}

/// Checks one test under one model: its reports and its rows.
pub(crate) fn one(test: &CoreRmaTest, model: &Loaded, run: &Run) -> (String, Vec<Row>) {
    let litmus = &test.litmus;
    let start = Instant::now();
    let search = match model {
        Loaded::CoreRma(model) => Ok((*model, check::run(litmus, *model, &run.budget()))),
        model => Err(format!("{model} does not apply: the test is of coreRMA")),
    };
    let time_s = start.elapsed().as_secs_f64();
    let mut text = format!("Model {model}\n");
    if let Err(reason) = &search {
        text.push_str(&format!("Test {}: {reason}\n", litmus.name));
    }
    let mut rows = Vec::new();
    for (index, query) in litmus.queries.iter().enumerate() {
        let condition = query.condition.display(&litmus.program);
        let mut row = blank(litmus.query_name(index), &test.path, model, condition);
        row.time_s = time_s;
        match &search {
            Err(reason) => row.not_applicable = Some(reason.clone()),
            Ok((model, search)) => {
                text.push_str(&check::report(litmus, index, search, Some(time_s)));
                let judgement = check::judge(litmus, index, search);
                row.verdict = judgement.verdict();
                row.expected = query.expected.get(model).copied();
                row.as_expected = row.expected.and_then(|v| judgement.meets(v));
                row.states = check::states(litmus, index, search);
                row.positive = judgement.positive;
                row.negative = judgement.negative;
                if let (Some(expected), Some(false)) = (row.expected, row.as_expected) {
                    text.push_str(&format!(
                        "Expected {}: {expected} under {model} (DIFFERS)\n",
                        row.name
                    ));
                }
                row.limit = judgement.limit.map(|l| l.advice());
            }
        }
        rows.push(row);
    }
    text.push('\n');
    (text, rows)
}

/// Returns a row without an answer.
fn blank(name: String, path: &str, model: &Loaded, condition: String) -> Row {
    Row {
        name,
        path: path.to_owned(),
        setting: model.to_string(),
        condition,
        verdict: None,
        expected: None,
        as_expected: None,
        engines_disagree: false,
        not_applicable: None,
        vacuous: false,
        limit: None,
        states: Vec::new(),
        positive: 0,
        negative: 0,
        time_s: 0.0,
    }
}
