//! A node's registered memory: arenas registered as one memory region each (LOCO'26 C.4), ranges of them handed out and
//! taken back.

use std::io;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::VerbsConfig;
use super::device::{Device, Registration, os};
use crate::shm::ranges::{Range, Ranges};
use crate::shm::{HugePages, word};
use crate::{FabricError, NodeId, Result};

const MIB: usize = 1 << 20;
/// A multiple of every page size in use, of small pages.
const PAGE_BYTES: usize = 64 << 10;

/// The arenas of one node.
pub(super) struct Heap {
    node: NodeId,
    device: Arc<Device>,
    arena_bytes: usize,
    memory_limit_bytes: usize,
    huge_pages: HugePages,
    arenas: Mutex<Vec<(Arc<Arena>, Ranges)>>,
}

/// A registered mapping. Fields are dropped in order: the registration before the mapping.
struct Arena {
    registration: Registration,
    mapping: Mapping,
}

/// An allocated range; free again when dropped.
pub(super) struct Block {
    heap: Arc<Heap>,
    arena: Arc<Arena>,
    arena_index: usize,
    range: Range,
}

impl Heap {
    /// No arena yet.
    pub(super) fn new(node: NodeId, device: Arc<Device>, config: &VerbsConfig) -> Heap {
        Heap {
            node,
            device,
            arena_bytes: config.arena_bytes,
            memory_limit_bytes: config.memory_limit_bytes,
            huge_pages: config.huge_pages,
            arenas: Mutex::new(Vec::new()),
        }
    }

    /// At least `len` zeroed bytes.
    pub(super) fn allocate(self: &Arc<Heap>, len: usize) -> Result<Block> {
        let block = self.take(len)?;
        // SAFETY: the block is ours alone, and lies within its arena.
        unsafe { word::zero(block.start().as_ptr(), block.range.used_before) };
        Ok(block)
    }

    fn take(self: &Arc<Heap>, len: usize) -> Result<Block> {
        let mut arenas = self.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        let block = |arena: &Arc<Arena>, arena_index, range| Block {
            heap: Arc::clone(self),
            arena: Arc::clone(arena),
            arena_index,
            range,
        };
        for (index, (arena, ranges)) in arenas.iter_mut().enumerate() {
            if let Some(range) = ranges.allocate(len) {
                return Ok(block(arena, index, range));
            }
        }
        let limit = self.memory_limit_bytes;
        let reserved: usize = arenas.iter().map(|(arena, _)| arena.mapping.len).sum();
        let available = limit.saturating_sub(reserved);
        let out_of_memory = || FabricError::OutOfMemory {
            requested: len,
            available,
            remedy: format!(
                "raise `memory_limit_bytes` of `VerbsConfig` (now {limit}), or free what is not needed"
            ),
        };
        if len > available {
            return Err(out_of_memory());
        }
        let index = arenas.len();
        let arena = Arc::new(self.new_arena(index, self.arena_bytes.min(available).max(len))?);
        let mut ranges = Ranges::new(arena.mapping.len);
        let range = ranges.allocate(len).ok_or_else(out_of_memory)?;
        let block = block(&arena, index, range);
        arenas.push((arena, ranges));
        Ok(block)
    }

    fn new_arena(&self, index: usize, len: usize) -> Result<Arena> {
        let mapping = Mapping::new(len, self.huge_pages)?;
        // SAFETY: the arena keeps the mapping longer than the registration.
        let registration = unsafe { Registration::new(&self.device, mapping.start.as_ptr(), mapping.len) }?;
        let mib = mapping.len.div_ceil(MIB);
        tracing::info!(
            "{}: arena {index} of {mib} MiB on {}, registered",
            self.node,
            mapping.pages
        );
        Ok(Arena {
            registration,
            mapping,
        })
    }
}

impl Block {
    /// First byte.
    pub(super) fn start(&self) -> NonNull<u8> {
        // SAFETY: the allocator hands out ranges within the arena.
        unsafe { self.arena.mapping.start.add(self.range.offset) }
    }

    pub(super) fn registration(&self) -> &Registration {
        &self.arena.registration
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        let mut arenas = self.heap.arenas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, ranges)) = arenas.get_mut(self.arena_index) {
            ranges.free(self.range.offset, self.range.len);
        }
    }
}

/// Private memory of the process.
struct Mapping {
    start: NonNull<u8>,
    len: usize,
    pages: &'static str,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the atomic operations of `word` alone.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes on the largest pages that `huge` asks for and the host grants.
    fn new(len: usize, huge: HugePages) -> Result<Mapping> {
        let (one_gib, two_mib) = (1024 * MIB, 2 * MIB);
        if huge == HugePages::OneGiB && len >= one_gib {
            let flags = MapFlags::HUGETLB | MapFlags::HUGE_1GB;
            if let Ok(mapping) = map(len.next_multiple_of(one_gib), flags, "huge pages of 1 GiB") {
                return Ok(mapping);
            }
        }
        if huge != HugePages::Never && len >= two_mib {
            let flags = MapFlags::HUGETLB | MapFlags::HUGE_2MB;
            if let Ok(mapping) = map(len.next_multiple_of(two_mib), flags, "huge pages of 2 MiB") {
                return Ok(mapping);
            }
        }
        let len = len.next_multiple_of(PAGE_BYTES);
        let mut mapping = map(len, MapFlags::empty(), "small pages")
            .map_err(|e| os(&format!("mapping an arena of {len} bytes (see `ulimit -v`)"), &e))?;
        if huge != HugePages::Never && len >= two_mib {
            // SAFETY: advice on the mapping just made; it changes no contents.
            let advised =
                unsafe { rustix::mm::madvise(mapping.start.as_ptr().cast(), len, Advice::LinuxHugepage) };
            if advised.is_ok() {
                mapping.pages =
                    "small pages, huge ones by advice (`sysctl vm.nr_hugepages=N` reserves huge ones)";
            }
        }
        Ok(mapping)
    }
}

fn map(len: usize, flags: MapFlags, pages: &'static str) -> io::Result<Mapping> {
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
    Ok(Mapping { start, len, pages })
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping fails only for a bad range");
    }
}
