//! Presents a world as a system for [`explorer`]: its positions, moves and findings.
//!
//! Relies on [`crate::exploring::walk`] for taking moves and on [`crate::exploring::persistent`] for the
//! moves that suffice. Used by [`crate::exploring::search`] and [`crate::exploring::random`].

use explorer::{Flow, Mover, System};
use mowgli::machine::{Rule, Step};

use crate::SimError;
use crate::exploring::walk::{Position, Walker};
use crate::exploring::{conditions, persistent};
use crate::reports::{Failure, FailureKind};
use crate::state::faults::Fault;
use crate::state::sharing::SeenAccesses;
use crate::state::{Move, Status};

/// The number of ended executions of a worker that are all run again, to see whether threads do the same. Of the later ones
/// some are.
const REPEATED: u64 = 8;

/// A world, as one worker of an exploration sees it.
pub(crate) struct Explored<'a> {
    pub(crate) walker: Walker<'a>,
    reducer: persistent::Reducer,
    /// Set while the reduction leaves moves out. An access that was not counted on then ends the search,
    /// since the moves left out may have mattered.
    pub(crate) learns: bool,
    /// Set if states that are permutations of one another count as one.
    up_to_symmetry: bool,
    /// The moves taken, and how many of them had been taken when a conflict that was not known showed.
    moves: u64,
    fresh: Option<u64>,
    /// The executions that have ended.
    ends: u64,
    /// Names the thread that polls where an execution did not end, if one was found. `None` until that was looked for.
    polls: Option<Option<String>>,
}

/// The knowledge of a worker and the work that it has done.
pub(crate) struct Learned {
    pub(crate) seen: SeenAccesses,
    pub(crate) runs: u64,
    /// Why executions do not end, if that was found.
    pub(crate) polls: Option<String>,
}

impl<'a> Explored<'a> {
    pub(crate) fn new(walker: Walker<'a>, learns: bool) -> Self {
        Explored {
            walker,
            reducer: persistent::Reducer::default(),
            learns,
            up_to_symmetry: false,
            moves: 0,
            fresh: None,
            ends: 0,
            polls: None,
        }
    }
}

impl Explored<'_> {
    /// Takes states that are permutations of one another for one. Bounds tell them apart, since they name who has moved last.
    pub(crate) fn up_to_symmetry(self) -> Self {
        Explored {
            up_to_symmetry: true,
            ..self
        }
    }

    fn encode_state(&self, at: &Position, out: &mut Vec<u8>, awake: bool) {
        match self.up_to_symmetry {
            true => at.state.encode_up_to_symmetry(out, awake),
            false => at.state.encode(out, awake),
        }
    }
}

impl System for Explored<'_> {
    type State = Position;
    type Move = Move;
    type Finding = Box<Failure>;
    type Error = SimError;
    type Collected = Learned;

    fn start(&mut self) -> Result<Option<Position>, SimError> {
        let mut start = self.walker.start()?;
        self.walker.wake_threads(&mut start)?;
        Ok(Some(start))
    }

    fn enabled(&mut self, at: &mut Position, moves: &mut Vec<Move>) {
        self.walker.moves(&mut at.state, moves);
    }

    fn eager(&mut self, at: &mut Position, moves: &mut Vec<Move>) -> Option<Move> {
        if !self.walker.config.reduces() {
            self.enabled(at, moves);
            return None;
        }
        self.walker.commuting(at, moves)
    }

    fn reduce(&mut self, at: &mut Position, moves: &mut Vec<Move>) {
        if self.walker.config.reduces() {
            self.reducer.reduce(&self.walker, &mut at.state, moves);
        }
    }

    fn apply(&mut self, at: &mut Position, what: Move) -> Result<Flow<Box<Failure>>, SimError> {
        if !conditions::take(&mut self.walker, at, what)? {
            return Ok(Flow::Cut);
        }
        if let Move::Thread(thread) = what
            && at.state.threads[usize::from(thread)].status == Status::Failed
            && let Some(failure) = failure_of_thread(&self.walker, at)
        {
            return Ok(Flow::Found(Box::new(failure)));
        }
        if let Some(failure) = failure_of_length(&mut self.walker, at, true) {
            return Ok(Flow::Found(Box::new(failure)));
        }
        self.moves += 1;
        if !self.learns || !self.walker.seen.fresh {
            return Ok(Flow::On);
        }
        // The search has to be repeated. It goes on for as long as it has taken so far, to learn more.
        let met = *self.fresh.get_or_insert(self.moves);
        Ok(match self.moves >= met.saturating_mul(2) {
            true => Flow::Quit,
            false => Flow::On,
        })
    }

    fn end(&mut self, at: &mut Position) -> Result<Flow<Box<Failure>>, SimError> {
        let failure = end_of(&mut self.walker, at)?;
        self.ends += 1;
        if self.ends <= REPEATED || self.ends.is_power_of_two() {
            self.walker.repeat(at)?;
        }
        Ok(failure.map_or(Flow::On, |failure| Flow::Found(Box::new(failure))))
    }

    fn encode(&self, at: &Position, out: &mut Vec<u8>) {
        self.encode_state(at, out, false);
    }

    fn encode_before_stutter(&self, at: &Position, moves: &[Move], out: &mut Vec<u8>) -> bool {
        // Only a parked thread's deadline can pass. The deadline of a thread that is about to evaluate
        // cannot.
        let expires = |what: &Move| matches!(what, Move::Fault(Fault::Expire(_) | Fault::Idle(_)));
        let stutters = self.walker.config.reduces() && at.state.stutters() && !moves.iter().any(expires);
        if stutters {
            self.encode_state(at, out, true);
        }
        stutters
    }

    fn is_optional(&self, at: &Position, what: Move) -> bool {
        what.is_optional(&at.state)
    }

    fn mover(&self, what: Move) -> Mover {
        mover(what)
    }

    /// The words of one transfer arrive in any order, and on most tiers whole transfers do. The arrival of a word is one step,
    /// whichever word it is. Where arrivals queue up on the bus, so is the entry into this queue.
    fn choice(&self, what: Move) -> Option<u32> {
        let Move::Machine(Step::Nic { rule, .. }) = what else {
            return None;
        };
        match rule {
            Rule::PlaceRemote => Some(0),
            Rule::RemoteWrite => Some(1),
            _ => None,
        }
    }

    /// Returns whether the move counts against the bounds: faults have bounds of their own.
    fn is_counted(&self, what: Move) -> bool {
        !matches!(what, Move::Fault(_))
    }

    fn limited(&mut self, at: &Position) {
        if self.polls.is_none() {
            self.polls = Some(self.walker.polls(at));
        }
    }

    fn keep(&mut self, at: &mut Position) {
        at.state.machine.forget_idle();
    }

    fn collected(self) -> Learned {
        Learned {
            runs: self.walker.runs,
            polls: self.polls.flatten(),
            seen: self.walker.seen,
        }
    }
}

/// Returns who makes the move, in the order of delays: a thread, its store buffer, its queue pairs by peer.
/// Without delays, memory is therefore strong: what a thread has issued takes effect before another thread
/// moves.
pub(crate) fn mover(what: Move) -> Mover {
    let (thread, part) = match what {
        Move::Thread(thread) => (thread, 0),
        Move::Machine(Step::Drain { thread }) => (thread, 1),
        Move::Machine(Step::Nic { qp, .. }) => (qp.thread, 2 + qp.peer),
        Move::Fault(Fault::Expire(thread) | Fault::Idle(thread)) => (thread, 0),
        // After all threads.
        Move::Fault(Fault::Crash(node) | Fault::Suspect(node) | Fault::Revoke(node)) => (u16::MAX, node),
        Move::Fault(Fault::Learn { node, .. } | Fault::Cut { node, .. } | Fault::Heal { node, .. }) => {
            (u16::MAX, node)
        }
    };
    Mover(u32::from(thread) << 16 | u32::from(part))
}

/// Returns the assertion that has failed in a thread, if one has.
pub(crate) fn failure_of_thread(walker: &Walker<'_>, at: &Position) -> Option<Failure> {
    let (thread, message) = walker.failed(&at.state)?;
    let kind = FailureKind::Assertion { thread, message };
    Some(Failure::new(walker.common, &at.state, walker.schedule(at), kind))
}

/// Returns the failure of an execution that is too long, if that is one. `names` says whether to look for the thread that goes
/// on without end, which takes a while.
pub(crate) fn failure_of_length(walker: &mut Walker<'_>, at: &Position, names: bool) -> Option<Failure> {
    let config = walker.config;
    (config.longer_fails && at.schedule.len() > config.steps_max).then(|| {
        let steps = config.steps_max;
        let polls = names.then(|| walker.polls(at)).flatten();
        let kind = FailureKind::Endless { steps, polls };
        Failure::new(walker.common, &at.state, walker.schedule(at), kind)
    })
}

/// Returns the failure at the end of an execution, if any.
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
    Ok(Some(Failure::new(
        walker.common,
        &at.state,
        walker.schedule(at),
        kind,
    )))
}
