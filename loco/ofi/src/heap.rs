//! A node's registered memory: one mapping, made and registered at bring-up.
//!
//! It is one piece because peers must know its keys before they use them, and each peer has a key of its own, by which a
//! lost peer's access can be taken away. Relies on `loco_host`. Used by `memory` and `node`.

use std::ptr::NonNull;
use std::sync::Arc;

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::{self, Arenas, Block};
use loco_host::pages::PrivateMapping;

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
            arenas: Arenas::new(len, len, "OfiConfig"),
        })
    }

    /// Returns the mapping.
    pub(crate) fn arena(&self) -> &Arc<Arena> {
        &self.arena
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
// libfabric make all accesses.
unsafe impl arenas::Arena for Arena {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}
