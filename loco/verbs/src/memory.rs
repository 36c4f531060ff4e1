//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::device::{ACCESS, Device, Registration};
use super::ffi::ok;
use super::ffi::types::*;
use super::heap::Arena;
use loco_fabric::{FabricError, Memory, NodeId, RemoteMemory, Result, Word, WordCell};
use loco_host::arenas::Block;
use loco_host::span::{Span, SpanCell, check_aligned, check_range};

/// Registered memory of this node. It comes from [`allocate`](loco_fabric::Fabric::allocate), or is the
/// user's own memory after [`register`](crate::VerbsFabric::register).
#[derive(Clone)]
pub struct VerbsMemory {
    place: Place,
    /// The address at which the device finds the memory.
    address: u64,
    len: usize,
    lkey: u32,
}

/// The place of memory.
#[derive(Clone)]
enum Place {
    /// The memory is in this process.
    Host(Span<Registered>),
    /// The memory is on the card.
    Device(Arc<DeviceMemory>),
}

/// The owner of memory of this process, which keeps it registered.
pub enum Registered {
    /// Memory that the fabric allocated.
    Block(Block<Arena>),
    /// The user's own memory.
    User(Registration),
}

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type VerbsCell<W> = SpanCell<W, Registered>;

/// A peer's memory: the address at which its device finds it, and the key.
#[derive(Clone, Debug)]
pub struct VerbsRemote {
    pub(super) node: NodeId,
    address: u64,
    len: usize,
    pub(super) rkey: u32,
}

impl Registered {
    fn registration(&self) -> &Registration {
        match self {
            Registered::Block(block) => block.arena().registration(),
            Registered::User(registration) => registration,
        }
    }
}

impl VerbsMemory {
    pub(super) fn of_block(block: Block<Arena>, len: usize) -> VerbsMemory {
        let start = block.start();
        // SAFETY: `len` bytes at least were asked for; the block keeps its arena mapped.
        unsafe { VerbsMemory::of_host(start, len, Registered::Block(block)) }
    }

    /// Makes a handle for memory that the user has registered.
    ///
    /// # Safety
    /// The bytes stay mapped as long as the result or a clone or slice of it; only it and `word` access them.
    pub(super) unsafe fn of_user(registration: Registration, start: NonNull<u8>, len: usize) -> VerbsMemory {
        // SAFETY: the caller's promise.
        unsafe { VerbsMemory::of_host(start, len, Registered::User(registration)) }
    }

    /// Makes a handle for host memory, which `keep` keeps registered.
    ///
    /// # Safety
    /// As for [`Span::new`].
    unsafe fn of_host(start: NonNull<u8>, len: usize, keep: Registered) -> VerbsMemory {
        VerbsMemory {
            address: start.as_ptr().expose_provenance() as u64,
            len,
            lkey: keep.registration().lkey(),
            // SAFETY: the caller's promise.
            place: Place::Host(unsafe { Span::new(start, len, Arc::new(keep)) }),
        }
    }

    pub(super) fn of_device(memory: DeviceMemory, len: usize) -> VerbsMemory {
        VerbsMemory {
            address: 0,
            len,
            lkey: memory.registration.lkey(),
            place: Place::Device(Arc::new(memory)),
        }
    }

    /// Returns the address of the first byte, which is mapped as long as this handle or a clone of it, or `None` for memory on
    /// the card. It is for code in other languages. Its accesses are atomic for no word, unless it makes them so.
    pub fn address(&self) -> Option<NonNull<u8>> {
        match &self.place {
            Place::Host(span) => Some(span.start()),
            Place::Device(_) => None,
        }
    }

    /// Returns the key by which peers access the memory.
    pub(super) fn rkey(&self) -> u32 {
        match &self.place {
            Place::Host(span) => span.keep().registration().rkey(),
            Place::Device(memory) => memory.registration.rkey(),
        }
    }

    /// Returns the key by which this node's device accesses the memory.
    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Returns the address at which the device finds the memory.
    pub(super) fn device_address(&self) -> u64 {
        self.address
    }

    /// Returns the `len` bytes from `offset` for the device, or `None` if `len` is 0.
    #[inline]
    pub(super) fn sge(&self, offset: usize, len: usize) -> Result<Option<Sge>> {
        check_range(offset, len, self.len)?;
        let length = u32::try_from(len).map_err(|_| too_long(len))?;
        Ok((len > 0).then_some(Sge {
            addr: self.address + offset as u64,
            length,
            lkey: self.lkey,
        }))
    }

    /// Returns the aligned 8-byte word at `offset` for the device.
    #[inline]
    pub(super) fn sge_word(&self, offset: usize) -> Result<Sge> {
        check_range(offset, 8, self.len)?;
        let addr = self.address + offset as u64;
        check_aligned(addr, offset, 8)?;
        Ok(Sge {
            addr,
            length: 8,
            lkey: self.lkey,
        })
    }
}

#[cold]
fn too_long(len: usize) -> FabricError {
    FabricError::Unsupported(format!(
        "a transfer of {len} bytes: split it into pieces of at most 1 GiB"
    ))
}

impl fmt::Debug for VerbsMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("VerbsMemory")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("lkey", &self.lkey)
            .field("on_device", &matches!(self.place, Place::Device(_)))
            .finish()
    }
}

impl Memory for VerbsMemory {
    type Cell<W: Word> = VerbsCell<W>;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        check_range(offset, len, self.len)?;
        Ok(VerbsMemory {
            place: match &self.place {
                Place::Host(span) => Place::Host(span.slice(offset, len)?),
                Place::Device(memory) => Place::Device(Arc::clone(memory)),
            },
            address: self.address + offset as u64,
            len,
            lkey: self.lkey,
        })
    }

    /// Fails for device memory, which has no cells: it is read and written as a whole, by copying.
    fn cell<W: Word>(&self, offset: usize) -> Result<VerbsCell<W>> {
        match &self.place {
            Place::Host(span) => span.cell(offset),
            Place::Device(_) => Err(FabricError::Unsupported(
                "words of device memory by the CPU: use `read` and `write`, or atomics".to_owned(),
            )),
        }
    }

    #[inline]
    fn load_word(&self, offset: usize) -> Result<u64> {
        match &self.place {
            Place::Host(span) => span.load_word(offset),
            Place::Device(_) => self.cell::<u64>(offset).map(|cell| cell.load()),
        }
    }

    #[inline]
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        match &self.place {
            Place::Host(span) => span.read(offset, out),
            Place::Device(memory) => {
                check_range(offset, out.len(), self.len)?;
                memory.read(self.address + offset as u64, out)
            }
        }
    }

    #[inline]
    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        match &self.place {
            Place::Host(span) => span.write(offset, data),
            Place::Device(memory) => {
                check_range(offset, data.len(), self.len)?;
                memory.write(self.address + offset as u64, data)
            }
        }
    }

    #[inline]
    fn evict(&self, offset: usize) {
        if let Place::Host(span) = &self.place {
            span.evict(offset);
        }
    }
}

impl VerbsRemote {
    pub(super) fn new(node: NodeId, address: u64, len: usize, rkey: u32) -> VerbsRemote {
        VerbsRemote {
            node,
            address,
            len,
            rkey,
        }
    }

    /// Returns the address at which the peer's device finds `len` bytes from `offset`.
    #[inline]
    pub(super) fn address(&self, offset: usize, len: usize) -> Result<u64> {
        check_range(offset, len, self.len)?;
        Ok(self.address + offset as u64)
    }

    /// Returns the address at which the peer's device finds the aligned 8-byte word at `offset`.
    #[inline]
    pub(super) fn word_address(&self, offset: usize) -> Result<u64> {
        let address = self.address(offset, 8)?;
        check_aligned(address, offset, 8)?;
        Ok(address)
    }
}

impl RemoteMemory for VerbsRemote {
    #[inline]
    fn node(&self) -> NodeId {
        self.node
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        let address = self.address(offset, len)?;
        Ok(VerbsRemote {
            address,
            len,
            ..*self
        })
    }
}

/// Memory on the card. Fields are dropped in order: the registration before the memory.
pub(super) struct DeviceMemory {
    registration: Registration,
    memory: Allocation,
}

/// Allocated device memory, freed when dropped.
struct Allocation {
    device: Arc<Device>,
    dm: *mut Dm,
}

// SAFETY: see `Device`.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Allocates `len` bytes, rounded up to a multiple of 64, and zeroes them.
    pub(super) fn allocate(device: &Arc<Device>, len: usize) -> Result<DeviceMemory> {
        let rounded = len.next_multiple_of(64).max(64);
        // SAFETY: the device is open.
        let dm = unsafe { device.api.alloc_dm(device.context, rounded) }.map_err(|e| {
            let total = device.limits.device_memory_bytes;
            FabricError::os(
                format!(
                    "allocating {len} bytes of the {total} bytes of device memory of {}",
                    device.choice
                ),
                &e,
            )
        })?;
        let memory = Allocation {
            device: Arc::clone(device),
            dm,
        };
        // SAFETY: domain and memory are live and of one device; `rounded` is its length.
        let mr = unsafe {
            device
                .api
                .reg_dm_mr(device.pd, dm, rounded, ACCESS | IBV_ACCESS_ZERO_BASED)
        }
        .map_err(|e| FabricError::os(format!("registering {len} bytes of device memory"), &e))?;
        let memory = DeviceMemory {
            registration: Registration::of(device, mr),
            memory,
        };
        memory.write(0, &vec![0; rounded])?;
        Ok(memory)
    }

    fn read(&self, at: u64, out: &mut [u8]) -> Result<()> {
        // SAFETY: live; the range was checked by the caller against the length allocated.
        let copied = unsafe {
            match (*self.memory.dm).memcpy_from_dm {
                Some(copy) => ok(copy(out.as_mut_ptr().cast(), self.memory.dm, at, out.len())),
                None => ok(libc::EOPNOTSUPP),
            }
        };
        copied.map_err(|e| FabricError::os("reading device memory (offset and length in multiples of 4)", &e))
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        // SAFETY: as for `read`.
        let copied = unsafe {
            match (*self.memory.dm).memcpy_to_dm {
                Some(copy) => ok(copy(self.memory.dm, at, data.as_ptr().cast(), data.len())),
                None => ok(libc::EOPNOTSUPP),
            }
        };
        copied.map_err(|e| FabricError::os("writing device memory (offset and length in multiples of 4)", &e))
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        // SAFETY: allocated by us, no longer registered, and dropped once.
        if let Err(error) = unsafe { self.device.api.free_dm(self.dm) } {
            tracing::warn!("freeing device memory: {error}");
        }
    }
}
