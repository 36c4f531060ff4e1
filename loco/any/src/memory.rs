//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::ptr::NonNull;

use loco_fabric::{Memory, NodeId, RemoteMemory, Result, Word, WordCell};
#[cfg(feature = "ofi")]
use loco_ofi::{OfiCell, OfiMemory, OfiRemote};
#[cfg(feature = "shm")]
use loco_shm::{ShmCell, ShmMemory, ShmRemote};
#[cfg(feature = "tcp")]
use loco_tcp::{TcpCell, TcpMemory, TcpRemote};
#[cfg(feature = "verbs")]
use loco_verbs::{VerbsCell, VerbsMemory, VerbsRemote};

#[cfg(feature = "model")]
use crate::erased::{ErasedCell, ErasedMemory, ErasedRemote};

either! {
    /// Registered memory of this node.
    #[derive(Clone, Debug)]
    AnyMemory, ShmMemory, VerbsMemory, TcpMemory, OfiMemory, ErasedMemory
}
either! {
    /// A peer's registered memory.
    #[derive(Clone, Debug)]
    AnyRemote, ShmRemote, VerbsRemote, TcpRemote, OfiRemote, ErasedRemote
}
either! {
    /// An aligned word of registered memory.
    #[derive(Clone, Debug)]
    AnyCell<W>, ShmCell<W>, VerbsCell<W>, TcpCell<W>, OfiCell<W>, ErasedCell<W>
}

impl AnyMemory {
    /// Returns the address of the first byte, which is mapped as long as this handle or a clone of it, or `None` for memory of a
    /// device. It is for code in other languages. Its accesses are atomic for no word, unless it makes them so.
    pub fn address(&self) -> Option<NonNull<u8>> {
        each!(self, memory => memory.address())
    }
}

impl Memory for AnyMemory {
    type Cell<W: Word> = AnyCell<W>;

    #[inline]
    fn len(&self) -> usize {
        each!(self, memory => memory.len())
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        wrapped!(self, memory => memory.slice(offset, len) => AnyMemory)
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<AnyCell<W>> {
        wrapped!(self, memory => memory.cell(offset) => AnyCell)
    }

    #[inline]
    fn load_word(&self, offset: usize) -> Result<u64> {
        each!(self, memory => memory.load_word(offset))
    }

    #[inline]
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        each!(self, memory => memory.read(offset, out))
    }

    #[inline]
    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        each!(self, memory => memory.write(offset, data))
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        each!(self, memory => memory.prefetch(offset));
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        each!(self, memory => memory.prefetch_write(offset));
    }

    #[inline]
    fn evict(&self, offset: usize) {
        each!(self, memory => memory.evict(offset));
    }
}

impl<W: Word> WordCell<W> for AnyCell<W> {
    #[inline]
    fn load(&self) -> W {
        each!(self, cell => cell.load())
    }

    #[inline]
    fn store(&self, value: W) {
        each!(self, cell => cell.store(value));
    }

    #[inline]
    fn store_fence(&self, value: W) {
        each!(self, cell => cell.store_fence(value));
    }

    #[inline]
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        each!(self, cell => cell.compare_exchange(current, new))
    }

    #[inline]
    fn fetch_add(&self, add: W) -> W {
        each!(self, cell => cell.fetch_add(add))
    }
}

impl RemoteMemory for AnyRemote {
    #[inline]
    fn node(&self) -> NodeId {
        each!(self, remote => remote.node())
    }

    #[inline]
    fn len(&self) -> usize {
        each!(self, remote => remote.len())
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        wrapped!(self, remote => remote.slice(offset, len) => AnyRemote)
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        each!(self, remote => remote.prefetch(offset));
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        each!(self, remote => remote.prefetch_write(offset));
    }
}
