//! The settings of a lock, and the guard that holds one. Used by both locks, and by the key-value store and its users.

use loco_fabric::Fabric;

use crate::fabric::AnyFabric;
use crate::fence::Scope;
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

    /// Leaves the lock held: whoever called this releases it later, by [`Unlock::unlock`]. Returns
    /// [`recovered`](LockGuard::recovered).
    #[cfg(feature = "async")]
    pub(crate) fn keep(mut self) -> bool {
        self.released = true;
        self.recovered
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
