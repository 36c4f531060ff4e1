//! Events: what has happened to identifiers, turned into what programs take.

use std::ffi::{c_int, c_void};
use std::sync::Arc;

use super::addresses;
use super::frames::{Frame, Letter, kind};
use super::pairs::{address, answer, bind_device, make_ready};
use super::state::{Arrived, Delivery, EventObject, Shared, What, events_of, make_id, shared_of};
use crate::events::lock;
use crate::ffi::*;

/// The status of a rejection by the program, and of one where nobody listens.
const CONSUMER_DEFINED: c_int = 28;
const NO_SERVICE: c_int = 8;

pub(crate) unsafe extern "C" fn get_cm_event(channel: *mut EventChannel, event: *mut *mut CmEvent) -> c_int {
    // As with the kernel's stack, whose descriptor is closed.
    let Some(events) = events_of(channel) else {
        return answer(Err(libc::EBADF));
    };
    loop {
        match events.take() {
            Ok(arrived) => {
                // SAFETY: `arrived` is of this process. Below, there is room for a pointer.
                if let Some(made) = unsafe { deliver(arrived) } {
                    // SAFETY: the program has given room for a pointer.
                    unsafe { event.write(made) };
                    return 0;
                }
            }
            Err(error) => return answer(Err(error.raw_os_error().unwrap_or(libc::EIO))),
        }
    }
}

pub(crate) unsafe extern "C" fn ack_cm_event(event: *mut CmEvent) -> c_int {
    if event.is_null() {
        return answer(Err(libc::EINVAL));
    }
    // SAFETY: `deliver` made it. Its identifier may be destroyed from now on.
    drop(unsafe { Box::from_raw(event.cast::<EventObject>()) });
    0
}

/// Makes an event of this type.
fn make(to: (*mut CmId, Delivery), event_type: u32, status: c_int, private: &[u8]) -> *mut EventObject {
    let (id, delivery) = to;
    let mut event: CmEvent = zeroed();
    event.id = id;
    event.event = event_type;
    event.status = status;
    let object = Box::into_raw(Box::new(EventObject {
        event,
        private: private.to_vec(),
        delivery,
    }));
    // SAFETY: the object was made just now.
    unsafe {
        let data = &(*object).private;
        if !data.is_empty() {
            (*object).event.ud.private_data = data.as_ptr().cast::<c_void>();
            (*object).event.ud.private_data_len = u8::try_from(data.len()).unwrap_or(u8::MAX);
        }
    }
    object
}

/// Says what the peer wants, in the event.
fn say_peer(object: *mut EventObject, frame: &Frame, is_datagram: bool) {
    // SAFETY: the object was made just now. The union of parameters is as large as its larger member.
    unsafe {
        let event = &raw mut (*object).event;
        if is_datagram {
            (*event).ud.ah_attr = address(frame.gid);
            (*event).ud.qp_num = frame.qpn;
            (*event).ud.qkey = RDMA_UDP_QKEY;
        } else {
            let conn: *mut ConnParam = (&raw mut (*event).ud).cast();
            // What one side may ask for is what the other must answer.
            (*conn).responder_resources = frame.initiator_depth;
            (*conn).initiator_depth = frame.responder_resources;
            (*conn).retry_count = frame.retry_count;
            (*conn).rnr_retry_count = frame.rnr_retry_count;
            (*conn).qp_num = frame.qpn;
        }
    }
}

/// Turns what has happened into an event, if it is one.
unsafe fn deliver(arrived: Arrived) -> Option<*mut CmEvent> {
    let to = arrived.shared.deliver()?;
    let object = match arrived.what {
        What::Event(event_type, status) => make(to, event_type, status, &[]),
        // SAFETY: the identifier stays while there is a delivery.
        What::Letter(letter) => unsafe { letter_event(to, &arrived.shared, &letter) }?,
        // SAFETY: as above.
        What::Request(letter, child) => unsafe { request_event(to, &letter, child) }?,
        What::Gone => return None,
    };
    Some(object.cast())
}

unsafe fn request_event(
    (listening, delivery): (*mut CmId, Delivery),
    letter: &Letter,
    child: Arc<Shared>,
) -> Option<*mut EventObject> {
    // SAFETY: as the caller's.
    unsafe {
        let id = make_id(child, (*listening).channel, (*listening).ps);
        (*id).context = (*listening).context;
        let source = addresses::from_bytes(&letter.frame.source)?;
        let target = addresses::from_bytes(&letter.frame.target)?;
        bind_device(id, target.ip()).ok()?;
        addresses::write(&mut (*id).src_addr, target);
        addresses::write(&mut (*id).dst_addr, source);
        (*id).dgid = gid_halves(letter.frame.gid);
        let object = make((id, delivery), RDMA_CM_EVENT_CONNECT_REQUEST, 0, &letter.private);
        (*object).event.listen_id = listening;
        say_peer(object, &letter.frame, (*id).ps == RDMA_PS_UDP);
        Some(object)
    }
}

unsafe fn letter_event(
    to: (*mut CmId, Delivery),
    shared: &Arc<Shared>,
    letter: &Letter,
) -> Option<*mut EventObject> {
    let id = to.0;
    // SAFETY: as the caller's.
    unsafe {
        let is_datagram = (*id).ps == RDMA_PS_UDP;
        let private = &letter.private;
        match letter.frame.kind {
            kind::REPLY => {
                lock(&shared.inner).peer = Some(letter.frame);
                let event_type = if (*id).qp.is_null() && !is_datagram {
                    RDMA_CM_EVENT_CONNECT_RESPONSE
                } else {
                    if let Err(error) = ready(id, shared) {
                        return Some(make(to, RDMA_CM_EVENT_CONNECT_ERROR, -error, &[]));
                    }
                    RDMA_CM_EVENT_ESTABLISHED
                };
                let object = make(to, event_type, 0, private);
                say_peer(object, &letter.frame, is_datagram);
                Some(object)
            }
            kind::READY => Some(make(to, RDMA_CM_EVENT_ESTABLISHED, 0, &[])),
            kind::REJECT => {
                let status = if letter.frame.space == 0 {
                    NO_SERVICE
                } else {
                    CONSUMER_DEFINED
                };
                lock(&shared.inner).stream = None;
                Some(make(to, RDMA_CM_EVENT_REJECTED, status, private))
            }
            _ => None,
        }
    }
}

/// Brings a queue pair to work, and tells the peer.
unsafe fn ready(id: *mut CmId, shared: &Shared) -> Result<(), i32> {
    // SAFETY: as the caller's.
    unsafe {
        if !(*id).qp.is_null() {
            make_ready(id)?;
        }
    }
    let stream = lock(&shared.inner).stream.clone();
    if let Some(stream) = stream {
        let _ = Letter::new(kind::READY).send(&stream);
    }
    Ok(())
}

/// Ends a call that has begun something: at once, or for identifiers without a channel when its event is there.
///
/// # Safety
/// `id` is the program's own.
pub(super) unsafe fn finish(id: *mut CmId) -> c_int {
    // SAFETY: as the caller's.
    unsafe {
        if !lock(&shared_of(id).inner).waits {
            return 0;
        }
        drop_event(id);
        let mut event = std::ptr::null_mut();
        if get_cm_event((*id).channel, &raw mut event) != 0 {
            return -1;
        }
        (*id).event = event;
        let failed = match (*event).event {
            RDMA_CM_EVENT_ADDR_ERROR | RDMA_CM_EVENT_ROUTE_ERROR | RDMA_CM_EVENT_UNREACHABLE => {
                libc::ENETUNREACH
            }
            RDMA_CM_EVENT_CONNECT_ERROR => libc::ECONNABORTED,
            RDMA_CM_EVENT_REJECTED => libc::ECONNREFUSED,
            _ => 0,
        };
        answer(if failed == 0 { Ok(()) } else { Err(failed) })
    }
}

/// Drops the event that an identifier without a channel has kept.
///
/// # Safety
/// `id` is the program's own.
pub(super) unsafe fn drop_event(id: *mut CmId) {
    // SAFETY: as the caller's.
    unsafe {
        if !(*id).event.is_null() {
            ack_cm_event((*id).event);
            (*id).event = std::ptr::null_mut();
        }
    }
}
