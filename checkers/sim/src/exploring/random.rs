//! Random exploration, uniform or by priorities, and replay of a schedule.
//!
//! Relies on [`explorer::sample`].

use std::time::Instant;

use explorer::{Choice, Samples};

use crate::exploring::conditions;
use crate::exploring::progress::Progress;
use crate::exploring::script::Script;
use crate::exploring::search::{because, failed, samples};
use crate::exploring::system::{Explored, end_of, failure_of_length, failure_of_thread};
use crate::exploring::walk::{Builder, Walker};
use crate::reports::schedule::Schedule;
use crate::reports::{Completeness, Report, Stats};
use crate::state::Common;
use crate::state::sharing::SeenAccesses;
use crate::{Config, SimError};

/// Runs `executions` executions with random moves.
pub(crate) fn explore(
    config: &Config,
    builder: Builder<'_>,
    choice: Choice,
    executions: u64,
    seed: u64,
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let common = Common::default();
    let tell = |progress: &explorer::Progress| {
        if let Some(tell) = config.progress {
            tell(&Progress {
                pass: 1,
                states: 0,
                executions: progress.executions,
                done: progress.done,
                elapsed: begun.elapsed(),
            });
        }
    };
    let samples = Samples {
        progress: config.progress.is_some().then_some(&tell),
        ..samples(config, begun, choice, executions, seed)
    };
    let make = || {
        let walker = Walker::new(&common, config, builder, SeenAccesses::default());
        Explored::new(walker, false)
    };
    let sampled = explorer::sample(&samples, make).map_err(failed)?;
    let executions = sampled.stats.ends;
    let (mut runs, mut polls) = (0, None);
    for learned in sampled.collected {
        runs += learned.runs;
        polls = polls.or(learned.polls);
    }
    let failure = sampled.finding.map(|failure| *failure);
    let completeness = match (&failure, sampled.cut_off) {
        (Some(_), _) => Completeness::Stopped,
        (None, 0) => match (sampled.limit, polls) {
            // Where other executions have ended, the time has only interrupted this one.
            (Some(limit), Some(polls)) if executions == 0 => {
                Completeness::Incomplete(because(limit.to_string(), Some(polls)))
            }
            _ => Completeness::Random(executions),
        },
        (None, cut_off) => {
            let steps = config.steps_max;
            let cut = format!("{cut_off} of {executions} random schedules were cut off after {steps} steps");
            Completeness::Incomplete(because(cut, polls))
        }
    };
    Ok(Report {
        fabric: config.fabric,
        tier: config.tier,
        faults: config.faults,
        completeness,
        failure,
        estimate: None,
        stats: Stats {
            executions,
            transitions: sampled.stats.moves,
            depth_max: sampled.stats.depth,
            runs,
            passes: 1,
            pasts: common.behaviour.len() as u64,
            seconds: begun.elapsed().as_secs_f64(),
            ..Stats::default()
        },
    })
}

/// Takes the moves of `schedule`, then always the first enabled move.
pub(crate) fn replay(config: &Config, builder: Builder<'_>, schedule: &Schedule) -> Result<Report, SimError> {
    let begun = Instant::now();
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, SeenAccesses::default());
    let mut at = walker.start()?;
    walker.wake_threads(&mut at)?;
    let mut script = Script::new(config, schedule);
    let mut cut_off = false;
    let failure = loop {
        if let Some(failure) = failure_of_thread(&walker, &at) {
            break Some(failure);
        }
        let Some(what) = script.next(&mut walker, &mut at)? else {
            break end_of(&mut walker, &at)?;
        };
        if at.schedule.len() > config.steps_max {
            cut_off = true;
            break failure_of_length(&mut walker, &at, true);
        }
        conditions::take(&mut walker, &mut at, what)?;
    };
    let completeness = match (&failure, cut_off) {
        (Some(_), _) => Completeness::Stopped,
        (None, false) => Completeness::Replayed,
        (None, true) => {
            let why = format!("the execution was cut off after {} steps", config.steps_max);
            Completeness::Incomplete(why)
        }
    };
    Ok(Report {
        fabric: config.fabric,
        tier: config.tier,
        faults: config.faults,
        completeness,
        failure,
        estimate: None,
        stats: Stats {
            executions: 1,
            transitions: at.schedule.len() as u64,
            depth_max: at.schedule.len() as u64,
            runs: walker.runs,
            passes: 1,
            seconds: begun.elapsed().as_secs_f64(),
            ..Stats::default()
        },
    })
}
