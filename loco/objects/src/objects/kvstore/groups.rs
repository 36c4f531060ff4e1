//! The entries of a call on many keys, in groups: those under one lock.
//!
//! A call asks for the locks of all its groups at once, and works on each group as soon as it holds its lock. It never waits for one lock while
//! it holds another ([`Several`]). So calls that want the same locks cannot wait for each other, whatever the order of their tickets.
//!
//! Used by `batch`.

use loco_fabric::Fabric;

use crate::objects::locks::ticket_lock::Several;
use crate::{Result, Thread};

use super::Shared;
use super::value::Encode;

/// The entries under one lock: the lock's number, and the place of the entry in the call.
pub(super) type Group = [(u32, u32)];

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Takes the locks of the groups. Calls `held` with the positions of the groups whose locks are held; it works on them and releases the
    /// locks. After an error of one group, the others are worked on all the same.
    ///
    /// # Errors
    /// Returns the first error of `held`, and the errors of [`TicketLock::lock`](crate::TicketLock::lock).
    pub(super) fn under_locks<'a>(
        &'a self,
        thread: &'a Thread<F>,
        groups: &[&Group],
        mut held: impl FnMut(&mut Several<'a, F>, &[usize]) -> Result<()>,
    ) -> Result<()> {
        let (begin, deadline) = (thread.now(), thread.deadline());
        // One deadline for the whole call: each wait of `held` would have its own otherwise.
        let outcome = thread.until(deadline, || {
            let locks = groups.iter().map(|group| &self.locks[group[0].0 as usize]);
            let mut several = Several::draw(thread, locks)?;
            let mut outcome = Ok(());
            loop {
                let now = several.held();
                if !now.is_empty() {
                    outcome = outcome.and(held(&mut several, &now));
                }
                outcome = outcome.and(several.failure());
                if now.is_empty() && !several.wait(begin, deadline) {
                    break;
                }
            }
            outcome
        });
        outcome.and_then(|()| thread.still_in())
    }
}
