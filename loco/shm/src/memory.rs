//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::sync::Arc;

use crate::arena::Arena;
use loco_fabric::{Memory, NodeId, RemoteMemory, Result, Word};
use loco_host::arenas::{Arena as _, Block};
use loco_host::span::{Span, SpanCell};

/// Registered memory of this node.
#[derive(Clone, Debug)]
pub struct ShmMemory(Span<Block<Arena>>);

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type ShmCell<W> = SpanCell<W, Block<Arena>>;

/// A peer's memory, mapped into this process.
#[derive(Clone, Debug)]
pub struct ShmRemote {
    span: Span<Arena>,
    node: NodeId,
}

impl ShmMemory {
    pub(super) fn new(block: Block<Arena>, len: usize) -> ShmMemory {
        // SAFETY: `len` bytes at least were asked for; the block keeps its arena mapped.
        ShmMemory(unsafe { Span::new(block.start(), len, Arc::new(block)) })
    }

    /// Returns the arena of the memory, and the offset of its first byte there.
    pub(super) fn place(&self) -> (&Arena, usize) {
        let arena = self.0.keep().arena();
        (
            arena,
            self.0.start().as_ptr().addr() - arena.start().as_ptr().addr(),
        )
    }

    /// Returns the span, for access by address.
    #[inline]
    pub(super) fn span(&self) -> &Span<Block<Arena>> {
        &self.0
    }
}

impl Memory for ShmMemory {
    type Cell<W: Word> = ShmCell<W>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        self.0.slice(offset, len).map(ShmMemory)
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ShmCell<W>> {
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

/// Returns a span of a whole arena.
pub(crate) fn whole(arena: Arc<Arena>) -> Span<Arena> {
    // SAFETY: all of a mapping that the arena keeps.
    unsafe { Span::new(arena.start(), arena.len(), arena) }
}

impl ShmRemote {
    /// Returns the `len` bytes from `offset` of `arena`, whose owner is `node`.
    pub(super) fn new(arena: Arc<Arena>, node: NodeId, offset: usize, len: usize) -> Result<ShmRemote> {
        let span = whole(arena).slice(offset, len)?;
        Ok(ShmRemote { span, node })
    }

    /// Returns the span, for access by address.
    #[inline]
    pub(super) fn span(&self) -> &Span<Arena> {
        &self.span
    }
}

impl RemoteMemory for ShmRemote {
    #[inline]
    fn node(&self) -> NodeId {
        self.node
    }

    #[inline]
    fn len(&self) -> usize {
        self.span.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        Ok(ShmRemote {
            span: self.span.slice(offset, len)?,
            node: self.node,
        })
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        self.span.prefetch(offset);
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        self.span.prefetch_write(offset);
    }
}
