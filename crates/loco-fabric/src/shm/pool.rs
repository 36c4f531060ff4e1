//! A node's registered memory: arenas made as they are needed, ranges of them handed out and taken back.

use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};

use super::arena::{Arena, ArenaId, Token};
use super::ranges::{Range, Ranges};
use super::{ShmConfig, word};
use crate::{FabricError, NodeId, Result};

/// The arenas of one node.
#[derive(Debug)]
pub(super) struct Pool {
    node: NodeId,
    token: Token,
    config: ShmConfig,
    arenas: Mutex<Vec<(Arc<Arena>, Ranges)>>,
}

/// An allocated range; free again when dropped.
#[derive(Debug)]
pub(super) struct Block {
    pool: Arc<Pool>,
    arena: Arc<Arena>,
    range: Range,
}

impl Pool {
    /// No arena yet.
    pub(super) fn new(node: NodeId, token: Token, config: ShmConfig) -> Pool {
        Pool {
            node,
            token,
            config,
            arenas: Mutex::new(Vec::new()),
        }
    }

    /// At least `len` zeroed bytes.
    pub(super) fn allocate(self: &Arc<Pool>, len: usize) -> Result<Block> {
        let (arena, range) = self.take(len)?;
        let block = Block {
            pool: Arc::clone(self),
            arena,
            range,
        };
        // SAFETY: the block is ours alone, and lies within its arena.
        unsafe { word::zero(block.start().as_ptr(), range.used_before) };
        Ok(block)
    }

    fn take(&self, len: usize) -> Result<(Arc<Arena>, Range)> {
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        for (arena, ranges) in arenas.iter_mut() {
            if let Some(range) = ranges.allocate(len) {
                return Ok((Arc::clone(arena), range));
            }
        }
        let limit = self.config.memory_limit_bytes;
        let reserved: usize = arenas.iter().map(|(arena, _)| arena.len()).sum();
        let unreserved = limit.saturating_sub(reserved);
        let out_of_memory = || FabricError::OutOfMemory {
            requested: len,
            available: unreserved,
            remedy: format!(
                "raise `memory_limit_bytes` of `ShmConfig` (now {limit}), or free what is not needed"
            ),
        };
        if len > unreserved {
            return Err(out_of_memory());
        }
        let index = u32::try_from(arenas.len()).map_err(|_| out_of_memory())?;
        let token = self.token;
        let arena = Arena::create(
            ArenaId { token, index },
            self.node,
            self.config.arena_bytes.min(unreserved).max(len),
            self.config.huge_pages,
        )?;
        let mut ranges = Ranges::new(arena.len());
        let range = ranges.allocate(len).ok_or_else(out_of_memory)?;
        arenas.push((Arc::clone(&arena), ranges));
        Ok((arena, range))
    }

    /// An arena of this node by its index.
    pub(super) fn arena(&self, index: u32) -> Option<Arc<Arena>> {
        let arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let (arena, _) = arenas.get(usize::try_from(index).ok()?)?;
        Some(Arc::clone(arena))
    }
}

impl Block {
    /// First byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        // SAFETY: the allocator hands out ranges within the arena.
        unsafe { self.arena.start().add(self.range.offset) }
    }

    /// The arena.
    pub(super) fn arena(&self) -> &Arena {
        &self.arena
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut arenas = self.pool.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let index = usize::try_from(self.arena.id().index);
        if let Some((_, ranges)) = index.ok().and_then(|index| arenas.get_mut(index)) {
            ranges.free(self.range.offset, self.range.len);
        }
    }
}
