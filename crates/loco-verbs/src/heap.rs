//! A node's registered memory: arenas, each registered as one memory region (LOCO'26 C.4).

use std::io;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use rustix::mm::{MapFlags, ProtFlags};

use super::config::VerbsConfig;
use super::device::{Device, Registration};
use loco_fabric::{NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::{self, Arenas, Block};
use loco_host::pages::{self, Pages};

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
    mapping: Mapping,
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
            let mapping = Mapping::new(self.node, index, len, self.huge_pages)?;
            // SAFETY: the arena keeps the mapping longer than the registration.
            let registration =
                unsafe { Registration::new(&self.device, mapping.start.as_ptr(), mapping.len) }?;
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
        self.mapping.start
    }

    fn len(&self) -> usize {
        self.mapping.len
    }
}

/// Private memory of the process.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the atomic operations of `word` alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps at least `len` bytes for arena `index` of `node`, on the largest pages that `huge` asks for and the host
    /// grants.
    fn new(node: NodeId, index: usize, len: usize, huge: HugePages) -> Result<Mapping> {
        let (start, len) = pages::map_on_largest(node, index, len, huge, map)?;
        Ok(Mapping { start, len })
    }
}

fn map(len: usize, pages: Pages) -> io::Result<NonNull<u8>> {
    let flags = match pages {
        Pages::OneGiB => MapFlags::HUGETLB | MapFlags::HUGE_1GB,
        Pages::TwoMiB => MapFlags::HUGETLB | MapFlags::HUGE_2MB,
        Pages::SmallAdvised | Pages::Small => MapFlags::empty(),
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

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        unsafe { pages::unmap(self.start, self.len) };
    }
}
