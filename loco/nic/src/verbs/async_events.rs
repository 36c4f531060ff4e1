//! Asynchronous events: what has happened to queue pairs, shared receive queues and completion queues.
//!
//! The object of an event that the program has taken stays until the program acknowledges the event. The event of an object that goes
//! is removed if nobody has taken it.

use std::ffi::c_int;

use super::objects::{CqObject, QpObject, SrqObject, events_of, handle, set_errno};
use crate::events::Unacknowledged;
use crate::ffi::*;

/// Returns what counts the events of an event's object. Returns `None` for an event that is of no such object.
///
/// # Safety
/// The object of `event` is not destroyed.
unsafe fn counted_by<'a>(event: &AsyncEvent) -> Option<&'a Unacknowledged> {
    let object: *const () = std::ptr::with_exposed_provenance(event.element);
    // SAFETY: as this function's. The type of the event says of which type the object is.
    unsafe {
        match event.event_type {
            IBV_EVENT_CQ_ERR => Some(&handle::<CqObject>(object).unacknowledged_async),
            IBV_EVENT_SRQ_LIMIT_REACHED => Some(&handle::<SrqObject>(object).unacknowledged_async),
            IBV_EVENT_QP_FATAL
            | IBV_EVENT_QP_REQ_ERR
            | IBV_EVENT_QP_ACCESS_ERR
            | IBV_EVENT_COMM_EST
            | IBV_EVENT_SQ_DRAINED
            | IBV_EVENT_QP_LAST_WQE_REACHED => Some(&handle::<QpObject>(object).unacknowledged_async),
            _ => None,
        }
    }
}

pub(crate) unsafe extern "C" fn get_async_event(context: *mut Context, event: *mut AsyncEvent) -> c_int {
    // SAFETY: the context is open.
    let events = unsafe { events_of(context) };
    let taken = |event: &AsyncEvent| {
        // SAFETY: an object's events are removed before it is destroyed, and this one was there until now.
        if let Some(count) = unsafe { counted_by(event) } {
            count.taken();
        }
    };
    match events.take_and(taken) {
        Ok(taken) => {
            // SAFETY: the caller gives room for an event.
            unsafe { event.write(taken) };
            0
        }
        Err(error) => {
            set_errno(error.raw_os_error().unwrap_or(libc::EIO));
            -1
        }
    }
}

pub(crate) unsafe extern "C" fn ack_async_event(event: *mut AsyncEvent) {
    // SAFETY: the program gives back an event that it has taken, whose object stays until then.
    if let Some(count) = unsafe { counted_by(&*event) } {
        count.acknowledge(1);
    }
}
