//! The completion channel of a device: events that say that a completion has come, for threads that sleep.
//!
//! A completion queue that nobody has asked for notice raises no event, so the channel costs nothing while nobody
//! sleeps. Relies on [`ffi`](super::ffi). Used by [`device`](super::device).

use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr;

use super::ffi::types::*;
use super::ffi::{Api, errno};

/// A completion channel, whose descriptor never blocks.
pub(super) struct CompletionChannel {
    api: &'static Api,
    raw: *mut CompChannel,
}

// SAFETY: libibverbs is thread-safe.
unsafe impl Send for CompletionChannel {}
// SAFETY: as above.
unsafe impl Sync for CompletionChannel {}

impl CompletionChannel {
    /// Makes a channel.
    ///
    /// # Safety
    /// `context` is an opened device, and stays open as long as the channel.
    pub(super) unsafe fn new(api: &'static Api, context: *mut Context) -> io::Result<CompletionChannel> {
        // SAFETY: by the caller's promise.
        let raw = unsafe { (api.create_comp_channel)(context) };
        if raw.is_null() {
            return Err(errno());
        }
        let channel = CompletionChannel { api, raw };
        // SAFETY: the descriptor is open as long as the channel.
        let fd = unsafe { BorrowedFd::borrow_raw(channel.fd()) };
        rustix::fs::fcntl_setfl(fd, rustix::fs::OFlags::NONBLOCK)?;
        Ok(channel)
    }

    /// Returns the descriptor that is readable when there is an event.
    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: live until `self` is dropped.
        unsafe { (*self.raw).fd }
    }

    pub(super) fn raw(&self) -> *mut CompChannel {
        self.raw
    }

    /// Takes the events that have come and acknowledges them. Returns false if there was none.
    ///
    /// # Safety
    /// No completion queue of this channel is destroyed during the call.
    pub(super) unsafe fn clear(&self) -> bool {
        let mut any = false;
        let (mut cq, mut context) = (ptr::null_mut(), ptr::null_mut());
        // SAFETY: the channel is live; an event's queue is, too, by the caller's promise.
        while unsafe { (self.api.get_cq_event)(self.raw, &raw mut cq, &raw mut context) } == 0 {
            // SAFETY: as above. An event that is not acknowledged would keep the queue from being destroyed.
            unsafe { (self.api.ack_cq_events)(cq, 1) };
            any = true;
        }
        any
    }
}

impl Drop for CompletionChannel {
    fn drop(&mut self) {
        // SAFETY: made by us and dropped once, after the queues that use it (see `Device`).
        let status = unsafe { (self.api.destroy_comp_channel)(self.raw) };
        if status != 0 {
            tracing::warn!("destroying a completion channel: error {status}");
        }
    }
}
