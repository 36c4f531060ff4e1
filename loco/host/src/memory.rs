//! A node's own registered memory, for fabrics that copy it by the CPU: a block of an arena that this process maps.
//!
//! Relies on [`crate::arenas`] and [`crate::span`]. Used by [`crate::heap`] and by `loco-shm`.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use loco_fabric::{Memory, Result, Word};

use crate::arenas::{Arena, Block};
use crate::span::{Span, SpanCell};

/// Registered memory of this node, in an arena of type `A`.
pub struct ArenaMemory<A: Arena>(Span<Block<A>>);

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type ArenaCell<A, W> = SpanCell<W, Block<A>>;

impl<A: Arena> ArenaMemory<A> {
    /// Makes the handle on the first `len` bytes of a block that was allocated for that many.
    pub fn new(block: Block<A>, len: usize) -> ArenaMemory<A> {
        // SAFETY: `len` bytes at least were asked for; the block keeps its arena mapped.
        ArenaMemory(unsafe { Span::new(block.start(), len, Arc::new(block)) })
    }

    /// Returns the bytes as a span, for access by address.
    #[inline]
    pub fn span(&self) -> &Span<Block<A>> {
        &self.0
    }

    /// Returns the address of the first byte, which is mapped as long as this handle or a clone of it. It is for code in other
    /// languages. Its accesses are atomic for no word, unless it makes them so.
    pub fn address(&self) -> Option<NonNull<u8>> {
        Some(self.0.start())
    }

    /// Returns the arena of the memory.
    pub fn arena(&self) -> &A {
        self.0.keep().arena()
    }

    /// Returns the offset of the first byte in the arena.
    pub fn place(&self) -> u64 {
        (self.0.start().as_ptr().addr() - self.arena().start().as_ptr().addr()) as u64
    }
}

impl<A: Arena> Clone for ArenaMemory<A> {
    fn clone(&self) -> Self {
        ArenaMemory(self.0.clone())
    }
}

impl<A: Arena> fmt::Debug for ArenaMemory<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ArenaMemory").field(&self.0).finish()
    }
}

impl<A: Arena + Send + Sync + 'static> Memory for ArenaMemory<A> {
    type Cell<W: Word> = ArenaCell<A, W>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        self.0.slice(offset, len).map(ArenaMemory)
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ArenaCell<A, W>> {
        self.0.cell(offset)
    }

    #[inline]
    fn load_word(&self, offset: usize) -> Result<u64> {
        self.0.load_word(offset)
    }

    #[inline]
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out)
    }

    #[inline]
    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.0.write(offset, data)
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        self.0.prefetch(offset);
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        self.0.prefetch_write(offset);
    }

    #[inline]
    fn evict(&self, offset: usize) {
        self.0.evict(offset);
    }
}
