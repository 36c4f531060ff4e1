//! Why an outcome is allowed or forbidden: a witness with the machine's steps, or the cycles with what would lift them.

use axum::Json;
use axum::extract::State;
use mowgli::cat::{self, ModelFile, explain as by_file};
use mowgli::check::applicable;
use mowgli::event::Execution;
use mowgli::explain::{self, Drawing, Side, change_text, edge_reason};
use mowgli::explore::Stepper;
use mowgli::litmus::{Parsed, Setting};
use mowgli::model::RmwAtomicity;
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli_libraries::client::Client;
use mowgli_libraries::explain::{Reason as ClientReason, explain_drawn};
use mowgli_libraries::judge::{self, Under, UnknownUnder};

use super::corerma;
use super::graph::{Graph, Instructions};
use super::model::Model;
use super::reasons::{Answer, CYCLES_MAX, CycleEntry, EdgeEntry, Request};
use crate::jobs::{Jobs, Refusal};
use crate::text::{self, Source};

pub(crate) async fn explain(
    State(jobs): State<Jobs>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, Refusal> {
    jobs.run(move |budget| match text::read(&request.text) {
        Ok(Source::Litmus(parsed)) => litmus(*parsed, &request, budget),
        Ok(Source::CoreRma(parsed)) => corerma::explained(parsed.litmus, &request, budget),
        Ok(Source::Client(parsed)) => client(&parsed.client, &request, budget),
        Err((_, error)) => Err(Refusal::Wrong(error.to_string())),
    })
    .await
}

fn litmus(mut parsed: Parsed, request: &Request, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let wrong = |message: String| Refusal::Wrong(message);
    match &request.formula {
        Some(formula) => {
            let asked = parsed.litmus.asking(formula);
            parsed.litmus = asked.map_err(|e| wrong(format!("the outcome: {e}")))?;
        }
        None if request.query < parsed.litmus.queries.len() => parsed.litmus.queries.swap(0, request.query),
        None => return Err(wrong(format!("the test has no condition {}", request.query + 1))),
    }
    let setting = &request.model.setting;
    let program = &parsed.litmus.program;
    let formula = parsed.litmus.queries[0].condition.formula.display(program);
    let mut answer = Answer {
        title: format!("{} under {setting}: {formula}", parsed.litmus.name),
        formula,
        ..Answer::default()
    };
    match request.model.load()? {
        Model::BuiltIn(setting) => {
            applicable(program, setting.model).map_err(|e| wrong(e.to_string()))?;
            built_in(&request.text, &parsed, setting, &mut answer, budget);
        }
        Model::File(file, rmw) => in_file(&request.text, &parsed, &file, rmw, &mut answer, budget)?,
    }
    Ok(answer)
}

fn built_in(text: &str, parsed: &Parsed, setting: Setting, answer: &mut Answer, budget: &Budget<'_>) {
    let program = &parsed.litmus.program;
    let formula = &parsed.litmus.queries[0].condition.formula;
    let instructions = Instructions::of(text, parsed);
    let title = answer.title.clone();
    let graph = |execution: &Execution, drawing: &Drawing| {
        Graph::new(parsed, &instructions, execution, drawing, &title)
    };
    match explain::allowed(program, setting, formula, budget) {
        Err(limit) => answer.limit = Some(limit.advice()),
        Ok(Some(witness)) => {
            answer.verdict = Some("allowed");
            answer.witness = Some(graph(&witness.execution, &witness.drawing(program)));
            let wanted = |outcome: &Outcome| formula.holds(outcome);
            let schedule = Stepper::new(program, setting.model, setting.rmw)
                .and_then(|stepper| stepper.schedule_to(&wanted, budget));
            match schedule {
                Ok(schedule) => answer.schedule = schedule,
                Err(limit) => answer.limit = Some(limit.advice()),
            }
        }
        Ok(None) => {
            match explain::is_vacuous(program, setting, budget) {
                Err(limit) => return answer.limit = Some(limit.advice()),
                Ok(true) => return answer.set_vacuous(),
                Ok(false) => {}
            }
            let reason = explain::forbidden(program, setting, formula, budget);
            answer.verdict = Some("forbidden");
            answer.limit = reason.limit.as_ref().map(Limit::advice);
            answer.candidates = reason.candidates;
            answer.cycles_total = reason.cases.len();
            for case in reason.cases.iter().take(CYCLES_MAX) {
                let edge = |edge: &explain::Edge| EdgeEntry {
                    from: edge.from,
                    to: edge.to,
                    order: match edge.side {
                        Side::Issue => "issue",
                        Side::Observe => "observe",
                    },
                    relation: edge.part.name().to_owned(),
                    cell: edge.cell.as_ref().map(|cell| cell.name.clone()),
                    reason: edge_reason(program, setting, &case.execution, edge),
                };
                let drawing = Drawing::new(program, &case.execution, Some(&case.cycle));
                answer.cycles.push(CycleEntry {
                    graph: graph(&case.execution, &drawing),
                    candidates: case.candidates,
                    axiom: None,
                    broken: None,
                    edges: case.cycle.edges.iter().map(edge).collect(),
                });
            }
            let words = |change| change_text(program, setting, change);
            answer.relaxations = reason.relaxations.iter().map(|r| words(&r.change)).collect();
            answer.undecided = reason.undecided.iter().map(words).collect();
            answer.say_if_without_cycle();
        }
    }
}

fn in_file(
    text: &str,
    parsed: &Parsed,
    file: &ModelFile,
    rmw: RmwAtomicity,
    answer: &mut Answer,
    budget: &Budget<'_>,
) -> Result<(), Refusal> {
    let program = &parsed.litmus.program;
    let formula = &parsed.litmus.queries[0].condition.formula;
    let instructions = Instructions::of(text, parsed);
    let title = answer.title.clone();
    let graph = |execution: &Execution, drawing: &Drawing| {
        Graph::new(parsed, &instructions, execution, drawing, &title)
    };
    let wanted = |outcome: &Outcome| formula.holds(outcome);
    let found = cat::witness(program, file, rmw, &wanted, budget);
    match found.map_err(|e| Refusal::Wrong(e.to_string()))? {
        Err(limit) => answer.limit = Some(limit.advice()),
        Ok(Some(execution)) => {
            answer.verdict = Some("allowed");
            let shown = file.shown(&execution);
            let drawing = Drawing::marked(program, &execution, None, &shown);
            answer.witness = Some(graph(&execution, &drawing));
        }
        Ok(None) => {
            let vacuous = cat::is_vacuous(program, file, rmw, budget);
            match vacuous.map_err(|e| Refusal::Wrong(e.to_string()))? {
                Err(limit) => {
                    answer.limit = Some(limit.advice());
                    return Ok(());
                }
                Ok(true) => {
                    answer.set_vacuous();
                    return Ok(());
                }
                Ok(false) => {}
            }
            let reason = by_file::forbidden(program, file, rmw, formula, budget);
            answer.verdict = Some("forbidden");
            answer.limit = reason.limit.as_ref().map(Limit::advice);
            answer.candidates = reason.candidates;
            answer.cycles_total = reason.cases.len();
            for (at, case) in reason.cases.iter().take(CYCLES_MAX).enumerate() {
                let Some(drawing) = reason.drawing(program, file, at) else {
                    continue;
                };
                let axiom = &case.axiom;
                let negated = if axiom.negated { "~" } else { "" };
                let edge = |link: &by_file::Link| EdgeEntry {
                    from: link.from,
                    to: link.to,
                    order: axiom.test.keyword(),
                    relation: link.relation.clone(),
                    cell: None,
                    reason: format!("{} ({}, line {})", axiom.name, axiom.file, axiom.line),
                };
                answer.cycles.push(CycleEntry {
                    graph: graph(&case.execution, &drawing),
                    candidates: case.candidates,
                    axiom: Some(format!(
                        "{negated}{} \"{}\" ({}, line {})",
                        axiom.test.keyword(),
                        axiom.name,
                        axiom.file,
                        axiom.line
                    )),
                    broken: None,
                    edges: case.links.iter().map(edge).collect(),
                });
            }
            answer.say_if_without_cycle();
        }
    }
    Ok(())
}

fn client(client: &Client, request: &Request, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let under: Under = request
        .model
        .setting
        .parse()
        .map_err(|e: UnknownUnder| Refusal::Wrong(e.to_string()))?;
    let rules = under
        .rules(judge::ITERATIONS_MAX)
        .ok_or_else(|| Refusal::Wrong(format!("{under} is not judged here")))?;
    let query = client
        .queries
        .get(request.query)
        .ok_or_else(|| Refusal::Wrong(format!("the client has no condition {}", request.query + 1)))?;
    let formula = client.formula(&query.condition.formula);
    let mut answer = Answer {
        title: format!("{} under {under}: {formula}", client.name),
        formula,
        ..Answer::default()
    };
    let drawn = |drawing: Option<Drawing>| drawing.map(|d| Graph::of_drawing(&d, &answer.title));
    match explain_drawn(client, &rules, &query.condition.formula, *budget) {
        Err(limit) => answer.limit = Some(limit.advice()),
        Ok((ClientReason::Allowed(execution), drawing)) => {
            answer.witness = drawn(drawing);
            answer.verdict = Some("allowed");
            answer.words = Some(execution);
        }
        Ok((ClientReason::Forbidden { executions, cycle }, drawing)) => {
            let graph = drawn(drawing);
            let cycles = graph.map(|graph| CycleEntry {
                graph,
                candidates: executions,
                axiom: None,
                broken: None,
                edges: Vec::new(),
            });
            answer.cycles = cycles.into_iter().collect();
            answer.verdict = Some("forbidden");
            answer.candidates = executions;
            answer.words = Some(match (executions, cycle) {
                (0, _) => "Whatever the calls return, no run of the threads ends so.".to_owned(),
                (_, Some(cycle)) => format!("A short cycle of happens-before:\n{cycle}"),
                (_, None) => "No library has a synchronisation order for it.".to_owned(),
            });
        }
    }
    Ok(answer)
}
