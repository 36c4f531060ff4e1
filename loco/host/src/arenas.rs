//! A node's registered memory. Arenas are made as they are needed; ranges of them are handed out and taken
//! back.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::bytes;
use crate::ranges::{Range, Ranges};
use loco_fabric::{FabricError, Result};

/// A large piece of mapped memory.
///
/// # Safety
/// [`len`](Arena::len) bytes from [`start`](Arena::start) stay mapped as long as the arena exists. They are
/// zero at first, and are accessed by the functions of `word` and `bytes` only.
#[allow(clippy::len_without_is_empty)] // No arena is empty.
pub unsafe trait Arena {
    /// Returns the address of the first byte.
    fn start(&self) -> NonNull<u8>;
    /// Returns the length in bytes.
    fn len(&self) -> usize;
}

/// The arenas of one node.
pub struct Arenas<A> {
    arena_bytes: usize,
    limit_bytes: usize,
    /// The name of the configuration type that sets the limit, for the error message.
    config_name: &'static str,
    list: Mutex<Vec<(Arc<A>, Ranges)>>,
}

/// An allocated range. It becomes free when dropped.
pub struct Block<A: Arena> {
    arenas: Arc<Arenas<A>>,
    arena: Arc<A>,
    /// The position of `arena` among its node's arenas.
    index: usize,
    range: Range,
}

impl<A: Arena> Arenas<A> {
    /// Returns a set without arenas. Each arena will have `arena_bytes`, more for a longer allocation, and fewer
    /// where the limit leaves fewer. All together will have at most `limit_bytes`, apart from what rounding up to
    /// whole pages adds. The configuration type named `config_name` has fields for both.
    pub fn new(arena_bytes: usize, limit_bytes: usize, config_name: &'static str) -> Arc<Arenas<A>> {
        Arc::new(Arenas {
            arena_bytes,
            limit_bytes,
            config_name,
            list: Mutex::new(Vec::new()),
        })
    }

    /// Allocates at least `len` zeroed bytes. If there is no room, `make(index, bytes)` makes an arena of at least
    /// `bytes` bytes.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfMemory`] if another arena would exceed the limit, and the errors of `make`.
    pub fn allocate(
        self: &Arc<Self>,
        len: usize,
        make: impl FnOnce(usize, usize) -> Result<Arc<A>>,
    ) -> Result<Block<A>> {
        let (arena, index, range) = self.take(len, make)?;
        let block = Block {
            arenas: Arc::clone(self),
            arena,
            index,
            range,
        };
        // SAFETY: the block is ours alone, and lies within its arena.
        unsafe { bytes::zero(block.start().as_ptr(), range.used_before) };
        Ok(block)
    }

    fn take(
        &self,
        len: usize,
        make: impl FnOnce(usize, usize) -> Result<Arc<A>>,
    ) -> Result<(Arc<A>, usize, Range)> {
        let mut list = self.list();
        for (index, (arena, ranges)) in list.iter_mut().enumerate() {
            if let Some(range) = ranges.allocate(len) {
                return Ok((Arc::clone(arena), index, range));
            }
        }
        let reserved: usize = list.iter().map(|(arena, _)| arena.len()).sum();
        let available = self.limit_bytes.saturating_sub(reserved);
        let out_of_memory = || FabricError::OutOfMemory {
            requested: len,
            available,
            remedy: format!(
                "raise `memory_limit_bytes` of `{}` (now {}), or free what is not needed",
                self.config_name, self.limit_bytes
            ),
        };
        if len > available {
            return Err(out_of_memory());
        }
        let index = list.len();
        let arena = make(index, self.arena_bytes.min(available).max(len))?;
        let mut ranges = Ranges::new(arena.len());
        let range = ranges.allocate(len).ok_or_else(out_of_memory)?;
        list.push((Arc::clone(&arena), ranges));
        Ok((arena, index, range))
    }

    /// Returns the arena with this index.
    pub fn get(&self, index: usize) -> Option<Arc<A>> {
        let list = self.list();
        let (arena, _) = list.get(index)?;
        Some(Arc::clone(arena))
    }

    fn list(&self) -> MutexGuard<'_, Vec<(Arc<A>, Ranges)>> {
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A: Arena> Block<A> {
    /// Returns the address of the first byte.
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: the allocator hands out ranges within the arena.
        unsafe { self.arena.start().add(self.range.offset) }
    }

    /// Returns the arena of the block.
    pub fn arena(&self) -> &A {
        &self.arena
    }
}

impl<A: Arena> Drop for Block<A> {
    fn drop(&mut self) {
        if let Some((_, ranges)) = self.arenas.list().get_mut(self.index) {
            ranges.free(self.range.offset, self.range.len);
        }
    }
}

impl<A> fmt::Debug for Arenas<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "arenas of {} bytes, {} at most",
            self.arena_bytes, self.limit_bytes
        )
    }
}

impl<A: Arena> fmt::Debug for Block<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of arena {}", self.range, self.index)
    }
}
