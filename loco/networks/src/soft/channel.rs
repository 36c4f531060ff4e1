//! Plays completion channels: a completion queue that was asked for notice puts one event into its channel, with the
//! next completion.

use std::collections::VecDeque;
use std::ffi::{c_int, c_uint, c_void};
use std::ptr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use loco_verbs::ffi::types::*;

use super::shared::{Shared, set_errno};

#[repr(C)]
struct SoftCompChannel {
    channel: CompChannel,
    /// The queues that have an event here, one entry for each event.
    events: Mutex<VecDeque<*mut Cq>>,
    shared: Arc<Shared>,
}

/// Makes a channel of the device around `context`. Returns null, with `errno` set, where the device has none.
pub(super) fn new(context: *mut Context, shared: &Arc<Shared>) -> *mut CompChannel {
    if !shared.limits.completion_events {
        set_errno(libc::ENOSYS);
        return ptr::null_mut();
    }
    // SAFETY: no pointers. A semaphore: one event is read at a time.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC | libc::EFD_SEMAPHORE) };
    if fd < 0 {
        return ptr::null_mut();
    }
    shared.completion_channels.fetch_add(1, Ordering::SeqCst);
    Box::into_raw(Box::new(SoftCompChannel {
        channel: CompChannel {
            context,
            fd,
            refcnt: 0,
        },
        events: Mutex::default(),
        shared: Arc::clone(shared),
    }))
    .cast()
}

/// Puts an event of `cq` into `channel`.
///
/// # Safety
/// `channel` was made by [`new`], and neither it nor `cq` is destroyed.
pub(super) unsafe fn notify(channel: *mut CompChannel, cq: *mut Cq) {
    // SAFETY: by the caller's promise; the descriptor is the channel's.
    unsafe {
        let soft = &*channel.cast::<SoftCompChannel>();
        let mut events = soft.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push_back(cq);
        let one = 1u64.to_ne_bytes();
        libc::write(soft.channel.fd, one.as_ptr().cast(), one.len());
    }
}

pub(super) unsafe extern "C" fn get_event(
    channel: *mut CompChannel,
    cq: *mut *mut Cq,
    cq_context: *mut *mut c_void,
) -> c_int {
    // SAFETY: the caller passes a live channel and room for the results; queues are destroyed without events.
    unsafe {
        let soft = &*channel.cast::<SoftCompChannel>();
        let mut count = [0u8; 8];
        if libc::read(soft.channel.fd, count.as_mut_ptr().cast(), 8) != 8 {
            return -1; // `errno` is EAGAIN
        }
        let mut events = soft.events.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(from) = events.pop_front() else {
            // The queue was destroyed with its event.
            set_errno(libc::EAGAIN);
            return -1;
        };
        soft.shared.unacknowledged_events.fetch_add(1, Ordering::SeqCst);
        *cq = from;
        *cq_context = (*from).cq_context;
    }
    0
}

pub(super) unsafe extern "C" fn ack_events(cq: *mut Cq, count: c_uint) {
    // SAFETY: the caller passes a live queue with a live channel.
    let soft = unsafe { &*(*cq).channel.cast::<SoftCompChannel>() };
    soft.shared
        .unacknowledged_events
        .fetch_sub(u64::from(count), Ordering::SeqCst);
}

/// Takes the events of a queue that is destroyed out of its channel.
///
/// # Safety
/// `channel` was made by [`new`] and is not destroyed.
pub(super) unsafe fn forget(channel: *mut CompChannel, cq: *mut Cq) {
    // SAFETY: by the caller's promise.
    let soft = unsafe { &*channel.cast::<SoftCompChannel>() };
    let mut events = soft.events.lock().unwrap_or_else(PoisonError::into_inner);
    events.retain(|of| *of != cq);
}

pub(super) unsafe extern "C" fn destroy(channel: *mut CompChannel) -> c_int {
    // SAFETY: the caller passes what `new` made, once, with no queue left.
    unsafe {
        let soft = Box::from_raw(channel.cast::<SoftCompChannel>());
        libc::close(soft.channel.fd);
        soft.shared.completion_channels.fetch_sub(1, Ordering::SeqCst);
    }
    0
}
