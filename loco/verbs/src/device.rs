//! An opened device with the state that all of a node's queue pairs share (protection domain, completion
//! queue, limits), and the address that peers connect to.
//!
//! The device is opened by binding a connection identifier to an address: the connection manager keeps devices open
//! itself, and only objects of *its* context can be used with its queue pairs.

use std::ffi::{c_int, c_uint, c_void};
use std::io;
use std::net::SocketAddr;
use std::os::fd::RawFd;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::channel::CompletionChannel;
use super::cm::{CmAddress, EventSource, Id};
use super::config::VerbsConfig;
use super::ffi::types::*;
use super::ffi::{Api, errno, ok};
use super::sysfs::Choice;
use loco_fabric::{Atomicity, FabricError, Result};

/// The number of completions that the queue holds at first. It grows with the number of queue pairs.
const CQ_ENTRIES_INITIAL: u32 = 4096;
/// The most reads and atomics under way at once in one queue pair. The device may allow fewer.
const READS_MAX: u8 = 16;
/// The number of connection requests that may wait for this node's answer.
const BACKLOG: c_int = 1024;

/// An opened device. It is dropped after everything made from it, since each of these holds an `Arc` of it.
pub(super) struct Device {
    pub(super) api: &'static Api,
    pub(super) choice: Choice,
    pub(super) context: *mut Context,
    pub(super) pd: *mut Pd,
    pub(super) cq: *mut Cq,
    pub(super) poll_cq: PollCq,
    pub(super) post_send: PostSend,
    /// The source of events of `cq`, and how to ask for one. Dropped after `cq`, which `drop` destroys.
    events: Option<(CompletionChannel, ReqNotifyCq)>,
    pub(super) limits: Limits,
    /// Set if fenced operations may never start, so that a fence must be a wait. Soft-RoCE (Linux 6.1) with
    /// several processors may miss the completion that a fenced operation waits for.
    pub(super) fences_stall: bool,
    /// The number of entries of the completion queue. Written under the poller's lock.
    cq_entries: AtomicU32,
    /// The listener that peers connect to. The service thread reads its events. Dropped before `listener_events`.
    _listener: Id,
    pub(super) listener_events: EventSource,
    pub(super) address: SocketAddr,
}

// SAFETY: verbs objects may be used by any thread at any time (libibverbs and librdmacm are thread-safe); what is not
// (the growth of the completion queue) happens under the poller's lock.
unsafe impl Send for Device {}
// SAFETY: as above.
unsafe impl Sync for Device {}

/// The capabilities of the device that matter here.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) atomicity: Atomicity,
    pub(super) queue_depth: u32,
    pub(super) cq_entries_max: u32,
    pub(super) inline_bytes_max: u32,
    /// The number of reads and atomics that this node may have under way in a queue pair.
    pub(super) reads_started: u8,
    /// The number of reads and atomics of a peer that this node's device answers at once.
    pub(super) reads_answered: u8,
    pub(super) device_memory_bytes: u64,
}

impl Device {
    /// Opens the device that `choice` names, bound to its address. Listens there on a port that the system
    /// chooses.
    pub(super) fn open(api: &'static Api, choice: Choice, config: &VerbsConfig) -> Result<Device> {
        let listener_events = EventSource::new(api)?;
        let listener = Id::new(api, &listener_events)?;
        listener.bind(&CmAddress::new(SocketAddr::new(choice.address, 0)))?;
        let (context, bound) = listener.bound_to();
        if context.is_null() {
            return Err(FabricError::Config(format!(
                "address {} belongs to no RDMA device that the connection manager knows",
                choice.address
            )));
        }
        if bound != (choice.device.clone(), choice.port) {
            return Err(FabricError::Config(format!(
                "address {} leads to device {} port {}, not to {choice}: give each port its own address",
                choice.address, bound.0, bound.1
            )));
        }
        listener.listen(BACKLOG)?;
        let address = SocketAddr::new(choice.address, listener.port());

        // SAFETY: the connection manager keeps the context open for the life of the process.
        let attr = unsafe { api.query_device_ex(context) }
            .map_err(|e| FabricError::os("querying the RDMA device", &e))?;
        // SAFETY: as above.
        let pd = unsafe { (api.alloc_pd)(context) };
        if pd.is_null() {
            return Err(FabricError::os(
                "allocating a protection domain (is /dev/infiniband/uverbs* accessible?)",
                &errno(),
            ));
        }
        let pd = Guard(pd, |pd| {
            // SAFETY: allocated above, with nothing made from it left.
            unsafe { (api.dealloc_pd)(pd) };
        });
        let cq_entries_max = u32::try_from(attr.orig_attr.max_cqe).unwrap_or(0).max(1);
        let cq_entries = CQ_ENTRIES_INITIAL.min(cq_entries_max);
        let events = completion_events(api, context, &choice);
        let channel = events
            .as_ref()
            .map_or(ptr::null_mut(), |(channel, _)| channel.raw());
        // SAFETY: the context is open; the channel is null or lives longer than the queue; interrupt vector 0.
        let cq = unsafe { (api.create_cq)(context, int(cq_entries), ptr::null_mut(), channel, 0) };
        if cq.is_null() {
            return Err(FabricError::os(
                format!("creating a completion queue of {cq_entries} entries"),
                &errno(),
            ));
        }
        let cq = Guard(cq, |cq| {
            // SAFETY: created above, with no queue pair left.
            unsafe { (api.destroy_cq)(cq) };
        });
        // SAFETY: an open context has its operations filled in.
        let poll_cq = unsafe { (*context).ops.poll_cq }
            .ok_or_else(|| FabricError::Unsupported(format!("{choice} cannot poll completions")))?;
        // SAFETY: as above.
        let post_send = unsafe { (*context).ops.post_send }
            .ok_or_else(|| FabricError::Unsupported(format!("{choice} cannot post")))?;
        let mut limits = limits(&attr, config);
        let fences_stall = config.provider.fences_stall(&choice);
        limits.inline_bytes_max = inline_limit(api, pd.0, cq.0, config.inline_bytes_max);
        Ok(Device {
            api,
            context,
            pd: pd.release(),
            cq: cq.release(),
            poll_cq,
            post_send,
            events,
            limits,
            fences_stall,
            cq_entries: AtomicU32::new(cq_entries),
            _listener: listener,
            listener_events,
            address,
            choice,
        })
    }

    /// Makes sure that the completion queue has room for `entries`, as many as all queue pairs together can
    /// produce.
    pub(super) fn grow_completion_queue(&self, entries: u32) -> Result<()> {
        // Relaxed: the counter is read and written under the poller's lock.
        let now = self.cq_entries.load(Ordering::Relaxed);
        if entries <= now {
            return Ok(());
        }
        let to = entries.next_power_of_two().min(self.limits.cq_entries_max);
        let grown = if to < entries {
            Err(io::Error::from_raw_os_error(libc::ENOSPC))
        } else {
            // SAFETY: the queue lives as long as `self`; the device keeps what it holds.
            ok(unsafe { (self.api.resize_cq)(self.cq, int(to)) })
        };
        grown.map_err(|e| {
            let limit = self.limits.cq_entries_max;
            FabricError::os(format!(
                    "growing the completion queue from {now} to {entries} entries (the device's limit is {limit}): use \
                     fewer threads, or a smaller `queue_depth` of `VerbsConfig`"
                ),
                &e,
            )
        })?;
        self.cq_entries.store(to, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the descriptor that is readable when there are completion events, if the device has them.
    pub(super) fn events_fd(&self) -> Option<RawFd> {
        self.events.as_ref().map(|(channel, _)| channel.fd())
    }

    /// Asks for an event of the next completion. Completions that have come before raise none.
    pub(super) fn request_event(&self) -> io::Result<()> {
        match &self.events {
            // SAFETY: the queue lives as long as `self`.
            Some((_, request)) => ok(unsafe { request(self.cq, 0) }),
            None => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Takes the completion events that have come. Returns false if there was none.
    pub(super) fn clear_events(&self) -> bool {
        match &self.events {
            // SAFETY: the queue of the channel lives as long as `self`.
            Some((channel, _)) => unsafe { channel.clear() },
            None => false,
        }
    }

    /// Returns the attributes with which a queue pair is made.
    pub(super) fn queue_pair_attr(&self, depth: u32, inline_bytes: u32) -> QpInitAttr {
        init_attr(self.cq, depth, inline_bytes)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: queue pairs and memory regions hold an `Arc` of the device, so none is left.
        unsafe {
            let cq = ok((self.api.destroy_cq)(self.cq));
            let pd = ok((self.api.dealloc_pd)(self.pd));
            if let Err(error) = cq.and(pd) {
                tracing::warn!("closing {}: {error}", self.choice);
            }
        }
    }
}

/// Returns the source of completion events of an opened device and how to ask for one, or `None` if the device has
/// none. Without events, threads that would sleep look again and again.
fn completion_events(
    api: &'static Api,
    context: *mut Context,
    choice: &Choice,
) -> Option<(CompletionChannel, ReqNotifyCq)> {
    // SAFETY: the connection manager keeps the context open for the life of the process.
    let channel = unsafe { CompletionChannel::new(api, context) };
    let channel = channel
        .map_err(|error| tracing::info!("{choice}: no completion events: {error}"))
        .ok()?;
    // SAFETY: an open context has its operations filled in.
    let request = unsafe { (*context).ops.req_notify_cq }?;
    Some((channel, request))
}

fn init_attr(cq: *mut Cq, depth: u32, inline_bytes: u32) -> QpInitAttr {
    QpInitAttr {
        send_cq: cq,
        recv_cq: cq,
        cap: QpCap {
            max_send_wr: depth,
            // This node never receives, but some devices refuse an empty receive queue.
            max_recv_wr: 1,
            max_send_sge: 1,
            max_recv_sge: 1,
            max_inline_data: inline_bytes,
        },
        qp_type: IBV_QPT_RC,
        sq_sig_all: 0,
        ..zeroed()
    }
}

fn limits(attr: &DeviceAttrEx, config: &VerbsConfig) -> Limits {
    let device = &attr.orig_attr;
    let count = |value: c_int| {
        u8::try_from(value)
            .unwrap_or(if value < 0 { 0 } else { u8::MAX })
            .min(READS_MAX)
    };
    let wr_max = usize::try_from(device.max_qp_wr).unwrap_or(2).max(2);
    // The depth is a power of two that the device grants.
    let depth_max = 1 << (usize::BITS - 1 - wr_max.leading_zeros());
    let depth = config.queue_depth.next_power_of_two().min(depth_max);
    Limits {
        atomicity: match device.atomic_cap {
            IBV_ATOMIC_GLOB => Atomicity::Glob,
            IBV_ATOMIC_HCA => Atomicity::Hca,
            // The value is `IBV_ATOMIC_NONE`, or unknown to us.
            _ => Atomicity::None,
        },
        queue_depth: u32::try_from(depth).unwrap_or(2),
        cq_entries_max: u32::try_from(device.max_cqe).unwrap_or(0).max(1),
        inline_bytes_max: 0,
        reads_started: count(device.max_qp_init_rd_atom).max(1),
        reads_answered: count(device.max_qp_rd_atom).max(1),
        device_memory_bytes: attr.max_dm_size,
    }
}

/// Returns the largest inline size up to `wanted` that the device grants. The only way to ask is to make a
/// queue pair.
fn inline_limit(api: &Api, pd: *mut Pd, cq: *mut Cq, wanted: usize) -> u32 {
    let wanted = u32::try_from(wanted).unwrap_or(u32::MAX);
    for bytes in [wanted, 512, 256, 128, 64, 32]
        .into_iter()
        .filter(|bytes| *bytes <= wanted)
    {
        let mut attr = init_attr(cq, 2, bytes);
        // SAFETY: `pd` and `cq` are live and of one device; the queue pair is destroyed at once.
        unsafe {
            let qp = (api.create_qp)(pd, &raw mut attr);
            if !qp.is_null() {
                (api.destroy_qp)(qp);
                return attr.cap.max_inline_data.min(wanted);
            }
        }
    }
    0
}

fn int(value: u32) -> c_int {
    c_int::try_from(value).unwrap_or(c_int::MAX)
}

/// The access rights of all memory that the fabric registers.
pub(super) const ACCESS: c_uint =
    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

/// A registered piece of memory.
pub struct Registration {
    device: Arc<Device>,
    mr: *mut Mr,
}

// SAFETY: see `Device`; the structure is read-only after registration.
unsafe impl Send for Registration {}
// SAFETY: as above.
unsafe impl Sync for Registration {}

impl Registration {
    /// Registers `len` bytes from `start`.
    ///
    /// # Safety
    /// The bytes stay mapped until the registration is dropped.
    pub(super) unsafe fn new(device: &Arc<Device>, start: *mut u8, len: usize) -> Result<Registration> {
        // SAFETY: the domain is live; the range is mapped by the caller's promise.
        let mr = unsafe { (device.api.reg_mr)(device.pd, start.cast::<c_void>(), len, ACCESS as c_int) };
        if mr.is_null() {
            return Err(refused(len, &errno()));
        }
        Ok(Registration {
            device: Arc::clone(device),
            mr,
        })
    }

    /// Takes over a region that was made by other means.
    pub(super) fn of(device: &Arc<Device>, mr: *mut Mr) -> Registration {
        Registration {
            device: Arc::clone(device),
            mr,
        }
    }

    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: live until `self` is dropped.
        unsafe { (*self.mr).lkey }
    }

    pub(super) fn rkey(&self) -> u32 {
        // SAFETY: live until `self` is dropped.
        unsafe { (*self.mr).rkey }
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        // SAFETY: registered by us, and dropped once.
        if let Err(error) = ok(unsafe { (self.device.api.dereg_mr)(self.mr) }) {
            tracing::warn!("deregistering memory: {error}");
        }
    }
}

/// Returns the error of a refused registration, with its cause and the remedy.
fn refused(len: usize, error: &io::Error) -> FabricError {
    let limit = match rustix::process::getrlimit(rustix::process::Resource::Memlock).current {
        Some(bytes) => format!("{} KiB", bytes / 1024),
        None => "unlimited".to_owned(),
    };
    let remedy = match error.raw_os_error() {
        Some(libc::ENOMEM | libc::EAGAIN | libc::EPERM) => {
            "raise it by `ulimit -l unlimited`, `memlock` in /etc/security/limits.conf, LimitMEMLOCK= of the service, \
             or use a smaller `arena_bytes`"
        }
        _ => "see the kernel log",
    };
    FabricError::Os {
        what: format!(
            "registering {len} bytes with the RDMA device (limit on locked memory: {limit}; {remedy})"
        ),
        source: error.into(),
    }
}

/// Frees the objects made so far when a later step fails.
struct Guard<T: Copy, F: FnMut(T)>(T, F);

impl<T: Copy, F: FnMut(T)> Guard<T, F> {
    fn release(self) -> T {
        let value = self.0;
        std::mem::forget(self);
        value
    }
}

impl<T: Copy, F: FnMut(T)> Drop for Guard<T, F> {
    fn drop(&mut self) {
        (self.1)(self.0);
    }
}
