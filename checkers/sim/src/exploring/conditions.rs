//! Finds conditions of waits that keep more than their progress.
//!
//! An exploration leaves a failed evaluation of a wait's condition out of the thread's past if the evaluation
//! only read ([`Waits`]). That is right for a condition that keeps nothing but its progress, and wrong for one
//! that remembers what it saw. Code cannot be asked what it keeps. The first time that a thread is parked after
//! such an evaluation, the walker therefore follows a few random executions from there. It follows them with a
//! run, whose threads have really made all evaluations, until the thread has left the wait and begins another.
//! If a thread ever asks for something other than what it asked for in the same past, the condition remembers.
//! The exploration is then made again with [`Waits::Apart`].
//!
//! Relies on [`crate::exploring::walk`]. Used where moves are taken ([`take`]).

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::SimError;
use crate::exploring::walk::{Position, Walker};
use crate::fabric::request::Request;
use crate::state::Move;

#[cfg(doc)]
use crate::state::waits::Waits;

/// The number of executions followed from each point where a thread is parked.
const EXECUTIONS: u64 = 3;
/// The most moves of each such execution.
const MOVES_MAX: usize = 400;

/// Takes a move that is enabled, and checks the condition of a thread that is parked by it.
///
/// # Errors
/// Returns the errors of [`Walker::take`], and [`SimError::NotDeterministic`] if a condition keeps more than its progress.
pub(crate) fn take(walker: &mut Walker<'_>, at: &mut Position, what: Move) -> Result<bool, SimError> {
    let taken = walker.take(at, what)?;
    // Points met on the way wait for their turn.
    while let Some((at, thread)) = walker.unchecked.pop() {
        (0..EXECUTIONS).try_for_each(|execution| follow(walker, at.clone(), thread, execution))?;
    }
    Ok(taken)
}

/// Follows a random execution from `at`, and compares every request with those known, until `thread` begins
/// another wait or ends.
fn follow(walker: &mut Walker<'_>, mut at: Position, thread: u16, execution: u64) -> Result<(), SimError> {
    let past = at.state.threads[usize::from(thread)].past;
    let mut random = SmallRng::seed_from_u64(u64::from(past.0) << 8 | execution);
    let mut moves = Vec::new();
    for _ in 0..MOVES_MAX {
        walker.consult(&at)?;
        let begins = matches!(
            at.state.request(walker.common, thread),
            Some(Request::WaitBegin { .. } | Request::End(_))
        );
        if begins && !at.state.is_waiting(thread) {
            return Ok(());
        }
        walker.moves(&mut at.state, &mut moves);
        // Faults belong to executions of their own.
        moves.retain(|what| !matches!(what, Move::Fault(_)));
        if moves.is_empty() {
            return Ok(());
        }
        let what = moves[random.random_range(0..moves.len())];
        walker.take(&mut at, what)?;
    }
    Ok(())
}
