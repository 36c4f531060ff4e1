//! Exhaustive exploration: depth first over states, each visited once, by several workers.
//!
//! A state is visited when the 128-bit hash of its exact encoding has been seen: two different states with one hash would lose
//! one of them, with a probability below 1e-20 for a billion states.
//!
//! A thread whose condition did not hold is parked, which changes nothing: the state does what it could do before, but for
//! the evaluation that failed. So a state with such threads is left out if the one in which they are about to
//! evaluate has been visited, unless all that was explored there were failed evaluations: then one of them is
//! followed, or nothing would be.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Instant;

use rustc_hash::FxHashSet;
use xxhash_rust::xxh3::xxh3_128;

use crate::exploring::bounds::{Bounds, Spent};
use crate::exploring::persistent;
use crate::exploring::progress::Progress;
use crate::exploring::sharing::Seen;
use crate::exploring::walk::{Builder, Position, Walker};
use crate::reports::{Completeness, Failure, FailureKind, Report, Stats};
use crate::state::faults::Fault;
use crate::state::{Common, Move, lock};
use crate::{Config, SimError};

/// Shards of the visited set: more than workers, so that they seldom meet.
const SHARDS: usize = 64;

/// Explores every behaviour of the world, or with bounds every one within them.
pub(crate) fn exhaustive(
    config: &Config,
    builder: Builder<'_>,
    bounds: Option<Bounds>,
) -> Result<Report, SimError> {
    let begun = Instant::now();
    let common = Common::default();
    let mut seen = Seen::default();
    let mut total = Stats::default();
    // What a pass learns of conflicts and words holds for the next; the last pass learns nothing.
    loop {
        total.passes += 1;
        seen.fresh = false;
        let words = common.words.len();
        let pass = Pass::new(config, &common, builder, bounds, (total.passes, begun));
        let outcome = pass.run(&mut seen)?;
        total.add(&outcome.stats);
        let grown = seen.fresh || common.words.len() != words;
        let stopped = !matches!(
            outcome.completeness,
            Completeness::Complete | Completeness::UpTo(_)
        );
        if outcome.failure.is_some() || stopped || !grown {
            total.states = outcome.stats.states;
            total.executions = outcome.stats.executions;
            total.pasts = common.behaviour.len() as u64;
            total.seconds = begun.elapsed().as_secs_f64();
            return Ok(Report {
                faults: config.faults,
                completeness: outcome.completeness,
                failure: outcome.failure,
                stats: total,
            });
        }
    }
}

struct Outcome {
    completeness: Completeness,
    failure: Option<Failure>,
    stats: Stats,
}

/// One search of the state space.
struct Pass<'a> {
    config: &'a Config,
    common: &'a Common,
    builder: Builder<'a>,
    bounds: Option<Bounds>,
    /// Which pass this is, and when the first began.
    number: u64,
    begun: Instant,
    visited: Vec<Mutex<FxHashSet<u128>>>,
    work: Mutex<Work>,
    changed: Condvar,
    stop: AtomicBool,
    hungry: AtomicBool,
    states: AtomicU64,
    executions: AtomicU64,
    /// Moves were left out because of the bounds.
    cut: AtomicBool,
    /// Share of the search tree that is closed.
    closed: Mutex<f64>,
    found: Mutex<Option<(Failure, Completeness)>>,
}

#[derive(Default)]
struct Work {
    queue: VecDeque<Position>,
    busy: usize,
    begun: bool,
}

/// A worker at work. However it ends, others must not wait for it.
struct Busy<'p, 'a>(&'p Pass<'a>);

impl Drop for Busy<'_, '_> {
    fn drop(&mut self) {
        lock(&self.0.work).busy -= 1;
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::SeqCst);
        }
        self.0.changed.notify_all();
    }
}

/// A state with moves still to be taken.
struct Frame {
    /// Nothing once the last move has it.
    at: Option<Position>,
    /// With what a bounded search has spent after each.
    moves: Vec<(Move, Spent)>,
    /// What each move gets of this state's share of the tree.
    share: f64,
    /// Something else than a failed evaluation has been explored from here.
    progressed: bool,
}

/// What became of a position.
#[allow(clippy::large_enum_variant)] // Moved once, into the caller's list of frames.
enum Entered {
    /// It has choices.
    Frame(Frame),
    /// It differs from a visited one by failed evaluations only.
    Stutters,
    /// Visited before, or an end.
    Closed,
}

/// What was found at a position.
enum Visit {
    /// These moves, each with what a bounded search has spent after it.
    Choices(Vec<(Move, Spent)>),
    /// It differs from a visited one by failed evaluations only.
    Stutters,
    /// Visited before, or an end.
    Closed,
}

impl<'a> Pass<'a> {
    fn new(
        config: &'a Config,
        common: &'a Common,
        builder: Builder<'a>,
        bounds: Option<Bounds>,
        (number, begun): (u64, Instant),
    ) -> Self {
        Pass {
            config,
            common,
            builder,
            bounds,
            number,
            begun,
            visited: (0..SHARDS).map(|_| Mutex::default()).collect(),
            work: Mutex::default(),
            changed: Condvar::new(),
            stop: AtomicBool::new(false),
            hungry: AtomicBool::new(false),
            states: AtomicU64::new(0),
            executions: AtomicU64::new(0),
            cut: AtomicBool::new(false),
            closed: Mutex::new(0.0),
            found: Mutex::default(),
        }
    }

    fn run(&self, seen: &mut Seen) -> Result<Outcome, SimError> {
        let workers = self.config.workers.max(1);
        let known = seen.clone();
        let results: Vec<Result<(Seen, Stats), SimError>> = std::thread::scope(|scope| {
            let handles: Vec<_> = (0..workers)
                .map(|index| {
                    let known = known.clone();
                    scope.spawn(move || {
                        let result = self.worker(index, known);
                        if result.is_err() {
                            self.stop();
                        }
                        result
                    })
                })
                .collect();
            handles
                .into_iter()
                .map(|h| {
                    h.join()
                        .unwrap_or_else(|_| Err(SimError::Host("an explorer panicked".into())))
                })
                .collect()
        });
        let mut stats = Stats::default();
        for result in results {
            let (learned, part) = result?;
            seen.merge(&learned);
            stats.add(&part);
        }
        stats.states = self.states.load(Ordering::SeqCst);
        let found = lock(&self.found).take();
        let (failure, completeness) = match found {
            Some((failure, completeness)) => (Some(failure).filter(|f| !f.is_limit()), completeness),
            None => match self.bounds.filter(|_| self.cut.load(Ordering::SeqCst)) {
                Some(bounds) => (None, Completeness::UpTo(bounds)),
                // Nothing had to be left out.
                None => (None, Completeness::Complete),
            },
        };
        Ok(Outcome {
            completeness,
            failure,
            stats,
        })
    }

    fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn worker(&self, index: usize, seen: Seen) -> Result<(Seen, Stats), SimError> {
        let mut walker = Walker::new(self.common, self.config, self.builder, seen);
        let mut stats = Stats::default();
        if index == 0 {
            let start = walker.start()?;
            let mut work = lock(&self.work);
            work.queue.push_back(start);
            work.begun = true;
            self.changed.notify_all();
        }
        while let Some(position) = self.next_position() {
            let _busy = Busy(self);
            self.explore(&mut walker, &mut stats, position)?;
        }
        stats.runs = walker.runs;
        Ok((walker.seen, stats))
    }

    fn next_position(&self) -> Option<Position> {
        let mut work = lock(&self.work);
        loop {
            if self.stop.load(Ordering::SeqCst) {
                return None;
            }
            if let Some(position) = work.queue.pop_front() {
                work.busy += 1;
                self.hungry.store(false, Ordering::SeqCst);
                return Some(position);
            }
            if work.begun && work.busy == 0 {
                return None;
            }
            self.hungry.store(true, Ordering::SeqCst);
            work = self.changed.wait(work).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Depth first from `position`.
    fn explore(
        &self,
        walker: &mut Walker<'_>,
        stats: &mut Stats,
        position: Position,
    ) -> Result<(), SimError> {
        let mut frames = Vec::new();
        if let Entered::Frame(frame) = self.enter(walker, stats, position, false)? {
            frames.push(frame);
        }
        while let Some(frame) = frames.last_mut() {
            if self.stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            let Some((what, spent)) = frame.moves.pop() else {
                frames.pop();
                continue;
            };
            // The last chance to get anywhere from here.
            let must_follow = frame.moves.is_empty() && !frame.progressed;
            // The last move needs no copy: most states are left with one after the reduction.
            let next = match &frame.at {
                Some(at) if !frame.moves.is_empty() => Some(walker.copy(at)),
                _ => frame.at.take(),
            };
            let Some(mut next) = next else { continue };
            next.spent = spent;
            next.share = frame.share;
            if !walker.take(&mut next, what)? {
                continue;
            }
            stats.transitions += 1;
            if walker.seen.fresh {
                // What was skipped so far may have been wrong: begin again with what is known now.
                self.stop();
                return Ok(());
            }
            // Relaxed: whoever is hungry goes on asking.
            if self.hungry.load(Ordering::Relaxed) && frame.moves.len() > 1 {
                frame.progressed = true;
                lock(&self.work).queue.push_back(next);
                self.changed.notify_one();
                continue;
            }
            match self.enter(walker, stats, next, !must_follow)? {
                Entered::Frame(deeper) => {
                    frame.progressed = true;
                    frames.push(deeper);
                }
                Entered::Closed => frame.progressed = true,
                Entered::Stutters => {}
            }
        }
        Ok(())
    }

    /// Runs on to a state with a choice; a frame if nobody has been there.
    fn enter(
        &self,
        walker: &mut Walker<'_>,
        stats: &mut Stats,
        mut at: Position,
        may_stutter: bool,
    ) -> Result<Entered, SimError> {
        let visit = self.visit(walker, stats, &mut at, may_stutter)?;
        if let Visit::Choices(moves) = visit {
            let share = at.share / moves.len() as f64;
            return Ok(Entered::Frame(Frame {
                at: Some(at),
                moves,
                share,
                progressed: false,
            }));
        }
        *lock(&self.closed) += at.share;
        walker.retire(at);
        Ok(match visit {
            Visit::Stutters => Entered::Stutters,
            _ => Entered::Closed,
        })
    }

    fn visit(
        &self,
        walker: &mut Walker<'_>,
        stats: &mut Stats,
        at: &mut Position,
        may_stutter: bool,
    ) -> Result<Visit, SimError> {
        let mut moves = std::mem::take(&mut walker.enabled);
        let visit = self.visit_with(walker, stats, at, may_stutter, &mut moves);
        walker.enabled = moves;
        visit
    }

    fn visit_with(
        &self,
        walker: &mut Walker<'_>,
        stats: &mut Stats,
        at: &mut Position,
        may_stutter: bool,
        moves: &mut Vec<Move>,
    ) -> Result<Visit, SimError> {
        walker.settle(at)?;
        loop {
            if let Some((thread, message)) = walker.failed(&at.state) {
                self.fail(walker, at, FailureKind::Assertion { thread, message });
                return Ok(Visit::Closed);
            }
            if at.schedule.len() > self.config.steps_max {
                self.limit(Completeness::Incomplete(format!(
                    "an execution has more than {} steps",
                    self.config.steps_max
                )));
                return Ok(Visit::Closed);
            }
            let Some(what) = walker.commuting(&mut at.state, moves) else {
                break;
            };
            walker.take(at, what)?;
            stats.transitions += 1;
        }
        stats.depth_max = stats.depth_max.max(at.schedule.len() as u64);
        let bytes = &mut walker.bytes;
        bytes.clear();
        at.state.encode(bytes, false);
        if let Some(bounds) = self.bounds {
            at.spent.encode(bounds, bytes);
        }
        let hash = xxh3_128(bytes);
        // Only a parked thread's deadline can pass, not that of one which is about to evaluate.
        let expires = |what: &Move| matches!(what, Move::Fault(Fault::Expire(_) | Fault::Idle(_)));
        let may_stutter = may_stutter && self.bounds.is_none() && !moves.iter().any(expires);
        if may_stutter && !moves.is_empty() && at.state.stutters() {
            bytes.clear();
            at.state.encode(bytes, true);
            if self.is_visited(xxh3_128(bytes)) {
                return Ok(Visit::Stutters);
            }
        }
        if !lock(self.shard(hash)).insert(hash) {
            return Ok(Visit::Closed);
        }
        let states = self.states.fetch_add(1, Ordering::SeqCst) + 1;
        if states.is_multiple_of(1024) {
            self.check_limits(states);
        }
        // What is left need not happen: an execution may end here.
        if moves.iter().all(|what| what.is_optional(&at.state)) {
            stats.executions += 1;
            self.executions.fetch_add(1, Ordering::SeqCst);
            let stuck = at.state.is_unfinished();
            if stuck {
                self.fail(walker, at, FailureKind::Deadlock);
            } else if let Some(message) = walker.check_end(&at.state)? {
                self.fail(walker, at, FailureKind::End { message });
            }
            if moves.is_empty() || self.stop.load(Ordering::SeqCst) {
                return Ok(Visit::Closed);
            }
        }
        let mut priced = Vec::with_capacity(moves.len());
        match self.bounds {
            None => {
                persistent::reduce(walker, &mut at.state, moves);
                priced.extend(moves.iter().map(|&m| (m, Spent::default())));
            }
            Some(bounds) => {
                if at.spent.within(bounds, moves, &mut priced) {
                    self.cut.store(true, Ordering::SeqCst);
                }
            }
        }
        // Taken from the end: threads, which are first, last, so that NICs go ahead and weak outcomes come early or late
        // but surely.
        at.state.machine.forget_idle();
        Ok(Visit::Choices(priced))
    }

    fn shard(&self, hash: u128) -> &Mutex<FxHashSet<u128>> {
        &self.visited[(hash >> 64) as usize % SHARDS]
    }

    fn is_visited(&self, hash: u128) -> bool {
        lock(self.shard(hash)).contains(&hash)
    }

    fn check_limits(&self, states: u64) {
        if self.config.states_max.is_some_and(|max| states >= max) {
            self.limit(Completeness::Incomplete(format!(
                "limit of {states} states reached"
            )));
        }
        if self
            .config
            .time_max
            .is_some_and(|max| self.begun.elapsed() >= max)
        {
            self.limit(Completeness::Incomplete("time limit reached".into()));
        }
        if self.config.is_cancelled() {
            self.limit(Completeness::Incomplete("interrupted".into()));
        }
        if let Some(progress) = self.config.progress {
            progress(&Progress {
                pass: self.number,
                states,
                executions: self.executions.load(Ordering::SeqCst),
                done: lock(&self.closed).min(1.0),
                elapsed: self.begun.elapsed(),
            });
        }
    }

    fn limit(&self, why: Completeness) {
        lock(&self.found).get_or_insert((Failure::limit(), why));
        self.stop();
    }

    fn fail(&self, walker: &Walker<'_>, at: &Position, kind: FailureKind) {
        let failure = Failure::new(walker.common, at, kind);
        lock(&self.found).get_or_insert((failure, Completeness::Stopped));
        self.stop();
    }
}
