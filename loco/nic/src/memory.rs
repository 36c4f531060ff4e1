//! Registered memory: the regions of this process, and access to them. Nothing else is ever touched.

use std::collections::HashMap;

use loco_host::bytes;

use crate::ffi::*;

/// A piece of memory of this process, within a region that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    pub at: usize,
    pub len: usize,
    /// True if the region was registered with relaxed ordering.
    pub relaxed: bool,
}

/// Memory that may not be accessed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refused;

struct Region {
    at: usize,
    iova: u64,
    len: u64,
    access: u32,
    pd: u32,
}

/// The regions of this process, by their keys.
#[derive(Default)]
pub(crate) struct Memory {
    regions: HashMap<u32, Region>,
    registered: u32,
}

impl Memory {
    /// Registers memory and returns its key. A key is never given twice, so that an old one opens nothing.
    pub fn register(&mut self, at: usize, iova: u64, len: u64, access: u32, pd: u32) -> u32 {
        self.registered = self.registered.wrapping_add(1);
        let key = self.registered << 8 | 0x5a;
        self.regions.insert(
            key,
            Region {
                at,
                iova,
                len,
                access,
                pd,
            },
        );
        key
    }

    /// Changes a region. Returns false if there is none of this key.
    pub fn change(
        &mut self,
        key: u32,
        place: Option<(usize, u64)>,
        access: Option<u32>,
        pd: Option<u32>,
    ) -> bool {
        let Some(region) = self.regions.get_mut(&key) else {
            return false;
        };
        if let Some((at, len)) = place {
            (region.at, region.iova, region.len) = (at, at as u64, len);
        }
        region.access = access.unwrap_or(region.access);
        region.pd = pd.unwrap_or(region.pd);
        true
    }

    /// Forgets a region.
    pub fn forget(&mut self, key: u32) -> bool {
        self.regions.remove(&key).is_some()
    }

    /// Returns the number of regions of a protection domain.
    pub fn of_domain(&self, pd: u32) -> usize {
        self.regions.values().filter(|region| region.pd == pd).count()
    }

    /// Returns the memory that a key opens, if the key's region belongs to the protection domain and allows the access.
    pub fn resolve(&self, key: u32, pd: u32, addr: u64, len: u64, access: u32) -> Result<Piece, Refused> {
        let region = self.regions.get(&key).ok_or(Refused)?;
        let offset = addr.checked_sub(region.iova).ok_or(Refused)?;
        let end = offset.checked_add(len).ok_or(Refused)?;
        if region.pd != pd || region.access & access != access || end > region.len {
            return Err(Refused);
        }
        Ok(Piece {
            at: region.at + usize::try_from(offset).map_err(|_| Refused)?,
            len: usize::try_from(len).map_err(|_| Refused)?,
            relaxed: region.access & IBV_ACCESS_RELAXED_ORDERING != 0,
        })
    }

    /// Returns the memory of scatter/gather elements. Empty elements need no key.
    pub fn resolve_all(&self, elements: &[Sge], pd: u32, access: u32) -> Result<Vec<Piece>, Refused> {
        elements
            .iter()
            .filter(|element| element.length > 0)
            .map(|element| self.resolve(element.lkey, pd, element.addr, u64::from(element.length), access))
            .collect()
    }
}

fn pointer(at: usize) -> *mut u8 {
    std::ptr::with_exposed_provenance_mut(at)
}

/// Appends the memory's bytes to a buffer.
pub(crate) fn gather(pieces: &[Piece], into: &mut Vec<u8>) {
    for piece in pieces {
        let start = into.len();
        into.resize(start + piece.len, 0);
        load(piece.at, &mut into[start..]);
    }
}

/// Reads registered memory. Aligned words do not tear.
pub(crate) fn load(at: usize, into: &mut [u8]) {
    // SAFETY: pieces lie within registered regions, which the program keeps mapped until it has deregistered them.
    unsafe { bytes::read(pointer(at), into) };
}

/// Writes registered memory. Aligned words do not tear.
pub(crate) fn store(at: usize, data: &[u8]) {
    // SAFETY: as in `load`; what is not placed when a region is deregistered is placed before.
    unsafe { bytes::write(pointer(at), data) };
}

/// Writes registered memory as [`store`] does, later than the card was asked to. Writes nothing if the program has unmapped the
/// memory meanwhile. The pages of a card would be pinned, and nobody could see the write.
pub(crate) fn store_late(at: usize, data: &[u8]) {
    if is_mapped(at, data.len()) {
        store(at, data);
    }
}

/// Exchanges an aligned word at once, if its new value is not `None`. Returns the old value.
pub(crate) fn exchange(at: usize, change: impl Fn(u64) -> Option<u64>) -> u64 {
    let word = pointer(at).cast::<u64>();
    // SAFETY: as in `load`, and the caller has checked the alignment.
    let word = unsafe { std::sync::atomic::AtomicU64::from_ptr(word) };
    let order = std::sync::atomic::Ordering::SeqCst;
    word.fetch_update(order, order, change).unwrap_or_else(|old| old)
}

/// Returns the first `len` bytes of the pieces, or `None` if they have fewer.
pub(crate) fn first(pieces: &[Piece], len: usize) -> Option<Vec<Piece>> {
    let mut left = len;
    let mut taken = Vec::new();
    for piece in pieces {
        if left == 0 {
            break;
        }
        let part = Piece {
            len: piece.len.min(left),
            ..*piece
        };
        left -= part.len;
        taken.push(part);
    }
    (left == 0).then_some(taken)
}

/// Returns true if every page of the memory is mapped.
pub(crate) fn is_mapped(at: usize, len: usize) -> bool {
    // SAFETY: the call has no conditions.
    let page = usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096);
    let start = at / page * page;
    let Some(end) = at.checked_add(len) else {
        return false;
    };
    let mut pages = vec![0_u8; ((end - start).div_ceil(page)).clamp(1, 1 << 16)];
    let mut from = start;
    while from < end {
        let part = (end - from).min(pages.len() * page);
        // SAFETY: the vector has a byte for each page that is asked for; `mincore` touches no memory but that.
        let answer = unsafe { libc::mincore(pointer(from).cast(), part, pages.as_mut_ptr()) };
        if answer != 0 {
            return false;
        }
        from += part;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    /// UCX unmaps memory before it deregisters it, while the last put of a peer is on its way.
    #[test]
    fn a_late_store_to_memory_that_was_unmapped_harms_nobody() {
        let len = 2 * 4096;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: a new mapping, which nobody else has.
        let mapping = unsafe { libc::mmap(std::ptr::null_mut(), len, access, kind, -1, 0) };
        assert_ne!(mapping, libc::MAP_FAILED);
        let at = mapping.expose_provenance();
        store_late(at, &[7; 16]);
        let mut seen = [0; 16];
        load(at, &mut seen);
        assert_eq!(seen, [7; 16]);
        // SAFETY: nobody else has this mapping.
        assert_eq!(unsafe { libc::munmap(mapping, len) }, 0);
        store_late(at, &[8; 16]);
        store_late(at + 4090, &[8; 16]);
    }
}
