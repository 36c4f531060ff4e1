//! The turns of the threads of one node that want one lock. A node takes part in a lock as a single party, so its
//! threads line up here first. Used by both locks.

use std::collections::VecDeque;
use std::sync::Arc;

use loco_fabric::{AtomicCell, Doorbell, Fabric, Lock, Peers, Time, Wait};

use crate::operations::counts::Count;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf};
use crate::{Error, Result, Thread};

/// No thread has the turn.
const FREE: u32 = 0;
/// A thread has the turn, and no thread waits.
const TAKEN: u32 = 1;
/// A thread has the turn, and another may wait.
const AWAITED: u32 = 2;

/// The turn among the threads of this node: a queue in which a waiter may give up.
pub(crate) struct LocalTurn<F: Fabric> {
    /// One of the constants above. Where no thread waits, the turn consists of this word alone.
    state: AtomicU32Of<F>,
    /// The waiters. Two changes of `state` are made only under this lock: to `AWAITED`, and from `AWAITED` to `FREE`.
    line: MutexOf<F, Line>,
    /// The waiter that was called last. Waiters watch this word, so that waiting takes no lock.
    called: AtomicU64Of<F>,
    /// The hand-overs between threads since the node got the lock. Only the thread whose turn it is touches
    /// it.
    hand_overs: AtomicU32Of<F>,
    /// The node's doorbell, which is rung for the waiter that was called.
    bell: Option<Arc<dyn Doorbell>>,
}

#[derive(Default)]
struct Line {
    last: u64,
    waiting: VecDeque<u64>,
}

impl<F: Fabric> LocalTurn<F> {
    pub(crate) fn new(bell: Option<Arc<dyn Doorbell>>) -> LocalTurn<F> {
        LocalTurn {
            state: AtomicCell::new(FREE),
            line: Lock::new(Line::default()),
            called: AtomicCell::new(0),
            hand_overs: AtomicCell::new(0),
            bell,
        }
    }

    /// Takes the turn if no thread has it.
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        // The effects of the thread before us are visible.
        self.state.compare_exchange(FREE, TAKEN).is_ok()
    }

    /// Waits for the turn, until the configured deadline if no other is given. Returns the time since which it waited, if
    /// it had to.
    ///
    /// # Errors
    /// Returns `Timeout`.
    #[inline]
    pub(crate) fn enter(
        &self,
        thread: &Thread<F>,
        what: &str,
        deadline: Option<Time>,
    ) -> Result<Option<Time>> {
        if self.try_enter() {
            return Ok(None);
        }
        self.line_up(thread, what, deadline)
    }

    #[cold]
    fn line_up(&self, thread: &Thread<F>, what: &str, deadline: Option<Time>) -> Result<Option<Time>> {
        let begin = thread.now();
        let deadline = deadline.unwrap_or_else(|| begin.after(thread.network().default_patience()));
        let Some(number) = self.join_line() else {
            return Ok(None);
        };
        thread.counts().add(Count::LockWaits, 1);
        let wait = Wait {
            what,
            peers: Peers::None,
            deadline: Some(deadline),
        };
        let called = || self.is_called(number).then_some(());
        match thread.fabric().wait_for_arrival(wait, called) {
            Ok(()) => Ok(Some(begin)),
            Err(error) => match self.leave_line(number) {
                true => Err(late(thread, what, error.into(), (begin, deadline))),
                // The thread was called at the last moment.
                false => Ok(Some(begin)),
            },
        }
    }

    /// Joins the line. Returns the number of the waiter, or `None` if the thread has the turn already.
    pub(crate) fn join_line(&self) -> Option<u64> {
        let mut line = self.line.lock();
        // The effects of the thread before us are visible, as in `try_enter`. The thread that has the turn now
        // finds us in the line when it leaves.
        if self.state.swap(AWAITED) == FREE {
            // The turn was left in between, with no thread in the line. The state now says `AWAITED`,
            // which costs one look at the line.
            return None;
        }
        line.last += 1;
        let number = line.last;
        line.waiting.push_back(number);
        Some(number)
    }

    /// Returns true if the waiter of this number has the turn.
    pub(crate) fn is_called(&self, number: u64) -> bool {
        // The effects of the thread before us are visible.
        self.called.load() == number
    }

    /// Takes the waiter of this number out of the line. Returns false if it was called at the last moment, and has the turn.
    pub(crate) fn leave_line(&self, number: u64) -> bool {
        let mut line = self.line.lock();
        match line.waiting.iter().position(|&waiter| waiter == number) {
            Some(position) => {
                line.waiting.remove(position);
                true
            }
            None => false,
        }
    }

    /// Starts the count of hand-overs: the node has just got the lock.
    #[inline]
    pub(crate) fn begin(&self) {
        self.hand_overs.store(0);
    }

    /// Returns whether another thread waits for the turn and may be given it without the lock leaving the
    /// node: there were fewer than `max` hand-overs. A thread that has only just begun to wait may be missed.
    #[inline]
    pub(crate) fn may_stay(&self, max: u32) -> bool {
        self.hand_overs.load() < max && self.state.load() == AWAITED && !self.line.lock().waiting.is_empty()
    }

    /// Gives the turn, and the lock with it, to a thread that waits for it. If there is none any more, keeps
    /// the turn and returns false.
    pub(crate) fn hand_over(&self) -> bool {
        let mut line = self.line.lock();
        match line.waiting.pop_front() {
            // This pairs with the waiter's acquire. It is within the lock, so that giving up is either before
            // or after.
            Some(next) => {
                self.hand_overs.store(self.hand_overs.load() + 1);
                self.call(next);
                true
            }
            None => false,
        }
    }

    /// Ends the turn. The next thread has it, if there is one.
    #[inline]
    pub(crate) fn leave(&self) {
        // This pairs with the acquire of the next thread that enters.
        let left = self.state.compare_exchange(TAKEN, FREE);
        if let Err(state) = left {
            // Under the model, memory gives no answer to a thread that unwinds.
            debug_assert!(
                state == AWAITED || std::thread::panicking(),
                "a thread leaves that has the turn: {state}"
            );
            self.call_next();
        }
    }

    #[cold]
    fn call_next(&self) {
        let mut line = self.line.lock();
        match line.waiting.pop_front() {
            // This pairs with the waiter's acquire. It is within the lock, so that giving up is either before
            // or after.
            Some(next) => self.call(next),
            None => self.state.store(FREE),
        }
    }

    fn call(&self, waiter: u64) {
        self.called.store(waiter);
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

/// Returns the error of a wait for the turn that has ended with `error`.
#[cold]
pub(crate) fn late<F: Fabric>(
    thread: &Thread<F>,
    what: &str,
    error: Error,
    (begin, deadline): (Time, Time),
) -> Error {
    let error = error.since(begin, deadline, thread.now());
    let here = thread.node_id();
    error.because(
        &[here],
        format!(
            "a thread of {here} holds lock {what} or is next, perhaps this one; it must release its guard"
        ),
    )
}
