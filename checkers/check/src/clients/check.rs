//! One client on shipped objects: every outcome that the model allows, and whether the objects promise it.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loco_sim::{
    Config, End, Event, ExecutionGraph, Failure, Film, Report, Schedule, SimError, Strategy, Tier, World,
    execution_graph, explore, replay,
};
use mowgli_libraries::client::{Client, Library, ObjectId, Setting};
use mowgli_libraries::judge::{ITERATIONS_MAX, Under, outcomes_by_specification};
use mowgli_libraries::outcome::{Budget, Completeness, Limit, Outcome, Outcomes};
use mowgli_libraries::value::Value;

use super::form::Form;
use super::interpreter::{self, REGISTERS};
use super::objects::{self, At, Bound, WORD_BYTES};
use crate::named_world::STEPS_MAX;

/// The bounds within which one client is explored.
#[derive(Clone, Debug)]
pub struct Effort {
    /// The schedules to explore.
    pub strategy: Strategy,
    /// The order of the network. `None` means that of the fabric contract, or [`Tier::Ibta`] for a client of RDMA^WAIT itself,
    /// whose specification is about that network.
    pub tier: Option<Tier>,
    /// The number of explorers that work in parallel on the one client.
    pub workers: usize,
    /// The time after which the exploration is given up.
    pub time_max: Option<Duration>,
    /// The number of states after which the exploration is given up.
    pub states_max: Option<u64>,
    /// The number of iterations of the client's loops that are considered.
    pub iterations_max: u32,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Option<Arc<AtomicBool>>,
}

impl Effort {
    /// Returns the order of the network on which the client runs.
    pub fn tier_of(&self, client: &Client) -> Tier {
        let usual = match client.libraries().contains(&Library::RdmaWait) {
            true => Tier::Ibta,
            false => Config::default().tier,
        };
        self.tier.unwrap_or(usual)
    }
}

impl Default for Effort {
    /// Returns the effort that explores every schedule, by one explorer, without a limit.
    fn default() -> Effort {
        Effort {
            strategy: Strategy::Exhaustive,
            tier: None,
            workers: 1,
            time_max: None,
            states_max: None,
            iterations_max: ITERATIONS_MAX,
            cancel: None,
        }
    }
}

/// The findings of a client's run.
#[derive(Debug)]
pub struct Checked {
    /// The outcomes that the explored executions have.
    pub outcomes: BTreeSet<Outcome>,
    /// Set if some execution has no outcome: a thread makes a call that never returns by its specification, such as
    /// the release of a lock that it does not hold, or it needs more iterations of a loop than are considered.
    pub cut: bool,
    /// The report of the exploration. Its failure is an execution with a forbidden outcome, an error of an object, or
    /// threads that wait for ever.
    pub report: Report,
}

impl Checked {
    /// Returns true if every execution was explored to its end, and none failed.
    pub fn is_complete(&self) -> bool {
        self.report.completeness == loco_sim::Completeness::Complete && !self.cut
    }

    /// Returns the outcomes in the form in which specifications answer.
    pub fn as_outcomes(&self) -> Outcomes {
        let completeness = match self.is_complete() {
            true => Completeness::Complete,
            false => Completeness::Incomplete(Limit::TooLarge(match self.cut {
                true => "some executions were cut".to_owned(),
                false => self.report.completeness.to_string(),
            })),
        };
        Outcomes {
            outcomes: self.outcomes.clone(),
            completeness,
            executions: self.report.stats.executions,
        }
    }
}

/// Returns the outcomes that the shipped objects promise: those of the specifications, with the transitive barrier
/// and with LOCO'26 Def. 5.2 of ring buffers as printed. Objects promise the same on every network. RDMA^WAIT itself promises
/// what the network orders: the order of `tier`, or of [`Tier::Ibta`] without one, as [`Effort::tier_of`].
pub fn promised(client: &Client, tier: Option<Tier>, budget: Budget<'_>) -> Outcomes {
    let tier = tier.filter(|_| client.libraries().contains(&Library::RdmaWait));
    let under = Under {
        setting: Setting::Shipped.into(),
        tier: tier.unwrap_or(Tier::Ibta),
    };
    outcomes_by_specification(client, under, budget)
}

/// Runs a client on shipped objects. With `allowed`, an execution with another outcome is a failure.
///
/// # Errors
/// Returns [`SimError`] when the client cannot be explored.
pub fn check(
    client: &Client,
    form: Form,
    allowed: Option<&BTreeSet<Outcome>>,
    effort: &Effort,
) -> Result<Checked, SimError> {
    run(client, form, allowed, effort, |config, world| {
        explore(config, world)
    })
}

/// Repeats the execution of a schedule as [`check`] would run it.
///
/// # Errors
/// Returns [`SimError::Replay`] when the schedule is not of this client.
pub fn again(
    client: &Client,
    form: Form,
    allowed: Option<&BTreeSet<Outcome>>,
    effort: &Effort,
    schedule: &Schedule,
) -> Result<Checked, SimError> {
    run(client, form, allowed, effort, |config, world| {
        replay(config, schedule, world)
    })
}

/// Returns the execution of a schedule as a graph, to draw.
///
/// # Errors
/// Returns the errors of [`again`].
pub fn graph(
    client: &Client,
    form: Form,
    effort: &Effort,
    schedule: &Schedule,
) -> Result<ExecutionGraph, SimError> {
    let client = Arc::new(client.clone());
    let (found, iterations_max) = (Found::default(), effort.iterations_max);
    execution_graph(&Config::default(), schedule, |world: &mut World| {
        build(world, &client, form, iterations_max, &None, &found);
    })
}

/// Returns the execution of a schedule as a film.
///
/// # Errors
/// Returns the errors of [`again`].
pub fn film(client: &Client, form: Form, effort: &Effort, schedule: &Schedule) -> Result<Film, SimError> {
    let client = Arc::new(client.clone());
    let (found, iterations_max) = (Found::default(), effort.iterations_max);
    loco_sim::film(&Config::default(), schedule, |world: &mut World| {
        build(world, &client, form, iterations_max, &None, &found);
    })
}

fn run(
    client: &Client,
    form: Form,
    allowed: Option<&BTreeSet<Outcome>>,
    effort: &Effort,
    explore: impl FnOnce(&Config, &(dyn Fn(&mut World) + Sync)) -> Result<Report, SimError>,
) -> Result<Checked, SimError> {
    let config = Config {
        strategy: effort.strategy,
        tier: effort.tier_of(client),
        workers: effort.workers,
        time_max: effort.time_max,
        states_max: effort.states_max,
        cancel: effort.cancel.clone(),
        steps_max: STEPS_MAX,
        longer_fails: true,
        ..Config::default()
    };
    let client = Arc::new(client.clone());
    let allowed = allowed.cloned().map(Arc::new);
    let found = Arc::new(Mutex::new((BTreeSet::new(), false)));
    let iterations_max = effort.iterations_max;
    let report = explore(&config, &|world: &mut World| {
        build(world, &client, form, iterations_max, &allowed, &found);
    })?;
    let (outcomes, cut) = std::mem::take(&mut *found.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Checked {
        outcomes,
        cut,
        report,
    })
}

type Found = Arc<Mutex<(BTreeSet<Outcome>, bool)>>;

/// Builds the world of a client.
pub(super) fn build(
    world: &mut World,
    client: &Arc<Client>,
    form: Form,
    iterations_max: u32,
    allowed: &Option<Arc<BTreeSet<Outcome>>>,
    found: &Found,
) {
    let at = objects::nodes(world, client, form);
    for (number, thread) in client.threads.iter().enumerate() {
        let text = client.clone();
        world.thread(
            &at[usize::from(thread.node.0)],
            &format!("P{number}"),
            move |site| interpreter::run(&text, number, site, iterations_max),
        );
    }
    let (client, allowed, found) = (client.clone(), allowed.clone(), found.clone());
    world.finally(move |end| {
        let outcome = outcome(&client, &at, end);
        let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(outcome) = outcome else {
            found.1 = true;
            return;
        };
        found.0.insert(outcome.clone());
        drop(found);
        if allowed
            .as_ref()
            .is_some_and(|allowed| !allowed.contains(&outcome))
        {
            panic!("the specification does not allow {}", outcome.display(&client));
        }
    });
}

/// Returns the outcome of an execution, or `None` if a thread did not run to its end.
fn outcome(client: &Client, at: &[At], end: &End<'_>) -> Option<Outcome> {
    let mut registers: Vec<Option<Vec<Value>>> = vec![None; client.threads.len()];
    for history in end.histories() {
        let number: usize = history.name.strip_prefix('P')?.parse().ok()?;
        let last = history.events.last();
        if let Some(Event::Note(line)) = last
            && let Some(values) = line.strip_prefix(REGISTERS)
        {
            registers[number] = serde_json::from_str(values).ok();
        }
    }
    let words = client
        .observed_words
        .iter()
        .map(|&word| word_at_end(client, at, end, word));
    Some(Outcome {
        registers: registers.into_iter().collect::<Option<_>>()?,
        words: words.collect::<Option<_>>()?,
    })
}

fn word_at_end(client: &Client, at: &[At], end: &End<'_>, word: ObjectId) -> Option<Value> {
    let mowgli_libraries::client::ObjectKind::Word { node, .. } = client.object(word).kind else {
        return None;
    };
    let site = at[usize::from(node.0)].get()?;
    debug_assert!(matches!(site.objects.bound[usize::from(word.0)], Bound::Place));
    let words = site.objects.words.as_ref()?;
    let value = end.word(words.local().ok()?, usize::from(word.0) * WORD_BYTES);
    Some(Value::Int(value as i64))
}

/// Describes a failing client for a person: the client as a file, then what happened, then how to see it again.
pub fn describe(client: &Client, failure: &Failure) -> String {
    format!("{}\n{failure}", client.print())
}
