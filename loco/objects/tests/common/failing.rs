//! Failures of a fabric that a test orders: of allocations, of puts of one thread, and of gets that were posted.
//!
//! Used by [`crate::counting`].

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use loco::fabric::{Completion, CompletionStatus, FabricError, NodeId, Result, WorkRequestId};

/// What is to fail on one node, and what has failed.
#[derive(Debug)]
pub struct Faults {
    /// The allocations that still succeed; negative if all do.
    pub allocations_left: AtomicI64,
    /// The inline puts of the node's store monitor that still fail.
    pub monitor_puts: AtomicU64,
    /// The gets of the node's program that are still to be reported as failed, while their peer lives.
    pub gets: AtomicU64,
    /// The gets under way that will be reported so.
    failing: Mutex<HashSet<u64>>,
    /// The failures so far.
    pub failed: AtomicU64,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            allocations_left: AtomicI64::new(-1),
            monitor_puts: AtomicU64::new(0),
            gets: AtomicU64::new(0),
            failing: Mutex::default(),
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

    /// Notes the get that is about to be posted as `id`, if it is one that is to fail.
    pub fn get(&self, id: WorkRequestId) {
        let service = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("loco-"));
        let fails = |left: u64| left.checked_sub(1);
        if !service && self.gets.fetch_update(SeqCst, SeqCst, fails).is_ok() {
            self.failing.lock().unwrap().insert(id.0);
        }
    }

    /// Makes failures of the completions of gets that are to fail.
    pub fn report(&self, completions: &mut [Completion]) {
        let mut failing = self.failing.lock().unwrap();
        for completion in completions {
            if failing.remove(&completion.id.0) {
                self.failed.fetch_add(1, SeqCst);
                completion.status = CompletionStatus::Failed(Box::new(as_told("get", completion.peer)));
            }
        }
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
        Err(as_told("put", peer))
    }
}

fn as_told(operation: &'static str, peer: NodeId) -> FabricError {
    FabricError::Operation {
        operation,
        peer,
        status: "as told".to_owned(),
        cause: "the test makes it fail".to_owned(),
    }
}
