//! `mowgli explain --model FILE.cat`: the axiom of a model file that forbids an outcome, or an execution that satisfies all.

use std::ops::Range;

use mowgli::cat::explain::{self, Case, Link, Reason};
use mowgli::cat::{self, ModelFile, NotApplicable};
use mowgli::explain::{Drawing, Witness};
use mowgli::litmus::{Formula, Litmus};
use mowgli::outcome::{Limit, Outcome};
use mowgli::program::Program;
use serde::Serialize;

use super::document::{Graph, Head, graph};
use super::{Args, draw};
use crate::budget::Run;
use crate::choice::Under;
use crate::{Error, Exit, output, progress};

/// The answer about an outcome.
enum Answer {
    /// The outcome is allowed.
    Allowed(Box<Witness>),
    /// The outcome is forbidden.
    Forbidden(Reason),
    /// The program has no execution, and so no outcome.
    Vacuous,
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
    violations: Option<Vec<Violation>>,
}

/// A violated axiom.
#[derive(Serialize)]
struct Violation {
    candidates: u64,
    /// acyclic, irreflexive or empty, with `~` if negated.
    test: String,
    axiom: String,
    file: String,
    line: usize,
    links: Vec<Link>,
    execution: Graph,
}

/// Explains the first condition of a test.
pub(super) fn run(
    args: &Args,
    litmus: &Litmus,
    under: &Under,
    file: &ModelFile,
    only_drawing: bool,
) -> Result<Exit, Error> {
    let program = &litmus.program;
    let formula = &litmus.queries[0].condition.formula;
    let shown_formula = formula.display(program);
    let title = format!("{} under {under}: {shown_formula}", litmus.name);
    let clock = progress::clock(title.clone());
    let run = Run::start(args.limit);
    let answer = answer(program, file, under, formula, &run).map_err(|e| Error::Usage(e.to_string()))?;
    clock.finish_and_clear();
    let count = match &answer {
        Answer::Forbidden(reason) => reason.cases.len(),
        _ => 0,
    };
    let shown = super::numbers(args, count)?;
    draw(args, &title, drawing(&answer, litmus, file, shown.start))?;
    if args.json {
        output::print_json(&document(litmus, under, &shown_formula, &answer))?;
    } else if !only_drawing {
        output::print_wrapped(&format!("{title}\n\n{}", text(&answer, litmus, shown)))?;
    }
    Ok(match &answer {
        Answer::Allowed(_) | Answer::Forbidden(Reason { limit: None, .. }) => Exit::AsStated,
        Answer::Vacuous => Exit::Differs,
        Answer::Forbidden(_) | Answer::Unknown(_) => Exit::Unknown,
    })
}

fn answer(
    program: &Program,
    file: &ModelFile,
    under: &Under,
    formula: &Formula,
    run: &Run,
) -> Result<Answer, NotApplicable> {
    let wanted = |outcome: &Outcome| formula.holds(outcome);
    match cat::witness(program, file, under.rmw, &wanted, &run.budget())? {
        Err(limit) => return Ok(Answer::Unknown(limit)),
        Ok(Some(execution)) => return Ok(Answer::Allowed(Box::new(Witness { execution }))),
        Ok(None) => {}
    }
    Ok(match cat::is_vacuous(program, file, under.rmw, &run.budget())? {
        Err(limit) => Answer::Unknown(limit),
        Ok(true) => Answer::Vacuous,
        Ok(false) => {
            let reason = explain::forbidden(program, file, under.rmw, formula, &run.budget());
            Answer::Forbidden(reason)
        }
    })
}

fn text(answer: &Answer, litmus: &Litmus, shown: Range<usize>) -> String {
    let program = &litmus.program;
    match answer {
        Answer::Unknown(limit) => format!("Unknown: {}.\n", limit.advice()),
        Answer::Vacuous => super::vacuous(),
        Answer::Forbidden(reason) => format!("Forbidden.\n\n{}", reason.render(program, shown)),
        Answer::Allowed(witness) => format!(
            "Allowed. An execution that satisfies every axiom:\n\n{}",
            witness.render(program)
        ),
    }
}

fn drawing(answer: &Answer, litmus: &Litmus, file: &ModelFile, index: usize) -> Option<Drawing> {
    let program = &litmus.program;
    match answer {
        Answer::Allowed(witness) => {
            let shown = file.shown(&witness.execution);
            Some(Drawing::marked(program, &witness.execution, None, &shown))
        }
        Answer::Forbidden(reason) => reason.drawing(program, file, index),
        Answer::Vacuous | Answer::Unknown(_) => None,
    }
}

fn document(litmus: &Litmus, under: &Under, formula: &str, answer: &Answer) -> Document {
    let program = &litmus.program;
    let mut document = Document {
        head: Head::new(&litmus.name, under, formula),
        witness: None,
        candidates: None,
        violations: None,
    };
    match answer {
        Answer::Unknown(limit) => document.head.limit = Some(limit.advice()),
        Answer::Vacuous => document.head.set_vacuous(),
        Answer::Allowed(witness) => {
            document.head.verdict = Some("allowed");
            document.head.complete = true;
            document.witness = Some(graph(program, &witness.execution));
        }
        Answer::Forbidden(reason) => {
            let violation = |case: &Case| Violation {
                candidates: case.candidates,
                test: format!(
                    "{}{}",
                    if case.axiom.negated { "~" } else { "" },
                    case.axiom.test.keyword()
                ),
                axiom: case.axiom.name.clone(),
                file: case.axiom.file.clone(),
                line: case.axiom.line,
                links: case.links.clone(),
                execution: graph(program, &case.execution),
            };
            document.head.verdict = Some("forbidden");
            document.head.complete = reason.limit.is_none();
            document.head.limit = reason.limit.as_ref().map(Limit::advice);
            document.candidates = Some(reason.candidates);
            document.violations = Some(reason.cases.iter().map(violation).collect());
        }
    }
    document
}
