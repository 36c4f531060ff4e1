//! `mowgli explain` for tests of coreRMA: the rules that forbid an outcome, or an execution with it.

use std::ops::Range;

use mowgli::explain::Drawing;
use mowgli::outcome::Limit;
use mowgli_corerma::explain::{self, Case, Change, Graph, Reason, Violation, Witness};
use mowgli_corerma::litmus::Litmus;
use mowgli_corerma::switches::Model;
use serde::Serialize;

use super::document::{ChangeEntry, Head};
use super::{Args, draw};
use crate::budget::Run;
use crate::{Error, Exit, output, progress};

/// The answer about an outcome.
enum Answer {
    /// The outcome is allowed.
    Allowed(Box<Witness>),
    /// The outcome is forbidden.
    Forbidden(Box<Reason>),
    /// A limit stopped the search before it could tell.
    Unknown(Limit),
}

/// The document. Fields that do not belong to the verdict are left out.
#[derive(Serialize)]
struct Document {
    #[serde(flatten)]
    head: Head,
    #[serde(skip_serializing_if = "Option::is_none")]
    witness: Option<Graph>,
    #[serde(skip_serializing_if = "Option::is_none")]
    candidates: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    violations: Option<Vec<Broken>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    relaxations: Option<Vec<ChangeEntry>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    undecided: Option<Vec<ChangeEntry>>,
}

/// Lists the rules that candidates break.
#[derive(Serialize)]
struct Broken {
    candidates: u64,
    /// The rules that it is about.
    rules: Vec<&'static str>,
    /// The pairs of a cycle; empty if a value is wrong.
    links: Vec<Link>,
    /// Says in words which rule is broken.
    reason: String,
    execution: Graph,
}

/// A pair of happens-before.
#[derive(Serialize)]
struct Link {
    from: usize,
    to: usize,
    /// The rule that asks for it.
    relation: &'static str,
}

/// Explains one condition, or the outcome asked for.
pub(super) fn run(args: &Args, litmus: &Litmus, model: Model, only_drawing: bool) -> Result<Exit, Error> {
    let litmus = super::asked(args, litmus)?;
    let program = &litmus.program;
    let formula = &litmus.queries[0].condition.formula;
    let shown_formula = formula.display(program);
    let title = format!("{} under {model}: {shown_formula}", litmus.name);
    let clock = progress::clock(title.clone());
    let run = Run::start(args.limit);
    let answer = match explain::allowed(program, model, formula, &run.budget()) {
        Err(limit) => Answer::Unknown(limit),
        Ok(Some(witness)) => Answer::Allowed(Box::new(witness)),
        Ok(None) => Answer::Forbidden(Box::new(explain::forbidden(
            program,
            model,
            formula,
            &run.budget(),
        ))),
    };
    clock.finish_and_clear();
    let count = match &answer {
        Answer::Forbidden(reason) => reason.cases.len(),
        _ => 0,
    };
    let shown = super::numbers(args, count)?;
    draw(args, &title, drawing(&answer, &litmus, shown.start))?;
    if args.json {
        output::print_json(&document(&litmus, model, &shown_formula, &answer))?;
    } else if !only_drawing {
        output::print_wrapped(&format!("{title}\n\n{}", text(&answer, &litmus, shown)))?;
    }
    Ok(match &answer {
        Answer::Allowed(_) => Exit::AsStated,
        Answer::Forbidden(reason) if reason.is_complete() => Exit::AsStated,
        Answer::Forbidden(_) | Answer::Unknown(_) => Exit::Unknown,
    })
}

fn text(answer: &Answer, litmus: &Litmus, shown: Range<usize>) -> String {
    let program = &litmus.program;
    match answer {
        Answer::Unknown(limit) => format!("Unknown: {}.\n", limit.advice()),
        Answer::Forbidden(reason) => format!("Forbidden.\n\n{}", reason.render(program, shown)),
        Answer::Allowed(witness) => format!(
            "Allowed. An execution that the rules allow:\n\n{}",
            witness.render(program)
        ),
    }
}

fn drawing(answer: &Answer, litmus: &Litmus, index: usize) -> Option<Drawing> {
    let program = &litmus.program;
    match answer {
        Answer::Allowed(witness) => Some(witness.drawing(program)),
        Answer::Forbidden(reason) => Some(reason.cases.get(index)?.drawing(program)),
        Answer::Unknown(_) => None,
    }
}

fn document(litmus: &Litmus, model: Model, formula: &str, answer: &Answer) -> Document {
    let program = &litmus.program;
    let mut document = Document {
        head: Head::new(&litmus.name, &model, formula),
        witness: None,
        candidates: None,
        violations: None,
        relaxations: None,
        undecided: None,
    };
    let change = |change: &Change| ChangeEntry {
        kind: change.kind(),
        text: change.text(),
    };
    match answer {
        Answer::Unknown(limit) => document.head.limit = Some(limit.advice()),
        Answer::Allowed(witness) => {
            document.head.verdict = Some("allowed");
            document.head.complete = true;
            document.witness = Some(witness.graph(program));
        }
        Answer::Forbidden(reason) => {
            let broken = |case: &Case| Broken {
                candidates: case.candidates,
                rules: case.violation.rules().iter().map(|r| r.name()).collect(),
                links: links(&case.violation),
                reason: case.words(program),
                execution: case.graph(program),
            };
            document.head.verdict = Some("forbidden");
            document.head.complete = reason.is_complete();
            document.head.limit = reason.limit.as_ref().map(Limit::advice);
            document.candidates = Some(reason.candidates);
            document.violations = Some(reason.cases.iter().map(broken).collect());
            document.relaxations = Some(reason.relaxations.iter().map(change).collect());
            document.undecided = Some(reason.undecided.iter().map(change).collect());
        }
    }
    document
}

fn links(violation: &Violation) -> Vec<Link> {
    let Violation::Cycle(pairs) = violation else {
        return Vec::new();
    };
    let link = pairs.iter().map(|pair| Link {
        from: usize::from(pair.from),
        to: usize::from(pair.to),
        relation: pair.rule.name(),
    });
    link.collect()
}
