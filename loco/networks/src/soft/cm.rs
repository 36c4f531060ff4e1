//! Plays the connection manager in software: identifiers of one process find one another by address and port.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::net::Ipv4Addr;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use loco_verbs::ffi::types::*;

use super::shared::{context_at, set_errno, zeroed};
use super::verbs;

/// The state under one lock over all identifiers, channels and listeners. One lock is enough because
/// connecting is rare.
static STATE: Mutex<State> = Mutex::new(State {
    listeners: Vec::new(),
    next_port: 1,
});

struct State {
    /// Listeners: address, port, identifier.
    listeners: Vec<(Ipv4Addr, u16, usize)>,
    next_port: u16,
}

#[repr(C)]
struct SoftChannel {
    channel: EventChannel,
    events: VecDeque<Box<SoftEvent>>,
}

#[repr(C)]
struct SoftEvent {
    event: CmEvent,
    private_data: Vec<u8>,
}

#[repr(C)]
struct SoftId {
    id: CmId,
    address: Ipv4Addr,
    port: u16,
    to: (Ipv4Addr, u16),
    /// The other end of the connection, while there is one.
    peer: *mut SoftId,
    connected: bool,
}

/// The `errno` of a call that does not fit the state of its identifier.
const INVALID: c_int = libc::EINVAL;
/// The reason of a rejection for want of a listener, as InfiniBand numbers it.
const REASON_NO_LISTENER: c_int = 8;
/// The reason of a rejection by the listener.
const REASON_CONSUMER: c_int = 28;

fn state() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn fail(errno: c_int) -> c_int {
    set_errno(errno);
    -1
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
        Some((
            Ipv4Addr::from(u32::from_be(v4.sin_addr.s_addr)),
            u16::from_be(v4.sin_port),
        ))
    }
}

/// Queues an event of `id`, under the lock.
///
/// # Safety
/// `id` is live, and so is its channel.
unsafe fn push(id: *mut SoftId, kind: c_uint, status: c_int, private_data: &[u8]) {
    let mut event = Box::new(SoftEvent {
        event: CmEvent {
            id: id.cast(),
            event: kind,
            status,
            ..zeroed()
        },
        private_data: private_data.to_vec(),
    });
    event.event.conn = ConnParam {
        private_data: event.private_data.as_ptr().cast(),
        private_data_len: u8::try_from(private_data.len()).unwrap_or(u8::MAX),
        responder_resources: 16,
        initiator_depth: 16,
        ..zeroed()
    };
    // SAFETY: by the caller's promise; the descriptor is the channel's.
    unsafe {
        let channel = (*id).id.channel.cast::<SoftChannel>();
        (*channel).events.push_back(event);
        let one = 1u64.to_ne_bytes();
        libc::write((*channel).channel.fd, one.as_ptr().cast(), one.len());
    }
}

pub(super) unsafe extern "C" fn create_event_channel() -> *mut EventChannel {
    // SAFETY: no pointers. A semaphore: one event is read at a time.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_NONBLOCK | libc::EFD_SEMAPHORE) };
    if fd < 0 {
        return ptr::null_mut();
    }
    Box::into_raw(Box::new(SoftChannel {
        channel: EventChannel { fd },
        events: VecDeque::new(),
    }))
    .cast()
}

pub(super) unsafe extern "C" fn destroy_event_channel(channel: *mut EventChannel) {
    let _state = state();
    // SAFETY: the caller passes what `create_event_channel` made, once, with no identifier of its own left. What is left are
    // identifiers of requests that nobody has taken: only their events lead to them, and linked peers are live.
    unsafe {
        let mut channel = Box::from_raw(channel.cast::<SoftChannel>());
        for event in channel.events.drain(..) {
            if event.event.event == RDMA_CM_EVENT_CONNECT_REQUEST {
                discard(event.event.id.cast());
            }
        }
        libc::close(channel.channel.fd);
    }
}

pub(super) unsafe extern "C" fn get_cm_event(channel: *mut EventChannel, out: *mut *mut CmEvent) -> c_int {
    let _state = state();
    // SAFETY: the caller passes a live channel and room for the result.
    unsafe {
        let channel = channel.cast::<SoftChannel>();
        let mut count = [0u8; 8];
        if libc::read((*channel).channel.fd, count.as_mut_ptr().cast(), 8) != 8 {
            return -1; // `errno` is EAGAIN
        }
        match (*channel).events.pop_front() {
            Some(event) => {
                *out = Box::into_raw(event).cast();
                0
            }
            None => fail(libc::EAGAIN),
        }
    }
}

pub(super) unsafe extern "C" fn ack_cm_event(event: *mut CmEvent) -> c_int {
    // SAFETY: the caller passes what `get_cm_event` gave, once.
    drop(unsafe { Box::from_raw(event.cast::<SoftEvent>()) });
    0
}

fn new_id(channel: *mut EventChannel) -> *mut SoftId {
    Box::into_raw(Box::new(SoftId {
        id: CmId { channel, ..zeroed() },
        address: Ipv4Addr::UNSPECIFIED,
        port: 0,
        to: (Ipv4Addr::UNSPECIFIED, 0),
        peer: ptr::null_mut(),
        connected: false,
    }))
}

pub(super) unsafe extern "C" fn create_id(
    channel: *mut EventChannel,
    out: *mut *mut CmId,
    _context: *mut c_void,
    _space: c_uint,
) -> c_int {
    // SAFETY: the caller has room for the result.
    unsafe { *out = new_id(channel).cast() };
    0
}

pub(super) unsafe extern "C" fn destroy_id(id: *mut CmId) -> c_int {
    let mut state = state();
    let id = id.cast::<SoftId>();
    state.listeners.retain(|&(_, _, listener)| listener != id.addr());
    // SAFETY: the caller passes a live identifier, once; its peer is live, or it would have unlinked itself.
    unsafe {
        let channel = (*id).id.channel.cast::<SoftChannel>();
        (*channel).events.retain(|event| event.event.id != id.cast());
        discard(id);
    }
    0
}

/// Hangs up and frees an identifier, under the lock.
///
/// # Safety
/// `id` is live, and nothing but its peer leads to it.
unsafe fn discard(id: *mut SoftId) {
    // SAFETY: by the caller's promise; `hang_up` makes the peer forget it.
    unsafe {
        hang_up(id);
        count(id, false);
        drop(Box::from_raw(id));
    }
}

/// Counts the identifiers that are bound to a device.
///
/// # Safety
/// `id` is live.
unsafe fn count(id: *mut SoftId, added: bool) {
    // SAFETY: by the caller's promise; contexts are never freed.
    unsafe {
        if (*id).id.verbs.is_null() {
            return;
        }
        let identifiers: &AtomicU64 = verbs::identifiers((*id).id.verbs);
        if added {
            identifiers.fetch_add(1, Ordering::SeqCst);
        } else {
            identifiers.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

/// Ends a connection under the lock. Both queue pairs enter the error state, and the other side is notified.
///
/// # Safety
/// `id` is live.
unsafe fn hang_up(id: *mut SoftId) {
    // SAFETY: by the caller's promise; linked identifiers are live.
    unsafe {
        let peer = std::mem::replace(&mut (*id).peer, ptr::null_mut());
        if !(*id).id.qp.is_null() {
            verbs::enter_error(&*(*id).id.qp.cast());
        }
        if !peer.is_null() {
            (*peer).peer = ptr::null_mut();
            let kind = if (*id).connected {
                RDMA_CM_EVENT_DISCONNECTED
            } else {
                RDMA_CM_EVENT_UNREACHABLE
            };
            push(peer, kind, 0, &[]);
        }
        (*id).connected = false;
    }
}

pub(super) unsafe extern "C" fn bind_addr(id: *mut CmId, address: *mut libc::sockaddr) -> c_int {
    // SAFETY: the caller passes a live identifier and an address.
    unsafe {
        let Some(context) = parse(address).and_then(|(ip, _)| context_at(ip)) else {
            return fail(libc::EADDRNOTAVAIL);
        };
        let id = id.cast::<SoftId>();
        (*id).address = parse(address).map_or(Ipv4Addr::UNSPECIFIED, |(ip, _)| ip);
        (*id).id.verbs = context;
        (*id).id.port_num = 1;
        count(id, true);
    }
    0
}

pub(super) unsafe extern "C" fn listen(id: *mut CmId, _backlog: c_int) -> c_int {
    let mut state = state();
    let port = state.next_port;
    state.next_port = port.wrapping_add(1).max(1);
    let id = id.cast::<SoftId>();
    // SAFETY: the caller passes a live identifier.
    unsafe {
        (*id).port = port;
        state
            .listeners
            .push(((*id).address, port, id.expose_provenance()));
    }
    0
}

pub(super) unsafe extern "C" fn src_port(id: *mut CmId) -> u16 {
    // SAFETY: the caller passes a live identifier.
    unsafe { (*id.cast::<SoftId>()).port.to_be() }
}

pub(super) unsafe extern "C" fn resolve_addr(
    id: *mut CmId,
    from: *mut libc::sockaddr,
    to: *mut libc::sockaddr,
    _timeout_ms: c_int,
) -> c_int {
    // SAFETY: the caller passes a live identifier and two addresses.
    unsafe {
        let Some(to) = parse(to) else {
            return fail(INVALID);
        };
        if bind_addr(id, from) != 0 {
            return -1;
        }
        let id = id.cast::<SoftId>();
        (*id).to = to;
        let _state = state();
        push(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0, &[]);
    }
    0
}

pub(super) unsafe extern "C" fn resolve_route(id: *mut CmId, _timeout_ms: c_int) -> c_int {
    let _state = state();
    // SAFETY: the caller passes a live identifier.
    unsafe { push(id.cast(), RDMA_CM_EVENT_ROUTE_RESOLVED, 0, &[]) };
    0
}

pub(super) unsafe extern "C" fn set_option(
    _id: *mut CmId,
    _level: c_int,
    _name: c_int,
    _value: *mut c_void,
    _len: usize,
) -> c_int {
    0
}

pub(super) unsafe extern "C" fn create_qp(id: *mut CmId, pd: *mut Pd, attr: *mut QpInitAttr) -> c_int {
    // SAFETY: the caller passes a live identifier, a live domain and the attributes.
    unsafe {
        let qp = verbs::create_qp(pd, attr);
        if qp.is_null() {
            return -1; // `errno` is set
        }
        (*id).qp = qp;
    }
    0
}

pub(super) unsafe extern "C" fn destroy_qp(id: *mut CmId) {
    let _state = state();
    // SAFETY: the caller passes a live identifier with a queue pair.
    unsafe {
        verbs::destroy((*id).qp);
        (*id).qp = ptr::null_mut();
    }
}

pub(super) unsafe extern "C" fn connect(id: *mut CmId, parameters: *mut ConnParam) -> c_int {
    let state = state();
    let id = id.cast::<SoftId>();
    // SAFETY: the caller passes a live identifier and parameters with their private data; listeners are live, as they
    // leave the list when destroyed.
    unsafe {
        let (ip, port) = (*id).to;
        let listener = state
            .listeners
            .iter()
            .find(|(at, on, _)| (*at, *on) == (ip, port));
        let Some(&(_, _, listener)) = listener else {
            push(id, RDMA_CM_EVENT_REJECTED, REASON_NO_LISTENER, &[]);
            return 0;
        };
        let listener: *mut SoftId = ptr::with_exposed_provenance_mut(listener);
        let passive = new_id((*listener).id.channel);
        (*passive).id.verbs = (*listener).id.verbs;
        (*passive).id.port_num = 1;
        (*passive).peer = id;
        (*id).peer = passive;
        count(passive, true);
        let data = (*parameters).private_data.cast::<u8>();
        let data = std::slice::from_raw_parts(data, usize::from((*parameters).private_data_len));
        push(passive, RDMA_CM_EVENT_CONNECT_REQUEST, 0, data);
    }
    0
}

pub(super) unsafe extern "C" fn accept(id: *mut CmId, _parameters: *mut ConnParam) -> c_int {
    let _state = state();
    let id = id.cast::<SoftId>();
    // SAFETY: the caller passes the live identifier of a request; a linked peer is live.
    unsafe {
        let peer = (*id).peer;
        if peer.is_null() {
            return fail(libc::ECONNRESET);
        }
        verbs::link((*id).id.qp, (*peer).id.qp);
        for end in [id, peer] {
            verbs::ready((*end).id.qp);
            (*end).connected = true;
            push(end, RDMA_CM_EVENT_ESTABLISHED, 0, &[]);
        }
    }
    0
}

pub(super) unsafe extern "C" fn reject(id: *mut CmId, data: *const c_void, len: u8) -> c_int {
    let _state = state();
    let id = id.cast::<SoftId>();
    // SAFETY: the caller passes the live identifier of a request and its private data; a linked peer is live.
    unsafe {
        let peer = std::mem::replace(&mut (*id).peer, ptr::null_mut());
        if !peer.is_null() {
            (*peer).peer = ptr::null_mut();
            let data = std::slice::from_raw_parts(data.cast::<u8>(), usize::from(len));
            push(peer, RDMA_CM_EVENT_REJECTED, REASON_CONSUMER, data);
        }
    }
    0
}

pub(super) unsafe extern "C" fn disconnect(id: *mut CmId) -> c_int {
    let _state = state();
    // SAFETY: the caller passes a live identifier.
    unsafe {
        if !(*id.cast::<SoftId>()).connected {
            return fail(INVALID);
        }
        hang_up(id.cast());
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes the next event of a channel. Returns its kind and its identifier.
    unsafe fn next(channel: *mut EventChannel) -> Option<(c_uint, *mut CmId)> {
        let mut event = ptr::null_mut();
        // SAFETY: the caller passes a live channel; the event is given back once.
        unsafe {
            if get_cm_event(channel, &raw mut event) != 0 {
                return None;
            }
            let taken = ((*event).event, (*event).id);
            ack_cm_event(event);
            Some(taken)
        }
    }

    /// A node may end while another one asks it for a connection.
    #[test]
    fn requests_that_nobody_took_end_with_their_channel() {
        let mut parameters: ConnParam = zeroed();
        parameters.private_data = [7u8].as_ptr().cast();
        parameters.private_data_len = 1;
        // SAFETY: everything is made here, and destroyed once, identifiers before their channels.
        unsafe {
            let (there, here) = (create_event_channel(), create_event_channel());
            let (mut listener, mut active) = (ptr::null_mut(), ptr::null_mut());
            assert_eq!(create_id(there, &raw mut listener, ptr::null_mut(), 0), 0);
            assert_eq!(create_id(here, &raw mut active, ptr::null_mut(), 0), 0);
            assert_eq!(listen(listener, 1), 0);
            let to = &mut (*active.cast::<SoftId>()).to;
            *to = (Ipv4Addr::UNSPECIFIED, u16::from_be(src_port(listener)));
            assert_eq!(connect(active, &raw mut parameters), 0);
            assert_eq!(next(here), None);

            destroy_id(listener);
            destroy_event_channel(there);
            assert_eq!(next(here), Some((RDMA_CM_EVENT_UNREACHABLE, active)));
            // It is linked to nobody any more.
            assert!((*active.cast::<SoftId>()).peer.is_null());
            destroy_id(active);
            destroy_event_channel(here);
        }
    }
}
