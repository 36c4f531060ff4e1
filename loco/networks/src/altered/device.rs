//! The handle through which tests use an altered device.

use std::net::IpAddr;
use std::sync::Mutex;
use std::sync::atomic::Ordering::SeqCst;

use loco_fabric::{Atomicity, Tier};
use loco_verbs::{Choice, Given, Provider};

use super::state::{Limits, Shared, lock, register};
use super::{device_memory, nic, requests, table};

/// An altered device. Clones are handles on the same device.
#[derive(Clone, Copy)]
pub struct AlteredDevice(pub(super) &'static Shared);

/// The number of objects of a device, for tests that nothing leaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Queue pairs, both ends.
    pub queue_pairs: u64,
    /// Memory regions.
    pub memory_regions: u64,
    /// Connection identifiers that are bound to the device.
    pub identifiers: u64,
    /// Completion channels.
    pub completion_channels: u64,
    /// Completion events that were read and not acknowledged. A device would wait for them for ever.
    pub unacknowledged_events: u64,
    /// Requests that the NIC has refused, since their queue was full.
    pub overflows: u64,
}

impl AlteredDevice {
    /// Returns a new device on a NIC of tier `ibta` that carries requests out at once and in order.
    ///
    /// # Panics
    /// Panics if this process has another NIC already.
    pub fn new(limits: Limits) -> AlteredDevice {
        AlteredDevice::with(
            limits,
            nic::Choice {
                tier: Tier::Ibta,
                is_late: false,
                seed: 0,
            },
        )
    }

    /// Returns a new device on a NIC that takes every liberty of a tier, by choices that begin with a seed. The seed of the first
    /// device of a process counts.
    ///
    /// # Panics
    /// Panics if this process has another NIC already, or if the device is to be atomic against the CPU: this NIC's atomics read and
    /// write in two steps.
    pub fn on(tier: Tier, seed: u64, limits: Limits) -> AlteredDevice {
        AlteredDevice::with(
            limits,
            nic::Choice {
                tier,
                is_late: true,
                seed,
            },
        )
    }

    fn with(limits: Limits, choice: nic::Choice) -> AlteredDevice {
        assert!(
            !choice.is_late || limits.atomicity != Atomicity::Glob,
            "atomics of a late NIC are not atomic against the CPU"
        );
        nic::start(choice);
        let mut verbs = nic::opened();
        verbs.query_device_ex = Some(table::query_device_ex);
        verbs.alloc_dm = Some(device_memory::alloc);
        verbs.free_dm = Some(device_memory::free);
        verbs.reg_dm_mr = Some(device_memory::register);
        verbs.context.ops.poll_cq = Some(requests::poll_cq);
        verbs.context.ops.post_send = Some(requests::post_send);
        AlteredDevice(register(|address| Shared {
            verbs,
            address,
            limits,
            fail_next: 0.into(),
            fail_after: 0.into(),
            refuse_registration: 0.into(),
            refuse_queue_pairs: 0.into(),
            refuse_posts: 0.into(),
            link_down: false.into(),
            hold_requests: false.into(),
            queue_pairs: Mutex::default(),
            failing: Mutex::default(),
            completed: Mutex::default(),
            memory_regions: 0.into(),
            identifiers: 0.into(),
            completion_channels: 0.into(),
            unacknowledged_events: 0.into(),
            polls: 0.into(),
            doorbells: 0.into(),
            overflows: 0.into(),
            errors: 0.into(),
        }))
    }

    /// Returns the source of RDMA that has this device, for the configuration of a fabric.
    pub fn provider(&self) -> Provider {
        let limits = &self.0.limits;
        Provider::Given(Given {
            api: table::api(),
            device: Choice {
                device: "loco0".to_owned(),
                port: 1,
                gid_index: None,
                address: IpAddr::V4(self.0.address),
            },
            tier: limits.known,
            fences_stall: limits.fences_stall,
        })
    }

    /// Lets `after` work requests pass and fails the next with `status` (`ibv_wc_status`). The NIC is given a request that it
    /// cannot carry out instead, so that its queue pair enters the error state; held requests before it go first.
    pub fn fail_next(&self, after: u32, status: u32) {
        self.0.fail_after.store(after, SeqCst);
        self.0.fail_next.store(status, SeqCst);
    }

    /// Refuses registrations with `errno` from now on; 0 stops it.
    pub fn refuse_registration(&self, errno: i32) {
        self.0.refuse_registration.store(errno, SeqCst);
    }

    /// Refuses queue pairs with `errno` from now on; 0 stops it.
    pub fn refuse_queue_pairs(&self, errno: i32) {
        self.0.refuse_queue_pairs.store(errno, SeqCst);
    }

    /// Refuses posted work requests with `errno` from now on; 0 stops it.
    pub fn refuse_posts(&self, errno: i32) {
        self.0.refuse_posts.store(errno, SeqCst);
    }

    /// Takes the link down or up. While the link is down, requests fail for want of an acknowledgement, as by
    /// [`fail_next`](AlteredDevice::fail_next).
    pub fn set_link(&self, up: bool) {
        self.0.link_down.store(!up, SeqCst);
    }

    /// Keeps requests that are posted from the NIC from now on, or no more. Those that are kept go by
    /// [`release_requests`](AlteredDevice::release_requests), before the next of their queue pair that is not kept, and when their
    /// queue pair enters the error state.
    pub fn hold_requests(&self, hold: bool) {
        self.0.hold_requests.store(hold, SeqCst);
    }

    /// Gives the NIC the requests that are kept from it now. Later ones are kept as before.
    pub fn release_requests(&self) {
        requests::release_all(self.0);
    }

    /// Returns how often a completion queue has been polled. A null device does not count.
    pub fn polls(&self) -> u64 {
        self.0.polls.load(SeqCst)
    }

    /// Returns how often something was posted. Linked requests count once. A null device does not count.
    pub fn doorbells(&self) -> u64 {
        self.0.doorbells.load(SeqCst)
    }

    /// Returns how many completions with an error have been polled, those of requests that the NIC flushed among them.
    pub fn errors(&self) -> u64 {
        self.0.errors.load(SeqCst)
    }

    /// Returns the number of objects that exist now.
    pub fn counts(&self) -> Counts {
        Counts {
            queue_pairs: lock(&self.0.queue_pairs).len() as u64,
            memory_regions: self.0.memory_regions.load(SeqCst),
            identifiers: self.0.identifiers.load(SeqCst),
            completion_channels: self.0.completion_channels.load(SeqCst),
            unacknowledged_events: self.0.unacknowledged_events.load(SeqCst),
            overflows: self.0.overflows.load(SeqCst),
        }
    }
}

impl std::fmt::Debug for AlteredDevice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AlteredDevice")
            .field("address", &self.0.address)
            .field("limits", &self.0.limits)
            .finish_non_exhaustive()
    }
}
