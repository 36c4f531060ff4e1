//! The systems that can be explored: states, moves and their effects.
//!
//! Relies on [`crate::bounds`] for [`Mover`]. Users of this crate implement it; [`crate::search()`] and
//! [`crate::sample`] call it.

use std::any::Any;

use crate::bounds::Mover;

/// A transition system, as one worker of an exploration sees it.
///
/// Each worker has a value of its own, made on its own thread, so methods may keep scratch space and collect
/// what they find. Executions must be finite: no state may be reachable from itself by one move or more. A search without bounds and without
/// stutters allows circles of states, if none has eager moves alone.
pub trait System {
    /// A state. `clone_from` should reuse storage: states are copied all the time.
    type State: Clone + Send;
    /// A move. It has a meaning only in states that enable it.
    type Move: Copy + PartialEq + Send;
    /// A finding that an exploration may look for, such as a failing execution. It ends the exploration.
    type Finding: Send;
    /// The reason why an exploration cannot go on.
    type Error: Send;
    /// The values that a worker has collected when the exploration ends.
    type Collected: Send;

    /// Makes the first state. Returns `None` if there is none, and the exploration is over. Called for one
    /// worker of a search, and for every worker of random executions.
    ///
    /// # Errors
    /// Returns the system's errors.
    fn start(&mut self) -> Result<Option<Self::State>, Self::Error>;

    /// Appends every enabled move to `moves`, always in the same order.
    fn enabled(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>);

    /// Returns a move that suffices alone: every execution from this state is equivalent to one that begins with it.
    /// The search takes this move at once and does not remember the state. If there is no such move, appends the
    /// enabled moves, or any sufficient subset of them, to `moves`. It then appends at least one if any is enabled.
    fn eager(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>) -> Option<Self::Move> {
        self.enabled(state, moves);
        None
    }

    /// Reduces the moves that [`eager`](System::eager) appended to a sufficient subset. Called for states
    /// that the search sees for the first time, but not within bounds.
    fn reduce(&mut self, state: &mut Self::State, moves: &mut Vec<Self::Move>) {
        let _ = (state, moves);
    }

    /// Takes an enabled move.
    ///
    /// # Errors
    /// Returns the system's errors, which end the exploration.
    fn apply(
        &mut self,
        state: &mut Self::State,
        what: Self::Move,
    ) -> Result<Flow<Self::Finding>, Self::Error>;

    /// Reports a state whose moves, if it has any, are all optional: an execution may end there. Called once
    /// for each such state that a search reaches.
    ///
    /// # Errors
    /// Returns the system's errors, which end the exploration.
    fn end(&mut self, state: &mut Self::State) -> Result<Flow<Self::Finding>, Self::Error>;

    /// Appends an encoding of the state. States with equal encodings must have equal futures.
    fn encode(&self, state: &Self::State, out: &mut Vec<u8>);

    /// Appends the encoding of the earlier state from which this state, with these moves, *stutters*. The earlier
    /// state differs only in that some threads have yet to find that they cannot go on. Returns false if there is
    /// no such state.
    ///
    /// A search leaves a stuttering state out if the earlier state has been visited. If every move of the earlier
    /// state only stutters, the search follows one of them all the same.
    fn encode_before_stutter(&self, state: &Self::State, moves: &[Self::Move], out: &mut Vec<u8>) -> bool {
        let _ = (state, moves, out);
        false
    }

    /// Returns whether the enabled move is optional, such as a fault: it never has to happen. An execution
    /// may end where only optional moves are left. Random executions take optional moves at times of their
    /// own.
    fn is_optional(&self, state: &Self::State, what: Self::Move) -> bool {
        let _ = (state, what);
        false
    }

    /// Returns who makes the move. Bounds count movers, and PCT gives them priorities.
    fn mover(&self, what: Self::Move) -> Mover;

    /// Returns the step of its mover that the move is a choice of, or `None` if the step has no other move. Bounds count the
    /// moves of one step once.
    fn choice(&self, what: Self::Move) -> Option<u32> {
        let _ = what;
        None
    }

    /// Returns whether the move counts for bounds.
    fn is_counted(&self, what: Self::Move) -> bool {
        let _ = what;
        true
    }

    /// Looks at the state that a worker had come to when a limit ended the exploration, to say why it did.
    fn limited(&mut self, state: &Self::State) {
        let _ = state;
    }

    /// Frees storage that copies of the state need not carry. Called before a state with several moves is
    /// kept.
    fn keep(&mut self, state: &mut Self::State) {
        let _ = state;
    }

    /// Returns the values that this worker has collected.
    fn collected(self) -> Self::Collected;
}

/// The consequence of a move or an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow<F> {
    /// The execution goes on.
    On,
    /// The execution is not followed further.
    Cut,
    /// The whole exploration ends without a finding, for a reason of the system.
    Quit,
    /// The exploration ends with this finding.
    Found(F),
}

/// The reason why an exploration ended without an answer.
#[derive(Debug)]
pub enum Failed<E> {
    /// The system returned this error.
    System(E),
    /// A worker panicked, with this payload. The other workers have ended.
    Panicked(Box<dyn Any + Send>),
}
