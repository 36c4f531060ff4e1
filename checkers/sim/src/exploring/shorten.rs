//! Makes a failing schedule short, and describes what happens in it.
//!
//! Every prefix that fails is a complete schedule: [`crate::replay`] goes on with the first move that is
//! enabled. The search therefore removes groups of moves that the failure does not need, one group after
//! another. It also puts groups of one thread or queue pair together, as long as the failure stays the same
//! one.

use std::mem::discriminant;
use std::time::{Duration, Instant};

use crate::exploring::conditions;
use crate::exploring::system::{end_of, failure_of_length, failure_of_thread};
use crate::exploring::walk::{Builder, Position, Walker};
use crate::reports::Failure;
use crate::reports::schedule::Schedule;
use crate::reports::trace::Tracer;
use crate::state::sharing::SeenAccesses;
use crate::state::{Common, Move};
use crate::{Config, SimError};

/// Time that shortening may take.
const TIME_MAX: Duration = Duration::from_secs(5);

/// Returns the failure of an exploration that began at this instant with its trace, and with a shorter schedule if there is one.
/// Takes the rest of the exploration's time, or a tenth of it where less is left.
pub(crate) fn shorten(
    config: &Config,
    builder: Builder<'_>,
    failure: Failure,
    begun: Instant,
) -> Result<Failure, SimError> {
    let moves = failure.schedule.moves().to_vec();
    let left = config
        .time_max
        .map(|max| max.saturating_sub(begun.elapsed()).max(max / 10));
    let time_max = left.map_or(TIME_MAX, |left| left.min(TIME_MAX));
    search(config, builder, failure, moves, time_max)
}

/// Returns the failure with its trace, and with the schedule that led to it.
pub(crate) fn explain(
    config: &Config,
    builder: Builder<'_>,
    failure: Failure,
    schedule: &Schedule,
) -> Result<Failure, SimError> {
    let moves = schedule.moves().to_vec();
    search(config, builder, failure, moves, Duration::ZERO)
}

fn search(
    config: &Config,
    builder: Builder<'_>,
    failure: Failure,
    mut best: Vec<Move>,
    time_max: Duration,
) -> Result<Failure, SimError> {
    let common = Common::default();
    let mut walker = Walker::new(&common, config, builder, SeenAccesses::default());
    let mut start = walker.start()?;
    walker.wake_threads(&mut start)?;
    let mut trials = Trials {
        walker,
        start,
        wanted: &failure,
        begun: Instant::now(),
        time_max,
    };
    if trials.run(&best, None, false)?.is_none() {
        // The failure could not be repeated: report it as it was found.
        return Ok(failure);
    }
    loop {
        let before = best.len();
        trials.cut(&mut best)?;
        trials.join(&mut best)?;
        if best.len() >= before || trials.is_late() {
            break;
        }
    }
    let mut tracer = Tracer::default();
    let Some((mut short, taken)) = trials.run(&best, Some(&mut tracer), false)? else {
        return Ok(failure);
    };
    short.schedule = Schedule::new(config.fabric, config.tier, taken);
    short.outstanding = tracer.outstanding();
    short.trace = tracer.steps;
    Ok(short)
}

/// Repetitions of the failing execution with other schedules.
struct Trials<'a> {
    walker: Walker<'a>,
    start: Position,
    wanted: &'a Failure,
    begun: Instant,
    time_max: Duration,
}

impl Trials<'_> {
    fn is_late(&self) -> bool {
        self.begun.elapsed() >= self.time_max
    }

    /// Leaves moves out: first what comes after the point of no return, then ever smaller pieces.
    fn cut(&mut self, best: &mut Vec<Move>) -> Result<(), SimError> {
        let mut piece = best.len().div_ceil(2).max(1);
        loop {
            let mut end = best.len();
            while end > 0 && !self.is_late() {
                let begin = end.saturating_sub(piece);
                let mut shorter = best.clone();
                shorter.drain(begin..end);
                self.improve(best, &shorter)?;
                end = begin.min(best.len());
            }
            if piece == 1 || self.is_late() {
                return Ok(());
            }
            piece = piece.div_ceil(2);
        }
    }

    /// Puts equal moves side by side.
    fn join(&mut self, best: &mut Vec<Move>) -> Result<(), SimError> {
        let mut at = 0;
        while at < best.len() && !self.is_late() {
            let what = best[at];
            let run = best[at..].iter().take_while(|&&m| m == what).count();
            let next = best[at + run..].iter().position(|&m| m == what);
            if let Some(next) = next {
                let from = at + run + next;
                let count = best[from..].iter().take_while(|&&m| m == what).count();
                let mut joined = best.clone();
                let moved: Vec<Move> = joined.drain(from..from + count).collect();
                joined.splice(at + run..at + run, moved);
                self.improve(best, &joined)?;
            }
            at += run;
        }
        Ok(())
    }

    /// Takes `other` if it fails in the same way and is printed shorter.
    fn improve(&mut self, best: &mut Vec<Move>, other: &[Move]) -> Result<(), SimError> {
        if let Some((_, taken)) = self.run(other, None, true)?
            && (groups(&taken), taken.len()) < (groups(best), best.len())
        {
            *best = taken;
        }
        Ok(())
    }

    /// Runs the moves. Returns the failure that they lead to, if it is the wanted one, and those of the moves
    /// that were possible. A run that `gives_up` ends without one when the time is over: it may take far more moves than the
    /// execution that failed.
    fn run(
        &mut self,
        moves: &[Move],
        mut tracer: Option<&mut Tracer>,
        gives_up: bool,
    ) -> Result<Option<(Failure, Vec<Move>)>, SimError> {
        let mut at = self.start.clone();
        let _traces = tracer.is_some().then(|| self.walker.traces());
        let mut enabled = Vec::new();
        let mut taken = Vec::new();
        let mut wanted = moves.iter();
        let failure = loop {
            if gives_up && self.is_late() {
                return Ok(None);
            }
            if let Some(failure) = failure_of_thread(&self.walker, &at) {
                break Some(failure);
            }
            self.walker.moves(&mut at.state, &mut enabled);
            let next = wanted.find(|m| enabled.contains(m)).copied();
            taken.extend(next);
            let must = |what: &&Move| !what.is_optional(&at.state);
            let Some(what) = next.or_else(|| enabled.first().filter(must).copied()) else {
                break end_of(&mut self.walker, &at)?;
            };
            if at.schedule.len() > self.walker.config.steps_max {
                break failure_of_length(&mut self.walker, &at, tracer.is_some());
            }
            if let Some(tracer) = &mut tracer {
                tracer.place = self.walker.place_of(&mut at, what)?;
                tracer.see(self.walker.common, &mut at.state, what);
            }
            conditions::take(&mut self.walker, &mut at, what)?;
        };
        let same = failure.filter(|f| discriminant(&f.kind) == discriminant(&self.wanted.kind));
        Ok(same.map(|f| (f, taken)))
    }
}

/// Words of the printed schedule.
fn groups(moves: &[Move]) -> usize {
    moves.chunk_by(|a, b| a == b).count()
}
