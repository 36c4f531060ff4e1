//! Handles on registered memory: this node's, one word of it, and a peer's.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::device::{ACCESS, Device, Registration, os};
use super::ffi::ok;
use super::ffi::types::*;
use super::heap::Block;
use crate::shm::word;
use crate::{FabricError, Memory, NodeId, RemoteMemory, Result, Word, WordCell};

/// Registered memory of this node: from [`allocate`](crate::Fabric::allocate), or the user's own by
/// [`register`](super::VerbsFabric::register).
#[derive(Clone)]
pub struct VerbsMemory {
    /// Where the CPU finds it; none for device memory.
    cpu: Option<NonNull<u8>>,
    /// Where the device finds it.
    address: u64,
    len: usize,
    lkey: u32,
    owner: Arc<Owner>,
}

/// What keeps memory registered.
pub(super) enum Owner {
    Block(Block),
    User(Registration),
    Device(DeviceMemory),
}

/// One aligned word of registered memory. Loads and stores are single instructions.
#[derive(Clone)]
pub struct VerbsCell<W> {
    at: NonNull<u8>,
    /// Keeps the word mapped and allocated.
    _owner: Arc<Owner>,
    word: PhantomData<fn() -> W>,
}

/// Memory of a peer: where its device finds it, and the key.
#[derive(Clone, Debug)]
pub struct VerbsRemote {
    pub(super) node: NodeId,
    address: u64,
    len: usize,
    pub(super) rkey: u32,
}

// SAFETY: for both types: the pointer stays valid as long as the owner that travels with it, and all access through it
// is atomic (module `word`).
unsafe impl Send for VerbsMemory {}
// SAFETY: as above.
unsafe impl Sync for VerbsMemory {}
// SAFETY: as above.
unsafe impl<W> Send for VerbsCell<W> {}
// SAFETY: as above.
unsafe impl<W> Sync for VerbsCell<W> {}

/// Fails unless `len` bytes from `offset` lie within `region_len`.
#[inline]
fn check_range(offset: usize, len: usize, region_len: usize) -> Result<()> {
    if len <= region_len && offset <= region_len - len {
        Ok(())
    } else {
        Err(FabricError::OutOfRange {
            offset,
            len,
            region_len,
        })
    }
}

#[inline]
fn check_aligned(address: u64, offset: usize, align: usize) -> Result<()> {
    // It is the address that counts: the region may itself be a slice from an odd offset.
    if address.is_multiple_of(align as u64) {
        Ok(())
    } else {
        Err(FabricError::Misaligned { offset, align })
    }
}

impl VerbsMemory {
    pub(super) fn of_block(block: Block, len: usize) -> VerbsMemory {
        let start = block.start();
        VerbsMemory {
            cpu: Some(start),
            address: start.as_ptr().expose_provenance() as u64,
            len,
            lkey: block.registration().lkey(),
            owner: Arc::new(Owner::Block(block)),
        }
    }

    pub(super) fn of_user(registration: Registration, start: NonNull<u8>, len: usize) -> VerbsMemory {
        VerbsMemory {
            cpu: Some(start),
            address: start.as_ptr().expose_provenance() as u64,
            len,
            lkey: registration.lkey(),
            owner: Arc::new(Owner::User(registration)),
        }
    }

    pub(super) fn of_device(memory: DeviceMemory, len: usize) -> VerbsMemory {
        VerbsMemory {
            cpu: None,
            address: 0,
            len,
            lkey: memory.registration.lkey(),
            owner: Arc::new(Owner::Device(memory)),
        }
    }

    /// Key by which peers access it.
    pub(super) fn rkey(&self) -> u32 {
        match &*self.owner {
            Owner::Block(block) => block.registration().rkey(),
            Owner::User(registration) => registration.rkey(),
            Owner::Device(memory) => memory.registration.rkey(),
        }
    }

    /// Key by which this node's device accesses it.
    pub(super) fn lkey(&self) -> u32 {
        self.lkey
    }

    /// Where the device finds it.
    pub(super) fn device_address(&self) -> u64 {
        self.address
    }

    /// `len` bytes from `offset` for the device; none if there are none.
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

    /// The aligned 8-byte word at `offset` for the device.
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

    /// Where the CPU finds `len` bytes from `offset`; none for device memory.
    #[inline]
    fn cpu_address(&self, offset: usize, len: usize) -> Result<Option<*mut u8>> {
        check_range(offset, len, self.len)?;
        // SAFETY: within the region, as just checked, which is within one mapping.
        Ok(self.cpu.map(|start| unsafe { start.add(offset) }.as_ptr()))
    }

    fn device_memory(&self) -> Result<&DeviceMemory> {
        match &*self.owner {
            Owner::Device(memory) => Ok(memory),
            // Memory without a CPU address is device memory.
            Owner::Block(_) | Owner::User(_) => {
                Err(FabricError::Unsupported("host memory without address".to_owned()))
            }
        }
    }
}

#[cold]
fn too_long(len: usize) -> FabricError {
    FabricError::Unsupported(format!(
        "a transfer of {len} bytes: split it into pieces of at most 1 GiB"
    ))
}

impl std::fmt::Debug for VerbsMemory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerbsMemory")
            .field("address", &format_args!("{:#x}", self.address))
            .field("len", &self.len)
            .field("lkey", &self.lkey)
            .field("on_device", &self.cpu.is_none())
            .finish()
    }
}

impl<W> std::fmt::Debug for VerbsCell<W> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VerbsCell").field("at", &self.at).finish()
    }
}

impl Memory for VerbsMemory {
    type Cell<W: Word> = VerbsCell<W>;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        let cpu = self.cpu_address(offset, len)?.and_then(NonNull::new);
        Ok(VerbsMemory {
            cpu,
            address: self.address + offset as u64,
            len,
            lkey: self.lkey,
            owner: Arc::clone(&self.owner),
        })
    }

    /// Device memory has no cells: it is read and written as a whole, by copying.
    fn cell<W: Word>(&self, offset: usize) -> Result<VerbsCell<W>> {
        let at = self
            .cpu_address(offset, W::BYTES)?
            .and_then(NonNull::new)
            .ok_or_else(|| {
                FabricError::Unsupported(
                    "words of device memory by the CPU: use `read` and `write`, or atomics".to_owned(),
                )
            })?;
        check_aligned(at.as_ptr().addr() as u64, offset, W::BYTES)?;
        Ok(VerbsCell {
            at,
            _owner: Arc::clone(&self.owner),
            word: PhantomData,
        })
    }

    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        match self.cpu_address(offset, out.len())? {
            // SAFETY: the range was checked and `self` keeps it mapped.
            Some(from) => unsafe { word::read(from, out) },
            None => self.device_memory()?.read(self.address + offset as u64, out)?,
        }
        Ok(())
    }

    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        match self.cpu_address(offset, data.len())? {
            // SAFETY: the range was checked and `self` keeps it mapped.
            Some(to) => unsafe { word::write(to, data) },
            None => self.device_memory()?.write(self.address + offset as u64, data)?,
        }
        Ok(())
    }
}

impl<W: Word> WordCell<W> for VerbsCell<W> {
    #[inline]
    fn load(&self, order: Ordering) -> W {
        // SAFETY: range and alignment were checked when the cell was made; the owner keeps it mapped.
        unsafe { word::load(self.at.as_ptr(), order) }
    }

    #[inline]
    fn store(&self, value: W, order: Ordering) {
        // SAFETY: as for `load`.
        unsafe { word::store(self.at.as_ptr(), value, order) }
    }

    #[inline]
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        // SAFETY: as for `load`.
        unsafe { word::compare_exchange(self.at.as_ptr(), current, new) }
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

    /// Where the peer's device finds `len` bytes from `offset`.
    #[inline]
    pub(super) fn address(&self, offset: usize, len: usize) -> Result<u64> {
        check_range(offset, len, self.len)?;
        Ok(self.address + offset as u64)
    }

    /// Where the peer's device finds the aligned 8-byte word at `offset`.
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
    /// Allocates `len` bytes (rounded up to the 4 that copies need), zeroed.
    pub(super) fn allocate(device: &Arc<Device>, len: usize) -> Result<DeviceMemory> {
        let rounded = len.next_multiple_of(64).max(64);
        // SAFETY: the device is open.
        let dm = unsafe { device.api.alloc_dm(device.context, rounded) }.map_err(|e| {
            let total = device.limits.device_memory_bytes;
            os(
                &format!(
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
        .map_err(|e| os(&format!("registering {len} bytes of device memory"), &e))?;
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
        copied.map_err(|e| os("reading device memory (offset and length in multiples of 4)", &e))
    }

    fn write(&self, at: u64, data: &[u8]) -> Result<()> {
        // SAFETY: as for `read`.
        let copied = unsafe {
            match (*self.memory.dm).memcpy_to_dm {
                Some(copy) => ok(copy(self.memory.dm, at, data.as_ptr().cast(), data.len())),
                None => ok(libc::EOPNOTSUPP),
            }
        };
        copied.map_err(|e| os("writing device memory (offset and length in multiples of 4)", &e))
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
