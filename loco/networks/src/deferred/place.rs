//! Where memory is: peers' memory with its place, by which the card tells which transfers touch the same bytes.

use loco_fabric::{NodeId, RegionKey, RemoteMemory, Result};

/// A place in a node's registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    arena: u64,
    /// The address within the arena, which begins at a word.
    pub(super) address: u64,
}

impl Place {
    pub(super) fn of(key: &RegionKey) -> Place {
        Place {
            arena: key.arena,
            address: key.address,
        }
    }

    /// Returns the place `offset` bytes behind.
    pub(super) fn plus(self, offset: usize) -> Place {
        Place {
            address: self.address + offset as u64,
            ..self
        }
    }

    /// Returns the distance from `other`, if the place is not before it and in the same arena.
    pub(super) fn since(self, other: Place) -> Option<usize> {
        let distance = self.address.checked_sub(other.address)?;
        (self.arena == other.arena).then_some(usize::try_from(distance).ok()?)
    }

    /// Returns the address modulo the size of a word.
    pub(super) fn phase(self) -> usize {
        (self.address % 8) as usize
    }
}

/// A peer's memory, with its place.
#[derive(Clone, Debug)]
pub struct Placed<R> {
    pub(super) remote: R,
    pub(super) place: Place,
}

impl<R: RemoteMemory> RemoteMemory for Placed<R> {
    fn node(&self) -> NodeId {
        self.remote.node()
    }

    fn len(&self) -> usize {
        self.remote.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Placed<R>> {
        Ok(Placed {
            remote: self.remote.slice(offset, len)?,
            place: self.place.plus(offset),
        })
    }

    fn prefetch(&self, offset: usize) {
        self.remote.prefetch(offset);
    }

    fn prefetch_write(&self, offset: usize) {
        self.remote.prefetch_write(offset);
    }
}
