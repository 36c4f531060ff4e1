//! The machine, step by step. A state is named by the steps that lead to it, so that the server keeps none: a page may go back, be
//! shared, or be closed at any time.

use axum::Json;
use axum::extract::State;
use mowgli::check::applicable;
use mowgli::explore::{Actor, Enabled, End, Stepper};
use mowgli::litmus::{Litmus, Parsed};
use mowgli::machine::{Buffer, View};
use mowgli::outcome::{Budget, Outcome};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::{Deserialize, Serialize};

use super::graph::Instructions;
use super::model::Named;
use crate::jobs::{Jobs, Refusal};
use crate::text::{self, Range};

/// Most steps of an execution.
const STEPS_MAX: usize = 10_000;

#[derive(Deserialize)]
pub(crate) struct Request {
    text: String,
    #[serde(flatten)]
    model: Named,
    /// Whether queue pairs have the six buffers of RDMA-TSO'24 Fig. 7.
    #[serde(default)]
    concrete: bool,
    /// The numbers of the steps to take from the beginning.
    #[serde(default)]
    schedule: Vec<usize>,
    /// The number of further steps to take at random.
    #[serde(default)]
    random: usize,
    /// The seed of the random steps.
    #[serde(default)]
    seed: u64,
}

#[derive(Serialize)]
pub(crate) struct Answer {
    /// The steps that lead to this state.
    schedule: Vec<usize>,
    /// These steps in words.
    steps: Vec<Taken>,
    nodes: u8,
    threads: Vec<ThreadEntry>,
    locations: Vec<LocationEntry>,
    /// The state of the buffers and of memory.
    machine: View,
    /// The state before the last step, to see what changed.
    before: Option<View>,
    enabled: Vec<EnabledEntry>,
    /// `running`, `final`, `stuck`, `discarded` or `loop-bound`.
    end: &'static str,
    /// The final state, and which conditions it satisfies.
    outcome: Option<Vec<(String, String)>>,
    satisfied: Vec<String>,
}

#[derive(Serialize)]
struct Taken {
    thread: u8,
    actor: &'static str,
    text: String,
}

#[derive(Serialize)]
struct ThreadEntry {
    name: String,
    /// From 1.
    node: u32,
    registers: Vec<(String, i64)>,
    /// The next instruction in the text; null at the end.
    next: Option<Range>,
    instructions: Vec<Range>,
}

#[derive(Serialize)]
struct LocationEntry {
    name: String,
    /// From 1.
    node: u32,
}

#[derive(Serialize)]
struct EnabledEntry {
    thread: u8,
    /// `cpu`, `store-buffer` or `nic`.
    actor: &'static str,
    /// The peer of the queue pair, from 0.
    peer: Option<u16>,
    text: String,
    buffer: Option<Buffer>,
    entry: Option<usize>,
}

/// An outcome to reach.
#[derive(Deserialize)]
pub(crate) struct Wanted {
    text: String,
    #[serde(flatten)]
    model: Named,
    formula: String,
}

#[derive(Serialize)]
pub(crate) struct Found {
    /// The numbers of the steps; null if the machine does not reach the outcome.
    schedule: Option<Vec<usize>>,
    limit: Option<String>,
}

pub(crate) async fn machine(
    State(jobs): State<Jobs>,
    Json(request): Json<Request>,
) -> Result<Json<Answer>, Refusal> {
    jobs.run(move |budget| {
        let parsed = text::litmus(&request.text)?;
        run(&request, &parsed, budget)
    })
    .await
}

/// Finds the steps to an outcome.
pub(crate) async fn replay(
    State(jobs): State<Jobs>,
    Json(wanted): Json<Wanted>,
) -> Result<Json<Found>, Refusal> {
    jobs.run(move |budget| {
        let parsed = text::litmus(&wanted.text)?;
        let asked = parsed.litmus.asking(&wanted.formula);
        let litmus = asked.map_err(|e| Refusal::Wrong(format!("the outcome: {e}")))?;
        let stepper = start(&litmus, &wanted.model, false)?;
        let formula = &litmus.queries[0].condition.formula;
        let found = stepper.schedule_to(&|o: &Outcome| formula.holds(o), budget);
        Ok(match found {
            Ok(schedule) => Found {
                schedule,
                limit: None,
            },
            Err(limit) => Found {
                schedule: None,
                limit: Some(limit.to_string()),
            },
        })
    })
    .await
}

fn start<'p>(litmus: &'p Litmus, model: &Named, concrete: bool) -> Result<Stepper<'p>, Refusal> {
    let setting = model.built_in()?;
    applicable(&litmus.program, setting.model).map_err(|e| Refusal::Wrong(e.to_string()))?;
    let stepper = match concrete {
        true => Stepper::concrete(&litmus.program, setting.model, setting.rmw),
        false => Stepper::new(&litmus.program, setting.model, setting.rmw),
    };
    stepper.map_err(|e| Refusal::Wrong(e.to_string()))
}

fn run(request: &Request, parsed: &Parsed, budget: &Budget<'_>) -> Result<Answer, Refusal> {
    let litmus = &parsed.litmus;
    let program = &litmus.program;
    let mut schedule = request.schedule.clone();
    if schedule.len() > STEPS_MAX {
        return Err(Refusal::Wrong(format!("more than {STEPS_MAX} steps")));
    }
    let mut stepper = start(litmus, &request.model, request.concrete)?;
    let mut before = None;
    let last = schedule.len().checked_sub(1);
    for (at, &number) in schedule.iter().enumerate() {
        if Some(at) == last && request.random == 0 {
            before = Some(stepper.view());
        }
        stepper.take(number).map_err(|e| Refusal::Wrong(e.to_string()))?;
    }
    let mut random = SmallRng::seed_from_u64(request.seed);
    let more = request.random.min(STEPS_MAX - schedule.len());
    for _ in 0..more {
        let count = stepper.enabled_count();
        if count == 0 || budget.exceeded(schedule.len() as u64).is_some() {
            break;
        }
        let number = random.random_range(0..count);
        before = Some(stepper.view());
        stepper.take(number).map_err(|e| Refusal::Wrong(e.to_string()))?;
        schedule.push(number);
    }
    let instructions = Instructions::of(&request.text, parsed);
    let places = text::Places::of(&request.text);
    let positions = stepper.positions();
    let thread = |(t, thread): (usize, &mowgli::program::Thread)| ThreadEntry {
        name: thread.name.clone(),
        node: u32::from(thread.node.0) + 1,
        registers: thread
            .registers
            .iter()
            .cloned()
            .zip(positions[t].registers.iter().copied())
            .collect(),
        next: positions[t]
            .next
            .as_ref()
            .and_then(|place| instructions.find(t, place)),
        instructions: parsed.instructions[t]
            .iter()
            .map(|(_, span)| places.range(span))
            .collect(),
    };
    let end = stepper.end();
    let outcome = match &end {
        End::Final(outcome) => Some(outcome),
        _ => None,
    };
    let shown = outcome.map(|outcome| {
        let value = |o: mowgli::litmus::Operand| (o.display(program), o.value(outcome).to_string());
        litmus.all_shown().into_iter().map(value).collect()
    });
    let satisfied = litmus
        .queries
        .iter()
        .filter(|q| outcome.is_some_and(|o| q.condition.formula.holds(o)))
        .map(|q| q.condition.formula.display(program));
    Ok(Answer {
        steps: stepper.past().map(taken).collect(),
        nodes: program.nodes,
        threads: program.threads.iter().enumerate().map(thread).collect(),
        locations: program
            .locations
            .iter()
            .map(|l| LocationEntry {
                name: l.name.clone(),
                node: u32::from(l.node.0) + 1,
            })
            .collect(),
        machine: stepper.view(),
        before,
        enabled: stepper.enabled().iter().map(enabled).collect(),
        end: match end {
            End::Running => "running",
            End::Final(_) => "final",
            End::Stuck => "stuck",
            End::Discarded => "discarded",
            End::LoopBound { .. } => "loop-bound",
        },
        outcome: shown,
        satisfied: satisfied.collect(),
        schedule,
    })
}

fn actor(actor: Actor) -> &'static str {
    match actor {
        Actor::Cpu => "cpu",
        Actor::StoreBuffer => "store-buffer",
        Actor::Nic(_) => "nic",
    }
}

fn taken(step: &mowgli::explore::TraceStep) -> Taken {
    Taken {
        thread: step.thread.0,
        actor: actor(step.actor),
        text: step.text.clone(),
    }
}

fn enabled(enabled: &Enabled) -> EnabledEntry {
    let Enabled { step, entry } = enabled;
    EnabledEntry {
        thread: step.thread.0,
        actor: actor(step.actor),
        peer: match step.actor {
            Actor::Nic(peer) => Some(peer),
            _ => None,
        },
        text: step.text.clone(),
        buffer: entry.map(|(buffer, _)| buffer),
        entry: entry.map(|(_, at)| at),
    }
}
