//! Doubt: whether what the lock protects may be half done.
//!
//! A lock tells the next holder that a former one was lost, and nobody after that. The key-value store must know it for longer: its
//! holders trust their index only while no holder before them has left a change half done, whether it was lost or has failed. So its
//! locks *keep* doubt. A holder that is told of a loss, or that ends with the lock in doubt, tells the next holder, and so on for good.
//!
//! Doubt travels with the lock: in the word of the served slot and in the grant from node to node, and in a word of the node from
//! thread to thread. Only the thread whose turn it is touches that word.
//!
//! Used by the key-value store (`kvstore::trust`).

use loco_fabric::{AtomicCell, Fabric};

use super::TicketLock;
use crate::LockGuard;

impl<F: Fabric> TicketLock<F> {
    /// Makes this endpoint tell each later holder of a lost one. All participants do so, or none.
    pub(crate) fn keeping_doubt(self) -> TicketLock<F> {
        TicketLock {
            keeps_doubt: true,
            ..self
        }
    }

    /// Returns true if the next holder is told that a former one was lost.
    pub(super) fn is_in_doubt(&self) -> bool {
        self.mine.doubt.load() != 0
    }

    /// Takes note of what the node was told when it got the lock.
    pub(super) fn keep_doubt(&self, recovered: bool) {
        if recovered && self.keeps_doubt {
            self.mine.doubt.store(1);
        }
    }
}

impl<F: Fabric> LockGuard<'_, TicketLock<F>, F> {
    /// Says whether what the lock protects is in doubt when the lock is released. The lock keeps doubt.
    pub(crate) fn set_doubt(&self, doubt: bool) {
        debug_assert!(
            self.lock().keeps_doubt,
            "only such a lock tells the next holder but one"
        );
        self.lock().mine.doubt.store(u32::from(doubt));
    }
}
