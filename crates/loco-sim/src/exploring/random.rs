//! Random exploration, uniform or by priorities, and replay of a schedule.
//!
//! Each execution is a function of the seed and its number, so the first failing one is the same with any number of
//! workers.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use rustc_hash::FxHashMap;

use crate::exploring::bounds::Mover;
use crate::exploring::progress::Progress;
use crate::exploring::sharing::Seen;
use crate::exploring::walk::{Builder, Position, Walker};
use crate::reports::schedule::Schedule;
use crate::reports::{Completeness, Failure, FailureKind, Report, Stats};
use crate::state::{Common, Move};
use crate::{Config, Faults, SimError};

/// How moves are chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Choice {
    /// Each enabled move alike.
    Uniform,
    /// PCT with this depth.
    Priorities(u32),
}

/// Runs `count` executions with random moves.
pub(crate) fn explore(
    config: &Config,
    builder: Builder<'_>,
    choice: Choice,
    count: u64,
    seed: u64,
) -> Result<Report, SimError> {
    let job = Job {
        common: &Common::default(),
        config,
        builder,
        choice,
        count,
        seed,
        begun: Instant::now(),
        next: AtomicU64::new(0),
        late: AtomicBool::new(false),
        cut_off: AtomicU64::new(0),
        found: Mutex::new(None),
    };
    job.run()
}

/// What the workers share.
struct Job<'a> {
    common: &'a Common,
    config: &'a Config,
    builder: Builder<'a>,
    choice: Choice,
    count: u64,
    seed: u64,
    begun: Instant,
    /// Number of the next execution.
    next: AtomicU64,
    late: AtomicBool,
    /// Executions that had more steps than are allowed: nobody knows how they end.
    cut_off: AtomicU64,
    /// The failing execution with the smallest number.
    found: Mutex<Option<(u64, Failure)>>,
}

impl Job<'_> {
    fn run(&self) -> Result<Report, SimError> {
        let workers = (self.config.workers.max(1) as u64).min(self.count.max(1));
        let results: Vec<Result<Stats, SimError>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers).map(|_| scope.spawn(|| self.worker())).collect();
            handles
                .into_iter()
                .map(|h| {
                    h.join()
                        .unwrap_or_else(|_| Err(SimError::Host("an explorer panicked".into())))
                })
                .collect()
        });
        let mut stats = Stats {
            passes: 1,
            ..Stats::default()
        };
        for result in results {
            stats.add(&result?);
        }
        stats.pasts = self.common.behaviour.len() as u64;
        stats.seconds = self.begun.elapsed().as_secs_f64();
        let failure = held(&self.found).take().map(|(_, failure)| failure);
        Ok(Report {
            faults: self.config.faults,
            completeness: match (&failure, self.cut_off.load(Ordering::Relaxed)) {
                (Some(_), _) => Completeness::Stopped,
                (None, 0) => Completeness::Random(stats.executions),
                (None, cut_off) => Completeness::Incomplete(format!(
                    "{cut_off} of {} random schedules were cut off after {} steps",
                    stats.executions, self.config.steps_max
                )),
            },
            failure,
            stats,
        })
    }

    fn worker(&self) -> Result<Stats, SimError> {
        let result = self.executions();
        if result.is_err() {
            self.late.store(true, Ordering::SeqCst);
        }
        result
    }

    fn executions(&self) -> Result<Stats, SimError> {
        let mut walker = Walker::new(self.common, self.config, self.builder, Seen::default());
        let mut stats = Stats::default();
        let start = walker.start()?;
        // How long executions are, for where priorities change and faults happen.
        let mut rng = SmallRng::seed_from_u64(self.seed);
        let mut length = Stats::default();
        let faults = self.config.faults;
        if faults != Faults::default() || matches!(self.choice, Choice::Priorities(_)) {
            let any = |_: usize, moves: &[Move]| rng.random_range(0..moves.len());
            walk(&mut walker, &mut length, start.clone(), any, |_, _| None)?;
        }
        let length = length.depth_max.max(1) as usize;
        loop {
            let number = self.next.fetch_add(1, Ordering::SeqCst);
            let passed = held(&self.found)
                .as_ref()
                .is_some_and(|(first, _)| *first < number);
            if number >= self.count || passed || self.late.load(Ordering::SeqCst) {
                break;
            }
            let mut rng = SmallRng::seed_from_u64(self.seed.wrapping_add(number));
            let mut plan = FaultPlan::new(&mut rng, faults, length);
            let plan = |step: usize, optional: &[Move]| plan.choose(step, optional);
            let start = start.clone();
            let outcome = match self.choice {
                Choice::Uniform => {
                    let any = |_: usize, moves: &[Move]| rng.random_range(0..moves.len());
                    walk(&mut walker, &mut stats, start, any, plan)
                }
                Choice::Priorities(depth) => {
                    let mut priorities = Priorities::new(rng, depth, length);
                    let highest = |step: usize, moves: &[Move]| priorities.choose(step, moves);
                    walk(&mut walker, &mut stats, start, highest, plan)
                }
            }?;
            stats.executions += 1;
            if let Outcome::CutOff = outcome {
                // Relaxed: only counted, and read when all workers have ended.
                self.cut_off.fetch_add(1, Ordering::Relaxed);
            }
            if let Outcome::Failed(failure) = outcome {
                let mut found = held(&self.found);
                if found.as_ref().is_none_or(|(first, _)| number < *first) {
                    *found = Some((number, failure));
                }
            }
            if self
                .config
                .time_max
                .is_some_and(|max| self.begun.elapsed() >= max)
            {
                self.late.store(true, Ordering::SeqCst);
            }
            if self.config.is_cancelled() {
                self.late.store(true, Ordering::SeqCst);
            }
            if let Some(progress) = self.config.progress.filter(|_| number.is_multiple_of(256)) {
                progress(&Progress {
                    pass: 1,
                    states: 0,
                    executions: number,
                    done: number as f64 / self.count as f64,
                    elapsed: self.begun.elapsed(),
                });
            }
        }
        stats.runs = walker.runs;
        Ok(stats)
    }
}

/// A mutex whose poisoning says nothing: the worker that panicked is reported.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Probabilistic concurrency testing (Burckhardt et al., ASPLOS 2010): always the mover of highest priority, which at
/// `depth - 1` random points falls below all others. Store buffers and queue pairs have priorities like threads.
struct Priorities {
    rng: SmallRng,
    of: FxHashMap<Mover, u64>,
    /// Steps at which the highest falls, ascending, and how many have passed.
    changes: Vec<usize>,
    passed: usize,
}

impl Priorities {
    fn new(mut rng: SmallRng, depth: u32, length: usize) -> Priorities {
        let mut changes: Vec<usize> = (1..depth).map(|_| rng.random_range(0..length)).collect();
        changes.sort_unstable();
        Priorities {
            rng,
            of: FxHashMap::default(),
            changes,
            passed: 0,
        }
    }

    fn choose(&mut self, step: usize, moves: &[Move]) -> usize {
        for &what in moves {
            let rng = &mut self.rng;
            // Above all that ever fall.
            self.of
                .entry(Mover::of(what))
                .or_insert_with(|| rng.random_range(1 << 32..u64::MAX));
        }
        let mut best = self.highest(moves);
        while self.changes.get(self.passed).is_some_and(|&at| at <= step) {
            self.passed += 1;
            let low = (self.changes.len() - self.passed) as u64;
            self.of.insert(best, low);
            best = self.highest(moves);
        }
        let own: Vec<usize> = (0..moves.len())
            .filter(|&i| Mover::of(moves[i]) == best)
            .collect();
        own[self.rng.random_range(0..own.len())]
    }

    fn highest(&self, moves: &[Move]) -> Mover {
        let movers = moves.iter().map(|&what| Mover::of(what));
        let by_priority = movers.max_by_key(|m| (self.of.get(m).copied().unwrap_or(0), *m));
        by_priority.unwrap_or_default()
    }
}

/// When the faults of a random execution happen.
struct FaultPlan {
    rng: SmallRng,
    /// Steps, ascending, and how many have passed.
    at: Vec<usize>,
    passed: usize,
}

impl FaultPlan {
    /// Faults at random steps, of which some may lie beyond the end.
    fn new(rng: &mut SmallRng, faults: Faults, length: usize) -> FaultPlan {
        let count = faults.expiries + faults.crashes + faults.suspicions;
        let range = 0..length + length / 2 + 1;
        let mut at: Vec<usize> = (0..count).map(|_| rng.random_range(range.clone())).collect();
        at.sort_unstable();
        FaultPlan {
            rng: SmallRng::from_rng(rng),
            at,
            passed: 0,
        }
    }

    fn choose(&mut self, step: usize, optional: &[Move]) -> Option<usize> {
        let due = self.at.get(self.passed).is_some_and(|&at| at <= step);
        if !due || optional.is_empty() {
            return None;
        }
        self.passed += 1;
        Some(self.rng.random_range(0..optional.len()))
    }
}

/// How an execution ended.
enum Outcome {
    Passed,
    Failed(Failure),
    /// It had more steps than are allowed.
    CutOff,
}

/// One execution. `choose` picks among the moves at a step, of which one must happen sooner or later; `faults` whether
/// one of the optional moves comes first.
fn walk(
    walker: &mut Walker<'_>,
    stats: &mut Stats,
    mut at: Position,
    mut choose: impl FnMut(usize, &[Move]) -> usize,
    mut faults: impl FnMut(usize, &[Move]) -> Option<usize>,
) -> Result<Outcome, SimError> {
    let mut moves = Vec::new();
    walker.settle(&mut at)?;
    let mut steps = 0;
    loop {
        if let Some(failure) = failure_of_thread(walker, &at) {
            return Ok(Outcome::Failed(failure));
        }
        walker.moves(&mut at.state, &mut moves);
        stats.depth_max = stats.depth_max.max(at.schedule.len() as u64);
        // Optional moves come last.
        let must = moves.partition_point(|what| !what.is_optional(&at.state));
        let optional = faults(steps, &moves[must..]).map(|index| moves[must + index]);
        if must == 0 && optional.is_none() {
            return Ok(match end_of(walker, &at)? {
                Some(failure) => Outcome::Failed(failure),
                None => Outcome::Passed,
            });
        }
        if at.schedule.len() > walker.config.steps_max {
            return Ok(Outcome::CutOff);
        }
        let what = optional.unwrap_or_else(|| moves[choose(steps, &moves[..must])]);
        walker.take(&mut at, what)?;
        steps += 1;
        stats.transitions += 1;
    }
}

/// The assertion that has failed in a thread, if one has.
pub(crate) fn failure_of_thread(walker: &Walker<'_>, at: &Position) -> Option<Failure> {
    let (thread, message) = walker.failed(&at.state)?;
    let kind = FailureKind::Assertion { thread, message };
    Some(Failure::new(walker.common, at, kind))
}

/// The failure at the end of an execution, if any.
pub(crate) fn end_of(walker: &mut Walker<'_>, at: &Position) -> Result<Option<Failure>, SimError> {
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
    let mut enabled = Vec::new();
    for (number, &what) in schedule.moves().iter().enumerate() {
        walker.moves(&mut at.state, &mut enabled);
        if !enabled.contains(&what) || !walker.take(&mut at, what)? {
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
    let outcome = walk(&mut walker, &mut stats, at, |_, _| 0, |_, _| None)?;
    stats.runs = walker.runs;
    stats.seconds = begun.elapsed().as_secs_f64();
    let (completeness, failure) = match outcome {
        Outcome::Failed(failure) => (Completeness::Stopped, Some(failure)),
        Outcome::Passed => (Completeness::Random(1), None),
        Outcome::CutOff => {
            let why = format!("the execution was cut off after {} steps", config.steps_max);
            (Completeness::Incomplete(why), None)
        }
    };
    Ok(Report {
        faults: config.faults,
        completeness,
        failure,
        stats,
    })
}
