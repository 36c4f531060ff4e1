//! A node's registered memory: one mapping, made and registered at bring-up.
//!
//! It is one piece because peers must know its keys before they use them, and each peer has a key of its own, by which a
//! lost peer's access can be taken away. Relies on `loco_host`. Used by `memory` and `node`.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::{self, Arenas, Block};
use loco_host::pages::{self, Pages};
use rustix::mm::{MapFlags, ProtFlags};

/// The mapped memory of a node.
pub struct Arena {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the atomic operations of `word` and by libfabric.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The allocator of a node's memory.
pub(crate) struct Heap {
    arena: Arc<Arena>,
    arenas: Arc<Arenas<Arena>>,
}

impl Heap {
    /// Maps `len` bytes for `node`.
    pub(crate) fn new(node: NodeId, len: usize, huge: HugePages) -> Result<Heap> {
        let (start, len) = pages::map_on_largest(node, 0, len, huge, map)?;
        Ok(Heap {
            arena: Arc::new(Arena { start, len }),
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
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }
}

fn map(len: usize, pages: Pages) -> io::Result<NonNull<u8>> {
    let flags = match pages {
        Pages::OneGiB => MapFlags::HUGETLB | MapFlags::HUGE_1GB,
        Pages::TwoMiB => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        Pages::SmallAdvised | Pages::Small => MapFlags::NORESERVE,
    };
    // SAFETY: a new mapping at an address of the system's choice affects no existing memory.
    let start = unsafe {
        rustix::mm::mmap_anonymous(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::PRIVATE | flags,
        )?
    };
    let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
    pages.advise(start, len);
    Ok(start)
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        unsafe { pages::unmap(self.start, self.len) };
    }
}
