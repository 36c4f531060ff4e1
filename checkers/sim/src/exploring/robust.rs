//! Asks whether a world is *robust*: whether under the model it has only the histories that it has on a strong
//! memory, where every operation takes effect at once (Robust'25 Def. 5, for outcomes instead of executions).
//!
//! The world is explored twice. On a strong memory, the exploration collects what the threads recorded. Under the
//! model, it looks for an execution with another record. Records are compared thread by thread, without the times
//! at which calls began and ended: a strong memory is sequentially consistent, not linearizable.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use explorer::Bounds;

use crate::exploring::reach::{Reach, reaches};
use crate::reports::{Completeness, Failure, Report};
use crate::state::lock;
use crate::world::history::ThreadHistory;
use crate::{Config, End, Memory, SimError, Strategy, World, explore};

/// The most delays that are allowed, one more in each search, before every execution is explored.
const DELAYS_MAX: u32 = 3;

/// The most delays that are allowed once a weak history is known, to find one with the fewest.
const DELAYS_LATER: u32 = 12;

/// The answer about a world.
#[derive(Clone, Debug)]
pub struct Robustness {
    /// The answer itself.
    pub strength: Strength,
    /// Different histories that the world has on a strong memory.
    pub strong_histories: usize,
    /// The exploration on a strong memory.
    pub strong: Report,
    /// The last exploration under the model.
    pub model: Report,
    /// The number of delays in the execution that shows a weak history. A delay is a deviation from the schedule in
    /// which each thread, store buffer and queue pair in turn goes on as long as it can. Every execution with fewer
    /// delays was explored, and none has a weak history. `None` for other worlds, or if time did not allow to prove
    /// that.
    pub fewest_delays: Option<u32>,
}

/// The verdict on the robustness of a world.
#[derive(Clone, Debug)]
pub enum Strength {
    /// Every execution under the model has a history of the strong memory. Both explorations were complete.
    Robust,
    /// This execution has a history that no strong memory has. [`Robustness::fewest_delays`] says whether it has the
    /// fewest delays. The text of its schedule has been shortened. [`replay`](crate::replay) repeats it.
    Weak(Box<Failure>),
    /// The explorations found no weak history, and were not complete. The text says how far they came.
    Unknown(String),
    /// The threads record nothing ([`call`](crate::call), [`note`](crate::note)), so there is nothing to compare.
    NothingRecorded,
    /// An execution fails a check of the world, under the model or on the strong memory.
    Failed(Box<Failure>),
}

impl Strength {
    /// Returns the word for this verdict in reports.
    pub const fn name(&self) -> &'static str {
        match self {
            Strength::Robust => "robust",
            Strength::Weak(_) => "weak",
            Strength::Unknown(_) => "unknown",
            Strength::NothingRecorded => "nothing recorded",
            Strength::Failed(_) => "failed",
        }
    }

    /// Returns the execution that shows a weak or failed world; `None` for other verdicts.
    pub fn witness(&self) -> Option<&Failure> {
        match self {
            Strength::Weak(failure) | Strength::Failed(failure) => Some(failure),
            _ => None,
        }
    }
}

impl fmt::Display for Strength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Strength::Robust => write!(f, "robust: every history is one of a strong memory"),
            Strength::Weak(failure) => write!(f, "weak: no strong memory has this history\n{failure}"),
            Strength::Unknown(why) => write!(f, "unknown: {why}"),
            Strength::NothingRecorded => {
                write!(
                    f,
                    "nothing recorded: the threads make no `call` and no `note` to compare"
                )
            }
            Strength::Failed(failure) => write!(f, "failed\n{failure}"),
        }
    }
}

/// Returns the records of an execution in the form in which they are compared.
fn record(histories: &[ThreadHistory]) -> String {
    histories.iter().map(ThreadHistory::to_string).collect()
}

/// Explores the world on a strong memory and under the model, and compares the histories. `config.time_max` bounds
/// both explorations together. The strategy of `config` is not used: the strong memory is explored exhaustively,
/// and the model first with few delays, then exhaustively.
///
/// # Errors
/// Returns the errors of [`explore`].
pub fn robust(config: &Config, builder: impl Fn(&mut World) + Sync) -> Result<Robustness, SimError> {
    let time = TimeLimit {
        begun: Instant::now(),
        max: config.time_max,
    };
    let (strong, known) = explore_strong(config, time, &builder)?;
    let strong_histories = known.len();
    let found = match verdict_without_model(&strong, &known) {
        Some(strength) => Found {
            strength,
            model: None,
            fewest_delays: None,
        },
        None => WeakSearch {
            config,
            builder,
            time,
            known: Arc::new(known),
        }
        .run()?,
    };
    Ok(Robustness {
        strength: found.strength,
        strong_histories,
        model: found.model.unwrap_or_else(|| strong.clone()),
        strong,
        fewest_delays: found.fewest_delays,
    })
}

/// The time of both explorations together.
#[derive(Clone, Copy)]
struct TimeLimit {
    begun: Instant,
    max: Option<Duration>,
}

impl TimeLimit {
    /// Returns one part in `parts` of the time that is left; `None` without a limit.
    fn left(self, parts: u32) -> Option<Duration> {
        let left = self.max.map(|max| max.saturating_sub(self.begun.elapsed()));
        left.map(|left| left / parts)
    }
}

/// Returns whether too little time is left for a search.
fn is_spent(left: Option<Duration>) -> bool {
    left.is_some_and(|left| left < Duration::from_millis(10))
}

/// Explores the world on a strong memory. Returns the report, and every history that an execution had.
fn explore_strong(
    config: &Config,
    time: TimeLimit,
    builder: &(impl Fn(&mut World) + Sync),
) -> Result<(Report, BTreeSet<String>), SimError> {
    let known: Arc<Mutex<BTreeSet<String>>> = Arc::default();
    let strong = Config {
        strategy: Strategy::Exhaustive,
        memory: Memory::Strong,
        time_max: time.left(2),
        ..config.clone()
    };
    let report = explore(&strong, |world| {
        builder(world);
        let known = known.clone();
        world.finally(move |end| {
            lock(&known).insert(record(&end.histories()));
        });
    })?;
    let known = std::mem::take(&mut *lock(&known));
    Ok((report, known))
}

/// Returns the verdict if the exploration on the strong memory leaves nothing to compare with.
fn verdict_without_model(strong: &Report, known: &BTreeSet<String>) -> Option<Strength> {
    if let Some(failure) = &strong.failure {
        return Some(Strength::Failed(Box::new(failure.clone())));
    }
    if strong.completeness != Completeness::Complete {
        return Some(Strength::Unknown(format!(
            "the strong memory was not explored to the end ({})",
            strong.completeness
        )));
    }
    known
        .iter()
        .all(String::is_empty)
        .then_some(Strength::NothingRecorded)
}

/// The outcome of a search for weak histories.
struct Found {
    strength: Strength,
    /// The last exploration under the model, if there was one.
    model: Option<Report>,
    fewest_delays: Option<u32>,
}

/// A search under the model for an execution whose history is not `known`.
struct WeakSearch<'a, B> {
    config: &'a Config,
    builder: B,
    time: TimeLimit,
    known: Arc<BTreeSet<String>>,
}

impl<B: Fn(&mut World) + Sync> WeakSearch<'_, B> {
    /// Searches with few delays, one more each time, and then through every execution.
    fn run(&self) -> Result<Found, SimError> {
        let mut searched = None;
        let mut seen = Completeness::Incomplete("not explored".to_owned());
        // Executions with fewer delays than this have no weak history.
        let mut excluded = 0;
        for delays in (0..=DELAYS_MAX).map(Some).chain([None]) {
            let time_max = self.time.left(if delays.is_some() { 3 } else { 1 });
            if is_spent(time_max) {
                break;
            }
            let mut reach = self.look(delays, time_max)?;
            if let Some(witness) = reach.witness.take() {
                return match delays {
                    Some(delays) => {
                        let fewest = (delays == excluded).then_some(delays);
                        Ok(Found::weak(witness, reach.report, fewest))
                    }
                    None => self.with_fewest_delays(witness, reach.report, excluded),
                };
            }
            let report = reach.report;
            if let Some(failure) = &report.failure {
                return Ok(Found {
                    strength: Strength::Failed(Box::new(failure.clone())),
                    model: Some(report),
                    fewest_delays: None,
                });
            }
            if explores(&report.completeness) {
                seen = report.completeness.clone();
                excluded += u32::from(delays == Some(excluded));
            }
            let complete = report.completeness == Completeness::Complete;
            searched = Some(report);
            if complete {
                break;
            }
        }
        Ok(Found {
            strength: match &seen {
                Completeness::Complete => Strength::Robust,
                seen => Strength::Unknown(format!("no weak history found under the model, {seen}")),
            },
            model: searched,
            fewest_delays: None,
        })
    }

    /// Looks for a weak execution with at most so many delays, or with any number.
    fn look(&self, delays: Option<u32>, time_max: Option<Duration>) -> Result<Reach, SimError> {
        let strategy = delays.map_or(Strategy::Exhaustive, |delays| {
            Strategy::Bounded(Bounds {
                delays: Some(delays),
                ..Bounds::default()
            })
        });
        let model = Config {
            strategy,
            memory: Memory::Model,
            time_max,
            ..self.config.clone()
        };
        let known = self.known.clone();
        reaches(&model, &self.builder, move |end: &End<'_>| {
            !known.contains(&record(&end.histories()))
        })
    }

    /// Looks for a weak execution with the fewest delays, since the exhaustive search finds any weak execution first. No
    /// execution with fewer than `excluded` delays is weak. Returns `witness` if time does not allow to find another.
    fn with_fewest_delays(
        &self,
        witness: Failure,
        report: Report,
        mut excluded: u32,
    ) -> Result<Found, SimError> {
        while excluded <= DELAYS_LATER && !is_spent(self.time.left(2)) {
            let mut again = self.look(Some(excluded), self.time.left(2))?;
            match again.witness.take() {
                Some(shorter) => return Ok(Found::weak(shorter, again.report, Some(excluded))),
                None if again.report.failure.is_none() && explores(&again.report.completeness) => {
                    excluded += 1;
                }
                None => break,
            }
        }
        Ok(Found::weak(witness, report, None))
    }
}

impl Found {
    /// Returns the outcome of a search that found a weak execution.
    fn weak(witness: Failure, report: Report, fewest_delays: Option<u32>) -> Found {
        Found {
            strength: Strength::Weak(Box::new(witness)),
            model: Some(report),
            fewest_delays,
        }
    }
}

/// Returns whether an exploration was complete, or complete within its bounds.
fn explores(completeness: &Completeness) -> bool {
    matches!(completeness, Completeness::Complete | Completeness::UpTo(_))
}
