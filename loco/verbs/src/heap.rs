//! A node's registered memory: arenas, each registered as one memory region (LOCO'26 C.4).

use std::ptr::NonNull;
use std::sync::Arc;

use super::config::VerbsConfig;
use super::device::{Device, Registration};
use loco_fabric::{NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::{self, Arenas, Block};
use loco_host::pages::PrivateMapping;

/// The arenas of one node.
pub(super) struct Heap {
    node: NodeId,
    device: Arc<Device>,
    huge_pages: HugePages,
    arenas: Arc<Arenas<Arena>>,
}

/// A registered mapping. Fields are dropped in order: the registration before the mapping.
pub struct Arena {
    registration: Registration,
    mapping: PrivateMapping,
}

impl Heap {
    /// Returns a heap without arenas.
    pub(super) fn new(node: NodeId, device: Arc<Device>, config: &VerbsConfig) -> Heap {
        Heap {
            node,
            device,
            huge_pages: config.huge_pages,
            arenas: Arenas::new(config.arena_bytes, config.memory_limit_bytes, "VerbsConfig"),
        }
    }

    /// Allocates at least `len` zeroed bytes.
    pub(super) fn allocate(&self, len: usize) -> Result<Block<Arena>> {
        self.arenas.allocate(len, |index, len| {
            let mapping = PrivateMapping::new(self.node, index, len, self.huge_pages)?;
            // SAFETY: the arena keeps the mapping longer than the registration.
            let registration =
                unsafe { Registration::new(&self.device, mapping.start().as_ptr(), mapping.len()) }?;
            Ok(Arc::new(Arena {
                registration,
                mapping,
            }))
        })
    }
}

impl Arena {
    pub(super) fn registration(&self) -> &Registration {
        &self.registration
    }
}

// SAFETY: the mapping is private to the arena, unmapped with it; anonymous memory begins as zeros, and `word` and the
// device make all accesses.
unsafe impl arenas::Arena for Arena {
    fn start(&self) -> NonNull<u8> {
        self.mapping.start()
    }

    fn len(&self) -> usize {
        self.mapping.len()
    }
}
