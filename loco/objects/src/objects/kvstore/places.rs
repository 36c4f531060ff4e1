//! The locations of the keys of a window, between their lookup in the index and their use.

use loco_fabric::NodeId;
use smallvec::SmallVec;

use super::slot::Location;

/// The number of operations that one call on many keys has under way at a time.
pub(super) const WINDOW: usize = 128;

/// The lowest bit of the node in the word of a place. The slot is below.
const NODE_AT: u32 = 32;

// A node and a slot leave bits that only `Places::NOWHERE` has.
const _: () = assert!(NODE_AT >= u32::BITS && NODE_AT + u16::BITS < u64::BITS);

/// The locations of the keys of a window. Each is two words, which are read as they were written: the processor could not
/// forward the parts of a location to a wider load, which would wait until all earlier lookups have left the processor.
#[derive(Default)]
pub(super) struct Places {
    /// Node and slot.
    slots: SmallVec<[u64; WINDOW]>,
    counters: SmallVec<[u64; WINDOW]>,
}

impl Places {
    /// The word of a key without a location, which has more bits than one of a slot.
    const NOWHERE: u64 = u64::MAX;

    /// Adds the location of a key, or that it has none.
    #[inline]
    pub(super) fn push(&mut self, at: Option<Location>) {
        let slot = at.map_or(Places::NOWHERE, |at| {
            u64::from(at.node.0) << NODE_AT | u64::from(at.slot)
        });
        self.slots.push(slot);
        self.counters.push(at.map_or(0, |at| at.counter));
    }

    /// Returns the location of the key that was added as number `i`, from 0.
    #[inline]
    #[allow(clippy::cast_possible_truncation)] // The halves of a word.
    pub(super) fn get(&self, i: usize) -> Option<Location> {
        let (slot, counter) = (self.slots[i], self.counters[i]);
        (slot != Places::NOWHERE).then_some(Location {
            node: NodeId((slot >> NODE_AT) as u16),
            slot: slot as u32,
            counter,
        })
    }

    /// Returns all locations.
    #[inline]
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<Location>> {
        (0..self.slots.len()).map(|i| self.get(i))
    }
}
