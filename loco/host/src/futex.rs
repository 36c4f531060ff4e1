//! Sleeping on a word of mapped memory, and waking the sleepers of every process that has mapped it (`futex(2)`).
//!
//! Relies on `rustix`. Used by the doorbell of the shared-memory fabric.

use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::thread::futex::{Flags, wait, wake};

use crate::span::SpanCell;

impl<K> SpanCell<u32, K> {
    /// Sleeps until woken if the word is `seen`, for `limit` at most. May return early.
    pub fn sleep_while(&self, seen: u32, limit: Duration) {
        let limit = limit.try_into().ok();
        // An error says that the word has another value, that the time is over, or that a signal came.
        let _ = wait(self.atomic(), Flags::empty(), seen, limit.as_ref());
    }

    /// Wakes all threads that sleep on the word.
    pub fn wake_all(&self) {
        // This cannot fail: the word is mapped and aligned.
        let _ = wake(self.atomic(), Flags::empty(), i32::MAX as u32);
    }

    fn atomic(&self) -> &AtomicU32 {
        // SAFETY: the word is aligned and mapped as long as `self` lives, and all access to it is atomic.
        unsafe { AtomicU32::from_ptr(self.address().cast()) }
    }
}
