//! Reads of the whole store as of one moment. They run under all locks.
//!
//! A scan takes every lock, in ascending order, so that two scans do not wait for each other; other calls wait for no lock while they hold
//! one. Once it has the last one no call is between its first and
//! its last step: each insert, update and delete came as a whole before this moment or comes as a whole after it. That is the
//! moment of the scan. A value that a call wrote before it is placed, since each call fences before it releases its lock. This
//! node's index has every key that is valid, since an insert sets the valid bit when all nodes have applied it.
//!
//! Slots are read in the order of their places, and neighbours by one read, so that the locks are held for a short time.

use loco_fabric::{Fabric, Memory, RwLock};

use crate::fence::Scope;
use crate::operations::operation::{Flags, Operation};
use crate::{AckKey, LockGuard, MemRef, Pending, Result, Thread, TicketLock};

use super::copies::{Ended, View};
use super::slot::{Found, Location, open};
use super::value::Encode;
use super::{KvStore, Shared};

/// The most bytes that one read takes, unless a slot is larger.
const RUN_BYTES: usize = 1 << 16;
/// The most bytes between two slots that are read rather than skipped: as many as a network moves in about the time of one more
/// read.
const GAP_BYTES: usize = 1 << 11;

impl<F: Fabric, K: Encode + Eq, V: Encode> KvStore<K, V, F> {
    /// Returns every key and its value, all as they were at one moment of the call, in no particular order. Calls that ended
    /// before this one began are in the result, and calls that begin after it has ended are not.
    ///
    /// Writers on all nodes wait while the values are read, since this call holds all locks. Lookups go on. Each lock,
    /// and each read of up to 64 KiB, has the thread's deadline for itself, unless
    /// [`set_deadline`](Thread::set_deadline) or [`within`](Thread::within) set one for all.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if a lock, or the node of a key's value, is gone,
    /// [`Torn`](crate::Error::Torn) if a writer was lost in the middle of an update that nobody has repeated,
    /// [`Config`](crate::Error::Config) if values of another type were written, and
    /// [`Timeout`](crate::ErrorKind::Timeout) while somebody holds a lock. Where values have [copies](super::KvConfig::copies),
    /// [`PeerLost`](crate::ErrorKind::PeerLost) says that all nodes that had one of a key's value are lost, and a loss meanwhile
    /// makes the call begin again.
    ///
    /// # After a timeout
    /// Nothing has changed. Call again.
    pub fn entries(&self, thread: &Thread<F>) -> Result<Vec<(K, V)>> {
        self.in_one_view(thread, |view| {
            let mut entries = Vec::new();
            self.scan(thread, view, &mut |key, bytes| {
                let value = V::from_bytes(bytes).ok_or_else(|| self.of_another_type(bytes.len()))?;
                entries.push((key.clone(), value));
                Ok(())
            })?;
            Ok(entries)
        })
    }

    /// Calls `read` for a [`scan`](KvStore::scan) in one view, and again in the next one if a node that it needs is lost and its values have
    /// copies. There is no view where they have none.
    pub(super) fn in_one_view<T>(
        &self,
        thread: &Thread<F>,
        read: impl Fn(Option<View>) -> Result<T>,
    ) -> Result<T> {
        match &self.shared.copies {
            None => read(None),
            Some(copies) => {
                let read = |view| read(Some(view)).map(Ended::Done);
                self.shared.in_views(copies, thread, read)
            }
        }
    }

    /// Calls `each` with every key and the bytes of its value, as of one moment. Ends at the first error of `each`.
    pub(super) fn scan(
        &self,
        thread: &Thread<F>,
        view: Option<View>,
        each: &mut dyn FnMut(&K, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let shared = &*self.shared;
        // An index that is out of date lacks keys.
        shared.check_monitor()?;
        let mut guards = Vec::with_capacity(shared.locks.len());
        let mut outcome = shared.lock_all(thread, view, &mut guards);
        if outcome.is_ok() {
            outcome = shared
                .read_all(thread, view, each)
                .and_then(|()| shared.check_monitor());
        }
        for guard in guards {
            outcome = shared.release(thread, guard, outcome);
        }
        outcome
    }
}

impl<F: Fabric, K: Encode + Eq> Shared<F, K> {
    /// Takes all locks, the lowest first, and adds them to `guards`.
    fn lock_all<'a>(
        &'a self,
        thread: &'a Thread<F>,
        view: Option<View>,
        guards: &mut Vec<LockGuard<'a, TicketLock<F>, F>>,
    ) -> Result<()> {
        for (number, lock) in self.locks.iter().enumerate() {
            let lock = match (&self.copies, view) {
                (Some(copies), Some(view)) => self.numbered_lock_in(copies, number, view)?,
                _ => lock,
            };
            guards.push(lock.lock(thread, Scope::Nothing)?);
        }
        Ok(())
    }

    /// Reads all values. The caller holds all locks.
    fn read_all(
        &self,
        thread: &Thread<F>,
        view: Option<View>,
        each: &mut dyn FnMut(&K, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut entries: Vec<(Location, K)> = self.index.read().entries().collect();
        let in_view = self.copies.as_ref().zip(view);
        if let Some((copies, view)) = in_view {
            let (moved, there) = entries
                .into_iter()
                .partition(|&(at, _)| copies.is_moved_in(at, view));
            entries = there;
            let moved: Vec<(Location, K)> = moved;
            for (at, key) in moved {
                if let Some(value) = self.read_moved(copies, thread, view, at)? {
                    each(&key, &value)?;
                }
            }
        }
        entries.sort_unstable_by_key(|(at, _)| (at.node, at.slot));
        let most = self.run_bytes();
        let mut buffer = vec![0; most];
        let mut registered = None;
        for run in runs(&entries, self.slot_bytes, most) {
            let first = run[0].0;
            let slots = (run[run.len() - 1].0.slot - first.slot) as usize + 1;
            let bytes = &mut buffer[..slots * self.slot_bytes];
            self.read_run(thread, first, bytes, &mut registered)?;
            for (at, key) in run {
                let offset = (at.slot - first.slot) as usize * self.slot_bytes;
                let slot = &bytes[offset..offset + self.slot_bytes];
                match open(slot, at.counter, self.config.value_bytes_max) {
                    Found::Value(value) => each(key, value)?,
                    // A writer has stopped in the middle, or deleted the key, and not every node knows.
                    Found::Invalid | Found::Reused => {}
                    // A slot has room for the longest value.
                    Found::Torn | Found::Longer(_) => match in_view {
                        Some((copies, view)) => each(key, &self.read_spare(copies, thread, view, *at)?)?,
                        None => return Err(self.torn()),
                    },
                }
            }
        }
        Ok(())
    }

    /// Returns the bytes of the longest run.
    fn run_bytes(&self) -> usize {
        let all = self
            .slot_bytes
            .saturating_mul(self.config.slots_per_node as usize);
        all.min(RUN_BYTES).max(self.slot_bytes)
    }

    /// Reads neighbouring slots of a node, from that at `first` on. `registered` keeps the memory for reads between calls.
    fn read_run<'a>(
        &self,
        thread: &'a Thread<F>,
        first: Location,
        out: &mut [u8],
        registered: &mut Option<MemRef<'a, F>>,
    ) -> Result<()> {
        if thread.reads_at_once() {
            return thread.read_at_once(self.place(first, 0)?, out);
        }
        if first.node == self.channel.node() {
            return Ok(self.data.local()?.read(self.offset(first.slot), out)?);
        }
        let memory = match registered.take() {
            Some(memory) => memory,
            None => thread.mem_ref(self.run_bytes())?,
        };
        let mut ended = AckKey::done();
        let get = Operation::Get(memory.local(0, out.len())?, self.place(first, 0)?);
        let posted = thread.post_into(&get, Flags::default(), &mut ended);
        // Dropped after an error, it keeps the memory until the read has ended.
        let pending = Pending::new(ended, memory);
        posted?;
        let memory = pending.wait()?;
        memory.read(0, out)?;
        *registered = Some(memory);
        Ok(())
    }
}

/// Splits entries, which are in the order of their places, into runs of slots of one node that one read of `most` bytes takes.
fn runs<K>(
    entries: &[(Location, K)],
    slot_bytes: usize,
    most: usize,
) -> impl Iterator<Item = &[(Location, K)]> {
    let mut rest = entries;
    std::iter::from_fn(move || {
        let (first, _) = rest.first()?;
        let joins = |before: &Location, at: &Location| {
            let gap = (at.slot - before.slot) as usize;
            let whole = (at.slot - first.slot) as usize + 1;
            at.node == first.node
                && gap.saturating_sub(1).saturating_mul(slot_bytes) <= GAP_BYTES
                && whole.saturating_mul(slot_bytes) <= most
        };
        let next =
            (1..rest.len()).find(|&i| rest[i].0.node != first.node || !joins(&rest[i - 1].0, &rest[i].0));
        let (run, after) = rest.split_at(next.unwrap_or(rest.len()));
        rest = after;
        Some(run)
    })
}

#[cfg(test)]
mod tests {
    use loco_fabric::NodeId;

    use super::*;

    fn at(node: u16, slot: u32) -> (Location, ()) {
        let node = NodeId(node);
        let counter = 1;
        (Location { node, slot, counter }, ())
    }

    #[test]
    fn neighbours_are_read_together() {
        let entries = [
            at(0, 1),
            at(0, 2),
            at(0, 4),
            at(0, 500),
            at(1, 501),
            at(1, 502),
            at(1, 503),
        ];
        let lens =
            |slot_bytes, most| -> Vec<usize> { runs(&entries, slot_bytes, most).map(<[_]>::len).collect() };
        assert_eq!(
            lens(32, 1 << 16),
            [3, 1, 3],
            "not over a long gap, nor over two nodes"
        );
        assert_eq!(lens(32, 64), [2, 1, 1, 2, 1], "no more than one read takes");
        assert_eq!(lens(1 << 20, 1 << 20), [1; 7], "large slots each by itself");
        assert_eq!(runs::<()>(&[], 32, 64).count(), 0);
    }
}
