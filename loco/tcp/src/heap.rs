//! A node's registered memory: one mapping, made at bring-up.
//!
//! It is one piece, so that a place in it names a byte for every peer. Relies on `loco_host`. Used by `memory` and `node`.

use std::ptr::NonNull;
use std::sync::Arc;

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::{self, Arenas, Block};
use loco_host::pages::PrivateMapping;
use loco_host::span::Span;

/// The mapped memory of a node.
pub struct Arena(PrivateMapping);

/// The allocator of a node's memory.
pub(crate) struct Heap {
    arena: Arc<Arena>,
    arenas: Arc<Arenas<Arena>>,
}

impl Heap {
    /// Maps `len` bytes for `node`.
    pub(crate) fn new(node: NodeId, len: usize, huge: HugePages) -> Result<Heap> {
        let mapping = PrivateMapping::new(node, 0, len, huge)?;
        let len = mapping.len();
        Ok(Heap {
            arena: Arc::new(Arena(mapping)),
            arenas: Arenas::new(len, len, "TcpConfig"),
        })
    }

    /// Returns all of the memory, for the operations of peers.
    pub(crate) fn whole(&self) -> Span<Arena> {
        let arena = &*self.arena;
        // SAFETY: the handle keeps the mapping.
        unsafe { Span::new(arena.0.start(), arena.0.len(), Arc::clone(&self.arena)) }
    }

    /// Allocates at least `len` zeroed bytes.
    pub(crate) fn allocate(&self, len: usize) -> Result<Block<Arena>> {
        self.arenas.allocate(len, |index, _| match index {
            0 => Ok(Arc::clone(&self.arena)),
            _ => Err(FabricError::Unsupported("a second arena".to_owned())),
        })
    }
}

// SAFETY: the mapping is private to the arena, unmapped with it; anonymous memory begins as zeros, and `word` and
// the rest of this crate make all accesses.
unsafe impl arenas::Arena for Arena {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
