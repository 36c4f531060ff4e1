//! The trust of a lock's holder in its index, which saves the look at the slot of a value.
//!
//! Inserts and deletes end, and release their key's lock, when all nodes that live have applied them. So whoever holds the lock of a key finds
//! in its own index where the key is, and that slot is valid: the index of every living node is as the last call under
//! this lock left it, and no message about the key is under way. This fails only after a call that did not end so. Its writer was lost, or
//! ran into its deadline, or its key type panicked. Then indices may have a key whose slot is not valid, or is in another use, and a message
//! that arrives late may add one. Such a call leaves the lock *in doubt* (`ticket_lock::doubt`), and so does every later holder. Who holds a
//! lock in doubt looks at the slot.
//!
//! A node that was declared lost has an index that is out of date. The fabric refuses what it writes to others. A node whose monitor has failed
//! acknowledges nothing, so that the calls which its index lacks have failed.
//!
//! Used by the calls that change the store (`write`, `batch`, `updates`).

use loco_fabric::Fabric;

use crate::{LockGuard, Result, Thread, TicketLock};

use super::Shared;
use super::slot::Location;
use super::value::Encode;

/// Holds a lock of the store.
pub(super) type Guard<'a, F> = LockGuard<'a, TicketLock<F>, F>;

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Returns where `key` is, if it is present. Its lock is held. `in_doubt` says whether a former holder has left a change half done.
    pub(super) fn find_held(&self, thread: &Thread<F>, key: &K, in_doubt: bool) -> Result<Option<Location>> {
        match in_doubt {
            true => self.find_valid(thread, key),
            false => Ok(self.find(key)),
        }
    }
}

/// Makes a change of keys under their locks, which are in doubt meanwhile. They stay so if the change fails or panics.
pub(super) fn change<F: Fabric, T>(
    guards: &[&Guard<'_, F>],
    change: impl FnOnce() -> Result<T>,
) -> Result<T> {
    let trusted = || guards.iter().filter(|guard| !guard.recovered());
    trusted().for_each(|guard| guard.set_doubt(true));
    let outcome = change();
    if outcome.is_ok() {
        trusted().for_each(|guard| guard.set_doubt(false));
    }
    outcome
}
