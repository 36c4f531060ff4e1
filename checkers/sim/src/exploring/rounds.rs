//! Random executions of several kinds in turn, for a time: for programs, whose executions are too long to explore.
//!
//! Relies on the random exploration and on the shortening of failures. Each round is an exploration of its own: an exploration keeps
//! what every thread has done after every past, and random executions of programs hardly ever have a past in common. Used by the
//! crate's users.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use explorer::Choice;

use crate::exploring::walk::Builder;
use crate::exploring::{random, shorten};
use crate::{Completeness, Config, FabricKind, Report, SimError, World};

/// The most time of a round, which is less where the time does not last for all. What an exploration keeps grows with its time.
const ROUND_MAX: Duration = Duration::from_secs(2);

/// The ways of choosing moves, in turn. With uniform choices all things come late alike. With priorities few things come very
/// late; greater depths let more of them.
const KINDS: [Choice; 4] = [
    Choice::Priorities(3),
    Choice::Uniform,
    Choice::Priorities(10),
    Choice::Priorities(30),
];
/// The distance between the seeds of two rounds, which keeps the seeds of their executions apart.
const SEEDS_APART: u64 = 0x9e37_79b9_7f4a_7c15;

/// Explores random executions of the world that `builder` builds, until one fails or `time` is over. Uniform choices and priorities
/// of several depths take turns, on each of `fabrics` in turn. `seed` and the speed of the host decide which executions these are; a
/// failure is repeated by its schedule. [`Config::strategy`], [`Config::fabric`] and [`Config::time_max`] have no effect.
///
/// Counters are those of all rounds. The report is of the fabric of the failure, or of the last round.
///
/// # Errors
/// Returns the errors of [`explore`](crate::explore).
pub fn rounds(
    config: &Config,
    fabrics: &[FabricKind],
    time: Duration,
    seed: u64,
    builder: impl Fn(&mut World) + Sync,
) -> Result<Report, SimError> {
    run(config, fabrics, time, seed, &builder)
}

fn run(
    config: &Config,
    fabrics: &[FabricKind],
    time: Duration,
    seed: u64,
    builder: Builder<'_>,
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let own = [config.fabric];
    let fabrics = if fabrics.is_empty() { &own } else { fabrics };
    let turns_each = u32::try_from(KINDS.len() * fabrics.len()).unwrap_or(u32::MAX);
    let round_max = (time / turns_each).min(ROUND_MAX);
    let mut turns = KINDS
        .iter()
        .flat_map(|&kind| fabrics.iter().map(move |&fabric| (kind, fabric)))
        .cycle();
    let mut all = None;
    for round in 0_u64.. {
        let Some((kind, fabric)) = turns.next() else { break };
        let config = Config {
            fabric,
            time_max: Some(time.saturating_sub(begun.elapsed()).min(round_max)),
            ..config.clone()
        }
        .as_the_fabric_has_it();
        let seed = seed.wrapping_add(round.wrapping_mul(SEEDS_APART));
        let mut report = random::explore(&config, builder, kind, u64::MAX, seed)?;
        if let Some(failure) = report.failure {
            // A round is too short to make a schedule shorter that is as long as a program's.
            let patient = Config {
                time_max: None,
                ..config.clone()
            };
            report.failure = Some(shorten::shorten(&patient, builder, failure, Instant::now())?);
        }
        // Relaxed: the flag publishes no other data.
        let cancelled = config
            .cancel
            .as_ref()
            .is_some_and(|cancel| cancel.load(Ordering::Relaxed));
        let is_over = cancelled || report.failure.is_some() || begun.elapsed() >= time;
        let sum = add(report, all.take(), begun);
        if is_over {
            return Ok(sum);
        }
        all = Some(sum);
    }
    Err(SimError::Host("no round was made".to_owned()))
}

/// Adds what earlier rounds have seen to the report of a round.
fn add(mut report: Report, before: Option<Report>, begun: Instant) -> Report {
    report.stats.seconds = begun.elapsed().as_secs_f64();
    let Some(before) = before else { return report };
    let (own, earlier) = (report.stats.executions, before.stats.executions);
    let stats = &mut report.stats;
    stats.executions += earlier;
    stats.transitions += before.stats.transitions;
    stats.depth_max = stats.depth_max.max(before.stats.depth_max);
    stats.runs += before.stats.runs;
    stats.passes += before.stats.passes;
    let none = stats.executions == 0;
    report.completeness = match (report.completeness, before.completeness) {
        (Completeness::Stopped, _) => Completeness::Stopped,
        // What a round has left open stays open. A round that has ended no execution was only too short.
        (open @ Completeness::Incomplete(_), _) if own > 0 || none => open,
        (_, open @ Completeness::Incomplete(_)) if earlier > 0 || none => open,
        _ => Completeness::Random(stats.executions),
    };
    report
}
