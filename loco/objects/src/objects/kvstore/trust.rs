//! The trust of a lock's holder in its index, which saves the look at the slot of a value.
//!
//! Inserts and deletes end, and release their key's lock, when all nodes that live have applied them. So whoever holds the lock of a key finds
//! in its own index where the key is, and that slot is valid: the index of every living node is as the last call under
//! this lock left it, and no message about the key is under way. This fails only after a call that did not end so. Its writer was lost, or
//! ran into its deadline, or its key type panicked. Then indices may have a key whose slot is not valid, or is in another use, and a message
//! that arrives late may add one. Such a call leaves the lock *in doubt* (`ticket_lock::doubt`), and so does every later holder, for good. Who
//! holds a lock in doubt looks at the slot.
//!
//! The steps of a change say themselves when it is half done ([`half_done`], [`done`]): from the first word of it that others may find, an
//! unset valid bit or a message, until all nodes have applied it. A call that fails before or after leaves no doubt.
//!
//! A node that was declared lost has an index that is out of date. The fabric refuses what it writes to others. A node whose monitor has failed
//! acknowledges nothing, so that the calls which its index lacks have failed.
//!
//! Used by the calls that change the store (`write`, `batch`, `updates`, `under_way`).

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

/// Notes that a change under the lock is about to be half done. The lock is in doubt until [`done`].
pub(super) fn half_done<F: Fabric>(guard: &Guard<'_, F>) {
    guard.set_doubt(true);
}

/// Notes that no change under the lock is half done any more. What a former holder left half done is so still.
pub(super) fn done<F: Fabric>(guard: &Guard<'_, F>) {
    if !guard.recovered() {
        guard.set_doubt(false);
    }
}
