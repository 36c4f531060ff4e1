//! Exhaustive exploration, within bounds or without, in passes.
//!
//! Relies on [`explorer::search()`]. The reduction decides which moves to leave out by the conflicts that are
//! known ([`crate::state::sharing`]). A pass that learns of a new conflict ends, and the next pass begins
//! again with this knowledge. The last pass learns nothing new.
//!
//! A thread whose condition did not hold is parked. Parking changes nothing else: the new state can do
//! whatever the state before it could, except the evaluation that failed. Such a state stutters: it repeats
//! the state in which the thread was about to evaluate its condition.

use std::time::Instant;

use explorer::{Bounds, Choice, Ended, Estimate, Failed, Limits, Options, Samples, Trials};

use crate::exploring::progress::Progress;
use crate::exploring::system::Explored;
use crate::exploring::walk::{Builder, Walker};
use crate::reports::{Completeness, Failure, Report, Stats};
use crate::state::Common;
use crate::state::sharing::SeenAccesses;
use crate::state::waits::Waits;
use crate::{Config, SimError};

/// The part of the time that is kept for an estimate, if there is to be one: one in so many.
const ESTIMATE_PART: u32 = 10;
/// The most trials of an estimate, and the most states of a level that a trial follows.
const TRIALS: u32 = 400;
const WIDTH: usize = 64;

/// Explores every behaviour of the world, or, with bounds, every behaviour within them.
pub(crate) fn exhaustive(
    config: &Config,
    builder: Builder<'_>,
    bounds: Option<Bounds>,
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let waits = match bounds {
        _ if !config.reduction => Waits::Apart,
        None if config.reduces() => Waits::Merged,
        // Bounds count every move.
        _ => Waits::Passing,
    };
    let mut total = Stats::default();
    match passes(config, builder, bounds, begun, waits, &mut total) {
        // Either a condition keeps more than its progress, or the world is not deterministic. An exploration
        // that keeps failed evaluations apart tells which.
        Err(SimError::NotDeterministic { .. }) if waits != Waits::Apart => {
            passes(config, builder, bounds, begun, Waits::Apart, &mut total)
        }
        result => result,
    }
}

/// Explores in passes, until one learns nothing new.
fn passes(
    config: &Config,
    builder: Builder<'_>,
    bounds: Option<Bounds>,
    begun: Instant,
    waits: Waits,
    total: &mut Stats,
) -> Result<Report, SimError> {
    let common = Common::new(waits);
    let mut seen = SeenAccesses::new(bounds.is_some());
    let mut polls = None;
    loop {
        total.passes += 1;
        let words = common.words.len();
        let pass = Pass {
            config,
            common: &common,
            builder,
            bounds,
            number: total.passes,
            begun,
        };
        let moves = total.transitions;
        let (completeness, failure) = pass.run(&mut seen, total, polls.take())?;
        let is_open =
            matches!(completeness, Completeness::Incomplete(_)) && failure.is_none() && bounds.is_none();
        let estimate = match is_open && config.estimates {
            true => pass.estimate(&seen)?,
            false => None,
        };
        let grown = config.reduces() && (seen.fresh || common.words.len() != words);
        let stopped = matches!(completeness, Completeness::Incomplete(_)) || failure.is_some();
        if stopped || !grown {
            total.pasts = common.behaviour.len() as u64;
            total.seconds = begun.elapsed().as_secs_f64();
            return Ok(Report {
                fabric: config.fabric,
                tier: config.tier,
                faults: config.faults,
                completeness,
                failure,
                estimate,
                stats: total.clone(),
            });
        }
        let executions = (total.transitions - moves) / total.depth_max.max(1) / 2;
        if executions > 0 {
            // Where the time ends here, the next pass has none left to find out why.
            polls = pass.sample(executions, &mut seen, total)?;
        }
    }
}

/// One search of the state space.
struct Pass<'a> {
    config: &'a Config,
    common: &'a Common,
    builder: Builder<'a>,
    bounds: Option<Bounds>,
    /// The number of this pass, and the time at which the first pass began.
    number: u64,
    begun: Instant,
}

impl Pass<'_> {
    /// Searches. Adds the conflicts met to those known in `seen`, and notes there whether any of them is new.
    fn run(
        &self,
        seen: &mut SeenAccesses,
        total: &mut Stats,
        mut polls: Option<String>,
    ) -> Result<(Completeness, Option<Failure>), SimError> {
        let config = self.config;
        let tell = |progress: &explorer::Progress| self.tell(progress);
        let options = Options {
            workers: config.workers.max(1),
            alone: 0,
            bounds: self.bounds,
            limits: self.limits(),
            depth_max: config.steps_max as u64,
            progress: config.progress.is_some().then_some(&tell),
            ..Options::default()
        };
        seen.fresh = false;
        let known = seen.clone();
        let make = || {
            let walker = Walker::new(self.common, config, self.builder, known.clone());
            self.up_to_symmetry(Explored::new(walker, config.reduces()))
        };
        let searched = explorer::search(&options, make).map_err(failed)?;
        for learned in searched.collected {
            seen.merge(&learned.seen);
            total.runs += learned.runs;
            polls = polls.or(learned.polls);
        }
        (total.states, total.executions) = (searched.stats.states, searched.stats.ends);
        total.transitions += searched.stats.moves;
        total.depth_max = total.depth_max.max(searched.stats.depth);
        let failure = searched.finding.map(|failure| *failure);
        let completeness = match (searched.ended, self.bounds) {
            (Ended::Limit(limit), _) => Completeness::Incomplete(because(limit.to_string(), polls)),
            (Ended::Quit, _) => Completeness::Stopped,
            (Ended::Bounded, Some(bounds)) => Completeness::UpTo(bounds),
            // The bounds excluded nothing.
            (Ended::Complete | Ended::Bounded, _) => Completeness::Complete,
        };
        Ok((completeness, failure))
    }

    /// Learns from random executions, which meet most conflicts. A search that has to be repeated learns them one at a time.
    fn sample(
        &self,
        executions: u64,
        seen: &mut SeenAccesses,
        total: &mut Stats,
    ) -> Result<Option<String>, SimError> {
        let config = self.config;
        let mut polls = None;
        let samples = samples(config, self.begun, Choice::Uniform, executions, self.number);
        let make = || {
            let walker = Walker::new(self.common, config, self.builder, seen.clone());
            Explored::new(walker, false)
        };
        let sampled = explorer::sample(&samples, make).map_err(failed)?;
        for learned in sampled.collected {
            seen.merge(&learned.seen);
            total.runs += learned.runs;
            polls = polls.or(learned.polls);
        }
        total.transitions += sampled.stats.moves;
        Ok(polls)
    }

    /// Returns the limits of the search, which leave time for an estimate.
    fn limits(&self) -> Limits<'_> {
        let config = self.config;
        let all = limits(config, self.begun);
        if !config.estimates || self.bounds.is_some() {
            return all;
        }
        let time = config.time_max.map(|max| max - max / ESTIMATE_PART);
        Limits {
            deadline: time.and_then(|time| self.begun.checked_add(time)),
            ..all
        }
    }

    /// Estimates the size of the search that a limit has ended, in the time that was kept for that.
    fn estimate(&self, seen: &SeenAccesses) -> Result<Option<Estimate>, SimError> {
        let config = self.config;
        let trials = Trials {
            count: TRIALS,
            width: WIDTH,
            seed: self.number,
            depth_max: config.steps_max as u64,
            limits: Limits {
                // Where states limit the search, the estimate takes about as long as the search has taken.
                deadline: config
                    .time_max
                    .and_then(|max| self.begun.checked_add(max))
                    .or_else(|| Instant::now().checked_add(self.begun.elapsed())),
                cancel: config.cancel.as_deref(),
                ..Limits::default()
            },
        };
        let walker = Walker::new(self.common, config, self.builder, seen.clone());
        let explored = self.up_to_symmetry(Explored::new(walker, false));
        explorer::estimate(&trials, explored).map_err(failed)
    }

    /// Takes permutations of symmetric threads for one state, where the search reduces.
    fn up_to_symmetry<'b>(&self, explored: Explored<'b>) -> Explored<'b> {
        match self.bounds.is_none() && self.config.reduces() {
            true => explored.up_to_symmetry(),
            false => explored,
        }
    }

    fn tell(&self, progress: &explorer::Progress) {
        if let Some(tell) = self.config.progress {
            tell(&Progress {
                pass: self.number,
                states: progress.states,
                executions: progress.executions,
                done: progress.done,
                elapsed: self.begun.elapsed(),
            });
        }
    }
}

/// Returns the limits of an exploration that began at this instant.
pub(crate) fn limits(config: &Config, begun: Instant) -> Limits<'_> {
    Limits {
        deadline: config.time_max.and_then(|max| begun.checked_add(max)),
        states_max: config.states_max,
        cancel: config.cancel.as_deref(),
        memory: None,
    }
}

/// Returns the options for random executions of an exploration that began at this instant. The executions report
/// no progress.
pub(crate) fn samples(
    config: &Config,
    begun: Instant,
    choice: Choice,
    executions: u64,
    seed: u64,
) -> Samples<'_> {
    let faults = config.faults;
    Samples {
        choice,
        executions,
        seed,
        optional_max: faults.expiries + faults.crashes + faults.suspicions + faults.cuts,
        workers: config.workers,
        limits: limits(config, begun),
        depth_max: config.steps_max as u64,
        progress: None,
    }
}

/// Adds to the limit that ended an exploration why executions did not end, if that is known.
pub(crate) fn because(limit: String, polls: Option<String>) -> String {
    match polls {
        Some(polls) => format!("{limit}; {polls}"),
        None => limit,
    }
}

/// Returns the error of an exploration that failed.
pub(crate) fn failed(failed: Failed<SimError>) -> SimError {
    match failed {
        Failed::System(error) => error,
        Failed::Panicked(_) => SimError::Host("an explorer panicked".into()),
    }
}
