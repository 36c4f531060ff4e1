//! Pieces: single operations of libfabric, and the registered buffers through which their data pass.
//!
//! A piece carries a range of one operation, or several short operations of a queue pair, its *parts*.
//!
//! The provider never touches the program's own memory. Sources are copied to a buffer when a piece is posted, and
//! results are copied from one when they land. Both copies keep words whole, and the engine makes them in order. If
//! an operation was given up (a lost peer), its buffer stays with the provider until the provider is done with it.
//!
//! Relies on `ffi::types`, `queue`, [`loco_host::heap`]. Used by `engine`.

use std::ffi::c_void;

use loco_fabric::Result;
use loco_host::arenas::Block;
use loco_host::bytes;
use loco_host::heap::{Arena, Heap};
use smallvec::SmallVec;

use crate::ffi::types::{Context2, zeroed};
use crate::order::Class;
use crate::port::{COMPARISONS_AT, PARTS_MAX, RESULTS_AT, Verb};
use crate::queue::Op;

/// No queue: the operation was given up.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A range of an operation, carried by a piece.
pub(crate) struct Part {
    /// The number of the operation on its queue pair.
    pub(crate) sequence: u64,
    /// The offset of the data within the operation, and their length.
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The place in the peer's mapping.
    pub(crate) place: u64,
    /// The offset of the data in the piece's data; of a read-modify-write, of its operand.
    at: usize,
}

/// A piece, under way or free. libfabric has its address while it is under way.
#[repr(C)]
pub(crate) struct Piece {
    /// The provider's room. It comes first, so that its address is the piece's.
    context: Context2,
    index: u32,
    /// The queue pair, or [`NOBODY`].
    pub(crate) queue: u32,
    /// The parts, in the order of their operations.
    pub(crate) parts: SmallVec<[Part; PARTS_MAX]>,
    /// The number of parts whose results have come and must still land.
    pub(crate) landing: usize,
    /// The place in the buffer where the data begin: the remainder of the remote address, so that words are aligned
    /// in both.
    phase: usize,
    buffer: Block<Arena>,
}

/// The pieces of a node.
pub(crate) struct Pieces {
    /// Each was made by `Box::into_raw`. libfabric writes to the contexts, so there are no references to them meanwhile.
    all: Vec<*mut Piece>,
    free: Vec<u32>,
    limit: usize,
    buffer_bytes: usize,
}

// SAFETY: the pieces are reached only through this value, except by libfabric, which follows the engine's lock.
unsafe impl Send for Pieces {}

impl Pieces {
    /// Returns a set that will have at most `limit` pieces of at most `piece_bytes`.
    pub(crate) fn new(limit: usize, piece_bytes: usize) -> Pieces {
        Pieces {
            all: Vec::new(),
            free: Vec::new(),
            limit,
            // Room for the phase, and for the words of read-modify-writes.
            buffer_bytes: (piece_bytes + 8).max(RESULTS_AT + 8 * PARTS_MAX),
        }
    }

    /// Takes a free piece, if there is one.
    pub(crate) fn take(&mut self, heap: &Heap) -> Result<Option<u32>> {
        if let Some(index) = self.free.pop() {
            return Ok(Some(index));
        }
        if self.all.len() >= self.limit {
            return Ok(None);
        }
        let index = u32::try_from(self.all.len()).unwrap_or(u32::MAX);
        let piece = Piece {
            context: zeroed(),
            index,
            queue: NOBODY,
            parts: SmallVec::new(),
            landing: 0,
            phase: 0,
            buffer: heap.block(self.buffer_bytes)?,
        };
        self.all.push(Box::into_raw(Box::new(piece)));
        Ok(Some(index))
    }

    /// Gives a piece back.
    pub(crate) fn give(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Records that a result has landed, or was given up. Gives the piece back after the last one.
    pub(crate) fn landed(&mut self, index: u32) {
        let piece = self.get(index);
        piece.landing -= 1;
        if piece.landing == 0 {
            self.give(index);
        }
    }

    /// Ends the pieces of a queue pair without a report.
    pub(crate) fn abandon(&mut self, queue: u32) {
        for index in 0..self.all.len() {
            // SAFETY: the field is ours alone; the provider has the context only.
            unsafe {
                let owner = &raw mut (*self.all[index]).queue;
                if *owner == queue {
                    *owner = NOBODY;
                }
            }
        }
    }

    /// Returns the number of pieces that are under way.
    pub(crate) fn under_way(&self) -> usize {
        self.all.len() - self.free.len()
    }

    /// Returns the piece, which must not be under way, or whose event has come.
    pub(crate) fn get(&mut self, index: u32) -> &mut Piece {
        // SAFETY: made by `Box::into_raw`, freed by `drop` alone; the borrow of `self` makes it exclusive.
        unsafe { &mut *self.all[index as usize] }
    }

    /// Returns the address of the piece's context, for libfabric.
    pub(crate) fn context(&self, index: u32) -> *mut c_void {
        self.all[index as usize].cast()
    }

    /// Returns the index of the piece with this context.
    pub(crate) fn of_context(&self, context: *mut c_void) -> Option<u32> {
        if context.is_null() {
            return None;
        }
        // SAFETY: contexts are pieces of this set, which live as long as it.
        let index = unsafe { (*context.cast::<Piece>()).index };
        (self.all.get(index as usize).copied() == Some(context.cast())).then_some(index)
    }
}

impl Piece {
    /// Returns the address of the data.
    pub(crate) fn data(&self) -> *mut u8 {
        // SAFETY: the phase is below 8, and the buffer has that much room before the data.
        unsafe { self.buffer.start().as_ptr().add(self.phase) }
    }

    /// Begins a piece of a queue pair whose first part will be at `place`.
    pub(crate) fn begin(&mut self, queue: u32, class: Class, place: u64) {
        self.queue = queue;
        self.parts.clear();
        self.phase = match class {
            Class::Rmw => 0,
            Class::Write | Class::Read => (place % 8) as usize,
        };
    }

    /// Adds the next `len` bytes of an operation, and copies their source.
    pub(crate) fn add(&mut self, sequence: u64, op: &Op, len: usize) -> Result<()> {
        let (offset, at) = (op.issued, self.len());
        // SAFETY: the engine adds no more than the buffer has room for.
        let to = unsafe { self.data().add(at) };
        match op.verb {
            Verb::Write => match &op.local {
                Some((memory, start)) => {
                    let source = memory.span().address(start + offset, len)?;
                    // SAFETY: the source was checked just now; the buffer has room, and is ours.
                    unsafe { bytes::copy(to, source, len) };
                }
                // SAFETY: as above.
                None => unsafe { bytes::write(to, &op.data[offset..offset + len]) },
            },
            Verb::FetchAdd | Verb::CompareSwap => {
                let (operand, comparison) = op.operands;
                // SAFETY: the buffer has room for three words of each part, and is ours.
                unsafe {
                    bytes::write(to, &operand.to_ne_bytes());
                    bytes::write(to.add(COMPARISONS_AT), &comparison.to_ne_bytes());
                }
            }
            Verb::Read => {}
        }
        self.parts.push(Part {
            sequence,
            offset,
            len,
            place: op.place + offset as u64,
            at,
        });
        Ok(())
    }

    /// Returns the number of bytes of all parts.
    pub(crate) fn len(&self) -> usize {
        self.parts.last().map_or(0, |last| last.at + last.len)
    }

    /// Copies the result of an operation to its destination.
    pub(crate) fn land(&self, sequence: u64, op: &Op) {
        let part = self.parts.iter().find(|part| part.sequence == sequence);
        let (Some(part), Some((memory, start))) = (part, &op.local) else {
            return;
        };
        let at = match op.class() {
            Class::Rmw => RESULTS_AT + part.at,
            Class::Read | Class::Write => part.at,
        };
        match memory.span().address(start + part.offset, part.len) {
            // SAFETY: both ranges are mapped: one was checked just now, the other is the piece's.
            Ok(to) => unsafe { bytes::copy(to, self.data().add(at), part.len) },
            // The range was checked when the operation was posted.
            Err(error) => tracing::error!("{} of a result: {error}", op.name),
        }
    }
}

/// Returns the length of the next piece from `place`, and the size of its words: as many whole words as there are, or
/// one aligned part of a word.
pub(crate) fn cut(place: u64, len: usize, piece_bytes: usize) -> (usize, usize) {
    if place.is_multiple_of(8) && len >= 8 {
        return ((len & !7).min(piece_bytes & !7), 8);
    }
    let fits = [4, 2]
        .into_iter()
        .find(|&size| size <= len && place.is_multiple_of(size as u64));
    let size = fits.unwrap_or(1);
    (size, size)
}

impl Drop for Pieces {
    fn drop(&mut self) {
        for &piece in &self.all {
            // SAFETY: made by `Box::into_raw`; the endpoint that knew the address is closed before.
            drop(unsafe { Box::from_raw(piece) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::cut;

    /// Returns the pieces of `len` bytes from `place`.
    fn pieces(mut place: u64, mut len: usize) -> Vec<(usize, usize)> {
        let mut all = Vec::new();
        while len > 0 {
            let (bytes, word) = cut(place, len, 64);
            assert!(bytes > 0 && bytes <= len && place.is_multiple_of(word as u64));
            all.push((bytes, word));
            place += bytes as u64;
            len -= bytes;
        }
        all
    }

    #[test]
    fn words_are_never_cut() {
        assert_eq!(pieces(8, 8), [(8, 8)]);
        assert_eq!(pieces(0, 136), [(64, 8), (64, 8), (8, 8)]);
        assert_eq!(pieces(4, 12), [(4, 4), (8, 8)]);
        assert_eq!(pieces(1, 10), [(1, 1), (2, 2), (4, 4), (2, 2), (1, 1)]);
        assert_eq!(pieces(20, 4), [(4, 4)]);
        assert_eq!(pieces(26, 2), [(2, 2)]);
        for place in 0..16 {
            for len in 0..40_usize {
                let bytes: usize = pieces(place, len).iter().map(|(bytes, _)| bytes).sum();
                assert_eq!(bytes, len);
                // Every aligned word of the range is in one piece of words.
                let whole = (place.next_multiple_of(8)..place + len as u64)
                    .step_by(8)
                    .filter(|word| word + 8 <= place + len as u64);
                let words: usize = pieces(place, len)
                    .iter()
                    .filter(|(_, word)| *word == 8)
                    .map(|(bytes, _)| bytes / 8)
                    .sum();
                assert_eq!(words, whole.count());
            }
        }
    }
}
