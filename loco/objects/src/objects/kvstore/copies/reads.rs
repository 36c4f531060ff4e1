//! Lookups of values whose first copy is lost, and of values that a lost writer left torn.

use loco_fabric::Fabric;

use super::slot::{Backup, Presence};
use super::views::View;
use super::writes::Ended;
use super::{Copies, Holder, lost};
use crate::{Error, Result, Thread};

use super::super::KvStore;
use super::super::read::Looked;
use super::super::slot::Location;
use super::super::value::Encode;

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Looks a key up after an error: in the next copy, if its node was lost.
    #[cold]
    pub(in super::super) fn get_after(&self, thread: &Thread<F>, key: &K, error: Error) -> Result<Option<V>> {
        let Some(copies) = &self.shared.copies else {
            return Err(error);
        };
        match copies.views.lost_in(&error) {
            Some(position) => self.get_in(copies, thread, key, View::default().with(position)),
            None => Err(error),
        }
    }

    /// Looks a key up in a copy that is not lost.
    #[cold]
    pub(in super::super) fn get_moved(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
    ) -> Result<Option<V>> {
        self.get_in(copies, thread, key, View::default())
    }

    /// Looks up a window of keys by `get`. Where a value has moved to another copy, looks them up one by one.
    #[inline]
    pub(in super::super) fn window(
        &self,
        thread: &Thread<F>,
        keys: &[K],
        values: &mut Vec<Option<V>>,
        get: impl FnOnce(&Self, &Thread<F>, &[K], &mut Vec<Option<V>>) -> Result<()>,
    ) -> Result<()> {
        let begin = values.len();
        match get(self, thread, keys, values) {
            Err(error) if self.is_moved(&error) => {
                values.truncate(begin);
                self.get_each(thread, keys, values)
            }
            got => got,
        }
    }

    /// Looks up keys one by one.
    #[cold]
    pub(in super::super) fn get_each(
        &self,
        thread: &Thread<F>,
        keys: &[K],
        values: &mut Vec<Option<V>>,
    ) -> Result<()> {
        keys.iter().try_for_each(|key| {
            values.push(self.get(thread, key)?);
            Ok(())
        })
    }

    /// Returns true if a lookup that failed with `error` may find its value in another copy.
    pub(in super::super) fn is_moved(&self, error: &Error) -> bool {
        self.shared.copies.is_some() && error.lost_peer().is_some()
    }

    /// Returns true if this node has turned away from the node of the first copy of a value.
    pub(in super::super) fn has_moved(&self, at: Location) -> bool {
        let copies = self.shared.copies.as_ref();
        copies.is_some_and(|copies| copies.has_turned_from(at.node))
    }

    /// Looks a key up in a view in which everybody is gone who is in `least`, or in a later one.
    fn get_in(&self, copies: &Copies<F>, thread: &Thread<F>, key: &K, mut least: View) -> Result<Option<V>> {
        loop {
            // This node's monitor takes losses into the view.
            self.shared.check_monitor()?;
            let view = copies.views.settled(thread, least)?;
            let Some(at) = self.shared.find(key) else {
                return thread.still_in().map(|()| None);
            };
            let Some(&holder) = copies.holders(at, view).first() else {
                return Err(lost(at.node));
            };
            // The call took no part in the view, which may have changed meanwhile; it then overlaps with all that came after.
            let looked = self.look_at_copy(copies, thread, (holder, at), |backup| backup.value_unlocked());
            let error = match looked {
                Ok(Looked::Known(value)) => return thread.still_in().map(|()| value),
                // Writes have overtaken the read, or a lost writer was in the middle of one.
                Ok(Looked::Torn | Looked::Longer(_)) => return self.get_mended(copies, thread, key),
                Err(error) => error,
            };
            match copies.views.lost_in(&error) {
                Some(position) if !view.has(position) => least = view.with(position),
                _ => return Err(error),
            }
        }
    }

    /// Looks at one copy. `value` says which half of a backup slot counts.
    fn look_at_copy(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        (holder, at): (Holder, Location),
        value: for<'a> fn(&Backup<'a>) -> Option<&'a [u8]>,
    ) -> Result<Looked<V>> {
        if holder.copy == 0 {
            return self.read_whole(thread, at);
        }
        let slot = copies.read(thread, holder, at)?;
        let backup = Backup::new(&slot, at.counter);
        match backup.presence() {
            Presence::Present => {}
            Presence::Absent | Presence::Over => return Ok(Looked::Known(None)),
            // Those that had copies were lost before this node got one.
            Presence::Unknown => return Err(lost(at.node)),
        }
        let Some(bytes) = value(&backup) else {
            return Ok(Looked::Torn);
        };
        let value = V::from_bytes(bytes).ok_or_else(|| self.of_another_type(bytes.len()))?;
        Ok(Looked::Known(Some(value)))
    }

    /// Looks a key up under its lock, so that no writer is active. Writes a value that is torn in the slot of the primary again,
    /// from the spare.
    pub(in super::super) fn get_mended(
        &self,
        copies: &Copies<F>,
        thread: &Thread<F>,
        key: &K,
    ) -> Result<Option<V>> {
        let shared = &*self.shared;
        shared.under_lock(copies, thread, key, |view, _| {
            self.mend(copies, thread, key, view).map(Ended::Done)
        })
    }

    fn mend(&self, copies: &Copies<F>, thread: &Thread<F>, key: &K, view: View) -> Result<Option<V>> {
        let shared = &*self.shared;
        let Some(at) = shared.find(key) else {
            return Ok(None);
        };
        let holders = copies.holders(at, view);
        let Some(&first) = holders.first() else {
            return Err(lost(at.node));
        };
        match self.look_at_copy(copies, thread, (first, at), |backup| backup.value())? {
            Looked::Known(value) => return Ok(value),
            // A backup slot has a whole value while nobody writes it.
            Looked::Torn | Looked::Longer(_) if first.copy != 0 => return Err(shared.torn()),
            Looked::Torn | Looked::Longer(_) => {}
        }
        let spare = copies.read(thread, first, at)?;
        let Some(bytes) = Backup::new(&spare, at.counter).value() else {
            return Err(shared.torn());
        };
        thread.to_the_end(|| shared.write_slot(thread, at, bytes))?;
        let value = V::from_bytes(bytes).ok_or_else(|| self.of_another_type(bytes.len()))?;
        Ok(Some(value))
    }
}
