//! An outage: this node's port has been down for so long that nothing can be expected through it.
//!
//! The service thread reports the outage, and waits for peers end with its error. Operations under way end as
//! well, each by itself. A thread that waits for a peer's answer in memory may have no operation under way, so it needs
//! this report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use loco_fabric::FabricError;

/// The outage of a node's port, if any.
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

    /// Returns the error while the outage lasts.
    #[inline]
    pub(super) fn error(&self) -> Option<FabricError> {
        // Relaxed: this is a hint that is read again and again. The lock orders the error.
        if !self.lasts.load(Ordering::Relaxed) {
            return None;
        }
        self.error.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
