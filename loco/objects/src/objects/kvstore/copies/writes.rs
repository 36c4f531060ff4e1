//! Inserts, updates and deletes where values have copies.
//!
//! Each goes through the copies from the last to the first. A copy whose node is lost meanwhile is passed over: the next one is
//! the first then. If the first was lost, others may still read it, so the call returns when all have turned away from it. A
//! call that finds a node lost before it has written anything is made again in the next view.

use loco_fabric::{Fabric, Lock};

use super::slot::Presence;
use super::views::View;
use super::{Copies, Holder, Holders, lost};
use crate::fence::Scope;
use crate::{Result, Thread, TicketLock};

use super::super::slot::Location;
use super::super::tracker::Change;
use super::super::trust::{self, Guard};
use super::super::value::Encode;
use super::super::{Inserted, Shared};

/// The end of a call in one view.
pub(in super::super) enum Ended<T> {
    /// It is done, and everybody sees it.
    Done(T),
    /// It is done, but those who have not turned to this view do not see it.
    Unseen(T, View),
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Adds a key, as [`KvStore::insert`](super::super::KvStore::insert) does.
    pub(in super::super) fn insert_copies(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
        value: &[u8],
    ) -> Result<Inserted> {
        self.under_lock(copies, thread, key, |view, guard| {
            let inserted = self.insert_in(copies, thread, guard, view, (key, value));
            inserted.map(Ended::Done)
        })
    }

    /// Changes a value, as [`KvStore::update`](super::super::KvStore::update) does.
    pub(in super::super) fn update_copies(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
        value: &[u8],
    ) -> Result<bool> {
        self.under_lock(copies, thread, key, |view, _| {
            self.update_in(copies, thread, view, (key, value))
        })
    }

    /// Removes a key, as [`KvStore::delete`](super::super::KvStore::delete) does.
    pub(in super::super) fn delete_copies(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
    ) -> Result<bool> {
        self.under_lock(copies, thread, key, |view, guard| {
            self.delete_in(copies, thread, guard, view, key)
        })
    }

    /// Makes a call in a view, as [`in_view`](Shared::in_view) does, under the lock of `key` at its home in that view.
    pub(super) fn under_lock<T>(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
        call: impl Fn(View, &Guard<'_, F>) -> Result<Ended<T>>,
    ) -> Result<T> {
        self.in_view(copies, thread, |view| {
            let guard = self.lock_in(copies, key, view)?.lock(thread, Scope::Nothing)?;
            let ended = call(view, &guard);
            self.release(thread, guard, ended)
        })
    }

    /// Makes a call in this node's view, and again in the next one if a node that it needs is lost. An error that names such a
    /// node says that the call has changed nothing.
    fn in_view<T>(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        call: impl Fn(View) -> Result<Ended<T>>,
    ) -> Result<T> {
        let mut timing = thread.timing();
        let ended = thread.until(timing.deadline, || self.in_views(copies, thread, call));
        timing.of_call(thread, ended)
    }

    /// Makes a call as [`in_view`](Shared::in_view) does. Each of its waits has the thread's deadline for itself.
    pub(in super::super) fn in_views<T>(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        call: impl Fn(View) -> Result<Ended<T>>,
    ) -> Result<T> {
        let views = copies.views();
        let mut least = View::default();
        loop {
            // This node's monitor takes losses into the view.
            self.check_monitor()?;
            let entered = views.enter(thread, least)?;
            let view = entered.view;
            let ended = call(view);
            // Before it waits for others, who may wait for the end of this call.
            drop(entered);
            match ended {
                Ok(Ended::Done(value)) => return Ok(value),
                Ok(Ended::Unseen(value, next)) => {
                    views.settled(thread, next)?;
                    return Ok(value);
                }
                Err(error) => match views.lost_in(&error) {
                    Some(position) if !view.has(position) => least = view.with(position),
                    _ => return Err(error),
                },
            }
        }
    }

    /// Returns the lock of `key` at the home that counts in `view`.
    fn lock_in<'a>(&'a self, copies: &'a Copies<F>, key: &K, view: View) -> Result<&'a TicketLock<F>> {
        self.numbered_lock_in(copies, self.lock_number(key), view)
    }

    /// Returns the lock of this number at the home that counts in `view`.
    pub(in super::super) fn numbered_lock_in<'a>(
        &'a self,
        copies: &'a Copies<F>,
        number: usize,
        view: View,
    ) -> Result<&'a TicketLock<F>> {
        Ok(match copies.home(number, view)?.checked_sub(1) {
            None => &self.locks[number],
            Some(later) => &copies.later_locks[later * self.locks.len() + number],
        })
    }

    fn insert_in(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        guard: &Guard<'_, F>,
        view: View,
        (key, value): (&K, &[u8]),
    ) -> Result<Inserted> {
        if let Some(at) = self.find(key) {
            let Some((holders, is_present)) = self.left(copies, thread, view, at)? else {
                return Err(lost(at.node));
            };
            if is_present {
                return Ok(Inserted::Duplicate);
            }
            // Left behind by a writer that was lost or gave up.
            self.clear_later(copies, thread, &holders, at)?;
            self.forget(thread, guard, key, at)?;
        }
        let Some((slot, counter)) = self.slots.lock().take() else {
            return Ok(Inserted::Full);
        };
        let at = Location {
            node: self.channel.node(),
            slot,
            counter,
        };
        // This node is the first.
        let holders = copies.holders(at, view);
        let written = thread.to_the_end(|| {
            each_from_last(&holders, |holder| match holder.copy {
                0 => {
                    self.set_meta(thread, at, false)?;
                    self.write_body(thread, at, value)
                }
                _ => self.write_first(copies, thread, (holder, at), value),
            })
        });
        let announced = written.and_then(|_| self.announce(thread, guard, Change::Insert, key, at));
        let number = match announced {
            Ok(number) => number,
            Err(error) => {
                // Some nodes may have received the announcement: they find the slot not valid, or in another use.
                self.slots.lock().free(slot, counter);
                return Err(error);
            }
        };
        self.apply(Change::Insert, key.clone(), at);
        self.wait_applied(thread, number)?;
        self.mark_copies(copies, thread, &holders, (at, true))?;
        trust::done(guard);
        self.count_writes(1);
        Ok(Inserted::Done)
    }

    fn update_in(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        view: View,
        (key, value): (&K, &[u8]),
    ) -> Result<Ended<bool>> {
        let Some(at) = self.find(key) else {
            return Ok(Ended::Done(false));
        };
        let Some((holders, is_present)) = self.left(copies, thread, view, at)? else {
            return Err(lost(at.node));
        };
        if !is_present {
            return Ok(Ended::Done(false));
        }
        // Ignores the deadline: an abandoned put could overwrite a later one.
        let lost_first = thread.to_the_end(|| {
            each_from_last(&holders, |holder| {
                self.write_copy(copies, thread, (holder, at), value)
            })
        })?;
        self.count_writes(1);
        Ok(copies.ended(true, view, &holders[..lost_first]))
    }

    fn delete_in(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        guard: &Guard<'_, F>,
        view: View,
        key: &K,
    ) -> Result<Ended<bool>> {
        let Some(at) = self.find(key) else {
            return Ok(Ended::Done(false));
        };
        let Some((holders, is_present)) = self.left(copies, thread, view, at)? else {
            // Nobody can tell whether it was still present.
            self.forget(thread, guard, key, at)?;
            return Err(lost(at.node));
        };
        if !is_present {
            self.clear_later(copies, thread, &holders, at)?;
            self.forget(thread, guard, key, at)?;
            return Ok(Ended::Done(false));
        }
        let lost_first = self.mark_copies(copies, thread, &holders, (at, false))?;
        self.forget(thread, guard, key, at)?;
        self.count_writes(1);
        Ok(copies.ended(true, view, &holders[..lost_first]))
    }

    /// Clears the valid bits of copies of a key that is not valid in the first one that is left. A writer that was lost after it had set
    /// the bits of later copies has left them set, and such a copy would show the key again if the earlier ones, and whoever forgets
    /// the key, are lost before all have heard of that.
    fn clear_later(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        holders: &Holders,
        at: Location,
    ) -> Result<()> {
        match holders.split_first() {
            // The lost node owned the slot and its backups, so nobody begins to use them for another key. It may have done so before.
            Some((&first, later))
                if first.copy != 0 && self.presence(copies, thread, first, at)? == Presence::Absent =>
            {
                self.clear(copies, thread, later, at)
            }
            // The node that inserts sets its own bit last, and it has not been lost.
            _ => Ok(()),
        }
    }

    /// Says of a key, which the first copy says is not present in this use of the slot, in each of the `later` copies that it is not.
    pub(super) fn clear(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        later: &[Holder],
        at: Location,
    ) -> Result<()> {
        thread.to_the_end(|| {
            let cleared = each_from_last(later, |holder| {
                match self.presence(copies, thread, holder, at)? {
                    Presence::Absent | Presence::Over => Ok(()),
                    Presence::Present | Presence::Unknown => {
                        self.mark_copy(copies, thread, (holder, at), false)
                    }
                }
            });
            cleared.map(drop)
        })
    }

    /// Removes a key that is not valid from all indices.
    fn forget(&self, thread: &Thread<F>, guard: &Guard<'_, F>, key: &K, at: Location) -> Result<()> {
        self.retire(thread, guard, key, at, false)?;
        trust::done(guard);
        Ok(())
    }

    /// Sets the valid bits of copies. Returns how many of them are lost before the first that is not.
    fn mark_copies(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        holders: &Holders,
        (at, valid): (Location, bool),
    ) -> Result<usize> {
        thread.to_the_end(|| {
            each_from_last(holders, |holder| {
                self.mark_copy(copies, thread, (holder, at), valid)
            })
        })
    }
}

impl<F: Fabric> Copies<F> {
    /// Returns the end of a call in `view` that has written to a copy after those of `lost`, which others may still read.
    fn ended<T>(&self, value: T, view: View, lost: &[Holder]) -> Ended<T> {
        let positions = lost.iter().map(|holder| self.views.position(holder.node));
        match lost {
            [] => Ended::Done(value),
            _ => Ended::Unseen(value, positions.fold(view, View::with)),
        }
    }
}

/// Takes a step at each of `holders`, the last one first, and passes over lost ones. Returns how many are lost before the first that
/// took the step.
///
/// # Errors
/// Returns `PeerLost` if all are lost, so that nothing of the steps is left, and other errors of the steps.
fn each_from_last(holders: &[Holder], mut step: impl FnMut(Holder) -> Result<()>) -> Result<usize> {
    let mut lost_first = 0;
    for &holder in holders.iter().rev() {
        match step(holder) {
            Ok(()) => lost_first = 0,
            Err(error) if error.lost_peer() == Some(holder.node) => {
                lost_first += 1;
                if lost_first == holders.len() {
                    return Err(error);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(lost_first)
}

#[cfg(test)]
mod tests {
    use loco_fabric::{FabricError, NodeId};

    use super::*;

    fn holders(nodes: &[u16]) -> Holders {
        let nodes = nodes.iter().enumerate();
        nodes
            .map(|(copy, &node)| Holder {
                node: NodeId(node),
                copy,
            })
            .collect()
    }

    /// Takes steps where `gone` are lost. Returns the nodes in their order, and the outcome.
    fn steps(nodes: &[u16], gone: &[u16]) -> (Vec<u16>, Result<usize>) {
        let mut taken = Vec::new();
        let outcome = each_from_last(&holders(nodes), |holder| {
            taken.push(holder.node.0);
            match gone.contains(&holder.node.0) {
                true => Err(lost(holder.node)),
                false => Ok(()),
            }
        });
        (taken, outcome)
    }

    #[test]
    fn copies_are_written_from_the_last_to_the_first() {
        assert_eq!(steps(&[2, 3, 0], &[]), (vec![0, 3, 2], Ok(0)));
    }

    #[test]
    fn lost_copies_are_passed_over() {
        assert_eq!(steps(&[2, 3, 0], &[0, 3]), (vec![0, 3, 2], Ok(0)));
        assert_eq!(steps(&[2, 3, 0], &[2]), (vec![0, 3, 2], Ok(1)));
        assert_eq!(
            steps(&[2, 3, 0], &[2, 3]),
            (vec![0, 3, 2], Ok(2)),
            "others may read either"
        );
        assert_eq!(steps(&[2, 3, 0], &[2, 0]), (vec![0, 3, 2], Ok(1)));
        let (taken, outcome) = steps(&[2, 3], &[2, 3]);
        assert_eq!(taken, [3, 2]);
        assert_eq!(outcome.expect_err("all are lost").lost_peer(), Some(NodeId(2)));
    }

    #[test]
    fn another_error_ends_the_steps() {
        let mut taken = 0;
        let outcome = each_from_last(&holders(&[1, 2]), |_| {
            taken += 1;
            Err(FabricError::DeclaredLost.into())
        });
        assert_eq!(outcome, Err(FabricError::DeclaredLost.into()));
        assert_eq!(taken, 1, "the first copy is not written before the last one");
    }
}
