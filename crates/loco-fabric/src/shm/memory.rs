//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::Arena;
use super::pool::Block;
use super::word;
use crate::{FabricError, Memory, NodeId, RemoteMemory, Result, Word, WordCell};

/// Registered memory of this node.
#[derive(Clone, Debug)]
pub struct ShmMemory {
    start: NonNull<u8>,
    len: usize,
    block: Arc<Block>,
}

/// One aligned word of registered memory. Loads and stores are single instructions.
#[derive(Clone, Debug)]
pub struct ShmCell<W> {
    at: NonNull<u8>,
    /// Keeps the word mapped and allocated.
    _block: Arc<Block>,
    word: PhantomData<fn() -> W>,
}

/// Memory of a peer, mapped into this process.
#[derive(Clone, Debug)]
pub struct ShmRemote {
    start: NonNull<u8>,
    len: usize,
    node: NodeId,
    /// Keeps the memory mapped.
    _arena: Arc<Arena>,
}

// SAFETY: for the three types: the pointer stays valid as long as the block or arena that travels with it, and all
// access through it is atomic (module `word`).
unsafe impl Send for ShmMemory {}
// SAFETY: as above.
unsafe impl Sync for ShmMemory {}
// SAFETY: as above.
unsafe impl<W> Send for ShmCell<W> {}
// SAFETY: as above.
unsafe impl<W> Sync for ShmCell<W> {}
// SAFETY: as above.
unsafe impl Send for ShmRemote {}
// SAFETY: as above.
unsafe impl Sync for ShmRemote {}

/// Fails unless `len` bytes from `offset` lie within `region_len`.
#[inline]
fn check_range(offset: usize, len: usize, region_len: usize) -> Result<()> {
    // Cannot overflow where it matters: the second comparison is made only if `len <= region_len`.
    if len <= region_len && offset <= region_len - len {
        Ok(())
    } else {
        Err(FabricError::OutOfRange {
            offset,
            len,
            region_len,
        })
    }
}

/// The address of `len` bytes from `offset` of a region.
#[inline]
fn address(start: NonNull<u8>, region_len: usize, offset: usize, len: usize) -> Result<*mut u8> {
    check_range(offset, len, region_len)?;
    // SAFETY: within the region, which is within one mapping.
    Ok(unsafe { start.add(offset) }.as_ptr())
}

/// The address of an aligned word at `offset`.
#[inline]
fn word_address(start: NonNull<u8>, region_len: usize, offset: usize, align: usize) -> Result<*mut u8> {
    let at = address(start, region_len, offset, align)?;
    // The region may itself be a slice from an odd offset: it is the address that counts.
    if at.addr().is_multiple_of(align) {
        Ok(at)
    } else {
        Err(FabricError::Misaligned { offset, align })
    }
}

impl ShmMemory {
    pub(super) fn new(block: Block, len: usize) -> ShmMemory {
        ShmMemory {
            start: block.start(),
            len,
            block: Arc::new(block),
        }
    }

    /// The arena it lies in, and from which byte of it.
    pub(super) fn place(&self) -> (&Arena, usize) {
        let arena = self.block.arena();
        (arena, self.start.as_ptr().addr() - arena.start().as_ptr().addr())
    }

    /// The address of `len` bytes from `offset`, valid as long as `self` or a clone of it.
    #[inline]
    fn address(&self, offset: usize, len: usize) -> Result<*mut u8> {
        address(self.start, self.len, offset, len)
    }

    /// Fails unless `len` bytes from `offset` lie within.
    #[inline]
    pub(super) fn check(&self, offset: usize, len: usize) -> Result<()> {
        check_range(offset, len, self.len)
    }

    /// Fails unless an aligned 8-byte word lies at `offset`.
    #[inline]
    pub(super) fn check_word(&self, offset: usize) -> Result<()> {
        word_address(self.start, self.len, offset, 8).map(|_| ())
    }

    /// The address of `offset`, modulo the size of a word.
    pub(super) fn phase(&self, offset: usize) -> usize {
        self.start.as_ptr().addr().wrapping_add(offset) % 8
    }

    /// Stores an aligned 8-byte word, after this thread's earlier accesses.
    #[inline]
    pub(super) fn store_word(&self, offset: usize, value: u64) -> Result<()> {
        let at = word_address(self.start, self.len, offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        unsafe { word::store(at, value, Ordering::Release) };
        Ok(())
    }
}

impl Memory for ShmMemory {
    type Cell<W: Word> = ShmCell<W>;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        check_range(offset, len, self.len)?;
        Ok(ShmMemory {
            // SAFETY: within the region, which is within one mapping.
            start: unsafe { self.start.add(offset) },
            len,
            block: Arc::clone(&self.block),
        })
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<ShmCell<W>> {
        let at = word_address(self.start, self.len, offset, W::BYTES)?;
        Ok(ShmCell {
            // SAFETY: derived from a non-null pointer by an offset within its mapping.
            at: unsafe { NonNull::new_unchecked(at) },
            _block: Arc::clone(&self.block),
            word: PhantomData,
        })
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let from = self.address(offset, out.len())?;
        // SAFETY: the range was checked and `self` keeps it mapped.
        unsafe { word::read(from, out) };
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let to = self.address(offset, data.len())?;
        // SAFETY: the range was checked and `self` keeps it mapped.
        unsafe { word::write(to, data) };
        Ok(())
    }
}

impl<W: Word> WordCell<W> for ShmCell<W> {
    #[inline]
    fn load(&self, order: Ordering) -> W {
        // SAFETY: range and alignment were checked when the cell was made; the block keeps it mapped.
        unsafe { word::load(self.at.as_ptr(), order) }
    }

    #[inline]
    fn store(&self, value: W, order: Ordering) {
        // SAFETY: as for `load`.
        unsafe { word::store(self.at.as_ptr(), value, order) }
    }

    #[inline]
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        // SAFETY: as for `load`.
        unsafe { word::compare_exchange(self.at.as_ptr(), current, new) }
    }
}

impl ShmRemote {
    /// `len` bytes from `offset` of `arena`, of which `node` is the owner.
    pub(super) fn new(arena: Arc<Arena>, node: NodeId, offset: usize, len: usize) -> Result<ShmRemote> {
        check_range(offset, len, arena.len())?;
        Ok(ShmRemote {
            // SAFETY: within the arena, as just checked.
            start: unsafe { arena.start().add(offset) },
            len,
            node,
            _arena: arena,
        })
    }

    /// The address of `len` bytes from `offset`, valid as long as `self` or a clone of it.
    #[inline]
    fn address(&self, offset: usize, len: usize) -> Result<*mut u8> {
        address(self.start, self.len, offset, len)
    }

    /// Fails unless `len` bytes from `offset` lie within.
    #[inline]
    pub(super) fn check(&self, offset: usize, len: usize) -> Result<()> {
        check_range(offset, len, self.len)
    }

    /// Fails unless an aligned 8-byte word lies at `offset`.
    #[inline]
    pub(super) fn check_word(&self, offset: usize) -> Result<()> {
        word_address(self.start, self.len, offset, 8).map(|_| ())
    }

    /// The address of `offset`, modulo the size of a word.
    pub(super) fn phase(&self, offset: usize) -> usize {
        self.start.as_ptr().addr().wrapping_add(offset) % 8
    }

    /// Copies `len` bytes of `src` here, ordered and untorn as [`word::copy`] says.
    #[inline]
    pub(super) fn copy_from(
        &self,
        offset: usize,
        src: &ShmMemory,
        src_offset: usize,
        len: usize,
    ) -> Result<()> {
        let (from, to) = (src.address(src_offset, len)?, self.address(offset, len)?);
        // SAFETY: both ranges were checked and both handles keep their memory mapped.
        unsafe { word::copy(to, from, len) };
        Ok(())
    }

    /// Copies `len` bytes from here to `dst`, ordered and untorn as [`word::copy`] says.
    #[inline]
    pub(super) fn copy_to(
        &self,
        offset: usize,
        dst: &ShmMemory,
        dst_offset: usize,
        len: usize,
    ) -> Result<()> {
        let (to, from) = (dst.address(dst_offset, len)?, self.address(offset, len)?);
        // SAFETY: both ranges were checked and both handles keep their memory mapped.
        unsafe { word::copy(to, from, len) };
        Ok(())
    }

    /// Copies private bytes here.
    #[inline]
    pub(super) fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        let to = self.address(offset, data.len())?;
        if let Ok(data) = <[u8; 8]>::try_from(data)
            && to.addr().is_multiple_of(8)
        {
            // Release: after this thread's earlier accesses, as every put.
            // SAFETY: aligned as just checked; the range was checked and `self` keeps it mapped.
            unsafe { word::store(to, u64::from_ne_bytes(data), Ordering::Release) };
        } else {
            // SAFETY: the range was checked and `self` keeps it mapped.
            unsafe { word::write(to, data) };
        }
        Ok(())
    }

    /// Copies bytes from here into private memory.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        let from = self.address(offset, out.len())?;
        // SAFETY: the range was checked and `self` keeps it mapped.
        unsafe { word::read(from, out) };
        Ok(())
    }

    /// Atomic add to an aligned 8-byte word; a full fence; returns the old value.
    #[inline]
    pub(super) fn fetch_add(&self, offset: usize, add: u64) -> Result<u64> {
        let at = word_address(self.start, self.len, offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        Ok(unsafe { word::fetch_add(at, add) })
    }

    /// Atomic compare-and-swap of an aligned 8-byte word; a full fence; returns the value found.
    #[inline]
    pub(super) fn compare_swap(&self, offset: usize, expected: u64, new: u64) -> Result<u64> {
        let at = word_address(self.start, self.len, offset, 8)?;
        // SAFETY: range and alignment were checked and `self` keeps the word mapped.
        let (Ok(found) | Err(found)) = unsafe { word::compare_exchange(at, expected, new) };
        Ok(found)
    }
}

impl RemoteMemory for ShmRemote {
    #[inline]
    fn node(&self) -> NodeId {
        self.node
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        check_range(offset, len, self.len)?;
        Ok(ShmRemote {
            // SAFETY: within the region, which is within one mapping.
            start: unsafe { self.start.add(offset) },
            len,
            ..self.clone()
        })
    }
}
