//! An altered device: its limits, what a test wants of it, and what it has counted.

use std::collections::{BTreeMap, VecDeque};
use std::ffi::c_int;
use std::mem::offset_of;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loco_fabric::{Atomicity, Tier};
use loco_verbs::ffi::types::*;

/// The limits of an altered device, and what the fabric is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest inline size, in bytes.
    pub inline_bytes_max: u32,
    /// The largest number of entries of a completion queue.
    pub cq_entries_max: u32,
    /// The largest number of work requests of a queue pair.
    pub queue_depth_max: u32,
    /// The bytes of device memory. Memory of the host stands for it.
    pub device_memory_bytes: u64,
    /// False if reads of length zero fail.
    pub zero_length_reads: bool,
    /// False if the device has no completion channels.
    pub completion_events: bool,
    /// The atomicity that the device reports. `IBV_ATOMIC_GLOB` (atomic against the CPU's atomics, too) is true only where the NIC
    /// carries requests out at once, by atomics of the CPU.
    pub atomicity: Atomicity,
    /// True if the library says that the words of one write are placed in order.
    pub words_in_order: bool,
    /// True if all memory is registered with relaxed ordering. The fabric asks for it nowhere; a device may treat all memory so.
    pub relaxed_memory: bool,
    /// The tier that the fabric is told, or `None` if it is told nothing. A device may order more than is known of it.
    pub known: Option<Tier>,
    /// True if the fabric is told that fenced operations may never start.
    pub fences_stall: bool,
    /// True if requests complete at once and do not reach the NIC. What remains is the cost of the code above the device.
    pub null: bool,
}

impl Default for Limits {
    /// Returns the limits of a device that is altered in nothing, and known to be of tier `ibta`.
    fn default() -> Limits {
        Limits {
            inline_bytes_max: u32::MAX,
            cq_entries_max: u32::MAX,
            queue_depth_max: u32::MAX,
            device_memory_bytes: 0,
            zero_length_reads: true,
            completion_events: true,
            atomicity: Atomicity::Hca,
            words_in_order: false,
            relaxed_memory: false,
            known: Some(Tier::Ibta),
            fences_stall: false,
            null: false,
        }
    }
}

/// A device. Its address as a [`Context`] is what programs have.
pub(super) struct Shared {
    pub(super) verbs: VerbsContext,
    pub(super) address: Ipv4Addr,
    pub(super) limits: Limits,
    /// The status with which the next request fails; 0 for none.
    pub(super) fail_next: AtomicU32,
    /// The number of requests to let pass before that one.
    pub(super) fail_after: AtomicU32,
    /// `errno` of refused registrations, queue pairs and posts; 0 for none.
    pub(super) refuse_registration: AtomicI32,
    pub(super) refuse_queue_pairs: AtomicI32,
    pub(super) refuse_posts: AtomicI32,
    pub(super) link_down: AtomicBool,
    pub(super) hold_requests: AtomicBool,
    /// The queue pairs, whose requests may be held back.
    pub(super) queue_pairs: Mutex<Vec<usize>>,
    /// The statuses that the failures of queue pairs are to have, by the number of the queue pair.
    pub(super) failing: Mutex<BTreeMap<u32, u32>>,
    /// The completions of a null device.
    pub(super) completed: Mutex<VecDeque<Wc>>,
    pub(super) memory_regions: AtomicU64,
    pub(super) identifiers: AtomicU64,
    pub(super) completion_channels: AtomicU64,
    /// The number of completion events that were read and not acknowledged.
    pub(super) unacknowledged_events: AtomicU64,
    pub(super) polls: AtomicU64,
    pub(super) doorbells: AtomicU64,
    pub(super) overflows: AtomicU64,
    /// The number of completions with an error that were polled.
    pub(super) errors: AtomicU64,
}

// SAFETY: the pointers of the context are the NIC's, which every thread may use, and do not change.
unsafe impl Send for Shared {}
// SAFETY: as above; what changes is atomic or under a lock.
unsafe impl Sync for Shared {}

impl Shared {
    /// Returns the device as programs have it.
    pub(super) fn context(&'static self) -> *mut Context {
        (&raw const self.verbs.context).cast_mut()
    }

    /// Returns the device of a context.
    ///
    /// # Safety
    /// `context` is that of an altered device.
    pub(super) unsafe fn of(context: *mut Context) -> &'static Shared {
        // SAFETY: by the caller's promise the context is this field of a device, and devices are never freed.
        unsafe {
            &*context
                .byte_sub(offset_of!(Shared, verbs.context))
                .cast::<Shared>()
        }
    }
}

/// All devices of this process, by their addresses.
static DEVICES: Mutex<BTreeMap<Ipv4Addr, &'static Shared>> = Mutex::new(BTreeMap::new());

/// Makes a device with an address of its own, which nobody frees.
pub(super) fn register(make: impl FnOnce(Ipv4Addr) -> Shared) -> &'static Shared {
    let mut devices = lock(&DEVICES);
    let number = u32::try_from(devices.len() + 1).unwrap_or(u32::MAX);
    // 240.0.0.0/4 is reserved, so no host has such an address.
    let address = Ipv4Addr::from(0xf000_0000 | number);
    let shared: &'static Shared = Box::leak(Box::new(make(address)));
    devices.insert(address, shared);
    shared
}

/// Returns the device at an address.
pub(super) fn at(address: Ipv4Addr) -> Option<&'static Shared> {
    lock(&DEVICES).get(&address).copied()
}

/// Returns a socket address in C's form.
pub(super) fn socket_address(ip: Ipv4Addr, port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from(ip).to_be(),
        },
        sin_zero: [0; 8],
    }
}

/// Sets `errno`.
pub(super) fn set_errno(errno: c_int) {
    // SAFETY: the location is this thread's.
    unsafe { *libc::__errno_location() = errno };
}

/// Locks what no panic can leave half changed.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns a zeroed structure.
pub(super) fn zeroed<T: Copy>() -> T {
    // SAFETY: only used with the structures of `loco_verbs::ffi::types`: integers, nullable function pointers, raw pointers
    // and arrays of these, for all of which zero is a value.
    unsafe { std::mem::zeroed() }
}
