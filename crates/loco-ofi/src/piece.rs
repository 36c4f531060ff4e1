//! Pieces: single operations of libfabric, and the registered buffers through which their data pass.
//!
//! The provider never touches the program's own memory. Sources are copied to a buffer when a piece is posted, and
//! results are copied from one when they land. Both copies keep words whole, and the engine makes them in order. If
//! an operation was given up (a lost peer), its buffer stays with the provider until the provider is done with it.
//!
//! Relies on `ffi::types`, `heap`. Used by `engine`.

use std::ffi::c_void;

use loco_fabric::Result;
use loco_host::arenas::Block;

use crate::ffi::types::{Context2, zeroed};
use crate::heap::{Arena, Heap};

/// No queue: the operation was given up.
pub(crate) const NOBODY: u32 = u32::MAX;

/// A piece, under way or free. libfabric has its address while it is under way.
#[repr(C)]
pub(crate) struct Piece {
    /// The provider's room. It comes first, so that its address is the piece's.
    context: Context2,
    index: u32,
    /// The queue pair, or [`NOBODY`].
    pub(crate) queue: u32,
    /// The number of its operation on the queue pair.
    pub(crate) sequence: u64,
    /// The offset of the data within the operation, and their length.
    pub(crate) offset: usize,
    pub(crate) len: usize,
    /// The place in the buffer where the data begin: the remainder of the remote address, so that words are aligned
    /// in both.
    pub(crate) phase: usize,
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
            // Room for the phase, and for the three words of a read-modify-write.
            buffer_bytes: (piece_bytes + 8).max(32),
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
            sequence: 0,
            offset: 0,
            len: 0,
            phase: 0,
            buffer: heap.allocate(self.buffer_bytes)?,
        };
        self.all.push(Box::into_raw(Box::new(piece)));
        Ok(Some(index))
    }

    /// Gives a piece back.
    pub(crate) fn give(&mut self, index: u32) {
        self.free.push(index);
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
}

impl Drop for Pieces {
    fn drop(&mut self) {
        for &piece in &self.all {
            // SAFETY: made by `Box::into_raw`; the endpoint that knew the address is closed before.
            drop(unsafe { Box::from_raw(piece) });
        }
    }
}
