//! The systems that can be explored: states, moves and what moves do.
//!
//! Relies on [`crate::bounds`] for the names of those who move. Implemented by the users of this crate, called by
//! [`crate::search()`] and [`crate::sample`].

use std::any::Any;

use crate::bounds::Mover;

/// A transition system, as one worker of an exploration sees it.
///
/// Each worker has a value of its own, made on its own thread, so methods may keep scratch space and collect what they
/// find. Every execution must be finite: no state may be reachable from itself by one move or more.
pub trait System {
    /// A state. `clone_from` should reuse storage: states are copied all the time.
    type State: Clone + Send;
    /// A move. Means something in states that enable it.
    type Move: Copy + PartialEq + Send;
    /// What an exploration may look for, such as a failing execution. Ends the exploration.
    type Finding: Send;
    /// Why an exploration cannot go on.
    type Error: Send;
    /// What a worker has collected when the exploration ends.
    type Collected: Send;

    /// Makes the first state; without one the exploration is over. Called for one worker of a search, and for every worker
    /// of random executions.
    ///
    /// # Errors
    /// Those of the system.
    fn start(&mut self) -> Result<Option<Self::State>, Self::Error>;

    /// Appends every enabled move to `moves`, always in the same order.
    fn enabled(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>);

    /// Returns a move that suffices alone: every execution from this state is equivalent to one that begins with it.
    /// The search takes it at once and does not remember the state. Without such a move, appends the enabled
    /// moves, or any sufficient subset of these, to `moves`; appends nothing only if no move is enabled.
    fn eager(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>) -> Option<Self::Move> {
        self.enabled(state, moves);
        None
    }

    /// Leaves a sufficient subset of the moves that [`eager`](System::eager) appended. Called for states that the
    /// search sees for the first time, and not at all within bounds.
    fn reduce(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>) {
        let _ = (state, moves);
    }

    /// Takes an enabled move.
    ///
    /// # Errors
    /// Those of the system; they end the exploration.
    fn apply(
        &mut self,
        state: &mut Self::State,
        what: Self::Move,
    ) -> Result<Flow<Self::Finding>, Self::Error>;

    /// Called for each state whose moves, if it has any, are all optional: an execution may end there. Once for each such
    /// state that a search reaches.
    ///
    /// # Errors
    /// Those of the system; they end the exploration.
    fn end(&mut self, state: &mut Self::State) -> Result<Flow<Self::Finding>, Self::Error>;

    /// Appends an encoding of the state. States with equal encodings must have equal futures.
    fn encode(&self, state: &Self::State, out: &mut Vec<u8>);

    /// Appends the encoding of the state that this one, which has these moves, *stutters* from: one that differs only in
    /// that threads have yet to find that they cannot go on. False if there is none.
    ///
    /// A search leaves a stuttering state out if the state that it stutters from has been visited, unless every
    /// move of that state only stutters; then it follows one of them.
    fn encode_before_stutter(&self, state: &Self::State, moves: &[Self::Move], out: &mut Vec<u8>) -> bool {
        let _ = (state, moves, out);
        false
    }

    /// Returns whether the enabled move need not ever happen, such as a fault. An execution may end where only optional moves
    /// are left. Random executions take optional moves at times of their own.
    fn is_optional(&self, state: &Self::State, what: Self::Move) -> bool {
        let _ = (state, what);
        false
    }

    /// Returns who makes the move: what bounds count and what PCT gives priorities.
    fn mover(&self, what: Self::Move) -> Mover;

    /// Returns whether the move counts for bounds.
    fn is_counted(&self, what: Self::Move) -> bool {
        let _ = what;
        true
    }

    /// Gives up storage that copies of the state need not carry. Called before a state with several moves is kept.
    fn keep(&mut self, state: &mut Self::State) {
        let _ = state;
    }

    /// Returns what this worker has collected.
    fn collected(self) -> Self::Collected;
}

/// What follows a move or an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow<F> {
    /// The execution goes on.
    On,
    /// This execution is not to be followed further.
    Cut,
    /// The whole exploration ends without a finding: the system has its reasons.
    Quit,
    /// This was looked for: the exploration ends.
    Found(F),
}

/// Why an exploration ended without an answer.
#[derive(Debug)]
pub enum Failed<E> {
    /// The system said so.
    System(E),
    /// A worker panicked, with this payload. The other workers have ended.
    Panicked(Box<dyn Any + Send>),
}
