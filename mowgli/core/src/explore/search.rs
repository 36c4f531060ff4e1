//! The search for every outcome: a program on its machine as a system for [`explorer`].
//!
//! Relies on [`super::state`] for states and moves, on [`super::reduce`] for sufficient moves, and on
//! [`explorer`] for visiting the states. Used by [`super::outcomes`].

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::sync::{Mutex, PoisonError};

use explorer::{Ended, Failed, Flow, Mover, Options as SearchOptions, System, search as explore};

use super::Options;
use super::code::{Code, Loops};
use super::reduce::Reducer;
use super::state::{Move, Ran, State};
use crate::machine::Step;
use crate::outcome::{Budget, Completeness, Limit, Outcome, Search};
use crate::program::Program;

/// Searches from the initial state. `loops` says how the codes were made.
pub(super) fn search(
    program: &Program,
    codes: &[Code],
    loops: Loops,
    options: &Options,
    budget: &Budget<'_>,
) -> Search {
    let loop_bound = Mutex::new(None);
    let found = explore(
        &SearchOptions {
            workers: options.workers,
            limits: budget.limits(),
            count_passed: true,
            ..SearchOptions::default()
        },
        || Worker {
            program,
            codes,
            loops,
            options,
            loop_bound: &loop_bound,
            reducer: Reducer::default(),
            steps: Vec::new(),
            outcomes: BTreeSet::new(),
        },
    );
    let found = match found {
        Ok(found) => found,
        Err(Failed::System(never)) => match never {},
        // A worker that panicked is a defect of ours.
        Err(Failed::Panicked(payload)) => std::panic::resume_unwind(payload),
    };
    let limit = match found.ended {
        Ended::Limit(limit) => Some(limit.into()),
        Ended::Complete | Ended::Bounded | Ended::Quit => {
            loop_bound.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    };
    Search {
        outcomes: found.collected.into_iter().flatten().collect(),
        completeness: limit.map_or(Completeness::Complete, Completeness::Incomplete),
        states: found.stats.states,
    }
}

/// The program as one worker of the search sees it.
struct Worker<'a> {
    program: &'a Program,
    codes: &'a [Code],
    loops: Loops,
    options: &'a Options,
    loop_bound: &'a Mutex<Option<Limit>>,
    reducer: Reducer,
    steps: Vec<Step>,
    outcomes: BTreeSet<Outcome>,
}

impl Worker<'_> {
    /// Returns whether the execution goes on, and the search. If a loop stops it, remembers the loop.
    fn note(&self, ran: Ran) -> Flow<Infallible> {
        if let Some(limit) = ran.limit() {
            let mut known = self.loop_bound.lock().unwrap_or_else(PoisonError::into_inner);
            *known = Some(limit);
            // Loops without bounds are left to the search with bounds as soon as one has no end.
            return match self.loops {
                Loops::Bounded => Flow::Cut,
                Loops::Endless | Loops::Free => Flow::Quit,
            };
        }
        if ran == Ran::Ready { Flow::On } else { Flow::Cut }
    }

    /// Returns whether a thread moves and may come back to where it is.
    fn returns(&self, state: &State, what: Move) -> bool {
        match what {
            Move::Act(thread) | Move::Choose(thread, _) => {
                let (thread, at) = (usize::from(thread), state.threads[usize::from(thread)].at);
                self.codes[thread].returns[at as usize]
            }
            Move::Hardware(_) => false,
        }
    }
}

impl System for Worker<'_> {
    type State = State;
    type Move = Move;
    type Finding = Infallible;
    type Error = Infallible;
    type Collected = BTreeSet<Outcome>;

    fn start(&mut self) -> Result<Option<State>, Infallible> {
        let (first, ran) = State::new(self.program, self.codes, self.options.machine);
        Ok(matches!(self.note(ran), Flow::On).then_some(first))
    }

    fn enabled(&mut self, state: &mut State, moves: &mut Vec<Move>) {
        state.moves(self.codes, &mut self.steps, moves);
    }

    fn eager(&mut self, state: &mut State, moves: &mut Vec<Move>) -> Option<Move> {
        if self.options.reduction {
            self.reducer.persistent(state, self.codes, moves);
        } else {
            self.enabled(state, moves);
        }
        // In every circle of states a thread moves in a loop. Such a state must be stored, so that the search notices its return.
        match moves[..] {
            [only] if !self.returns(state, only) => Some(only),
            _ => None,
        }
    }

    fn apply(&mut self, state: &mut State, what: Move) -> Result<Flow<Infallible>, Infallible> {
        let ran = state.make(what, self.codes);
        Ok(self.note(ran))
    }

    fn end(&mut self, state: &mut State) -> Result<Flow<Infallible>, Infallible> {
        self.outcomes.extend(state.outcome(self.codes));
        Ok(Flow::On)
    }

    fn encode(&self, state: &State, out: &mut Vec<u8>) {
        state.encode(out);
    }

    fn mover(&self, what: Move) -> Mover {
        let (thread, part) = match what {
            Move::Act(thread) | Move::Choose(thread, _) => (thread, 0),
            Move::Hardware(Step::Drain { thread }) => (thread, 1),
            Move::Hardware(Step::Nic { qp, .. }) => (qp.thread, 2 + qp.peer),
        };
        Mover(u32::from(thread) << 16 | u32::from(part))
    }

    fn collected(self) -> BTreeSet<Outcome> {
        self.outcomes
    }
}
