//! A device played by software in this process: the same table of functions that the libraries fill, over memory
//! copies.
//!
//! With it the fabric runs, and is tested, on hosts without RDMA, and faults can be injected that no healthy
//! device shows: every completion status, refused registration, queues that overflow, completions that stay out. An
//! operation is executed when it is posted, in order; `delay_completions` holds its completion back.
//!
//! Nodes of one process only. A device is found by its address, which is unique in the process; it lives as long as
//! the process, as devices do.

mod cm;
mod table;

use std::collections::HashMap;
use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, RwLockReadGuard};

use super::ffi::types::*;
use super::sysfs::Choice;

pub(super) use table::api;

/// What a software device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftLimits {
    /// Largest inline size.
    pub inline_bytes_max: u32,
    /// Entries of a completion queue.
    pub cq_entries_max: u32,
    /// Work requests of a queue pair.
    pub queue_depth_max: u32,
    /// Bytes of device memory.
    pub device_memory_bytes: u64,
    /// True if reads of length zero work.
    pub zero_length_reads: bool,
    /// True if fenced operations are not to be relied on.
    pub fences_stall: bool,
    /// 0 none, 1 HCA, 2 GLOB, as `ibv_atomic_cap`.
    pub atomic_cap: u32,
    /// Complete operations without executing them: what remains is the cost of the code above the device.
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
            atomic_cap: IBV_ATOMIC_GLOB,
            null: false,
        }
    }
}

/// A software device. Clones are handles on the same device.
#[derive(Clone)]
pub struct SoftDevice(Arc<Shared>);

/// What exists on a device: for tests that nothing leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftCounts {
    /// Queue pairs, both ends.
    pub queue_pairs: u64,
    /// Memory regions.
    pub memory_regions: u64,
    /// Connection identifiers.
    pub identifiers: u64,
    /// Times that a send or completion queue overflowed.
    pub overflows: u64,
}

/// A device, and the faults to show.
struct Shared {
    address: Ipv4Addr,
    limits: SoftLimits,
    regions: RwLock<HashMap<u32, Region>>,
    next_key: AtomicU32,
    /// Status that the next work request completes with; 0 for none.
    fail_next: AtomicU32,
    /// Work requests to let pass before that.
    fail_after: AtomicU32,
    /// `errno` of refused registrations, queue pairs and posts; 0 for none.
    refuse_registration: AtomicI32,
    refuse_queue_pairs: AtomicI32,
    refuse_posts: AtomicI32,
    link_down: AtomicBool,
    hold_completions: AtomicBool,
    queue_pairs: AtomicU64,
    identifiers: AtomicU64,
    doorbells: AtomicU64,
    overflows: AtomicU64,
}

/// A registered piece of memory.
#[derive(Clone, Copy)]
struct Region {
    /// What addresses of work requests are relative to: 0, or the address for zero-based regions.
    base: usize,
    start: usize,
    len: usize,
    access: u32,
}

/// All devices of this process. Never shrinks: contexts point into it.
static DEVICES: Mutex<Vec<(Ipv4Addr, usize)>> = Mutex::new(Vec::new());

impl SoftDevice {
    /// A new device with an address of its own.
    pub fn new(limits: SoftLimits) -> SoftDevice {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(devices.len() + 1).unwrap_or(u32::MAX);
        // 240.0.0.0/4 is reserved: no host has such an address.
        let address = Ipv4Addr::from(0xf000_0000 | number);
        let shared = Arc::new(Shared {
            address,
            limits,
            regions: RwLock::default(),
            next_key: AtomicU32::new(1),
            fail_next: AtomicU32::new(IBV_WC_SUCCESS),
            fail_after: AtomicU32::new(0),
            refuse_registration: AtomicI32::new(0),
            refuse_queue_pairs: AtomicI32::new(0),
            refuse_posts: AtomicI32::new(0),
            link_down: AtomicBool::new(false),
            hold_completions: AtomicBool::new(false),
            queue_pairs: AtomicU64::new(0),
            identifiers: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
        });
        let context = table::context(Arc::clone(&shared));
        devices.push((address, context.expose_provenance()));
        SoftDevice(shared)
    }

    pub(super) fn choice(&self) -> Choice {
        Choice {
            device: "soft0".to_owned(),
            port: 1,
            gid_index: None,
            address: IpAddr::V4(self.0.address),
        }
    }

    /// Lets `after` work requests pass and completes the next with `status` (`ibv_wc_status`); its queue pair is in the
    /// error state then, as on a real device.
    pub fn fail_next(&self, after: u32, status: u32) {
        self.0.fail_after.store(after, Ordering::SeqCst);
        self.0.fail_next.store(status, Ordering::SeqCst);
    }

    /// Refuses registrations with `errno` from now on; 0 ends it.
    pub fn refuse_registration(&self, errno: i32) {
        self.0.refuse_registration.store(errno, Ordering::SeqCst);
    }

    /// Refuses queue pairs with `errno` from now on; 0 ends it.
    pub fn refuse_queue_pairs(&self, errno: i32) {
        self.0.refuse_queue_pairs.store(errno, Ordering::SeqCst);
    }

    /// Refuses posted work requests with `errno` from now on; 0 ends it.
    pub fn refuse_posts(&self, errno: i32) {
        self.0.refuse_posts.store(errno, Ordering::SeqCst);
    }

    /// Takes the link down or up: while it is down operations fail for want of an acknowledgement.
    pub fn set_link(&self, up: bool) {
        self.0.link_down.store(!up, Ordering::SeqCst);
    }

    /// Holds completions back, or lets them out with the next operation of their queue pair.
    pub fn hold_completions(&self, hold: bool) {
        self.0.hold_completions.store(hold, Ordering::SeqCst);
    }

    pub(super) fn fences_stall(&self) -> bool {
        self.0.limits.fences_stall
    }

    /// How often posting has reached the device: once for requests that are linked. A null device does not count.
    pub fn doorbells(&self) -> u64 {
        self.0.doorbells.load(Ordering::SeqCst)
    }

    /// What exists now.
    pub fn counts(&self) -> SoftCounts {
        SoftCounts {
            queue_pairs: self.0.queue_pairs.load(Ordering::SeqCst),
            memory_regions: self.0.regions.read().map_or(0, |regions| regions.len() as u64),
            identifiers: self.0.identifiers.load(Ordering::SeqCst),
            overflows: self.0.overflows.load(Ordering::SeqCst),
        }
    }
}

impl std::fmt::Debug for SoftDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SoftDevice")
            .field("address", &self.0.address)
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}

/// The regions that a work request may reach. While one of these lives none of them is deregistered, hence unmapped:
/// the peer may be going away at the same time.
struct Registered<'a>(RwLockReadGuard<'a, HashMap<u32, Region>>);

impl Registered<'_> {
    /// Where `len` bytes from `address` of the region `key` lie, if it allows `access` to them.
    fn resolve(&self, key: u32, address: u64, len: usize, access: u32) -> Option<*mut u8> {
        let region = self.0.get(&key)?;
        let offset = usize::try_from(address).ok()?.checked_sub(region.base)?;
        let fits = len <= region.len && offset <= region.len - len && region.access & access == access;
        fits.then(|| std::ptr::with_exposed_provenance_mut(region.start + offset))
    }
}

impl Shared {
    fn registered(&self) -> Registered<'_> {
        Registered(self.regions.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn add_region(&self, region: Region) -> u32 {
        let key = self.next_key.fetch_add(1, Ordering::Relaxed);
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.insert(key, region);
        key
    }

    fn remove_region(&self, key: u32) {
        let mut regions = self.regions.write().unwrap_or_else(PoisonError::into_inner);
        regions.remove(&key);
    }

    /// The status that fault injection has for the next work request.
    fn injected(&self) -> u32 {
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

/// The context of the device with this address.
fn context_at(address: Ipv4Addr) -> Option<*mut Context> {
    let devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
    let found = devices.iter().find(|(at, _)| *at == address);
    found.map(|&(_, context)| std::ptr::with_exposed_provenance_mut(context))
}

/// Sets `errno`.
fn set_errno(errno: c_int) {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Posts to and polls a queue pair of a software device by hand, without the fabric: what the device itself costs in a
/// measurement of the code above it.
pub struct NullLoop {
    qp: *mut Qp,
    cq: *mut Cq,
    pd: *mut Pd,
}

impl NullLoop {
    /// A queue pair of its own.
    ///
    /// # Panics
    /// If the device refuses one, by its limits or an injected fault.
    pub fn new(device: &SoftDevice) -> NullLoop {
        let api = api();
        // The device registered its context when it was made.
        let context = context_at(device.0.address).unwrap_or(std::ptr::null_mut());
        assert!(!context.is_null(), "a device has its context");
        // SAFETY: the context is open for the life of the process; what is made here is destroyed in reverse order.
        unsafe {
            let pd = (api.alloc_pd)(context);
            let cq = (api.create_cq)(context, 256, std::ptr::null_mut(), std::ptr::null_mut(), 0);
            let mut attr = QpInitAttr {
                send_cq: cq,
                recv_cq: cq,
                cap: QpCap {
                    max_send_wr: 256,
                    ..zeroed()
                },
                ..zeroed()
            };
            let qp = (api.create_qp)(pd, &raw mut attr);
            assert!(!qp.is_null(), "the device refused a queue pair");
            table::ready(qp);
            NullLoop { qp, cq, pd }
        }
    }

    /// Posts `n` signalled writes (at most 256) one by one and polls their completions.
    pub fn post_and_poll(&mut self, n: u64) {
        let mut wr: SendWr = zeroed();
        wr.send_flags = IBV_SEND_SIGNALED;
        let mut wcs = [zeroed::<Wc>(); 32];
        let mut bad = std::ptr::null_mut();
        // SAFETY: queue pair and completion queue are live; a request without pieces, one at a time.
        unsafe {
            let ops = &(*(*self.qp).context).ops;
            let (Some(post), Some(poll)) = (ops.post_send, ops.poll_cq) else {
                return;
            };
            for id in 0..n {
                wr.wr_id = id;
                post(self.qp, &raw mut wr, &raw mut bad);
            }
            let mut left = n;
            while left > 0 {
                left -= u64::from(poll(self.cq, 32, wcs.as_mut_ptr()).unsigned_abs());
            }
        }
    }
}

impl Drop for NullLoop {
    fn drop(&mut self) {
        let api = api();
        // SAFETY: made by `new`, destroyed once, in reverse order.
        unsafe {
            (api.destroy_qp)(self.qp);
            (api.destroy_cq)(self.cq);
            (api.dealloc_pd)(self.pd);
        }
    }
}
