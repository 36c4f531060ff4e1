//! Inserts of many keys by one call, several at a time.
//!
//! Deadlock is not possible: a thread that holds a lock waits only for higher-numbered locks and for
//! acknowledgements, which monitors give without any lock.

use std::hint::black_box;

use loco_fabric::{Fabric, RwLock};
use smallvec::SmallVec;

use crate::fence::Scope;
use crate::{LockGuard, Result, Thread, TicketLock};

use super::places::{Places, WINDOW};
use super::slot::Location;
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
