//! Writes of many keys by one call, several at a time.
//!
//! Deadlock is not possible: a thread that holds a lock waits only for higher-numbered locks and for
//! acknowledgements, which monitors give without any lock.

use std::hint::black_box;

use loco_fabric::{Fabric, NodeId, RwLock};
use smallvec::SmallVec;

use crate::fence::Scope;
use crate::{LockGuard, Result, Thread, TicketLock};

use super::places::{Places, WINDOW};
use super::slot::Location;
use super::value::Encode;
use super::write::Begun;
use super::{Inserted, KvStore, Shared};

/// Lock of an entry, and its place in the call.
type Order = SmallVec<[(u32, u32); WINDOW]>;

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Updates many keys and returns how many were present. Each update takes effect by itself. Updates of one key
    /// take effect in the given order, others in any order. All are done on return. The writes under one lock
    /// overlap, and share the lock and its fence.
    ///
    /// # Errors
    /// Returns the errors of [`update`](KvStore::update). Some of the updates may have been done, and others not.
    ///
    /// # After a timeout
    /// Each entry was updated as a whole or not at all, and it is unknown which were. Updating all of them again is
    /// harmless if nobody else writes them.
    pub fn update_many(&self, thread: &Thread<F>, entries: &[(K, V)]) -> Result<usize> {
        let _call = thread.call(self.shared.channel.name(), "update_many");
        let mut found = 0;
        let updated = entries
            .chunks(WINDOW)
            .try_for_each(|entries| self.shared.update_window(thread, entries, &mut found));
        if found > 0 {
            self.shared.count_writes(found as u64);
        }
        updated.map(|()| found)
    }

    /// Inserts many keys, with their values on this node, and returns the result of each in order: what
    /// [`insert`](KvStore::insert) would have returned. Each insert takes effect by itself. Up to 128 of them wait
    /// together for the nodes' acknowledgements.
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
        for entries in entries.chunks(WINDOW) {
            for (key, value) in entries {
                self.shared.check_key(key)?;
                self.shared.check_value(value.bytes())?;
            }
            self.insert_window(thread, entries, &mut outcomes)?;
        }
        Ok(outcomes)
    }

    fn insert_window(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        outcomes: &mut Vec<Inserted>,
    ) -> Result<()> {
        let shared = &*self.shared;
        debug_assert!(entries.len() <= WINDOW, "{} entries of a window", entries.len());
        let first = outcomes.len();
        outcomes.resize(first + entries.len(), Inserted::Done);
        let order = shared.order(thread, entries, &mut Places::default());
        let mut guards: SmallVec<[LockGuard<'_, TicketLock<F>, F>; WINDOW]> = SmallVec::new();
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            guards.push(shared.locks[group[0].0 as usize].lock(thread, Scope::Nothing)?);
        }
        let mut announced: SmallVec<[Location; WINDOW]> = SmallVec::new();
        let mut last = 0;
        let mut begun = Ok(());
        for &(_, i) in &order {
            let (key, value) = &entries[i as usize];
            match shared.begin(thread, key, value.bytes(), &announced) {
                Ok(Begun::Announced(at, number)) => {
                    announced.push(at);
                    last = number;
                }
                Ok(Begun::Not(why)) => outcomes[first + i as usize] = why,
                Err(error) => {
                    begun = Err(error);
                    break;
                }
            }
        }
        // Inserts that were announced before the error are still completed.
        let finished = shared.finish(thread, &announced, last);
        // The loss of a lock's home does not undo what was done.
        let mut outcome = begun.and(finished);
        for guard in guards {
            outcome = shared.release(thread, guard, outcome);
        }
        outcome
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Groups the entries by lock, each group in the given order, and prefetches their slots and locks.
    /// Appends the location of each key, or `None` if it is absent, to `places`.
    fn order<V>(&self, thread: &Thread<F>, entries: &[(K, V)], places: &mut Places) -> Order {
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

    /// Updates at most [`WINDOW`] keys, and adds the number of those that were present to `found`.
    fn update_window<V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        found: &mut usize,
    ) -> Result<()> {
        for (_, value) in entries {
            self.check_value(value.bytes())?;
        }
        let mut places = Places::default();
        let order = self.order(thread, entries, &mut places);
        for group in order.chunk_by(|a, b| a.0 == b.0) {
            let group_entries = group
                .iter()
                .map(|&(_, i)| (&entries[i as usize], places.get(i as usize)));
            *found += self.update_group(thread, group[0].0, group_entries)?;
        }
        Ok(())
    }

    /// Updates the keys of one lock, which were at the given locations before the lock was taken. Returns how many were
    /// present.
    fn update_group<'a, V: Encode>(
        &self,
        thread: &Thread<F>,
        lock: u32,
        entries: impl Iterator<Item = (&'a (K, V), Option<Location>)>,
    ) -> Result<usize> {
        let mut guard = self.locks[lock as usize].lock(thread, Scope::Nothing)?;
        let mut found = 0;
        let mut written = Ok(());
        let mut nodes: SmallVec<[NodeId; 8]> = SmallVec::new();
        for ((key, value), before) in entries {
            let at = match self.find_valid_from(thread, key, before) {
                Ok(Some(at)) => at,
                Ok(None) => continue,
                Err(error) => {
                    written = Err(error);
                    break;
                }
            };
            // The fence between the writes and the release, as for a single update.
            guard.set_scope(match guard.scope() {
                Scope::Nothing => Scope::Pair(at.node),
                Scope::Pair(node) if node == at.node => Scope::Pair(node),
                _ => Scope::Thread,
            });
            nodes.push(at.node);
            written = thread.to_the_end(|| self.write_body(thread, at, value.bytes()));
            if written.is_err() {
                break;
            }
            found += 1;
        }
        match thread.to_the_end(|| guard.release()) {
            // Only the lock's home is lost; the fence towards the values' nodes succeeded.
            Err(error) if error.lost_peer().is_some_and(|lost| !nodes.contains(&lost)) => written?,
            released => written.and(released)?,
        }
        thread.still_in()?;
        Ok(found)
    }
}
