//! Updates of many keys by one call.
//!
//! The updates under one lock are a *group*, which shares the lock and the fence before its release. On shared memory, where nothing
//! is under way, the groups are done one after another. On networks they overlap: the steps of all groups are taken together, so a window
//! of updates takes hardly more round trips than one. A group that must wait for its lock holds no other one meanwhile
//! ([`Several`]).
//!
//! Relies on `batch` for the order of groups and on `write` for the steps of a write. Used by the calls of the store.

use loco_fabric::{Fabric, NodeId};
use smallvec::SmallVec;

use crate::fence::{self, Scope};
use crate::objects::locks::ticket_lock::Several;
use crate::{Error, Pending, Result, Thread};

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

/// The updates under one lock: the lock's number, and the place of the update in the window.
type Group = [(u32, u32)];

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
        let mut found = 0;
        if let Some(copies) = &self.shared.copies {
            for (key, value) in entries {
                self.shared.check_value(value.bytes())?;
                found += usize::from(self.shared.update_copies(copies, thread, key, value.bytes())?);
            }
            return Ok(found);
        }
        let updated = entries
            .chunks(WINDOW)
            .try_for_each(|entries| self.shared.update_window(thread, entries, &mut found));
        if found > 0 {
            self.shared.count_writes(found as u64);
        }
        updated.map(|()| found)
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
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
        let window = Window { entries, places };
        let mut groups = order.chunk_by(|a, b| a.0 == b.0);
        if thread.reads_at_once() || order.iter().all(|entry| entry.0 == order[0].0) {
            return groups.try_for_each(|group| self.update_group(thread, &window, group, found));
        }
        let groups: SmallVec<[&Group; WINDOW]> = groups.collect();
        self.update_groups(thread, &window, &groups, found)
    }

    /// Updates the keys of one lock, and adds the number of those that were present to `found`.
    fn update_group<V: Encode>(
        &self,
        thread: &Thread<F>,
        window: &Window<'_, K, V>,
        group: &Group,
        found: &mut usize,
    ) -> Result<()> {
        let mut guard = self.locks[group[0].0 as usize].lock(thread, Scope::Nothing)?;
        let mut there = 0;
        let mut written = Ok(());
        let mut nodes = Nodes::new();
        for update in window.updates(group) {
            let at = match self.find_valid_from(thread, update.key, update.before) {
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
        *found += there;
        Ok(())
    }

    /// Updates the keys of several locks, each as soon as its lock is held. After an error the groups of locks that were begun are
    /// updated all the same.
    fn update_groups<V: Encode>(
        &self,
        thread: &Thread<F>,
        window: &Window<'_, K, V>,
        groups: &[&Group],
        found: &mut usize,
    ) -> Result<()> {
        let (begin, deadline) = (thread.now(), thread.deadline());
        let locks = groups.iter().map(|group| &self.locks[group[0].0 as usize]);
        let mut several = Several::draw(thread, locks);
        let mut outcome = Ok(());
        loop {
            let held = several.held();
            if !held.is_empty() {
                let updated = thread
                    .to_the_end(|| self.update_held(thread, window, groups, &held, &mut several, found));
                outcome = outcome.and(updated);
            }
            outcome = outcome.and(several.failure());
            if held.is_empty() && !several.wait(begin, deadline) {
                break;
            }
        }
        let left = several.left();
        drop(several);
        // Their locks are used by other threads of this node, which hand them over.
        for i in left {
            outcome = outcome.and_then(|()| self.update_group(thread, window, groups[i], found));
        }
        outcome.and_then(|()| thread.still_in())
    }

    /// Updates the keys of the groups at `held`, whose locks are held, and releases the locks.
    fn update_held<V: Encode>(
        &self,
        thread: &Thread<F>,
        window: &Window<'_, K, V>,
        groups: &[&Group],
        held: &[usize],
        several: &mut Several<'_, F>,
        found: &mut usize,
    ) -> Result<()> {
        let mut writes: Vec<GroupWrites<'_, '_, F, K, V>> = held
            .iter()
            .map(|&i| GroupWrites::begin(self, thread, window.updates(groups[i])))
            .collect();
        writes.iter_mut().for_each(|group| group.write(self, thread));
        let mut nodes = Nodes::new();
        for group in &mut writes {
            group.finish_puts();
            for &node in &group.nodes {
                if !nodes.contains(&node) {
                    nodes.push(node);
                }
            }
        }
        // The fence between the writes and the releases, as for a single update.
        let fenced = fence::towards_each(thread, &nodes);
        let released = several.release(held);
        let mut outcome = Ok(());
        for (group, released) in writes.into_iter().zip(released) {
            outcome = outcome.and(
                group
                    .outcome(fenced.as_ref(), released)
                    .map(|there| *found += there),
            );
        }
        outcome
    }
}

/// The writes of a group whose lock is held.
struct GroupWrites<'a, 't, F: Fabric, K, V> {
    updates: SmallVec<[Update<'a, K, V>; 4]>,
    /// The reads of the slots' meta words, where the index had the key.
    looks: SmallVec<[Option<Result<Meta<'t, F>>>; 4]>,
    puts: SmallVec<[Pending<'t, F>; 4]>,
    nodes: Nodes,
    /// The number of keys that were present.
    there: usize,
    written: Result<()>,
}

impl<'a, 't, F: Fabric, K: Encode + Eq, V: Encode> GroupWrites<'a, 't, F, K, V> {
    /// Begins to look whether the keys are still where they were before the lock was taken.
    fn begin(
        store: &Shared<F, K>,
        thread: &'t Thread<F>,
        updates: impl Iterator<Item = Update<'a, K, V>>,
    ) -> GroupWrites<'a, 't, F, K, V> {
        let updates: SmallVec<[Update<'a, K, V>; 4]> = updates.collect();
        let before = updates.iter().map(|update| update.before);
        GroupWrites {
            looks: before
                .map(|before| before.map(|at| store.begin_meta(thread, at)))
                .collect(),
            updates,
            puts: SmallVec::new(),
            nodes: Nodes::new(),
            there: 0,
            written: Ok(()),
        }
    }

    /// Posts the writes of the keys that are present, up to the first error.
    fn write(&mut self, store: &Shared<F, K>, thread: &'t Thread<F>) {
        let (updates, looks) = (std::mem::take(&mut self.updates), std::mem::take(&mut self.looks));
        for (update, look) in updates.iter().zip(looks) {
            self.written = self.write_one(store, thread, update, look);
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
        look: Option<Result<Meta<'t, F>>>,
    ) -> Result<()> {
        // Where the look failed, the key may have moved since.
        let still = update.before.filter(|&at| {
            let valid = look.map(|meta| meta.and_then(|meta| meta.finish(at)));
            matches!(valid, Some(Ok(true)))
        });
        let there = match still {
            Some(at) => Some(at),
            None => store.find_valid(thread, update.key)?,
        };
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
    fn outcome(self, fenced: Result<&SmallVec<[NodeId; 4]>, &Error>, released: Result<()>) -> Result<usize> {
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
