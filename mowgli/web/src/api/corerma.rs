//! The answers about tests of coreRMA: what the editor needs, verdicts, and explanations. They have no machine and no robustness.

use std::time::Instant;

use mowgli::outcome::{Budget, Limit};
use mowgli_corerma::explain::{self, Case, Change, Violation};
use mowgli_corerma::litmus::{Litmus, Parsed, WORDS};
use mowgli_corerma::switches::{Model, Variant};

use super::graph::Graph;
use super::model::Named;
use super::outline::{ConditionEntry, Name, SettingEntry, keywords, locations, name};
use super::{outline, reasons, verdicts};
use crate::jobs::Refusal;
use crate::text;

/// Returns the names that every test may use, besides the keywords of litmus tests.
pub(super) fn words() -> impl Iterator<Item = Name> {
    let words = WORDS.iter().map(|word| name(word, "keyword", ""));
    words.chain(Variant::ALL.iter().map(|m| name(m.name(), "model", m.summary())))
}

/// Answers what the editor asks.
pub(super) fn parsed(text: &str, parsed: &Parsed) -> outline::Answer {
    let Parsed { litmus, warnings } = parsed;
    let program = &litmus.program;
    let mut names = keywords();
    names.extend(words());
    names.extend(locations(&program.locations));
    for process in &program.processes {
        let own = process.registers.iter();
        names.extend(own.map(|r| name(r, "register", format!("of node {}", process.node))));
    }
    let condition = |(at, query): (usize, &mowgli_corerma::litmus::Query)| ConditionEntry {
        name: litmus.query_name(at),
        condition: query.condition.display(program),
        formula: query.condition.formula.display(program),
    };
    outline::Answer {
        kind: "corerma",
        name: Some(litmus.name.clone()),
        diagnostics: text::diagnostics(text, warnings),
        names,
        settings: Variant::ALL
            .iter()
            .map(|model| SettingEntry {
                tier: None,
                name: model.name().to_owned(),
                summary: model.summary().to_owned(),
                not_applicable: None,
                has_machine: false,
                has_robustness: false,
            })
            .collect(),
        conditions: litmus.queries.iter().enumerate().map(condition).collect(),
        usable: true,
        ..outline::Answer::default()
    }
}

/// Returns the model of this name.
fn model(named: &Named) -> Result<Model, Refusal> {
    let model = named.setting.parse();
    model.map_err(|e: mowgli::model::UnknownName| Refusal::Wrong(e.to_string()))
}

/// Finds the outcomes and judges the conditions.
pub(super) fn checked(
    litmus: &Litmus,
    named: &Named,
    budget: &Budget<'_>,
) -> Result<verdicts::Answer, Refusal> {
    let start = Instant::now();
    let model = model(named)?;
    let search = model.outcomes(&litmus.program, budget);
    let mut answer = verdicts::found(litmus, &search, &|query| query.expected.get(&model).copied());
    answer.setting = named.setting.clone();
    answer.searched = "executions";
    answer.time_ms = start.elapsed().as_secs_f64() * 1e3;
    Ok(answer)
}

/// Explains an outcome.
pub(super) fn explained(
    mut litmus: Litmus,
    request: &reasons::Request,
    budget: &Budget<'_>,
) -> Result<reasons::Answer, Refusal> {
    match &request.formula {
        Some(formula) => {
            let asked = litmus.asking(formula);
            litmus = asked.map_err(|e| Refusal::Wrong(format!("the outcome: {e}")))?;
        }
        None if request.query < litmus.queries.len() => litmus.queries.swap(0, request.query),
        None => {
            let number = request.query + 1;
            return Err(Refusal::Wrong(format!("the test has no condition {number}")));
        }
    }
    let model = model(&request.model)?;
    let program = &litmus.program;
    let wanted = &litmus.queries[0].condition.formula;
    let formula = wanted.display(program);
    let mut answer = reasons::Answer {
        title: format!("{} under {model}: {formula}", litmus.name),
        formula,
        ..reasons::Answer::default()
    };
    match explain::allowed(program, model, wanted, budget) {
        Err(limit) => answer.limit = Some(limit.advice()),
        Ok(Some(witness)) => {
            answer.verdict = Some("allowed");
            answer.witness = Some(Graph::of_drawing(&witness.drawing(program), &answer.title));
        }
        Ok(None) => {
            let reason = explain::forbidden(program, model, wanted, budget);
            let case = |case: &Case| reasons::CycleEntry {
                graph: Graph::of_drawing(&case.drawing(program), &answer.title),
                candidates: case.candidates,
                axiom: None,
                broken: Some(case.words(program)),
                edges: edges(&case.violation),
            };
            answer.verdict = Some("forbidden");
            answer.limit = reason.limit.as_ref().map(Limit::advice);
            answer.candidates = reason.candidates;
            answer.cycles_total = reason.cases.len();
            answer.cycles = reason.cases.iter().take(reasons::CYCLES_MAX).map(case).collect();
            answer.relaxations = reason.relaxations.iter().map(Change::text).collect();
            answer.undecided = reason.undecided.iter().map(Change::text).collect();
            answer.say_if_without_cycle();
        }
    }
    Ok(answer)
}

/// Returns the pairs of a cycle; none if a value is wrong.
fn edges(violation: &Violation) -> Vec<reasons::EdgeEntry> {
    let Violation::Cycle(pairs) = violation else {
        return Vec::new();
    };
    let edge = pairs.iter().map(|pair| reasons::EdgeEntry {
        from: usize::from(pair.from),
        to: usize::from(pair.to),
        order: "happens-before",
        relation: "hb".to_owned(),
        cell: None,
        reason: format!("rule {} (coreRMA'16)", pair.rule.name()),
    });
    edge.collect()
}
