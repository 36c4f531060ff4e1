//! Updates of many keys by one call.
//!
//! On networks the call starts all updates of a window, and then waits for each (`start`). On shared memory, where nothing is under way,
//! the updates under one lock are a *group*, which shares the lock, and the groups are done one after another.
//!
//! Relies on `batch` for the order of groups and on `write` for the steps of a write. Used by the calls of the store.

use std::cell::Cell;

use loco_fabric::{Fabric, NodeId};
use smallvec::SmallVec;

use crate::fence::Scope;
use crate::{Result, Thread};

use super::groups::Group;
use super::places::{Places, WINDOW};
use super::slot::Location;
use super::value::Encode;
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
    /// take effect in the given order, others in any order. All are done on return. Up to 128 updates overlap, as those that were
    /// [started](KvStore::update_start) do. Where values have [copies](super::KvConfig::copies), they are updated one after the other.
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
        if !thread.reads_at_once() {
            let windows = entries.chunks(WINDOW);
            return windows.map(|entries| self.update_started(thread, entries)).sum();
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

    /// Updates at most [`WINDOW`] keys, all under way at a time. Returns the number of those that were present. After an error, it takes those
    /// back that have not begun.
    fn update_started(&self, thread: &Thread<F>, entries: &[(K, V)]) -> Result<usize> {
        for (_, value) in entries {
            self.shared.check_value(value.bytes())?;
        }
        let start = |(key, value): &(K, V)| self.start_update(thread, key, value);
        let started: SmallVec<[_; WINDOW]> = entries.iter().map(start).collect::<Result<_>>()?;
        let found = started.into_iter().map(|update| update.wait().map(usize::from));
        found.sum()
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Updates at most [`WINDOW`] keys where operations are done at once, and adds the number of those that were present to `found`.
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
        groups.try_for_each(|group| self.update_group(thread, &window, group, found))
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
        found.set(found.get() + there);
        Ok(())
    }
}
