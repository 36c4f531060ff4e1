//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::sync::Arc;

use crate::arena::Arena;
use loco_fabric::{NodeId, RemoteMemory, Result};
use loco_host::arenas::Arena as _;
use loco_host::memory::{ArenaCell, ArenaMemory};
use loco_host::span::Span;

/// Registered memory of this node.
pub type ShmMemory = ArenaMemory<Arena>;

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type ShmCell<W> = ArenaCell<Arena, W>;

/// A peer's memory, mapped into this process.
#[derive(Clone, Debug)]
pub struct ShmRemote {
    span: Span<Arena>,
    node: NodeId,
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
