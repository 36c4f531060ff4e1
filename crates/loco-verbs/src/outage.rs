//! Whether this node's port has been down for so long that nothing can be expected through it.
//!
//! The service thread says so; waits for peers end with its error. Operations under way end as well, each by itself, but
//! who waits for a peer's answer in memory need not have any.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use loco_fabric::FabricError;

/// See the module head.
#[derive(Debug, Default)]
pub(super) struct Outage {
    lasts: AtomicBool,
    error: Mutex<Option<FabricError>>,
}

impl Outage {
    pub(super) fn begins(&self, error: FabricError) {
        *self.error.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        self.lasts.store(true, Ordering::Release);
    }

    pub(super) fn ends(&self) {
        self.lasts.store(false, Ordering::Release);
    }

    /// The error, while the outage lasts.
    #[inline]
    pub(super) fn error(&self) -> Option<FabricError> {
        // Relaxed: a hint, looked at again and again; the lock orders the error.
        if !self.lasts.load(Ordering::Relaxed) {
            return None;
        }
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
