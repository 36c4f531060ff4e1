//! The means to wake the thread that makes progress, and to end it.
//!
//! Relies on nothing of this crate. Used by `shared` and `progress`.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};

use loco_fabric::{FabricError, Result};
use rustix::event::{EventfdFlags, eventfd};

/// Ends the thread's sleep.
pub(crate) struct Waker {
    wake: OwnedFd,
    stop: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> Result<Waker> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| FabricError::os("making an eventfd", &e.into()))?;
        Ok(Waker {
            wake,
            stop: AtomicBool::new(false),
        })
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        // The write fails only when the counter is full, and then the thread is awake.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    /// Wakes the thread, for the last time.
    pub(crate) fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake();
    }

    /// Returns true once the thread is to end.
    pub(crate) fn stopped(&self) -> bool {
        self.stop.load(Ordering::Acquire)
    }

    /// Returns the descriptor that is readable once somebody has woken the thread.
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }

    /// Clears the record that the thread was woken.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
    }
}
