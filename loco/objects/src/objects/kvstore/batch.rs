//! Inserts of many keys by one call, several at a time.
//!
//! The call asks for all locks that it needs at once (`groups`). The inserts under those that it gets share the wait for the
//! nodes' acknowledgements.
//!
//! Deadlock is not possible: a thread that holds a lock of several waits for no other, and for acknowledgements, which monitors give
//! without any lock.

use std::cell::RefCell;
use std::hint::black_box;

use loco_fabric::{Fabric, RwLock};
use smallvec::SmallVec;

use crate::fence::Scope;
use crate::{Result, Thread};

use super::groups::Group;
use super::places::{Places, WINDOW};
use super::slot::Location;
use super::value::Encode;
use super::write::Begun;
use super::{Inserted, KvStore, Shared, trust};

/// Lock of an entry, and its place in the call.
pub(super) type Order = SmallVec<[(u32, u32); WINDOW]>;

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Inserts many keys, with their values on this node, and returns the result of each in order: what
    /// [`insert`](KvStore::insert) would have returned. Each insert takes effect by itself. Up to 128 of them wait
    /// together for the nodes' acknowledgements. Where values have [copies](super::KvConfig::copies), they are inserted one after
    /// the other.
    ///
    /// # Errors
    /// Returns the errors of [`insert`](KvStore::insert). Some of the keys may have been added, and others not.
    ///
    /// # After a timeout
    /// Each key was added or not, and it is unknown which were. No later step of this call adds one. Insert again:
    /// the keys that were added are `Duplicate` then.
    pub fn insert_many(&self, thread: &Thread<F>, entries: &[(K, V)]) -> Result<Vec<Inserted>> {
        let _call = thread.call(self.shared.channel.name(), "insert_many");
        let mut outcomes = Vec::with_capacity(entries.len());
        if let Some(copies) = &self.shared.copies {
            for (key, value) in entries {
                self.shared.check_key(key)?;
                self.shared.check_value(value.bytes())?;
                outcomes.push(self.shared.insert_copies(copies, thread, key, value.bytes())?);
            }
            return Ok(outcomes);
        }
        for entries in entries.chunks(WINDOW) {
            for (key, value) in entries {
                self.shared.check_key(key)?;
                self.shared.check_value(value.bytes())?;
            }
            let first = outcomes.len();
            outcomes.resize(first + entries.len(), Inserted::Done);
            self.shared
                .insert_window(thread, entries, &mut outcomes[first..])?;
        }
        Ok(outcomes)
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Inserts at most [`WINDOW`] keys. `outcomes` has the place of the result of each.
    fn insert_window<V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        outcomes: &mut [Inserted],
    ) -> Result<()> {
        debug_assert!(entries.len() <= WINDOW, "{} entries of a window", entries.len());
        let order = self.order(thread, entries, &mut Places::default());
        let groups: SmallVec<[&Group; WINDOW]> = order.chunk_by(|a, b| a.0 == b.0).collect();
        let outcomes = RefCell::new(outcomes);
        self.under_locks(
            thread,
            &groups,
            |several, held| {
                let insert = || {
                    let groups = held.iter().map(|&i| groups[i]);
                    self.insert_groups(thread, entries, groups, &mut outcomes.borrow_mut())
                };
                let mut inserted = trust::change(&several.guards(held), insert);
                let releases = several.begin_release(held, false);
                for released in several.finish_release(releases) {
                    // The loss of a lock's home does not undo what was done.
                    match released {
                        Err(error) if error.lost_peer().is_some() => {}
                        released => inserted = inserted.and(released),
                    }
                }
                inserted
            },
            |group| {
                let guard = self.locks[group[0].0 as usize].lock(thread, Scope::Nothing)?;
                let insert = || {
                    let group = std::iter::once(group);
                    self.insert_groups(thread, entries, group, &mut outcomes.borrow_mut())
                };
                let inserted = trust::change(&[&guard], insert);
                self.release(thread, guard, inserted)
            },
        )
    }

    /// Inserts the keys of groups whose locks are held, and waits once until all nodes have applied them.
    fn insert_groups<'g, V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        groups: impl Iterator<Item = &'g Group>,
        outcomes: &mut [Inserted],
    ) -> Result<()> {
        let mut announced: SmallVec<[Location; WINDOW]> = SmallVec::new();
        let mut last = 0;
        let mut begun = Ok(());
        for &(_, i) in groups.flatten() {
            let (key, value) = &entries[i as usize];
            match self.begin(thread, key, value.bytes(), &announced) {
                Ok(Begun::Announced(at, number)) => {
                    announced.push(at);
                    last = number;
                }
                Ok(Begun::Not(why)) => outcomes[i as usize] = why,
                Err(error) => {
                    begun = Err(error);
                    break;
                }
            }
        }
        // Inserts that were announced before the error are still completed.
        let finished = self.finish(thread, &announced, last);
        begun.and(finished)
    }

    /// Groups the entries by lock, each group in the given order, and prefetches their slots and locks.
    /// Appends the location of each key, or `None` if it is absent, to `places`.
    pub(super) fn order<V>(&self, thread: &Thread<F>, entries: &[(K, V)], places: &mut Places) -> Order {
        let index = self.index.read();
        black_box(entries.iter().filter(|(key, _)| index.touch(key)).count());
        let mut order: Order = SmallVec::new();
        for (i, (key, _)) in entries.iter().enumerate() {
            let at = index.get(key);
            if let Some(at) = at {
                self.prefetch_write(thread, at);
            }
            places.push(at);
            let lock = self.lock_number(key);
            self.locks[lock].prefetch();
            order.push((lock as u32, i as u32));
        }
        drop(index);
        order.sort_unstable();
        order
    }
}
