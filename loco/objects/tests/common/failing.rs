//! A fabric that fails when told to, around another one: allocations, and puts of one thread.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};

use loco::fabric::{
    Caps, Completion, Fabric, FabricError, Local, MemoryKind, NodeId, Posted, QueuePair, RegionKey, Result,
    Target, Wait, WordOp, Work,
};

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

    fn allocates(&self) -> bool {
        let took = self
            .allocations_left
            .fetch_update(SeqCst, SeqCst, |left| match left {
                ..0 => Some(left),
                0 => None,
                _ => Some(left - 1),
            });
        took.is_ok()
    }
}

/// `F` with faults.
#[derive(Clone)]
pub struct Failing<F> {
    pub inner: F,
    pub faults: Arc<Faults>,
}

/// Its queue pair.
pub struct FailingPair<Q> {
    inner: Q,
    faults: Arc<Faults>,
}

impl<F: Fabric> Fabric for Failing<F> {
    type Platform = F::Platform;
    type Memory = F::Memory;
    type Remote = F::Remote;
    type QueuePair = FailingPair<F::QueuePair>;
    type Control = F::Control;

    fn node(&self) -> NodeId {
        self.inner.node()
    }
    fn nodes(&self) -> &[NodeId] {
        self.inner.nodes()
    }
    fn caps(&self) -> &Caps {
        self.inner.caps()
    }
    fn platform(&self) -> &F::Platform {
        self.inner.platform()
    }
    fn control(&self) -> &F::Control {
        self.inner.control()
    }
    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<F::Memory> {
        if !self.faults.allocates() {
            self.faults.failed.fetch_add(1, SeqCst);
            return Err(FabricError::OutOfMemory {
                requested: len,
                available: 0,
                remedy: "end the test of this failure".to_owned(),
            });
        }
        self.inner.allocate(len, kind)
    }
    fn export(&self, memory: &F::Memory) -> RegionKey {
        self.inner.export(memory)
    }
    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<F::Remote> {
        self.inner.import(peer, key)
    }
    fn queue_pair(&self, peer: NodeId) -> Result<Self::QueuePair> {
        Ok(FailingPair {
            inner: self.inner.queue_pair(peer)?,
            faults: self.faults.clone(),
        })
    }
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        self.inner.poll(completions)
    }
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.inner.wait(wait, ready)
    }
    fn cpu_fence(&self) {
        self.inner.cpu_fence();
    }
}

impl<Q: QueuePair> QueuePair for FailingPair<Q> {
    type Memory = Q::Memory;
    type Remote = Q::Remote;

    fn peer(&self) -> NodeId {
        self.inner.peer()
    }
    fn put(&mut self, src: Local<'_, Q::Memory>, dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.inner.put(src, dst, work)
    }
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        let monitor = std::thread::current()
            .name()
            .is_some_and(|name| name.starts_with("loco-kv"));
        let fails = |left: u64| left.checked_sub(1);
        if monitor
            && self
                .faults
                .monitor_puts
                .fetch_update(SeqCst, SeqCst, fails)
                .is_ok()
        {
            self.faults.failed.fetch_add(1, SeqCst);
            return Err(FabricError::Operation {
                operation: "put",
                peer: self.inner.peer(),
                status: "as told".to_owned(),
                cause: "the test makes it fail".to_owned(),
            });
        }
        self.inner.put_inline(data, dst, work)
    }
    fn get(&mut self, dst: Local<'_, Q::Memory>, src: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.inner.get(dst, src, work)
    }
    fn fetch_add(
        &mut self,
        target: Target<'_, Q::Remote>,
        add: u64,
        result: Local<'_, Q::Memory>,
        work: Work,
    ) -> Result<Posted> {
        self.inner.fetch_add(target, add, result, work)
    }
    fn compare_swap(
        &mut self,
        target: Target<'_, Q::Remote>,
        expected: u64,
        new: u64,
        result: Local<'_, Q::Memory>,
        work: Work,
    ) -> Result<Posted> {
        self.inner.compare_swap(target, expected, new, result, work)
    }
    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.inner.flush(work)
    }
    fn word_at_once(&mut self, target: Target<'_, Q::Remote>, op: WordOp) -> Result<Option<u64>> {
        self.inner.word_at_once(target, op)
    }
    fn read_at_once(&mut self, src: Target<'_, Q::Remote>, out: &mut [u8]) -> Result<()> {
        self.inner.read_at_once(src, out)
    }
}
