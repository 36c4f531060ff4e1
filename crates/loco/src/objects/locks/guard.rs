//! What the locks have in common: settings, the guard, and whose turn it is among the threads of a node.

use std::collections::VecDeque;

use loco_fabric::{AtomicCell, Control, Fabric, Lock, NodeId, PeerState, Peers, Time, Wait};

use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::operations::platform::{AtomicU32Of, AtomicU64Of, MutexOf};
use crate::{Result, Thread};

/// What waiters do when the node that holds a lock is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// They fail, and so does everybody later: what the lock protects may be half done.
    #[default]
    Poison,
    /// The next one gets the lock, and is told so by [`LockGuard::recovered`].
    Recover,
}

/// Settings of a lock. `on_loss` must be the same on all participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockConfig {
    /// When the holder is lost.
    pub on_loss: OnLoss,
    /// How many times in a row threads of one node may hand the lock to one another before it must leave the node, if
    /// others wait for it or not. 0: never.
    pub local_hand_overs_max: u32,
}

impl Default for LockConfig {
    /// Poison; 16 hand-overs.
    fn default() -> LockConfig {
        LockConfig {
            on_loss: OnLoss::default(),
            local_hand_overs_max: 16,
        }
    }
}

/// A lock that guards can release. Implemented by this crate's locks.
pub trait Unlock<F: Fabric = AnyFabric> {
    /// Executes the fence, then releases the lock, which the calling thread holds. Called once by the guard.
    ///
    /// # Errors
    /// The fence's; `PeerLost` if the home is gone. The lock counts as released on this node all the same.
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()>;

    /// Name of the lock, for messages.
    fn name(&self) -> &str;
}

/// The lock is held while this lives.
///
/// Released after a [fence](crate::fence) of the scope that was chosen when locking: with [`Scope::Thread`] whoever
/// gets the lock next, on whichever node, sees what the holder's thread put anywhere while it held it. CPU stores of
/// the holder are visible on its node in any case.
#[must_use = "dropped, it releases the lock"]
pub struct LockGuard<'a, L: Unlock<F>, F: Fabric = AnyFabric> {
    lock: &'a L,
    thread: &'a Thread<F>,
    scope: Scope,
    recovered: bool,
    released: bool,
}

impl<'a, F: Fabric, L: Unlock<F>> LockGuard<'a, L, F> {
    #[inline]
    pub(crate) fn new(lock: &'a L, thread: &'a Thread<F>, scope: Scope, recovered: bool) -> Self {
        LockGuard {
            lock,
            thread,
            scope,
            recovered,
            released: false,
        }
    }

    /// True if a former holder was lost while it held the lock, and nobody has held it since: what the lock protects
    /// may be half done. (Only with [`OnLoss::Recover`].)
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Changes the scope of the fence at release, when it is known better what was done.
    pub fn set_scope(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// The scope of the fence at release.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Releases the lock. What [`drop`] does too, where an error is only logged.
    ///
    /// # Errors
    /// What the fence reports: operations of the holder may not have taken effect, as their peer is lost. The lock is
    /// released all the same. There is no `Timeout`: a put that was given up could land over the next holder's, so
    /// that the fence waits until the puts are placed or their peer is lost, whatever the thread's deadline.
    #[inline]
    pub fn release(mut self) -> Result<()> {
        self.released = true;
        self.lock.unlock(self.thread, self.scope)
    }
}

impl<F: Fabric, L: Unlock<F>> Drop for LockGuard<'_, L, F> {
    fn drop(&mut self) {
        if !self.released
            && let Err(error) = self.lock.unlock(self.thread, self.scope)
        {
            tracing::warn!(lock = self.lock.name(), %error, "releasing");
        }
    }
}

/// Nobody has the turn.
const FREE: u32 = 0;
/// Somebody has it, nobody waits.
const TAKEN: u32 = 1;
/// Somebody has it, and somebody may wait.
const AWAITED: u32 = 2;

/// Whose turn it is among the threads of this node: a queue, in which a waiter may give up.
pub(crate) struct LocalTurn<F: Fabric> {
    /// One of the above. Where nobody waits, this word is all that there is to the turn.
    state: AtomicU32Of<F>,
    /// Becomes `AWAITED` and `FREE` from `AWAITED` under this lock.
    line: MutexOf<F, Line>,
    /// The waiter that was called last; it is told by this word so that waiting takes no lock.
    called: AtomicU64Of<F>,
}

#[derive(Default)]
struct Line {
    last: u64,
    waiting: VecDeque<u64>,
}

impl<F: Fabric> LocalTurn<F> {
    pub(crate) fn new() -> LocalTurn<F> {
        LocalTurn {
            state: AtomicCell::new(FREE),
            line: Lock::new(Line::default()),
            called: AtomicCell::new(0),
        }
    }

    /// Takes the turn if nobody has it.
    #[inline]
    pub(crate) fn try_enter(&self) -> bool {
        // What the thread before us did is visible.
        self.state.compare_exchange(FREE, TAKEN).is_ok()
    }

    /// Waits for the turn, until the configured deadline if no other is given.
    ///
    /// # Errors
    /// `Timeout`.
    #[inline]
    pub(crate) fn enter(&self, thread: &Thread<F>, what: &str, deadline: Option<Time>) -> Result<()> {
        if self.try_enter() {
            return Ok(());
        }
        self.line_up(thread, what, deadline)
    }

    #[cold]
    fn line_up(&self, thread: &Thread<F>, what: &str, deadline: Option<Time>) -> Result<()> {
        let number = {
            let mut line = self.line.lock();
            // As above. Who has the turn now finds us in the line when it leaves.
            if self.state.swap(AWAITED) == FREE {
                // It was left in between, with nobody in the line. That it says `AWAITED` now costs a look at it.
                return Ok(());
            }
            line.last += 1;
            let number = line.last;
            line.waiting.push_back(number);
            number
        };
        let wait = Wait {
            what,
            peers: Peers::None,
            deadline: Some(deadline.unwrap_or_else(|| thread.network().default_deadline())),
        };
        // What the thread before us did is visible.
        let called = || (self.called.load() == number).then_some(());
        match thread.fabric().wait(wait, called) {
            Ok(()) => Ok(()),
            Err(error) => {
                let mut line = self.line.lock();
                match line.waiting.iter().position(|&waiter| waiter == number) {
                    Some(position) => {
                        line.waiting.remove(position);
                        Err(error.into())
                    }
                    // Called at the last moment.
                    None => Ok(()),
                }
            }
        }
    }

    /// True if another thread waits.
    #[inline]
    pub(crate) fn awaited(&self) -> bool {
        // Who is not seen yet waits a little longer.
        self.state.load() == AWAITED && !self.line.lock().waiting.is_empty()
    }

    /// Gives the turn to a thread that waits for it; false, keeping the turn, if there is none any more.
    pub(crate) fn hand_over(&self) -> bool {
        let mut line = self.line.lock();
        match line.waiting.pop_front() {
            // Pairs with the waiter's acquire. Within the lock, so that giving up is either before or after.
            Some(next) => {
                self.called.store(next);
                true
            }
            None => false,
        }
    }

    /// Ends the turn; the next one has it, if there is one.
    #[inline]
    pub(crate) fn leave(&self) {
        // Pairs with the acquire of who enters next.
        let left = self.state.compare_exchange(TAKEN, FREE);
        if left.is_err() {
            self.call_next();
        }
    }

    #[cold]
    fn call_next(&self) {
        let mut line = self.line.lock();
        match line.waiting.pop_front() {
            // Pairs with the waiter's acquire. Within the lock, so that giving up is either before or after.
            Some(next) => self.called.store(next),
            None => self.state.store(FREE),
        }
    }
}

/// True if `node` is gone, for whatever reason.
pub(crate) fn is_gone<F: Fabric>(fabric: &F, node: NodeId) -> bool {
    fabric.control().peer_state(node) != PeerState::Alive
}
