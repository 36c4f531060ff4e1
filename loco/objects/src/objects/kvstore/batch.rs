//! Inserts of many keys by one call, several at a time.
//!
//! On networks the call asks for all locks that it needs at once (`groups`). The inserts under those that it gets share the wait for the
//! nodes' acknowledgements. On shared memory, where nothing overlaps, it takes all locks first, and the wait is one for all.
//!
//! Deadlock is not possible: a thread that holds a lock of several waits for no other, on shared memory for higher-numbered ones alone, and
//! for acknowledgements, which monitors give without any lock.

use std::hint::black_box;

use loco_fabric::{Fabric, RwLock};
use smallvec::{SmallVec, smallvec};

use crate::fence::Scope;
use crate::{Error, Result, Thread};

use super::groups::Group;
use super::places::{Places, WINDOW};
use super::slot::Location;
use super::trust::{self, Guard};
use super::value::Encode;
use super::write::Begun;
use super::{Inserted, KvStore, Shared};

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
            let mut known: SmallVec<[Option<Inserted>; WINDOW]> = smallvec![None; entries.len()];
            self.shared.insert_window(thread, entries, &mut known)?;
            for outcome in known {
                // Not reached: a window without an error has worked on each of its entries.
                outcomes.push(outcome.ok_or(Error::Closed)?);
            }
        }
        Ok(outcomes)
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Inserts at most [`WINDOW`] keys. `outcomes` has the place of the result of each, which is `None` until it is known.
    fn insert_window<V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        outcomes: &mut [Option<Inserted>],
    ) -> Result<()> {
        debug_assert!(entries.len() <= WINDOW, "{} entries of a window", entries.len());
        let order = self.order(thread, entries, &mut Places::default());
        let groups: SmallVec<[&Group; WINDOW]> = order.chunk_by(|a, b| a.0 == b.0).collect();
        if thread.reads_at_once() {
            return self.insert_under_all(thread, entries, &groups, outcomes);
        }
        let mut failed = false;
        self.under_locks(thread, &groups, |several, held| {
            let mut inserted = match failed {
                false => {
                    let groups = held.iter().map(|&i| groups[i]).zip(several.guards(held));
                    self.insert_groups(thread, entries, groups, outcomes)
                }
                // The call fails, whatever is still added.
                true => Ok(()),
            };
            failed |= inserted.is_err();
            for released in several.release(held) {
                // The loss of a lock's home does not undo what was done.
                match released {
                    Err(error) if error.lost_peer().is_some() => {}
                    released => inserted = inserted.and(released),
                }
            }
            inserted
        })
    }

    /// Inserts the keys of `groups`, which are in the order of their locks, where nothing is under way that could overlap. It takes
    /// all their locks in that order, so that one wait for acknowledgements does for all.
    fn insert_under_all<V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        groups: &[&Group],
        outcomes: &mut [Option<Inserted>],
    ) -> Result<()> {
        let locks = groups.iter().map(|group| &self.locks[group[0].0 as usize]);
        let guards: SmallVec<[Guard<'_, F>; WINDOW]> = locks
            .map(|lock| lock.lock(thread, Scope::Nothing))
            .collect::<Result<_>>()?;
        let held = groups.iter().copied().zip(&guards);
        let mut outcome = self.insert_groups(thread, entries, held, outcomes);
        for guard in guards {
            outcome = self.release(thread, guard, outcome);
        }
        outcome
    }

    /// Inserts the keys of groups whose locks are held, and waits once until all nodes have applied them.
    fn insert_groups<'g, 'l: 'g, V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        groups: impl Iterator<Item = (&'g Group, &'g Guard<'l, F>)>,
        outcomes: &mut [Option<Inserted>],
    ) -> Result<()>
    where
        F: 'l,
    {
        let mut half_done: SmallVec<[&Guard<'l, F>; WINDOW]> = SmallVec::new();
        let mut announced: SmallVec<[Location; WINDOW]> = SmallVec::new();
        let mut last = 0;
        let mut begun = Ok(());
        'groups: for (group, guard) in groups {
            let before = announced.len();
            for &(_, i) in group {
                let (key, value) = &entries[i as usize];
                match self.begin(thread, guard, key, value.bytes(), &announced) {
                    Ok(Begun::Announced(at, number)) => {
                        announced.push(at);
                        last = number;
                        outcomes[i as usize] = Some(Inserted::Done);
                    }
                    Ok(Begun::Not(why)) => outcomes[i as usize] = Some(why),
                    Err(error) => {
                        // The announcement of this one may be on the way: it stays half done.
                        begun = Err(error);
                        break 'groups;
                    }
                }
            }
            if announced.len() > before {
                half_done.push(guard);
            }
        }
        // Inserts that were announced before the error are still completed.
        let finished = self.finish(thread, &announced, last);
        if finished.is_ok() {
            half_done.into_iter().for_each(trust::done);
        }
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
