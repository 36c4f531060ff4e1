//! Completion channels: events that say that a completion queue has something.

use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::objects::{ChannelObject, CqObject, fails, give, handle, set_errno, take_back};
use crate::completions::CqAddress;
use crate::events::Events;
use crate::ffi::*;

pub(crate) unsafe extern "C" fn create_comp_channel(context: *mut Context) -> *mut CompChannel {
    let Ok(events) = Events::new() else {
        return fails(libc::EMFILE);
    };
    let mut channel: CompChannel = zeroed();
    channel.context = context;
    channel.fd = events.fd();
    give(ChannelObject {
        channel,
        events: Arc::new(events),
        users: AtomicU32::new(0),
    })
}

pub(crate) unsafe extern "C" fn destroy_comp_channel(channel: *mut CompChannel) -> c_int {
    // SAFETY: the program's own channel, which it gives back.
    unsafe {
        if handle::<ChannelObject>(channel).users.load(Ordering::Acquire) > 0 {
            return libc::EBUSY;
        }
        drop(take_back::<ChannelObject>(channel));
    }
    0
}

pub(crate) unsafe extern "C" fn get_cq_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the program's own channel.
    let events = unsafe { Arc::clone(&handle::<ChannelObject>(channel).events) };
    let queue = |address| -> *mut Cq { std::ptr::with_exposed_provenance_mut(address) };
    let taken = |&address: &CqAddress| {
        // SAFETY: a queue's events are removed before it is destroyed, and this one was there until now.
        unsafe { handle::<CqObject>(queue(address)).unacknowledged.taken() };
    };
    match events.take_and(taken) {
        Ok(address) => {
            let found = queue(address);
            // SAFETY: the queue stays until this event is acknowledged, and the caller gives room for both pointers.
            unsafe {
                cq.write(found);
                cq_context.write((*found).cq_context);
            }
            0
        }
        Err(error) => {
            set_errno(error.raw_os_error().unwrap_or(libc::EIO));
            -1
        }
    }
}

pub(crate) unsafe extern "C" fn ack_cq_events(cq: *mut Cq, count: c_uint) {
    // SAFETY: the program's own queue.
    let object = unsafe { handle::<CqObject>(cq) };
    object.unacknowledged.acknowledge(count as usize);
}
