//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::sync::Arc;

use loco_fabric::{Memory, NodeId, RemoteMemory, Result, Word};
use loco_host::arenas::{Arena as _, Block};
use loco_host::span::{Span, SpanCell, check_aligned, check_range};

use crate::heap::Arena;

/// All registered memory of a node.
pub(crate) type Whole = Span<Arena>;

/// Registered memory of this node.
#[derive(Clone, Debug)]
pub struct TcpMemory(Span<Block<Arena>>);

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type TcpCell<W> = SpanCell<W, Block<Arena>>;

/// A peer's memory: its place in the peer's one mapping.
#[derive(Clone, Debug)]
pub struct TcpRemote {
    node: NodeId,
    offset: u64,
    len: usize,
}

impl TcpMemory {
    pub(crate) fn new(block: Block<Arena>, len: usize) -> TcpMemory {
        // SAFETY: `len` bytes at least were asked for; the block keeps its arena mapped.
        TcpMemory(unsafe { Span::new(block.start(), len, Arc::new(block)) })
    }

    /// Returns the place of the first byte in the node's mapping.
    pub(crate) fn arena_offset(&self) -> u64 {
        let arena = self.0.keep().arena();
        (self.0.start().as_ptr().addr() - arena.start().as_ptr().addr()) as u64
    }

    /// Fails unless `len` bytes from `offset` lie within the memory.
    #[inline]
    pub(crate) fn check(&self, offset: usize, len: usize) -> Result<()> {
        self.0.check(offset, len)
    }

    /// Copies out what an operation sends.
    pub(crate) fn fetch(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        self.0.read(offset, out)
    }

    /// Copies in what an operation has brought.
    pub(crate) fn land(&self, offset: usize, data: &[u8]) -> Result<()> {
        self.0.write(offset, data)
    }

    /// Copies `len` bytes of `src` here.
    pub(crate) fn copy_from(&self, offset: usize, src: &Whole, place: usize, len: usize) -> Result<()> {
        self.0.copy_from(offset, src, place, len)
    }

    /// Copies `len` bytes from here to `dst`.
    pub(crate) fn copy_to(&self, offset: usize, dst: &Whole, place: usize, len: usize) -> Result<()> {
        dst.copy_from(place, &self.0, offset, len)
    }

    /// Fails unless an aligned 8-byte word lies at `offset`.
    pub(crate) fn check_word(&self, offset: usize) -> Result<()> {
        self.0.check_word(offset)
    }
}

impl Memory for TcpMemory {
    type Cell<W: Word> = TcpCell<W>;

    #[inline]
    fn len(&self) -> usize {
        self.0.len()
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        self.0.slice(offset, len).map(TcpMemory)
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<TcpCell<W>> {
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

    fn evict(&self, offset: usize) {
        self.0.evict(offset);
    }
}

impl TcpRemote {
    pub(crate) fn new(node: NodeId, offset: u64, len: usize) -> TcpRemote {
        TcpRemote { node, offset, len }
    }

    /// Returns the place of `len` bytes from `offset` in the peer's mapping.
    #[inline]
    pub(crate) fn place(&self, offset: usize, len: usize) -> Result<u64> {
        check_range(offset, len, self.len)?;
        Ok(self.offset + offset as u64)
    }

    /// Returns the place of the aligned 8-byte word at `offset`. (Mappings begin at a page.)
    #[inline]
    pub(crate) fn word_place(&self, offset: usize) -> Result<u64> {
        let place = self.place(offset, 8)?;
        check_aligned(place, offset, 8)?;
        Ok(place)
    }
}

impl RemoteMemory for TcpRemote {
    #[inline]
    fn node(&self) -> NodeId {
        self.node
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        let offset = self.place(offset, len)?;
        Ok(TcpRemote { offset, len, ..*self })
    }
}
