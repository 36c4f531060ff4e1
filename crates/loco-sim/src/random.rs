//! Random exploration: uniform choices among all enabled moves, and replay of a schedule.

use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::report::{Completeness, Failure, FailureKind, Report, Stats};
use crate::schedule::Schedule;
use crate::sharing::Seen;
use crate::state::Common;
use crate::walk::{Builder, Position, Walker};
use crate::{Config, SimError};

/// Runs `count` executions with uniformly chosen moves.
pub(crate) fn uniform(
    config: &Config,
    builder: Builder<'_>,
    count: u64,
    seed: u64,
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, Seen::default());
    let mut stats = Stats {
        passes: 1,
        ..Stats::default()
    };
    let mut rng = SmallRng::seed_from_u64(seed);
    let mut failure = None;
    let mut completeness = Completeness::Random(count);
    let start = walker.start()?;
    for number in 0..count {
        failure = walk(&mut walker, &mut stats, start.clone(), |choices| {
            rng.random_range(0..choices)
        })?;
        stats.executions = number + 1;
        if failure.is_some() {
            completeness = Completeness::Stopped;
            break;
        }
        if config.time_max.is_some_and(|max| begun.elapsed() >= max) {
            completeness = Completeness::Random(number + 1);
            break;
        }
    }
    stats.runs = walker.runs;
    stats.pasts = common.behaviour.len() as u64;
    stats.seconds = begun.elapsed().as_secs_f64();
    Ok(Report {
        completeness,
        failure,
        stats,
    })
}

/// One execution; `choose` picks among so many moves.
fn walk(
    walker: &mut Walker<'_>,
    stats: &mut Stats,
    mut at: Position,
    mut choose: impl FnMut(usize) -> usize,
) -> Result<Option<Failure>, SimError> {
    let mut moves = Vec::new();
    walker.settle(&mut at)?;
    loop {
        if let Some((thread, message)) = walker.failed(&at.state) {
            return Ok(Some(Failure::new(
                walker.common,
                &at,
                FailureKind::Assertion { thread, message },
            )));
        }
        walker.moves(&mut at.state, &mut moves);
        if moves.is_empty() || at.schedule.len() > walker.config.steps_max {
            break;
        }
        let what = moves[choose(moves.len())];
        walker.take(&mut at, what)?;
        stats.transitions += 1;
    }
    stats.depth_max = stats.depth_max.max(at.schedule.len() as u64);
    end_of(walker, &at)
}

/// The failure at the end of an execution, if any.
fn end_of(walker: &mut Walker<'_>, at: &Position) -> Result<Option<Failure>, SimError> {
    let stuck = at.state.is_unfinished();
    let kind = if stuck {
        FailureKind::Deadlock
    } else {
        match walker.check_end(&at.state)? {
            Some(message) => FailureKind::End { message },
            None => return Ok(None),
        }
    };
    Ok(Some(Failure::new(walker.common, at, kind)))
}

/// Takes the moves of `schedule`, then goes on with the first enabled one.
pub(crate) fn replay(config: &Config, builder: Builder<'_>, schedule: &Schedule) -> Result<Report, SimError> {
    let begun = Instant::now();
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, Seen::default());
    let mut stats = Stats {
        passes: 1,
        executions: 1,
        ..Stats::default()
    };
    let mut at = walker.start()?;
    walker.settle(&mut at)?;
    for (number, &what) in schedule.moves().iter().enumerate() {
        if !walker.take(&mut at, what)? {
            return Err(SimError::Replay {
                number,
                what: Schedule::new(vec![what]).to_string(),
            });
        }
        stats.transitions += 1;
        if walker.failed(&at.state).is_some() {
            break;
        }
    }
    let failure = walk(&mut walker, &mut stats, at, |_| 0)?;
    stats.runs = walker.runs;
    stats.seconds = begun.elapsed().as_secs_f64();
    let completeness = if failure.is_some() {
        Completeness::Stopped
    } else {
        Completeness::Random(1)
    };
    Ok(Report {
        completeness,
        failure,
        stats,
    })
}
