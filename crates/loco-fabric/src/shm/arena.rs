//! A large piece of shared memory: created by one node as a memfd, mapped by its peers.
//!
//! Nothing has a name in a file system, so nothing is left behind however a process ends: the kernel frees an arena
//! with its last mapping and descriptor. A peer opens `/proc/PID/fd/N` of the owner. The alternative, passing the
//! descriptor over a socket (`SCM_RIGHTS`), needs a thread in every node that answers at any time, and sockets between
//! all pairs; this needs neither, only one user and one PID namespace. A PID may have been given to
//! another process, whose descriptor N may be anything (a pipe that blocks, a device with side effects): it is first
//! opened as a mere path, and read or mapped only if its name carries the random token that the owner sent at
//! set-up. Arenas are sealed against resizing, so that an access within the mapping never faults.
//!
//! A process maps an arena once, whichever of its nodes asks: two mappings of the same bytes would be unrelated
//! memory to the compiler.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{Advice, MapFlags, ProtFlags};

use super::HugePages;
use crate::{FabricError, NodeId, Result};

const MIB: usize = 1 << 20;

/// Identifies a node's arenas: random, exchanged at set-up.
pub(super) type Token = [u8; 16];

/// Names an arena among all of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArenaId {
    /// Of the owner.
    pub(super) token: Token,
    /// The owner's first, second, ... arena.
    pub(super) index: u32,
}

/// A mapped arena; unmapped when the last handle is dropped.
#[derive(Debug)]
pub(super) struct Arena {
    id: ArenaId,
    start: NonNull<u8>,
    len: usize,
    /// Kept open by the owner, for its peers to open.
    file: Option<OwnedFd>,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the atomic operations of `word` alone.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The arenas mapped in this process.
static MAPPED: Mutex<Option<HashMap<ArenaId, Weak<Arena>>>> = Mutex::new(None);

impl Arena {
    /// Creates and maps an arena of at least `len` bytes, on the largest pages that `huge` asks for and the host grants.
    /// No page is touched.
    pub(super) fn create(id: ArenaId, node: NodeId, len: usize, huge: HugePages) -> Result<Arc<Arena>> {
        let mut refused = Vec::new();
        for pages in Pages::to_try(huge, len) {
            match map_new(id, len.next_multiple_of(pages.bytes()), *pages) {
                Ok((file, start, len)) => {
                    let mib = len / MIB;
                    if refused.is_empty() {
                        tracing::info!("{node}: arena {} of {mib} MiB on {}", id.index, pages.name());
                    } else {
                        tracing::info!(
                            "{node}: arena {} of {mib} MiB on {}: no {}; `sysctl vm.nr_hugepages={}` reserves some",
                            id.index,
                            pages.name(),
                            refused.join(", "),
                            len / (2 * MIB),
                        );
                    }
                    let arena = Arc::new(Arena {
                        id,
                        start,
                        len,
                        file: Some(file),
                    });
                    remember(&arena);
                    return Ok(arena);
                }
                Err(error) => refused.push(format!("{} ({error})", pages.name())),
            }
        }
        Err(FabricError::Os {
            what: format!(
                "mapping an arena of {len} bytes (a smaller `ShmConfig::arena_bytes` needs less address space, \
                 see `ulimit -v`)"
            ),
            source_text: refused.join(", "),
        })
    }

    /// Maps the arena that process `pid` holds open as descriptor `fd`, or finds it mapped already.
    pub(super) fn open(id: ArenaId, peer: NodeId, pid: u32, fd: u32) -> Result<Arc<Arena>> {
        if let Some(arena) = mapped(id) {
            return Ok(arena);
        }
        let failed = |error: rustix::io::Errno| match error {
            rustix::io::Errno::NOENT | rustix::io::Errno::SRCH => FabricError::PeerLost(peer),
            error => FabricError::Os {
                what: format!(
                    "mapping the memory of {peer}, process {pid} (all nodes must run as one user, in one PID \
                     namespace, and be dumpable)"
                ),
                source_text: error.to_string(),
            },
        };
        let path = rustix::fs::open(
            format!("/proc/{pid}/fd/{fd}"),
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
        )
        .map_err(failed)?;
        let own_path = format!("/proc/self/fd/{}", path.as_raw_fd());
        let name = rustix::fs::readlink(&own_path, Vec::new()).map_err(failed)?;
        if name.to_bytes() != format!("/memfd:{} (deleted)", file_name(id)).as_bytes() {
            return Err(FabricError::Refused(format!(
                "descriptor {fd} of process {pid} is not memory of {peer}: the process ended and another has its \
                 id, or the region key is stale"
            )));
        }
        let file =
            rustix::fs::open(&own_path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(failed)?;
        let len = rustix::fs::fstat(&file).map_err(failed)?.st_size;
        let seals = rustix::fs::fcntl_get_seals(&file).map_err(failed)?;
        let len = usize::try_from(len).unwrap_or(0);
        if len == 0 || !seals.contains(SealFlags::SHRINK) {
            return Err(FabricError::Refused(format!(
                "the memory of {peer} is not sealed against shrinking"
            )));
        }
        let start = map(&file, len).map_err(failed)?;
        let arena = Arc::new(Arena {
            id,
            start,
            len,
            file: None,
        });
        // Another thread may have been quicker: then there is one mapping too many for a moment, and this one goes.
        Ok(remember(&arena))
    }

    /// Which arena this is.
    pub(super) fn id(&self) -> ArenaId {
        self.id
    }

    /// First byte of the mapping.
    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Bytes.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The descriptor under which peers find it, if this process owns it.
    pub(super) fn descriptor(&self) -> Option<u32> {
        let file = self.file.as_ref()?;
        u32::try_from(file.as_raw_fd()).ok()
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = mapped.as_mut() {
            // A newer mapping of the same arena may have taken the place of this one.
            if mapped.get(&self.id).is_some_and(|weak| weak.strong_count() == 0) {
                mapped.remove(&self.id);
            }
        }
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        let unmapped = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "munmap of a mapping fails only for a bad range");
    }
}

/// The arena's mapping in this process.
fn mapped(id: ArenaId) -> Option<Arc<Arena>> {
    let mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    mapped.as_ref()?.get(&id)?.upgrade()
}

/// Makes `arena` the mapping of its id unless there is one; returns the one that holds.
fn remember(arena: &Arc<Arena>) -> Arc<Arena> {
    let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let mapped = mapped.get_or_insert_default();
    if let Some(held) = mapped.get(&arena.id).and_then(Weak::upgrade) {
        return held;
    }
    mapped.insert(arena.id, Arc::downgrade(arena));
    Arc::clone(arena)
}

fn file_name(id: ArenaId) -> String {
    format!("loco-{:032x}-{}", u128::from_be_bytes(id.token), id.index)
}

/// Page sizes of an arena.
#[derive(Clone, Copy, Debug)]
enum Pages {
    /// 1 GiB, reserved by the administrator.
    OneGiB,
    /// 2 MiB, reserved by the administrator.
    TwoMiB,
    /// The system's, joined to 2 MiB pages where it does so on advice.
    SmallAdvised,
    /// The system's.
    Small,
}

impl Pages {
    fn to_try(huge: HugePages, len: usize) -> &'static [Pages] {
        match huge {
            HugePages::Never => &[Pages::Small],
            // A page that is mostly unused would be a waste.
            HugePages::OneGiB if len >= 1024 * MIB => &[Pages::OneGiB, Pages::TwoMiB, Pages::SmallAdvised],
            _ if len >= 2 * MIB => &[Pages::TwoMiB, Pages::SmallAdvised],
            _ => &[Pages::Small],
        }
    }

    fn bytes(self) -> usize {
        match self {
            Pages::OneGiB => 1024 * MIB,
            Pages::TwoMiB => 2 * MIB,
            // A multiple of every page size there is.
            Pages::SmallAdvised | Pages::Small => 64 << 10,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Pages::OneGiB => "huge pages of 1 GiB",
            Pages::TwoMiB => "huge pages of 2 MiB",
            Pages::SmallAdvised => "small pages, huge ones by advice",
            Pages::Small => "small pages",
        }
    }

    fn flags(self) -> MemfdFlags {
        match self {
            Pages::OneGiB => MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
            Pages::TwoMiB => MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
            Pages::SmallAdvised | Pages::Small => MemfdFlags::empty(),
        }
    }
}

/// A new sealed memfd, mapped. Mapping reserves huge pages, so that touching them later cannot fail.
fn map_new(id: ArenaId, len: usize, pages: Pages) -> io::Result<(OwnedFd, NonNull<u8>, usize)> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | pages.flags();
    let file = rustix::fs::memfd_create(file_name(id), flags)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let start = map(&file, len)?;
    if matches!(pages, Pages::SmallAdvised) {
        // SAFETY: advice on the mapping just made; it changes no contents.
        let advised = unsafe { rustix::mm::madvise(start.as_ptr().cast(), len, Advice::LinuxHugepage) };
        if let Err(error) = advised {
            tracing::debug!("no advice on huge pages: {error}"); // A kernel without them: nothing is lost.
        }
    }
    Ok((file, start, len))
}

fn map(file: impl AsFd, len: usize) -> rustix::io::Result<NonNull<u8>> {
    // SAFETY: a new mapping at an address of the system's choice affects no existing memory.
    let start = unsafe {
        rustix::mm::mmap(
            ptr::null_mut(),
            len,
            ProtFlags::READ | ProtFlags::WRITE,
            MapFlags::SHARED,
            file,
            0,
        )?
    };
    NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::BorrowedFd;

    const NODE: NodeId = NodeId(3);

    fn id(byte: u8) -> ArenaId {
        ArenaId {
            token: [byte; 16],
            index: 0,
        }
    }

    #[test]
    fn a_process_maps_an_arena_once() {
        let arena = Arena::create(id(1), NODE, 4096, HugePages::Never).unwrap();
        let fd = arena.descriptor().unwrap();
        let again = Arena::open(id(1), NODE, std::process::id(), fd).unwrap();
        assert!(Arc::ptr_eq(&arena, &again));
    }

    #[test]
    fn the_memory_of_another_is_refused() {
        let arena = Arena::create(id(2), NODE, 4096, HugePages::Never).unwrap();
        let fd = arena.descriptor().unwrap();
        // The token of a node that is gone, the PID and descriptor number of another.
        let refused = Arena::open(id(3), NODE, std::process::id(), fd);
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{refused:?}");
        // A pipe would block if it were opened for reading.
        let (reader, _writer) = io::pipe().unwrap();
        let pipe = u32::try_from(reader.as_raw_fd()).unwrap();
        let refused = Arena::open(id(3), NODE, std::process::id(), pipe);
        assert!(matches!(refused, Err(FabricError::Refused(_))), "{refused:?}");
    }

    #[test]
    fn a_process_that_is_gone_is_lost() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        assert_eq!(
            Arena::open(id(4), NODE, child.id(), 0).unwrap_err(),
            FabricError::PeerLost(NODE)
        );
    }

    #[test]
    fn arenas_are_sealed_and_lazy() {
        let arena = Arena::create(id(5), NODE, 64 * MIB, HugePages::Never).unwrap();
        let fd = i32::try_from(arena.descriptor().unwrap()).unwrap();
        // SAFETY: `arena` keeps the descriptor open.
        let file = unsafe { BorrowedFd::borrow_raw(fd) };
        assert!(rustix::fs::ftruncate(file, 4096).is_err());
        assert_eq!(
            rustix::fs::fstat(file).unwrap().st_blocks,
            0,
            "nothing is touched yet"
        );
    }

    #[test]
    fn huge_pages_fall_back() {
        for huge in [HugePages::OneGiB, HugePages::TwoMiB, HugePages::Never] {
            let arena = Arena::create(id(6), NODE, 1024 * MIB, huge).unwrap();
            assert!(arena.len() >= 1024 * MIB);
        }
    }
}
