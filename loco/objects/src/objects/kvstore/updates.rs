//! Updates of many keys by one call.
//!
//! The updates under one lock are a *group*, which shares the lock and the fence before its release. On shared memory, where nothing
//! is under way, the groups are done one after another. On networks they overlap: the steps of all groups are taken together, so a window
//! of updates takes hardly more round trips than one (`groups`).
//!
//! Relies on `batch` for the order of groups and on `write` for the steps of a write. Used by the calls of the store.

use std::cell::Cell;

use loco_fabric::{Fabric, NodeId};
use smallvec::SmallVec;

use crate::fence::{self, Scope};
use crate::objects::locks::ticket_lock::Several;
use crate::{Error, Pending, Result, Thread};

use super::groups::Group;
use super::places::{Places, WINDOW};
use super::slot::{Location, slot_bytes};
use super::value::Encode;
use super::write::Meta;
use super::{KvStore, Shared};

/// The updates of one window.
struct Window<'a, K, V> {
    entries: &'a [(K, V)],
    /// Where the keys were before any lock was taken.
    places: Places,
}

impl<K: Eq, V> Window<'_, K, V> {
    /// Returns the updates of a group in their order.
    fn updates<'b>(&'b self, group: &'b Group) -> impl Iterator<Item = Update<'b, K, V>> {
        group.iter().enumerate().map(move |(n, &(_, i))| {
            let (key, value) = &self.entries[i as usize];
            let mut later = group[n + 1..].iter().map(|&(_, i)| &self.entries[i as usize].0);
            Update {
                key,
                value,
                before: self.places.get(i as usize),
                overwritten: later.any(|its| its == key),
            }
        })
    }
}

/// An update of a window: the key, the value, and where the key was before the lock was taken.
struct Update<'a, K, V> {
    key: &'a K,
    value: &'a V,
    before: Option<Location>,
    /// Set if a later update of the window overwrites the value, so that it need not be written. It takes effect just before that one.
    overwritten: bool,
}

/// The nodes that a group writes to.
type Nodes = SmallVec<[NodeId; 8]>;

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Updates many keys and returns how many were present. Each update takes effect by itself. Updates of one key
    /// take effect in the given order, others in any order. All are done on return. Up to 128 updates overlap, and those under one
    /// lock share it and its fence. Locks that another thread of this node uses at the time are taken one by one after the others.
    /// Where values have [copies](super::KvConfig::copies), they are updated one after the other.
    ///
    /// # Errors
    /// Returns the errors of [`update`](KvStore::update). Some of the updates may have been done, and others not.
    ///
    /// # After a timeout
    /// Each entry was updated as a whole or not at all, and it is unknown which were. Updating all of them again is
    /// harmless if nobody else writes them.
    pub fn update_many(&self, thread: &Thread<F>, entries: &[(K, V)]) -> Result<usize> {
        let _call = thread.call(self.shared.channel.name(), "update_many");
        if let Some(copies) = &self.shared.copies {
            let mut found = 0;
            for (key, value) in entries {
                self.shared.check_value(value.bytes())?;
                found += usize::from(self.shared.update_copies(copies, thread, key, value.bytes())?);
            }
            return Ok(found);
        }
        let found = Cell::new(0);
        let updated = entries
            .chunks(WINDOW)
            .try_for_each(|entries| self.shared.update_window(thread, entries, &found));
        if found.get() > 0 {
            self.shared.count_writes(found.get() as u64);
        }
        updated.map(|()| found.get())
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Updates at most [`WINDOW`] keys, and adds the number of those that were present to `found`.
    fn update_window<V: Encode>(
        &self,
        thread: &Thread<F>,
        entries: &[(K, V)],
        found: &Cell<usize>,
    ) -> Result<()> {
        for (_, value) in entries {
            self.check_value(value.bytes())?;
        }
        let mut places = Places::default();
        let order = self.order(thread, entries, &mut places);
        let window = Window { entries, places };
        let mut groups = order.chunk_by(|a, b| a.0 == b.0);
        if thread.reads_at_once() || order.iter().all(|entry| entry.0 == order[0].0) {
            return groups.try_for_each(|group| self.update_group(thread, &window, group, found));
        }
        let groups: SmallVec<[&Group; WINDOW]> = groups.collect();
        self.under_locks(
            thread,
            &groups,
            |several, held| {
                thread.to_the_end(|| self.update_held(thread, &window, &groups, held, several, found))
            },
            |group| self.update_group(thread, &window, group, found),
        )
    }

    /// Updates the keys of one lock, and adds the number of those that were present to `found`.
    fn update_group<V: Encode>(
        &self,
        thread: &Thread<F>,
        window: &Window<'_, K, V>,
        group: &Group,
        found: &Cell<usize>,
    ) -> Result<()> {
        let mut guard = self.locks[group[0].0 as usize].lock(thread, Scope::Nothing)?;
        let mut there = 0;
        let mut written = Ok(());
        let mut nodes = Nodes::new();
        for update in window.updates(group) {
            // Where a look at the slot costs nothing, it saves a second lookup in the index.
            let at = match guard.recovered() || thread.reads_at_once() {
                true => self.find_valid_from(thread, update.key, update.before),
                false => Ok(self.find(update.key)),
            };
            let at = match at {
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
            if !update.overwritten {
                written = thread.to_the_end(|| self.write_body(thread, at, update.value.bytes()));
                if written.is_err() {
                    break;
                }
            }
            there += 1;
        }
        match thread.to_the_end(|| guard.release()) {
            // Only the lock's home is lost; the fence towards the values' nodes succeeded.
            Err(error) if error.lost_peer().is_some_and(|lost| !nodes.contains(&lost)) => written?,
            released => written.and(released)?,
        }
        thread.still_in()?;
        found.set(found.get() + there);
        Ok(())
    }

    /// Updates the keys of the groups at `held`, whose locks are held, and releases the locks.
    fn update_held<V: Encode>(
        &self,
        thread: &Thread<F>,
        window: &Window<'_, K, V>,
        groups: &[&Group],
        held: &[usize],
        several: &mut Several<'_, F>,
        found: &Cell<usize>,
    ) -> Result<()> {
        let begun = several.guards(held).into_iter().zip(held);
        let mut writes: Vec<GroupWrites<'_, '_, F, K, V>> = begun
            .map(|(guard, &i)| GroupWrites::begin(self, thread, window.updates(groups[i]), guard.recovered()))
            .collect();
        writes.iter_mut().for_each(|group| group.write(self, thread));
        writes.iter_mut().for_each(GroupWrites::finish_puts);
        // Where the values are on the lock's home, the release places them. The others need the fence of a single update.
        let (placing, fenced): (Vec<_>, Vec<_>) = held
            .iter()
            .copied()
            .zip(writes)
            .partition(|(i, group)| several.places(*i, &group.nodes));
        let positions = |of: &[(usize, _)]| of.iter().map(|&(i, _)| i).collect::<SmallVec<[usize; 16]>>();
        let placed = several.begin_release(&positions(&placing), true);
        let mut nodes = Nodes::new();
        for &node in fenced.iter().flat_map(|(_, group)| &group.nodes) {
            if !nodes.contains(&node) {
                nodes.push(node);
            }
        }
        let lost = fence::towards_each(thread, &nodes);
        let released = several.begin_release(&positions(&fenced), false);
        let placed = several.finish_release(placed);
        let released = several.finish_release(released);
        let mut outcome = Ok(());
        for ((_, group), placed) in placing.into_iter().zip(placed) {
            // Values that were not placed are lost with the lock's home.
            let home = placed.as_ref().err().and_then(Error::lost_peer);
            let updated = group.outcome(Ok(home.as_slice()), placed);
            outcome = outcome.and(updated.map(|there| found.set(found.get() + there)));
        }
        for ((_, group), released) in fenced.into_iter().zip(released) {
            let updated = group.outcome(lost.as_deref(), released);
            outcome = outcome.and(updated.map(|there| found.set(found.get() + there)));
        }
        outcome
    }
}

/// Looks at the slots of keys. There is none for a key that the index does not have.
type Looks<'t, F> = SmallVec<[Option<Result<Meta<'t, F>>>; 4]>;

/// The writes of a group whose lock is held.
struct GroupWrites<'a, 't, F: Fabric, K, V> {
    updates: SmallVec<[Update<'a, K, V>; 4]>,
    /// The reads of the slots' meta words where the index had the keys, if the lock is in doubt.
    looks: Option<Looks<'t, F>>,
    puts: SmallVec<[Pending<'t, F>; 4]>,
    nodes: Nodes,
    /// The number of keys that were present.
    there: usize,
    written: Result<()>,
}

impl<'a, 't, F: Fabric, K: Encode + Eq, V: Encode> GroupWrites<'a, 't, F, K, V> {
    /// Begins to look whether the keys are still where they were before the lock was taken, if that is in doubt.
    fn begin(
        store: &Shared<F, K>,
        thread: &'t Thread<F>,
        updates: impl Iterator<Item = Update<'a, K, V>>,
        in_doubt: bool,
    ) -> GroupWrites<'a, 't, F, K, V> {
        let updates: SmallVec<[Update<'a, K, V>; 4]> = updates.collect();
        let look = |update: &Update<'_, K, V>| update.before.map(|at| store.begin_meta(thread, at));
        GroupWrites {
            looks: in_doubt.then(|| updates.iter().map(look).collect()),
            updates,
            puts: SmallVec::new(),
            nodes: Nodes::new(),
            there: 0,
            written: Ok(()),
        }
    }

    /// Posts the writes of the keys that are present, up to the first error.
    fn write(&mut self, store: &Shared<F, K>, thread: &'t Thread<F>) {
        let updates = std::mem::take(&mut self.updates);
        let mut looks = self.looks.take().map(SmallVec::into_iter);
        for update in &updates {
            let there = match &mut looks {
                None => Ok(store.find(update.key)),
                Some(looks) => found_by(store, thread, update, looks.next().flatten()),
            };
            self.written = there.and_then(|there| self.write_one(store, thread, update, there));
            if self.written.is_err() {
                break;
            }
        }
    }

    fn write_one(
        &mut self,
        store: &Shared<F, K>,
        thread: &'t Thread<F>,
        update: &Update<'_, K, V>,
        there: Option<Location>,
    ) -> Result<()> {
        let Some(at) = there else { return Ok(()) };
        if !self.nodes.contains(&at.node) {
            self.nodes.push(at.node);
        }
        if !update.overwritten {
            let value = update.value.bytes();
            // A long value has a buffer of its own, of which there is one at a time.
            match slot_bytes(value.len()) > thread.network().block_bytes() {
                true => store.write_body(thread, at, value)?,
                false => self.puts.extend(store.begin_body(thread, at, value)?),
            }
        }
        self.there += 1;
        Ok(())
    }

    /// Waits until the buffers of the puts have been read.
    fn finish_puts(&mut self) {
        for put in std::mem::take(&mut self.puts) {
            if let Err(error) = put.wait()
                && self.written.is_ok()
            {
                self.written = Err(error);
            }
        }
    }

    /// Returns the number of keys that were updated, from the outcome of the fence, which names lost nodes, and of the release.
    fn outcome(self, fenced: Result<&[NodeId], &Error>, released: Result<()>) -> Result<usize> {
        let lost = fenced.map_err(Clone::clone)?;
        self.written?;
        if let Some(&node) = self.nodes.iter().find(|node| lost.contains(node)) {
            return Err(crate::fabric::FabricError::PeerLost(node).into());
        }
        match released {
            // Only the lock's home is lost, or its next owner; the writes are placed.
            Err(error) if error.lost_peer().is_none() => Err(error),
            _ => Ok(self.there),
        }
    }
}

/// Returns where the key of an update is, if it is present, from the look at its slot.
fn found_by<F: Fabric, K: Encode + Eq, V>(
    store: &Shared<F, K>,
    thread: &Thread<F>,
    update: &Update<'_, K, V>,
    look: Option<Result<Meta<'_, F>>>,
) -> Result<Option<Location>> {
    // Where the look failed, the key may have moved since.
    let still = update.before.filter(|&at| {
        let valid = look.map(|meta| meta.and_then(|meta| meta.finish(at)));
        matches!(valid, Some(Ok(true)))
    });
    match still {
        Some(at) => Ok(Some(at)),
        None => store.find_valid(thread, update.key),
    }
}
