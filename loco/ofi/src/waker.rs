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
    /// Set when somebody has woken the thread, for a look without a system call.
    woken: AtomicBool,
    stop: AtomicBool,
}

impl Waker {
    pub(crate) fn new() -> Result<Waker> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|e| FabricError::os("making an eventfd", &e.into()))?;
        Ok(Waker {
            wake,
            woken: AtomicBool::new(false),
            stop: AtomicBool::new(false),
        })
    }

    /// Wakes the thread.
    pub(crate) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
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

    /// Returns true if somebody has woken the thread. Makes no system call.
    pub(crate) fn is_woken(&self) -> bool {
        self.woken.load(Ordering::Acquire)
    }

    /// Clears the record that the thread was woken.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.wake, &mut [0u8; 8][..]);
        // A wake-up in between is found by the descriptor.
        self.woken.store(false, Ordering::Release);
    }
}
