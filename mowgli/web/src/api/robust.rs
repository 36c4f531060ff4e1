//! Robustness of a test, and the fences and polls that would mend it.

use axum::Json;
use axum::extract::State;
use mowgli::check::applicable;
use mowgli::explain::Drawing;
use mowgli::litmus::{Litmus, Parsed};
use mowgli::model::Tier;
use mowgli::outcome::Budget;
use mowgli::program::Program;
use mowgli::robust::fix::{self, Change, Costs, Minimal};
use mowgli::robust::{self, Condition, Exact, Finding, MODELS, Question, Reason, Verdict, Weak};
use serde::{Deserialize, Serialize};

use super::graph::{Graph, Instructions};
use super::model::Named;
use crate::jobs::{Jobs, Refusal};
use crate::text::{self, Range};

#[derive(Deserialize)]
pub(crate) struct Request {
    text: String,
    #[serde(flatten)]
    model: Named,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    setting: String,
    verdict: String,
    /// The limit because of which the verdict is unknown, and the remedy.
    limit: Option<String>,
    conditions: Vec<ConditionEntry>,
    /// A consistent execution that is not sequentially consistent.
    weak: Option<Graph>,
    /// Its cycle, on a line.
    cycle: Option<String>,
    fix: Option<Fix>,
    /// Why there is no mended form.
    not_mended: Option<String>,
}

#[derive(Serialize)]
struct ConditionEntry {
    name: &'static str,
    holds: Option<bool>,
    clause: Option<&'static str>,
    reason: Option<String>,
    /// A change that would keep the two instructions in order.
    need: Option<String>,
    /// The instructions that may be reordered.
    instructions: Vec<Range>,
}

#[derive(Serialize)]
struct Fix {
    cost: u64,
    /// Whether it was proved that no cheaper changes make the conditions hold.
    minimal: bool,
    /// How many operations ask for strong order now, on a network that orders less.
    requests: usize,
    changes: Vec<Change>,
    /// The mended test.
    text: String,
}

pub(crate) async fn robust(
    State(jobs): State<Jobs>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, Refusal> {
    jobs.run(move |budget| {
        let parsed = text::litmus(&request.text)?;
        answer(&request, &parsed, budget)
    })
    .await
}

fn answer(request: &Request, parsed: &Parsed, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let setting = request.model.built_in()?;
    let program = &parsed.litmus.program;
    applicable(program, setting.model).map_err(|e| Refusal::Wrong(e.to_string()))?;
    if !MODELS.contains(&setting.model.base()) {
        let names = MODELS.map(|m| m.name()).join(", ");
        return Err(Refusal::Wrong(format!(
            "robustness is defined for {names}, not for {setting}"
        )));
    }
    let question = Question {
        model: setting.model,
        rmw: setting.rmw,
        refined: false,
    };
    let found = robust::ask(program, &question, true, budget);
    let instructions = Instructions::of(&request.text, parsed);
    let weak = match &found.exact {
        Some(Exact::NotRobust(weak)) => Some(weak),
        _ => None,
    };
    let title = format!(
        "{} under {setting}: not sequentially consistent",
        parsed.litmus.name
    );
    let mut answer = Answer {
        setting: setting.to_string(),
        limit: match found.verdict() {
            Verdict::Unknown(limit) => Some(limit.advice()),
            _ => None,
        },
        verdict: found.verdict().to_string(),
        // The conditions are about the papers' network.
        conditions: match setting.model.tier() {
            Tier::Ibta => Condition::ALL
                .map(|c| condition(program, &instructions, c, found.conditions.get(c)))
                .into(),
            _ => Vec::new(),
        },
        weak: weak.map(|weak| {
            let drawing = Drawing::new(program, &weak.execution, Some(&weak.cycle));
            Graph::new(parsed, &instructions, &weak.execution, &drawing, &title)
        }),
        cycle: weak.map(|weak| cycle(program, weak)),
        fix: None,
        not_mended: None,
    };
    if found.conditions.theorem().is_some() || matches!(found.exact, Some(Exact::Robust)) {
        return Ok(answer);
    }
    if setting.model.tier() != Tier::Ibta {
        match fix::mend_on_tier(program, &question, &Costs::default(), budget) {
            Err(error) => answer.not_mended = Some(error.to_string()),
            Ok(requested) => {
                let listing = Litmus {
                    program: requested.program,
                    ..fix::litmus(&parsed.litmus, &requested.base, &question)
                };
                answer.fix = Some(Fix {
                    cost: requested.base.cost,
                    // Only the changes for the papers' network may be proved to be the least, and there.
                    minimal: false,
                    requests: requested.requests.len(),
                    changes: requested.base.changes,
                    text: listing.print(),
                });
            }
        }
        return Ok(answer);
    }
    match fix::mend(program, &question, &Costs::default(), budget) {
        Err(error) => answer.not_mended = Some(error.to_string()),
        // The question is asked again about the program that is offered, however it was found.
        Ok(mended) if !mended.verify(&question, budget).is_robust() => {
            answer.not_mended = Some("no additions were shown to make it robust".to_owned());
        }
        Ok(mended) => {
            answer.fix = Some(Fix {
                cost: mended.cost,
                minimal: mended.minimal == Minimal::Proved,
                requests: 0,
                changes: mended.changes.clone(),
                text: fix::print(&parsed.litmus, &mended, &question),
            });
        }
    }
    Ok(answer)
}

fn condition(
    program: &Program,
    instructions: &Instructions,
    condition: Condition,
    finding: &Finding,
) -> ConditionEntry {
    let reason = finding.reason();
    let pair = reason.and_then(Reason::pair);
    let place = |event: &robust::EventRef| instructions.find(event.thread, &event.event.path);
    ConditionEntry {
        name: condition.name(),
        holds: match finding {
            Finding::Holds => Some(true),
            Finding::Fails(_) => Some(false),
            Finding::Unknown(_) => None,
        },
        clause: reason.map(Reason::clause),
        reason: reason.map(|r| robust::text::reason(program, r)),
        need: pair.map(|pair| pair.need.to_string()),
        instructions: pair
            .map(|pair| {
                [&pair.earlier, &pair.later]
                    .into_iter()
                    .filter_map(place)
                    .collect()
            })
            .unwrap_or_default(),
    }
}

fn cycle(program: &Program, weak: &Weak) -> String {
    let labels = weak.execution.labels(program);
    let name = |e: usize| match weak.execution.events[e].thread {
        Some(t) => format!("{}:{}", program.threads[usize::from(t.0)].name, labels[e]),
        None => labels[e].clone(),
    };
    let edges = &weak.cycle.edges;
    let first = edges.first().map(|e| name(e.from)).unwrap_or_default();
    let rest = edges
        .iter()
        .map(|e| format!(" \u{2014}{}\u{2192} {}", e.part.name(), name(e.to)));
    first + &rest.collect::<String>()
}
