//! A node's registered memory: arenas made as they are needed, ranges of them handed out and taken back.

use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::ranges::{Range, Ranges};
use crate::word;
use loco_fabric::{FabricError, Result};

/// A large piece of mapped memory.
///
/// # Safety
/// [`len`](Arena::len) bytes from [`start`](Arena::start) stay mapped as long as the arena exists, are zero at first,
/// and are accessed by the functions of `word` only.
#[allow(clippy::len_without_is_empty)] // None is empty.
pub unsafe trait Arena {
    /// First byte.
    fn start(&self) -> NonNull<u8>;
    /// Bytes.
    fn len(&self) -> usize;
}

/// The arenas of one node.
pub struct Arenas<A> {
    arena_bytes: usize,
    limit_bytes: usize,
    /// Where the limit is set, for the error message.
    config_name: &'static str,
    list: Mutex<Vec<(Arc<A>, Ranges)>>,
}

/// An allocated range; free again when dropped.
pub struct Block<A: Arena> {
    arenas: Arc<Arenas<A>>,
    arena: Arc<A>,
    /// Of `arena` among its node's.
    index: usize,
    range: Range,
}

impl<A: Arena> Arenas<A> {
    /// No arena yet. Each will have `arena_bytes` (or more, for a longer allocation), all together `limit_bytes`, as
    /// the fields of the configuration type named `config_name` say.
    pub fn new(arena_bytes: usize, limit_bytes: usize, config_name: &'static str) -> Arc<Arenas<A>> {
        Arc::new(Arenas {
            arena_bytes,
            limit_bytes,
            config_name,
            list: Mutex::new(Vec::new()),
        })
    }

    /// At least `len` zeroed bytes. `make(index, bytes)` makes an arena of at least so many bytes if there is no room.
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
        unsafe { word::zero(block.start().as_ptr(), range.used_before) };
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

    /// Returns an arena by its index.
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
    /// First byte.
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: the allocator hands out ranges within the arena.
        unsafe { self.arena.start().add(self.range.offset) }
    }

    /// Returns the arena that it lies in.
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
