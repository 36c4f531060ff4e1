//! The window of a send queue: a slot for each work request under way, and the counts of those posted and completed.
//!
//! ```text
//! owner of the queue pair                      whoever polls, under the poller's lock
//! wait until posted - completed < slots        a completion comes from the device
//! fill the slot                                is it one of those posted?
//! posted += 1                                  copy the slot
//! hand the request to the device               completed = the number after it
//! ```
//!
//! The owner counts a request as posted before the device has it, so that no completion comes of one that is not. The poller copies
//! a slot before it counts the request as completed, so that the owner fills no slot that is still read.
//!
//! Over any platform: in `model`, a test, the words are those of loom. Used by [`send_queue`](crate::send_queue).

#[cfg(test)]
mod model;

use loco_fabric::{AtomicCell, Platform, Std, WorkRequestId};

/// The bits of a device's work request id that hold the sequence number. The other bits are the queue's index.
pub(super) const SEQUENCE_BITS: u32 = 40;
pub(super) const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// A send queue's slots and counts.
pub(super) struct Window<P: Platform = Std> {
    /// A power of two of them.
    slots: Box<[Slot<P>]>,
    /// The number of work requests posted. Written by the owner.
    posted: P::AtomicU64,
    /// The number of work requests completed. Written under the poller's lock.
    completed: P::AtomicU64,
}

/// The report on a work request. The owner writes it before it posts, and it is read when the completion has come.
struct Slot<P: Platform> {
    id: P::AtomicU64,
    what: P::AtomicU32,
}

/// A work request that a completion has ended.
pub(super) struct Ended {
    /// The id under which it is reported.
    pub(super) id: WorkRequestId,
    /// What the owner noted of it.
    pub(super) what: u32,
    /// The number of work requests completed with it.
    completed: u64,
}

impl<P: Platform> Window<P> {
    /// Returns a window of `depth` slots, a power of two.
    pub(super) fn new(depth: usize) -> Window<P> {
        debug_assert!(depth.is_power_of_two());
        let slot = || Slot {
            id: AtomicCell::new(0),
            what: AtomicCell::new(0),
        };
        Window {
            slots: (0..depth).map(|_| slot()).collect(),
            posted: AtomicCell::new(0),
            completed: AtomicCell::new(0),
        }
    }

    /// Returns the number of slots.
    pub(super) fn depth(&self) -> usize {
        self.slots.len()
    }

    #[inline]
    fn slot(&self, sequence: u64) -> &Slot<P> {
        // The length is a power of two, so this is a mask and always in range.
        #[allow(clippy::cast_possible_truncation)]
        &self.slots[sequence as usize & (self.slots.len() - 1)]
    }

    /// Fills the slot of work request `sequence`, which has room.
    #[inline]
    pub(super) fn fill(&self, sequence: u64, id: WorkRequestId, what: u32) {
        let slot = self.slot(sequence);
        slot.id.store(id.0);
        slot.what.store(what);
    }

    /// Returns what the slot of work request `sequence` has, which is under way.
    #[inline]
    pub(super) fn filled(&self, sequence: u64) -> (WorkRequestId, u32) {
        let slot = self.slot(sequence);
        (WorkRequestId(slot.id.load()), slot.what.load())
    }

    /// Counts work requests below `posted` as posted. Their slots are filled, and the device has none of them yet.
    #[inline]
    pub(super) fn publish(&self, posted: u64) {
        self.posted.store(posted);
    }

    /// Returns the number of work requests completed. The poller no longer reads the slots below.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        self.completed.load()
    }

    /// Returns the work request that the device reports as number `sequence`, of which it has the low bits. `None` if it is none of those
    /// under way. The poller's lock is held.
    #[inline]
    pub(super) fn ended(&self, sequence: u64) -> Option<Ended> {
        let posted = self.posted.load();
        let completed = self.completed.load();
        let count = (sequence + 1).wrapping_sub(completed) & SEQUENCE_MASK;
        if count == 0 || count > posted - completed {
            return None;
        }
        let completed = completed + count;
        let (id, what) = self.filled(completed - 1);
        Some(Ended { id, what, completed })
    }

    /// Counts a work request and those before it as completed, so that the owner may use their slots again. The poller's lock is
    /// held.
    #[inline]
    pub(super) fn complete(&self, ended: &Ended) {
        self.complete_all(ended.completed);
    }

    /// Counts the first `completed` work requests as completed. The poller's lock is held.
    #[inline]
    pub(super) fn complete_all(&self, completed: u64) {
        self.completed.store(completed);
    }

    /// Returns true if none is under way. The owner is gone and the poller's lock is held, so that neither count changes.
    pub(super) fn is_drained(&self) -> bool {
        self.completed.load() == self.posted.load()
    }
}
