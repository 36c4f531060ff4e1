//! Failures of a fabric that a test orders: of allocations, and of puts of one thread.
//!
//! Used by [`crate::counting`].

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use loco::fabric::{FabricError, NodeId, Result};

/// What is to fail on one node, and what has failed.
#[derive(Debug)]
pub struct Faults {
    /// The allocations that still succeed; negative if all do.
    pub allocations_left: AtomicI64,
    /// The inline puts of the node's store monitor that still fail.
    pub monitor_puts: AtomicU64,
    /// The failures so far.
    pub failed: AtomicU64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            allocations_left: AtomicI64::new(-1),
            monitor_puts: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }
}

impl Faults {
    /// Runs `calls` while all allocations after the first `left` fail. Returns how many failed.
    pub fn without_memory(&self, left: i64, calls: impl FnOnce()) -> u64 {
        let before = self.failed.load(SeqCst);
        self.allocations_left.store(left, SeqCst);
        calls();
        self.allocations_left.store(-1, SeqCst);
        self.failed.load(SeqCst) - before
    }

    /// Fails if this allocation is one that is to fail.
    pub fn allocate(&self, len: usize) -> Result<()> {
        let left = |left| match left {
            ..0 => Some(left),
            0 => None,
            _ => Some(left - 1),
        };
        if self.allocations_left.fetch_update(SeqCst, SeqCst, left).is_ok() {
            return Ok(());
        }
        self.failed.fetch_add(1, SeqCst);
        Err(FabricError::OutOfMemory {
            requested: len,
            available: 0,
            remedy: "end the test of this failure".to_owned(),
        })
    }

    /// Fails if this inline put to `peer` is one that is to fail.
    pub fn put_inline(&self, peer: NodeId) -> Result<()> {
        let monitor = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("loco-kv"));
        let fails = |left: u64| left.checked_sub(1);
        if !monitor || self.monitor_puts.fetch_update(SeqCst, SeqCst, fails).is_err() {
            return Ok(());
        }
        self.failed.fetch_add(1, SeqCst);
        Err(FabricError::Operation {
            operation: "put",
            peer,
            status: "as told".to_owned(),
            cause: "the test makes it fail".to_owned(),
        })
    }
}
