//! The settings of a lock, and the guard that holds one. Used by both locks, and by the key-value store and its users.

use loco_fabric::{Fabric, NodeId};

use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::{Result, Thread};

/// The policy of a lock when the node that holds it is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OnLoss {
    /// Waiters fail with [`HolderLost`](crate::Error::HolderLost), and so does every later call: the data that the lock
    /// protects may be incomplete.
    #[default]
    Poison,
    /// The next waiter gets the lock, and its [`LockGuard::recovered`] returns true.
    Recover,
}

/// Settings of a lock. `on_loss` must be the same on all participants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockConfig {
    /// The policy when the holder is lost (default [`OnLoss::Poison`]).
    pub on_loss: OnLoss,
    /// The number of times in a row that threads of one node may hand the lock to one another before it must
    /// leave the node, whether others wait for it or not (default 16). With 0 the lock leaves the node at every release.
    pub local_hand_overs_max: u32,
}

loco_fabric::setters!(LockConfig {
    on_loss: OnLoss,
    local_hand_overs_max: u32,
});

impl Default for LockConfig {
    /// Returns the policy `Poison` and 16 hand-overs.
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
    /// Returns the fence's error, or `PeerLost` if the home is gone. The lock counts as released on this node
    /// in any case.
    fn unlock(&self, thread: &Thread<F>, scope: Scope) -> Result<()>;

    /// Returns the name of the lock, for messages.
    fn name(&self) -> &str;
}

/// Holds a lock while it lives.
///
/// The lock is released after a [fence](crate::fence) of the scope that was chosen when locking. With
/// [`Scope::Thread`] the next holder, on whichever node, sees everything that the holder's thread put
/// anywhere while it held the lock. CPU stores of the holder are visible on its node in any case.
#[must_use = "dropped, it releases the lock"]
pub struct LockGuard<'a, L: Unlock<F>, F: Fabric = AnyFabric> {
    lock: &'a L,
    thread: &'a Thread<F>,
    scope: Scope,
    recovered: bool,
    released: bool,
}

/// Returns what a timeout says of the node that holds a lock.
pub(super) fn holds(holder: NodeId, lock: &str) -> String {
    format!("{holder} holds lock {lock}; it must release its guard")
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

    /// Returns true if a former holder was lost while it held the lock, and nobody has held it since. The
    /// data that the lock protects may then be half done. (This happens only with [`OnLoss::Recover`].)
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Changes the scope of the fence at release, once it is known which operations it must cover.
    pub fn set_scope(&mut self, scope: Scope) {
        self.scope = scope;
    }

    /// Returns the scope of the fence at release.
    pub fn scope(&self) -> Scope {
        self.scope
    }

    /// Returns the lock that is held.
    pub(super) fn lock(&self) -> &'a L {
        self.lock
    }

    /// Leaves the lock held. The caller must release it later, by [`Unlock::unlock`] or by the steps of that. Returns
    /// [`recovered`](LockGuard::recovered).
    pub(crate) fn keep(mut self) -> bool {
        self.released = true;
        self.recovered
    }

    /// Releases the lock. [`drop`] does this too, but only logs an error.
    ///
    /// # Errors
    /// Returns the fence's error: operations of the holder may not have taken effect, because their peer is lost. The
    /// lock is released all the same. There is no [`Timeout`](crate::ErrorKind::Timeout), because a put that was given
    /// up could overwrite the next holder's. The fence therefore waits until the puts are placed or their peer is lost,
    /// whatever the thread's deadline.
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
