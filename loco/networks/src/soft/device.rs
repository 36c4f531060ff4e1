//! The handle through which tests use a software device.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError, RwLock};

use loco_verbs::ffi::types::*;
use loco_verbs::{Choice, Given, Provider};
use rand::SeedableRng;
use rand::rngs::SmallRng;

use super::shared::{DEVICES, Shared, SoftLimits, context_at, zeroed};
use super::{late, table, verbs};

/// A software device. Clones are handles on the same device.
#[derive(Clone)]
pub struct SoftDevice(Arc<Shared>);

/// The number of objects of a device, for tests that nothing leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SoftCounts {
    /// Queue pairs, both ends.
    pub queue_pairs: u64,
    /// Memory regions.
    pub memory_regions: u64,
    /// Connection identifiers.
    pub identifiers: u64,
    /// Completion channels.
    pub completion_channels: u64,
    /// Completion events that were read and not acknowledged. A device would wait for them for ever.
    pub unacknowledged_events: u64,
    /// The number of times that a send or completion queue overflowed.
    pub overflows: u64,
}

impl SoftDevice {
    /// Returns a new device with an address of its own.
    pub fn new(limits: SoftLimits) -> SoftDevice {
        let mut devices = DEVICES.lock().unwrap_or_else(PoisonError::into_inner);
        let number = u32::try_from(devices.len() + 1).unwrap_or(u32::MAX);
        // 240.0.0.0/4 is reserved, so no host has such an address.
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
            holders: Mutex::default(),
            completion_channels: AtomicU64::new(0),
            unacknowledged_events: AtomicU64::new(0),
            polls: AtomicU64::new(0),
            identifiers: AtomicU64::new(0),
            doorbells: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
            dice: Mutex::new(SmallRng::seed_from_u64(u64::from(number))),
            late_work: Mutex::new(false),
            late_posted: Condvar::new(),
        });
        late::start(&shared);
        let context = verbs::context(Arc::clone(&shared));
        devices.push((address, context.expose_provenance()));
        SoftDevice(shared)
    }

    /// Returns the source of RDMA that has this device, for the configuration of a fabric.
    pub fn provider(&self) -> Provider {
        let limits = &self.0.limits;
        Provider::Given(Given {
            api: table::api(),
            device: Choice {
                device: "soft0".to_owned(),
                port: 1,
                gid_index: None,
                address: IpAddr::V4(self.0.address),
            },
            tier: limits.tier_is_known.then_some(limits.tier),
            fences_stall: limits.fences_stall,
        })
    }

    /// Lets `after` work requests pass and completes the next with `status` (`ibv_wc_status`). Its queue pair
    /// then enters the error state, as on a real device.
    pub fn fail_next(&self, after: u32, status: u32) {
        self.0.fail_after.store(after, Ordering::SeqCst);
        self.0.fail_next.store(status, Ordering::SeqCst);
    }

    /// Refuses registrations with `errno` from now on; 0 stops it.
    pub fn refuse_registration(&self, errno: i32) {
        self.0.refuse_registration.store(errno, Ordering::SeqCst);
    }

    /// Refuses queue pairs with `errno` from now on; 0 stops it.
    pub fn refuse_queue_pairs(&self, errno: i32) {
        self.0.refuse_queue_pairs.store(errno, Ordering::SeqCst);
    }

    /// Refuses posted work requests with `errno` from now on; 0 stops it.
    pub fn refuse_posts(&self, errno: i32) {
        self.0.refuse_posts.store(errno, Ordering::SeqCst);
    }

    /// Takes the link down or up. While the link is down, operations fail for want of an acknowledgement.
    pub fn set_link(&self, up: bool) {
        self.0.link_down.store(!up, Ordering::SeqCst);
    }

    /// Holds completions back, or lets them out with the next operation of their queue pair.
    pub fn hold_completions(&self, hold: bool) {
        self.0.hold_completions.store(hold, Ordering::SeqCst);
    }

    /// Lets the completions out that are held back now. Later ones are held back as before.
    pub fn release_completions(&self) {
        verbs::release_held(&self.0);
    }

    /// Returns how often a completion queue has been polled. A null device does not count.
    pub fn polls(&self) -> u64 {
        self.0.polls.load(Ordering::SeqCst)
    }

    /// Returns how often posting has reached the device. Linked requests count once. A null device does not
    /// count.
    pub fn doorbells(&self) -> u64 {
        self.0.doorbells.load(Ordering::SeqCst)
    }

    /// Returns the number of objects that exist now.
    pub fn counts(&self) -> SoftCounts {
        SoftCounts {
            queue_pairs: self.0.queue_pairs.load(Ordering::SeqCst),
            memory_regions: self.0.regions.read().map_or(0, |regions| regions.len() as u64),
            identifiers: self.0.identifiers.load(Ordering::SeqCst),
            completion_channels: self.0.completion_channels.load(Ordering::SeqCst),
            unacknowledged_events: self.0.unacknowledged_events.load(Ordering::SeqCst),
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

/// Posts to and polls a queue pair of a software device by hand, without the fabric. It shows the cost of the
/// device itself in a measurement of the code above it.
pub struct NullLoop {
    qp: *mut Qp,
    cq: *mut Cq,
    pd: *mut Pd,
}

impl NullLoop {
    /// Makes a loop with a queue pair of its own.
    ///
    /// # Panics
    /// Panics if the device refuses a queue pair, by its limits or an injected fault.
    pub fn new(device: &SoftDevice) -> NullLoop {
        let api = table::api();
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
            verbs::ready(qp);
            NullLoop { qp, cq, pd }
        }
    }

    /// Posts `n` signaled writes (at most 256) one by one and polls their completions.
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
        let api = table::api();
        // SAFETY: made by `new`, destroyed once, in reverse order.
        unsafe {
            (api.destroy_qp)(self.qp);
            (api.destroy_cq)(self.cq);
            (api.dealloc_pd)(self.pd);
        }
    }
}
