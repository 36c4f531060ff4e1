//! The state of a software device: its limits, registered memory, and injected faults.

use std::collections::HashMap;
use std::ffi::c_int;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard};

use loco_fabric::Tier;
use loco_verbs::ffi::types::*;
use rand::rngs::SmallRng;

/// The capabilities of a software device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimits {
    /// The largest inline size, in bytes.
    pub inline_bytes_max: u32,
    /// The largest number of entries of a completion queue.
    pub cq_entries_max: u32,
    /// The largest number of work requests of a queue pair.
    pub queue_depth_max: u32,
    /// The bytes of device memory.
    pub device_memory_bytes: u64,
    /// True if reads of length zero work.
    pub zero_length_reads: bool,
    /// True if fenced operations are unreliable.
    pub fences_stall: bool,
    /// True if the device has completion channels.
    pub completion_events: bool,
    /// The atomicity, as in `ibv_atomic_cap`: 0 none, 1 HCA, 2 GLOB.
    pub atomic_cap: u32,
    /// The order in which operations are executed.
    pub tier: Tier,
    /// True if the fabric knows that order. Otherwise it must count on none.
    pub tier_is_known: bool,
    /// True if requests wait on tier `ibta`, too, as on the others: a write may then pass a read. Otherwise each is carried out
    /// when it is posted.
    pub late: bool,
    /// True if operations complete without being executed. What remains is the cost of the code above the
    /// device.
    pub null: bool,
}

impl Default for SoftLimits {
    fn default() -> SoftLimits {
        SoftLimits {
            inline_bytes_max: 512,
            cq_entries_max: 32767,
            queue_depth_max: 1 << 14,
            device_memory_bytes: 0,
            zero_length_reads: true,
            fences_stall: false,
            completion_events: true,
            atomic_cap: IBV_ATOMIC_GLOB,
            tier: Tier::Ibta,
            tier_is_known: true,
            late: false,
            null: false,
        }
    }
}

/// A device, and its injected faults.
pub(super) struct Shared {
    pub(super) address: Ipv4Addr,
    pub(super) limits: SoftLimits,
    pub(super) regions: RwLock<HashMap<u32, Region>>,
    pub(super) next_key: AtomicU32,
    /// The status with which the next work request completes; 0 for none.
    pub(super) fail_next: AtomicU32,
    /// The number of work requests to let pass before that one.
    pub(super) fail_after: AtomicU32,
    /// `errno` of refused registrations, queue pairs and posts; 0 for none.
    pub(super) refuse_registration: AtomicI32,
    pub(super) refuse_queue_pairs: AtomicI32,
    pub(super) refuse_posts: AtomicI32,
    pub(super) link_down: AtomicBool,
    pub(super) hold_completions: AtomicBool,
    pub(super) queue_pairs: AtomicU64,
    /// The addresses of the queue pairs, whose completions may be held back.
    pub(super) holders: Mutex<Vec<usize>>,
    pub(super) completion_channels: AtomicU64,
    /// The number of completion events that were read and not acknowledged.
    pub(super) unacknowledged_events: AtomicU64,
    /// The number of polls of completion queues.
    pub(super) polls: AtomicU64,
    pub(super) identifiers: AtomicU64,
    pub(super) doorbells: AtomicU64,
    pub(super) overflows: AtomicU64,
    /// The source of the choices of a device that executes operations late.
    pub(super) dice: Mutex<SmallRng>,
    /// Set when such a device has something to do.
    pub(super) late_work: Mutex<bool>,
    /// Signals that it is set.
    pub(super) late_posted: Condvar,
}

/// A registered piece of memory.
#[derive(Clone, Copy)]
pub(super) struct Region {
    /// The base of addresses in work requests: 0 for zero-based regions, else the region's own address.
    pub(super) base: usize,
    pub(super) start: usize,
    pub(super) len: usize,
    pub(super) access: u32,
}

/// All devices of this process. The list never shrinks, because contexts point into it.
pub(super) static DEVICES: Mutex<Vec<(Ipv4Addr, usize)>> = Mutex::new(Vec::new());

/// The regions that a work request may reach. While such a value lives, none of them is deregistered and
/// hence unmapped, even if the peer is going away at the same time.
pub(super) struct Registered<'a>(RwLockReadGuard<'a, HashMap<u32, Region>>);

impl Registered<'_> {
    /// Returns the place of the `len` bytes from `address` of the region `key`, if the region allows `access`
    /// to them.
    pub(super) fn resolve(&self, key: u32, address: u64, len: usize, access: u32) -> Option<*mut u8> {
        let region = self.0.get(&key)?;
        let offset = usize::try_from(address).ok()?.checked_sub(region.base)?;
        let fits = len <= region.len && offset <= region.len - len && region.access & access == access;
        fits.then(|| std::ptr::with_exposed_provenance_mut(region.start + offset))
    }
}

impl Shared {
    pub(super) fn registered(&self) -> Registered<'_> {
        Registered(self.regions.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn add_region(&self, region: Region) -> u32 {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(key, region);
        key
    }

    pub(super) fn remove_region(&self, key: u32) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.remove(&key);
    }

    /// Returns the status that fault injection wants for the next work request.
    pub(super) fn injected(&self) -> u32 {
        if self.link_down.load(Ordering::Relaxed) {
            return IBV_WC_RETRY_EXC_ERR;
        }
        if self.fail_next.load(Ordering::Relaxed) == IBV_WC_SUCCESS {
            return IBV_WC_SUCCESS;
        }
        let mut left = self.fail_after.load(Ordering::SeqCst);
        while left > 0 {
            let counted =
                self.fail_after
                    .compare_exchange(left, left - 1, Ordering::SeqCst, Ordering::SeqCst);
            match counted {
                Ok(_) => return IBV_WC_SUCCESS,
                Err(now) => left = now,
            }
        }
        self.fail_next.swap(IBV_WC_SUCCESS, Ordering::SeqCst)
    }
}

/// Returns the context of the device with this address.
pub(super) fn context_at(address: Ipv4Addr) -> Option<*mut Context> {
    let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = devices.iter().find(|(at, _)| *at == address);
    found.map(|&(_, context)| std::ptr::with_exposed_provenance_mut(context))
}

/// Sets `errno`.
pub(super) fn set_errno(errno: c_int) {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Returns a zeroed structure.
pub(super) fn zeroed<T: Copy>() -> T {
    // SAFETY: only used with the structures of `loco_verbs::ffi::types`: integers, nullable function pointers, raw pointers
    // and arrays of these, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}
