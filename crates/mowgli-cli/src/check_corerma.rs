//! `mowgli check` for tests of coreRMA: rows like those of other tests, under the models of coreRMA.

use std::time::Instant;

use mowgli_corerma::check;
use mowgli_corerma::switches::Model;

use crate::budget::Run;
use crate::row::Row;
use crate::source::{CoreRmaTest, Test};
use crate::values::AnyModel;

/// Returns the tests with the models under which they are checked: those named, or all of coreRMA. A model of RDMA is reported
/// as one that does not apply.
pub(crate) fn jobs<'a>(tests: &'a [CoreRmaTest], named: &[AnyModel]) -> Vec<(&'a CoreRmaTest, AnyModel)> {
    let models = if named.is_empty() {
        Model::ALL.map(AnyModel::CoreRma).to_vec()
    } else {
        named.to_vec()
    };
    tests
        .iter()
        .flat_map(|test| models.iter().map(move |&model| (test, model)))
        .collect()
}

/// Checks one test under one model: its reports and its rows.
pub(crate) fn one(test: &CoreRmaTest, model: AnyModel, run: &Run) -> (String, Vec<Row>) {
    let litmus = &test.litmus;
    let start = Instant::now();
    let search = match model {
        AnyModel::CoreRma(model) => Ok((model, check::run(litmus, model, &run.budget()))),
        AnyModel::Rdma(model) => Err(format!("{model} does not apply: the test is of coreRMA")),
    };
    let time_s = start.elapsed().as_secs_f64();
    let mut text = format!("Model {}\n", model.name());
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
                row.limit = judgement.limit.map(|l| l.to_string());
            }
        }
        rows.push(row);
    }
    text.push('\n');
    (text, rows)
}

/// Says that the models of coreRMA among those named do not apply to a test of RDMA.
pub(crate) fn of_rdma(test: &Test, named: &[AnyModel]) -> (String, Vec<Row>) {
    let litmus = &test.litmus;
    let (mut text, mut rows) = (String::new(), Vec::new());
    for &model in named.iter().filter(|model| model.rdma().is_none()) {
        let name = model.name();
        let reason = format!("{name} does not apply: the test is not of coreRMA");
        text.push_str(&format!("Model {name}\nTest {}: {reason}\n\n", litmus.name));
        for (index, query) in litmus.queries.iter().enumerate() {
            let condition = query.condition.display(&litmus.program);
            let mut row = blank(litmus.query_name(index), &test.path, model, condition);
            row.not_applicable = Some(reason.clone());
            rows.push(row);
        }
    }
    (text, rows)
}

/// Returns a row without an answer.
fn blank(name: String, path: &str, model: AnyModel, condition: String) -> Row {
    Row {
        name,
        path: path.to_owned(),
        setting: model.name().to_owned(),
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
