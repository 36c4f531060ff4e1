//! The pages of an arena: the largest that were asked for and that the host grants.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};
use std::str::FromStr;

use rustix::mm::{Advice, MapFlags, ProtFlags};

use loco_fabric::{FabricError, NodeId, Result};

/// Bytes of a mebibyte.
pub const MIB: usize = 1 << 20;

/// The pages that are asked for. If the host has none, the next smaller ones are taken and one line is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum HugePages {
    /// Small pages only.
    Never,
    /// Reserved 2 MiB pages (`vm.nr_hugepages`), else transparent huge pages by advice.
    #[default]
    TwoMiB,
    /// Reserved 1 GiB pages for arenas of that size (LOCO'26 C.4), else the same as
    /// [`TwoMiB`](HugePages::TwoMiB). A page is cleared as a whole at its first touch, which takes a
    /// noticeable fraction of a second.
    OneGiB,
}

impl FromStr for HugePages {
    type Err = FabricError;

    /// Reads `small`, `huge` (2 MiB) or `giant` (1 GiB). An empty name is the default.
    fn from_str(name: &str) -> Result<HugePages> {
        match name {
            "small" => Ok(HugePages::Never),
            "" | "huge" => Ok(HugePages::TwoMiB),
            "giant" => Ok(HugePages::OneGiB),
            _ => Err(FabricError::Config(format!(
                "no pages `{name}`: there are small, huge (2 MiB) and giant (1 GiB)"
            ))),
        }
    }
}

impl fmt::Display for HugePages {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            HugePages::Never => "small",
            HugePages::TwoMiB => "huge",
            HugePages::OneGiB => "giant",
        })
    }
}

/// The page size of an arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// 1 GiB, reserved by the administrator.
    OneGiB,
    /// 2 MiB, reserved by the administrator.
    TwoMiB,
    /// The system's pages, which it joins to 2 MiB pages where it does so on advice.
    SmallAdvised,
    /// The system's pages.
    Small,
}

impl Pages {
    /// Returns the pages to try for an arena of `len` bytes, best first. The last are always granted.
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
            // This is a multiple of every page size.
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

    /// Gives the system the advice that belongs to these pages, for `len` bytes just mapped from `start`.
    pub fn advise(self, start: NonNull<u8>, len: usize) {
        if self != Pages::SmallAdvised {
            return;
        }
        advise_huge(start.as_ptr(), len);
    }
}

/// Asks the system for huge pages where it gives them on advice, for the `len` bytes from `start`, which begin with a page.
fn advise_huge(start: *mut u8, len: usize) {
    // SAFETY: advice changes no contents; a range that is not mapped is an error.
    let advised = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxHugepage) };
    if let Err(error) = advised {
        tracing::debug!("no advice on huge pages: {error}"); // On a kernel without them nothing is lost.
    }
}

/// Keeps the `len` bytes from `start`, which are a mapping, out of processes that are forked from this one: an access there
/// is a fault. A child has no part in the job. It could otherwise change peers' memory in the name of its parent, and a
/// copy of private memory that a device accesses would leave the device with the pages of the one and the parent with those
/// of the other.
pub fn keep_from_children(start: *mut u8, len: usize) {
    // SAFETY: advice changes no contents; a range that is not mapped is an error.
    let advised = unsafe { rustix::mm::madvise(start.cast(), len, Advice::LinuxDontFork) };
    if let Err(error) = advised {
        tracing::warn!("a child would share registered memory: {error}");
    }
}

/// Asks the system for huge pages for newly allocated private memory, if the memory is as long as two of them or more.
/// Implements [`Fabric::prefer_large_pages`](loco_fabric::Fabric::prefer_large_pages) for the fabrics of hosts.
pub fn prefer_large<T>(memory: &[MaybeUninit<T>]) {
    let (start, len) = (memory.as_ptr().cast::<u8>().cast_mut(), size_of_val(memory));
    if len < 4 * MIB {
        return;
    }
    // Only pages that lie wholly within the memory are advised.
    let page = Pages::SmallAdvised.bytes();
    let head = start.addr().wrapping_neg() % page;
    advise_huge(start.wrapping_add(head), (len - head) / page * page);
}

/// Maps memory of `node` with at least `len` bytes, by `map(rounded length, pages)`. Uses the largest
/// pages that `map` grants. Logs in one line which these are, and which were refused; the line calls the memory `name`.
/// Returns the result of `map` and the rounded length.
///
/// # Errors
/// Returns [`FabricError::Os`] with each refusal.
pub fn map_on_largest<T>(
    node: NodeId,
    name: &str,
    len: usize,
    huge: HugePages,
    mut map: impl FnMut(usize, Pages) -> io::Result<T>,
) -> Result<(T, usize)> {
    let mut refused = Vec::new();
    for &pages in Pages::to_try(huge, len) {
        let rounded = len.checked_next_multiple_of(pages.bytes()).unwrap_or(len);
        match map(rounded, pages) {
            Ok(mapped) => {
                let (mib, pages) = (rounded.div_ceil(MIB), pages.name());
                if refused.is_empty() {
                    tracing::info!("{node}: {name} of {mib} MiB on {pages}");
                } else {
                    tracing::info!(
                        "{node}: {name} of {mib} MiB on {pages}: no {}; `sysctl vm.nr_hugepages={}` \
                         reserves enough",
                        refused.join(", "),
                        rounded.div_ceil(2 * MIB),
                    );
                }
                return Ok((mapped, rounded));
            }
            Err(error) => refused.push(format!("{} ({error})", pages.name())),
        }
    }
    Err(FabricError::Os {
        what: format!(
            "mapping an arena of {len} bytes (a smaller `arena_bytes` needs less address space, see `ulimit -v`)"
        ),
        source: refused.join(", ").into(),
    })
}

/// Private memory of the process, unmapped when this is dropped. It begins as zeros.
pub struct PrivateMapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: `start` is only an address here; the bytes are accessed by the atomic operations of `word` and by devices.
unsafe impl Send for PrivateMapping {}
// SAFETY: as above.
unsafe impl Sync for PrivateMapping {}

impl PrivateMapping {
    /// Maps at least `len` bytes for arena `index` of `node`, as [`map_on_largest`] does. No swap space is reserved for
    /// small pages: most of an arena may never be touched.
    ///
    /// # Errors
    /// See [`map_on_largest`].
    pub fn new(node: NodeId, index: usize, len: usize, huge: HugePages) -> Result<PrivateMapping> {
        let (start, len) = map_on_largest(node, &format!("arena {index}"), len, huge, map_private)?;
        Ok(PrivateMapping { start, len })
    }

    /// Returns the first byte.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// Returns the length in bytes.
    #[expect(clippy::len_without_is_empty, reason = "no mapping is empty")]
    pub fn len(&self) -> usize {
        self.len
    }
}

impl Drop for PrivateMapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made for `self`, and no handle is left that could access it.
        unsafe { unmap(self.start, self.len) };
    }
}

fn map_private(len: usize, pages: Pages) -> io::Result<NonNull<u8>> {
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
    keep_from_children(start.as_ptr(), len);
    Ok(start)
}

/// Unmaps an arena.
///
/// # Safety
/// `len` bytes from `start` are one mapping, which nobody accesses any more.
pub unsafe fn unmap(start: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise.
    let unmapped = unsafe { rustix::mm::munmap(start.as_ptr().cast(), len) };
    debug_assert!(unmapped.is_ok(), "munmap of a mapping fails only for a bad range");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps on a host that grants the pages in `granted`. Returns the pages that were tried, and the result.
    fn tried(huge: HugePages, len: usize, granted: &[Pages]) -> (Vec<Pages>, Result<usize>) {
        let mut tried = Vec::new();
        let mapped = map_on_largest(NodeId(0), "arena 0", len, huge, |_, pages| {
            tried.push(pages);
            match granted.contains(&pages) {
                true => Ok(()),
                false => Err(io::ErrorKind::OutOfMemory.into()),
            }
        });
        (tried, mapped.map(|((), len)| len))
    }

    #[test]
    fn the_largest_pages_that_the_host_grants_are_taken() {
        use Pages::{OneGiB, Small, SmallAdvised, TwoMiB};
        let gib = 1024 * MIB;
        let all = [OneGiB, TwoMiB, SmallAdvised, Small];
        for (huge, len, granted, expected, rounded) in [
            (HugePages::OneGiB, gib + 1, &all[..], &[OneGiB][..], 2 * gib),
            (
                HugePages::OneGiB,
                gib + 1,
                &all[1..],
                &[OneGiB, TwoMiB],
                gib + 2 * MIB,
            ),
            (
                HugePages::OneGiB,
                gib,
                &all[2..],
                &[OneGiB, TwoMiB, SmallAdvised],
                gib,
            ),
            (HugePages::OneGiB, gib - 1, &all, &[TwoMiB], gib),
            (HugePages::TwoMiB, gib, &all, &[TwoMiB], gib),
            (
                HugePages::TwoMiB,
                3 * MIB,
                &all[2..],
                &[TwoMiB, SmallAdvised],
                3 * MIB,
            ),
            (HugePages::TwoMiB, MIB, &all, &[Small], MIB),
            (HugePages::Never, gib, &all, &[Small], gib),
        ] {
            let (tried, len) = tried(huge, len, granted);
            assert_eq!((tried.as_slice(), len), (expected, Ok(rounded)), "{huge:?}");
        }
    }

    #[test]
    fn names_of_pages_are_read_as_they_are_printed() {
        for pages in [HugePages::Never, HugePages::TwoMiB, HugePages::OneGiB] {
            assert_eq!(pages.to_string().parse(), Ok(pages));
        }
        assert_eq!("".parse(), Ok(HugePages::default()));
        let refused = "2M".parse::<HugePages>().unwrap_err().to_string();
        assert!(refused.contains("`2M`") && refused.contains("giant"), "{refused}");
    }

    #[test]
    fn a_host_that_grants_nothing_gives_every_reason() {
        let (_, refused) = tried(HugePages::TwoMiB, 4 * MIB, &[]);
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("huge pages of 2 MiB") && text.contains("small pages"),
            "{text}"
        );
    }
}
