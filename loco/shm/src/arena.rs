//! A large piece of shared memory. One node creates it as a memfd, and its peers map it.
//!
//! An arena has no name in a file system, so nothing is left behind however a process ends: the kernel frees
//! an arena with its last mapping and descriptor. A peer opens `/proc/PID/fd/N` of the owner. The alternative
//! is to pass the descriptor over a socket (`SCM_RIGHTS`). That needs a thread in every node that answers at
//! any time, and sockets between all pairs. This way needs neither, only one user and one PID namespace. The
//! PID may have been given to another process, whose descriptor N may be anything (a pipe that blocks, a
//! device with side effects). The descriptor is therefore first opened as a mere path. It is read or mapped
//! only if its name carries the random token that the owner sent at set-up. Arenas are sealed against
//! resizing, so that an access within the mapping never faults.
//!
//! A process maps an arena once, whichever of its nodes asks. Two mappings of the same bytes would be
//! unrelated memory to the compiler.

use std::collections::HashMap;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::{MemfdFlags, Mode, OFlags, SealFlags};
use rustix::mm::{MapFlags, ProtFlags};
use rustix::process::{Resource, getrlimit};

use loco_fabric::{FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas;
use loco_host::pages::{self, Pages};

/// The index of the arena that holds a node's gate. No allocation reaches this index.
pub(crate) const GATE_INDEX: u32 = u32::MAX;

/// Identifies a node's arenas. It is random, and exchanged at set-up.
pub(super) type Token = [u8; 16];

/// Names an arena among all arenas of all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct ArenaId {
    /// The owner's token.
    pub(super) token: Token,
    /// The position among the owner's arenas.
    pub(super) index: u32,
}

/// A mapped arena. It is unmapped when the last handle is dropped.
#[derive(Debug)]
pub struct Arena {
    id: ArenaId,
    start: NonNull<u8>,
    len: usize,
    /// The memfd, which the owner keeps open for its peers.
    file: Option<OwnedFd>,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the functions of `word` and `bytes` alone.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// The arenas mapped in this process.
static MAPPED: Mutex<Option<HashMap<ArenaId, Weak<Arena>>>> = Mutex::new(None);

impl Arena {
    /// Creates and maps an arena of at least `len` bytes, on the largest pages that `huge` asks for and the
    /// host grants. It touches no page.
    pub(super) fn create(id: ArenaId, node: NodeId, len: usize, huge: HugePages) -> Result<Arc<Arena>> {
        let name = match id.index {
            GATE_INDEX => "gate".to_owned(),
            index => format!("arena {index}"),
        };
        let ((file, start), len) =
            pages::map_on_largest(node, &name, len, huge, |len, pages| map_new(id, len, pages))?;
        let arena = Arc::new(Arena {
            id,
            start,
            len,
            file: Some(file),
        });
        remember(&arena);
        Ok(arena)
    }

    /// Maps the arena that process `pid` holds open as descriptor `fd`, unless it is mapped already.
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
                source: io::Error::from(error).into(),
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
        // Another thread may have been quicker. There is then one mapping too many for a moment, and this thread's
        // is dropped.
        Ok(remember(&arena))
    }

    /// Returns the arena's id.
    pub(super) fn id(&self) -> ArenaId {
        self.id
    }

    /// Returns the descriptor under which peers find the arena, if this process owns it.
    pub(super) fn descriptor(&self) -> Option<u32> {
        let file = self.file.as_ref()?;
        u32::try_from(file.as_raw_fd()).ok()
    }
}

// SAFETY: the mapping is unmapped by `drop` alone; memfds begin as zeros, and `word` and `bytes` make all accesses.
unsafe impl arenas::Arena for Arena {
    fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapped) = mapped.as_mut() {
            // A newer mapping of the same arena may have replaced this one.
            if mapped.get(&self.id).is_some_and(|weak| weak.strong_count() == 0) {
                mapped.remove(&self.id);
            }
        }
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        unsafe { pages::unmap(self.start, self.len) };
    }
}

/// Returns the arena's mapping in this process.
fn mapped(id: ArenaId) -> Option<Arc<Arena>> {
    let mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    mapped.as_ref()?.get(&id)?.upgrade()
}

/// Makes `arena` the mapping of its id unless there is one. Returns the mapping in force.
fn remember(arena: &Arc<Arena>) -> Arc<Arena> {
    let mut mapped = MAPPED.lock().unwrap_or_else(PoisonError::into_inner);
    let mapped = mapped.get_or_insert_default();
    if let Some(held) = mapped.get(&arena.id).and_then(Weak::upgrade) {
        return held;
    }
    mapped.insert(arena.id, Arc::downgrade(arena));
    Arc::clone(arena)
}

/// Returns the name of the memory in `/proc/PID/maps`, which tells its purpose.
fn file_name(id: ArenaId) -> String {
    let purpose = if id.index == GATE_INDEX { "gate" } else { "arena" };
    format!(
        "loco-{purpose}-{:032x}-{}",
        u128::from_be_bytes(id.token),
        id.index
    )
}

/// Returns the flags of the memfd.
fn flags(pages: Pages) -> MemfdFlags {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    match pages {
        Pages::OneGiB => flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_1GB,
        Pages::TwoMiB => flags | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB,
        Pages::SmallAdvised | Pages::Small => flags,
    }
}

/// Makes a sealed memfd and maps it. Mapping reserves huge pages, so that touching them later cannot fail.
fn map_new(id: ArenaId, len: usize, pages: Pages) -> io::Result<(OwnedFd, NonNull<u8>)> {
    let file = rustix::fs::memfd_create(file_name(id), flags(pages))?;
    check_limit(len)?;
    rustix::fs::ftruncate(&file, len as u64)?;
    rustix::fs::fcntl_add_seals(&file, SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    let start = map(&file, len)?;
    pages.advise(start, len);
    Ok((file, start))
}

/// Refuses memory beyond the limit on the size of files, for which the kernel would end the process by SIGXFSZ.
fn check_limit(len: usize) -> io::Result<()> {
    match getrlimit(Resource::Fsize).current {
        Some(limit) if limit < len as u64 => Err(io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("files may have {limit} bytes; `ulimit -f unlimited` before the job lifts the limit"),
        )),
        _ => Ok(()),
    }
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
    // A process that is forked from the node has no part in the job, and must not write in its name.
    pages::keep_from_children(start.cast(), len);
    NonNull::new(start.cast()).ok_or(rustix::io::Errno::NOMEM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use loco_host::arenas::Arena as _;
    use loco_host::pages::MIB;
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
        // The token is that of a node that is gone; PID and descriptor number are another's.
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
