//! The functions that a program calls on altered devices. Those that are not here are the NIC's own.

use std::collections::BTreeMap;
use std::ffi::{c_int, c_uint, c_void};
use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Mutex, OnceLock};

use loco_fabric::Atomicity;
use loco_verbs::ffi::Api;
use loco_verbs::ffi::types::*;

use super::nic::{HOST, nic};
use super::requests::{self, AlteredQp};
use super::state::{Shared, at, lock, set_errno, socket_address, zeroed};

/// The devices of protection domains, completion channels and bound identifiers, by their addresses.
static OWNERS: Mutex<BTreeMap<usize, &'static Shared>> = Mutex::new(BTreeMap::new());

/// Returns the table of functions.
pub(super) fn api() -> &'static Api {
    static API: OnceLock<Api> = OnceLock::new();
    API.get_or_init(|| Api {
        data_in_order: Some(data_in_order),
        query_device,
        alloc_pd,
        dealloc_pd,
        reg_mr,
        dereg_mr,
        create_comp_channel,
        destroy_comp_channel,
        get_cq_event,
        ack_cq_events,
        create_cq,
        create_qp,
        modify_qp,
        destroy_qp,
        bind_addr,
        resolve_addr,
        destroy_id,
        cm_create_qp,
        cm_destroy_qp,
        disconnect,
        get_cm_event,
        ..nic().api
    })
}

fn owner<T>(handle: *mut T) -> Option<&'static Shared> {
    lock(&OWNERS).get(&handle.addr()).copied()
}

/// Notes whose a new handle is. Returns it. A null one, the NIC's refusal, is nobody's.
fn owned<T>(handle: *mut T, device: &'static Shared) -> *mut T {
    if !handle.is_null() {
        lock(&OWNERS).insert(handle.addr(), device);
    }
    handle
}

/// Forgets whose a handle is that is about to be given back. Returns the device.
fn disowned<T>(handle: *mut T) -> Option<&'static Shared> {
    lock(&OWNERS).remove(&handle.addr())
}

/// Sets `errno` and returns null.
fn refused<T>(errno: c_int) -> *mut T {
    set_errno(errno);
    ptr::null_mut()
}

/// Sets `errno` and returns what functions of the connection manager do then.
fn fails(errno: c_int) -> c_int {
    set_errno(errno);
    -1
}

fn count(counter: &AtomicU64, is_added: bool) {
    if is_added {
        counter.fetch_add(1, SeqCst);
    } else {
        counter.fetch_sub(1, SeqCst);
    }
}

/// Answers whether the words of one operation are placed in order.
unsafe extern "C" fn data_in_order(qp: *mut Qp, _opcode: c_uint, _flags: u32) -> c_int {
    // SAFETY: the caller passes a live queue pair of an altered device.
    let device = unsafe { AlteredQp::of(qp) }.device;
    c_int::from(device.limits.words_in_order)
}

unsafe extern "C" fn query_device(context: *mut Context, out: *mut DeviceAttr) -> c_int {
    // SAFETY: the caller passes the context of a device and room for the result.
    unsafe {
        let limits = &Shared::of(context).limits;
        let status = (nic().api.query_device)(nic().context, out);
        let least = |value: &mut c_int, limit: u32| {
            *value = (*value).min(c_int::try_from(limit).unwrap_or(c_int::MAX));
        };
        least(&mut (*out).max_qp_wr, limits.queue_depth_max);
        least(&mut (*out).max_cqe, limits.cq_entries_max);
        (*out).atomic_cap = match limits.atomicity {
            Atomicity::None => 0, // `IBV_ATOMIC_NONE`
            Atomicity::Hca => IBV_ATOMIC_HCA,
            Atomicity::Glob => IBV_ATOMIC_GLOB,
        };
        status
    }
}

pub(super) unsafe extern "C" fn query_device_ex(
    context: *mut Context,
    _input: *const c_void,
    out: *mut DeviceAttrEx,
    _len: usize,
) -> c_int {
    // SAFETY: as for `query_device`.
    unsafe {
        *out = zeroed();
        (*out).max_dm_size = Shared::of(context).limits.device_memory_bytes;
        query_device(context, &raw mut (*out).orig_attr)
    }
}

unsafe extern "C" fn alloc_pd(context: *mut Context) -> *mut Pd {
    // SAFETY: the caller passes the context of a device.
    unsafe { owned((nic().api.alloc_pd)(nic().context), Shared::of(context)) }
}

unsafe extern "C" fn dealloc_pd(pd: *mut Pd) -> c_int {
    disowned(pd);
    // SAFETY: as the caller's.
    unsafe { (nic().api.dealloc_pd)(pd) }
}

pub(super) unsafe extern "C" fn reg_mr(
    pd: *mut Pd,
    start: *mut c_void,
    len: usize,
    access: c_int,
) -> *mut Mr {
    let Some(device) = owner(pd) else {
        return refused(libc::EINVAL);
    };
    let errno = device.refuse_registration.load(SeqCst);
    if errno != 0 {
        return refused(errno);
    }
    let relaxed = if device.limits.relaxed_memory {
        IBV_ACCESS_RELAXED_ORDERING.cast_signed()
    } else {
        0
    };
    // SAFETY: as the caller's.
    let mr = unsafe { (nic().api.reg_mr)(pd, start, len, access | relaxed) };
    if !mr.is_null() {
        count(&device.memory_regions, true);
    }
    mr
}

unsafe extern "C" fn dereg_mr(mr: *mut Mr) -> c_int {
    // SAFETY: as the caller's; the domain of a region outlives it.
    unsafe {
        if let Some(device) = owner((*mr).pd) {
            count(&device.memory_regions, false);
        }
        (nic().api.dereg_mr)(mr)
    }
}

unsafe extern "C" fn create_comp_channel(context: *mut Context) -> *mut CompChannel {
    // SAFETY: the caller passes the context of a device.
    unsafe {
        let device = Shared::of(context);
        if !device.limits.completion_events {
            return refused(libc::ENOSYS);
        }
        let channel = owned((nic().api.create_comp_channel)(nic().context), device);
        if !channel.is_null() {
            count(&device.completion_channels, true);
        }
        channel
    }
}

unsafe extern "C" fn destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    if let Some(device) = disowned(channel) {
        count(&device.completion_channels, false);
    }
    // SAFETY: as the caller's.
    unsafe { (nic().api.destroy_comp_channel)(channel) }
}

unsafe extern "C" fn get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: as the caller's.
    let status = unsafe { (nic().api.get_cq_event)(channel, cq, cq_context) };
    if status == 0
        && let Some(device) = owner(channel)
    {
        device.unacknowledged_events.fetch_add(1, SeqCst);
    }
    status
}

unsafe extern "C" fn ack_cq_events(cq: *mut Cq, count: c_uint) {
    // SAFETY: as the caller's; the queue is of an altered device.
    unsafe {
        let device = &*(*cq).cq_context.cast::<Shared>();
        device.unacknowledged_events.fetch_sub(u64::from(count), SeqCst);
        (nic().api.ack_cq_events)(cq, count);
    }
}

/// Makes a queue whose `cq_context` points to the device. The verbs fabric, which is all that is tested here, passes none of its own.
unsafe extern "C" fn create_cq(
    context: *mut Context,
    entries: c_int,
    _cq_context: *mut c_void,
    channel: *mut CompChannel,
    vector: c_int,
) -> *mut Cq {
    // SAFETY: the caller passes the context of a device, and a channel of it or none.
    unsafe {
        let device: *const Shared = Shared::of(context);
        (nic().api.create_cq)(nic().context, entries, device.cast_mut().cast(), channel, vector)
    }
}

/// Makes a queue pair by `make`, unless the device refuses. Its `qp_context` points to an [`AlteredQp`].
///
/// # Safety
/// `pd` is live, `attr` are attributes, and `make` returns a queue pair that was made with them, or null.
unsafe fn make_qp(pd: *mut Pd, attr: *mut QpInitAttr, make: impl FnOnce() -> *mut Qp) -> *mut Qp {
    let Some(device) = owner(pd) else {
        return refused(libc::EINVAL);
    };
    let limits = &device.limits;
    // SAFETY: by the caller's promise.
    let cap = unsafe { &raw mut (*attr).cap };
    // SAFETY: as above.
    let beyond = unsafe {
        (*cap).max_inline_data > limits.inline_bytes_max || (*cap).max_send_wr > limits.queue_depth_max
    };
    match device.refuse_queue_pairs.load(SeqCst) {
        0 if beyond => return refused(libc::EINVAL),
        0 => {}
        errno => return refused(errno),
    }
    let own = Box::into_raw(Box::new(AlteredQp::new(device)));
    // SAFETY: as above; what was made here is freed here if nothing points to it.
    unsafe {
        (*attr).qp_context = own.cast();
        let qp = make();
        if qp.is_null() {
            drop(Box::from_raw(own));
            return qp;
        }
        (*cap).max_inline_data = (*cap).max_inline_data.min(limits.inline_bytes_max);
        lock(&device.queue_pairs).push(qp.expose_provenance());
        qp
    }
}

/// Destroys a queue pair by `destroy`.
///
/// # Safety
/// `qp` is a live queue pair of an altered device, and `destroy` destroys it.
unsafe fn unmake_qp(qp: *mut Qp, destroy: impl FnOnce() -> c_int) -> c_int {
    // SAFETY: by the caller's promise; nobody posts to a queue pair that is destroyed.
    unsafe {
        let own = (*qp).qp_context.cast::<AlteredQp>();
        let (device, number) = ((*own).device, (*qp).qp_num);
        // Held requests can no longer be released.
        lock(&device.queue_pairs).retain(|&other| other != qp.addr());
        lock(&device.failing).remove(&number);
        let status = destroy();
        drop(Box::from_raw(own));
        status
    }
}

unsafe extern "C" fn create_qp(pd: *mut Pd, attr: *mut QpInitAttr) -> *mut Qp {
    // SAFETY: as the caller's.
    unsafe { make_qp(pd, attr, || (nic().api.create_qp)(pd, attr)) }
}

unsafe extern "C" fn destroy_qp(qp: *mut Qp) -> c_int {
    // SAFETY: as the caller's.
    unsafe { unmake_qp(qp, || (nic().api.destroy_qp)(qp)) }
}

unsafe extern "C" fn cm_create_qp(id: *mut CmId, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        let made = make_qp(pd, attr, || match (nic().api.cm_create_qp)(id, pd, attr) {
            0 => (*id).qp,
            _ => ptr::null_mut(),
        });
        if made.is_null() { -1 } else { 0 }
    }
}

unsafe extern "C" fn cm_destroy_qp(id: *mut CmId) {
    // SAFETY: as the caller's: the identifier has a queue pair.
    unsafe {
        unmake_qp((*id).qp, || {
            (nic().api.cm_destroy_qp)(id);
            0
        });
    }
}

unsafe extern "C" fn modify_qp(qp: *mut Qp, attr: *mut QpAttr, mask: c_int) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        let status = (nic().api.modify_qp)(qp, attr, mask);
        let is_error = mask.cast_unsigned() & IBV_QP_STATE != 0 && (*attr).qp_state == IBV_QPS_ERR;
        if status == 0 && is_error {
            requests::failed(qp);
        }
        status
    }
}

unsafe extern "C" fn disconnect(id: *mut CmId) -> c_int {
    // SAFETY: as the caller's. The queue pair is in the error state then.
    unsafe {
        let status = (nic().api.disconnect)(id);
        if !(*id).qp.is_null() {
            requests::failed((*id).qp);
        }
        status
    }
}

/// Returns address and port of a socket address.
///
/// # Safety
/// `address` points to a socket address.
unsafe fn parse(address: *const libc::sockaddr) -> Option<(Ipv4Addr, u16)> {
    // SAFETY: by the caller's promise; read without assuming alignment.
    unsafe {
        if c_int::from((*address).sa_family) != libc::AF_INET {
            return None;
        }
        let v4 = address.cast::<libc::sockaddr_in>().read_unaligned();
        let ip = Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr));
        Some((ip, u16::from_be(v4.sin_port)))
    }
}

/// Returns the device of an address, and where the NIC has it.
///
/// # Safety
/// As for [`parse`].
unsafe fn found(address: *const libc::sockaddr) -> Option<(&'static Shared, libc::sockaddr_in)> {
    // SAFETY: by the caller's promise.
    let (ip, port) = unsafe { parse(address) }?;
    Some((at(ip)?, socket_address(HOST, port)))
}

fn bound(id: *mut CmId, device: &'static Shared) {
    if owner(id).is_none() {
        owned(id, device);
        count(&device.identifiers, true);
    }
}

unsafe extern "C" fn bind_addr(id: *mut CmId, address: *mut libc::sockaddr) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        let Some((device, mut there)) = found(address) else {
            return fails(libc::EADDRNOTAVAIL);
        };
        let status = (nic().api.bind_addr)(id, (&raw mut there).cast());
        if status == 0 {
            bound(id, device);
            // The program makes everything else by this context.
            (*id).verbs = device.context();
        }
        status
    }
}

unsafe extern "C" fn resolve_addr(
    id: *mut CmId,
    from: *mut libc::sockaddr,
    to: *mut libc::sockaddr,
    timeout_ms: c_int,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        let (Some((device, mut from)), Some((_, mut to))) = (found(from), found(to)) else {
            return fails(libc::EADDRNOTAVAIL);
        };
        let (from, to) = ((&raw mut from).cast(), (&raw mut to).cast());
        let status = (nic().api.resolve_addr)(id, from, to, timeout_ms);
        if status == 0 {
            bound(id, device);
        }
        status
    }
}

unsafe extern "C" fn get_cm_event(channel: *mut EventChannel, out: *mut *mut CmEvent) -> c_int {
    // SAFETY: as the caller's. A request has an identifier of its own, which is bound to its listener's device.
    unsafe {
        let status = (nic().api.get_cm_event)(channel, out);
        if status == 0
            && (**out).event == RDMA_CM_EVENT_CONNECT_REQUEST
            && let Some(device) = owner((**out).listen_id)
        {
            bound((**out).id, device);
        }
        status
    }
}

unsafe extern "C" fn destroy_id(id: *mut CmId) -> c_int {
    if let Some(device) = disowned(id) {
        count(&device.identifiers, false);
    }
    // SAFETY: as the caller's.
    unsafe { (nic().api.destroy_id)(id) }
}
