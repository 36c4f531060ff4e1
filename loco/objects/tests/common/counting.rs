//! A fabric that counts what is posted, and holds completions back or fails when told to, around another one.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loco::fabric::{
    Caps, Completion, Fabric, Local, MemoryKind, NodeId, Posted, QueuePair, RegionKey, Result, Target, Wait,
    Work,
};

use crate::failing::Faults;

/// The operations that were posted and executed on one node.
#[derive(Debug, Default)]
pub struct Counts {
    pub puts: AtomicU64,
    /// Gets and read-modify-writes.
    pub results: AtomicU64,
    pub flushes: AtomicU64,
    pub signaled: AtomicU64,
    /// Those that asked for strong order, and those that asked for a fence.
    pub strong: AtomicU64,
    pub fenced: AtomicU64,
    pub cpu_fences: AtomicU64,
    /// While this is set nobody hears of a completion.
    pub completions_held: AtomicBool,
    /// What is to fail.
    pub faults: Faults,
}

impl Counts {
    /// Flushes and CPU fences so far.
    pub fn fences(&self) -> (u64, u64) {
        (
            self.flushes.load(Ordering::SeqCst),
            self.cpu_fences.load(Ordering::SeqCst),
        )
    }
}

/// `F` with counts.
#[derive(Clone)]
pub struct Counting<F> {
    pub inner: F,
    pub counts: Arc<Counts>,
}

/// Its queue pair.
pub struct CountingPair<Q> {
    inner: Q,
    counts: Arc<Counts>,
}

impl<F: Fabric> Fabric for Counting<F> {
    type Platform = F::Platform;
    type Memory = F::Memory;
    type Remote = F::Remote;
    type QueuePair = CountingPair<F::QueuePair>;
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
        self.counts.faults.allocate(len)?;
        self.inner.allocate(len, kind)
    }
    fn export(&self, memory: &F::Memory) -> RegionKey {
        self.inner.export(memory)
    }
    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<F::Remote> {
        self.inner.import(peer, key)
    }
    fn queue_pair(&self, peer: NodeId) -> Result<Self::QueuePair> {
        Ok(CountingPair {
            inner: self.inner.queue_pair(peer)?,
            counts: self.counts.clone(),
        })
    }
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.counts.completions_held.load(Ordering::SeqCst) {
            return Ok(0);
        }
        self.inner.poll(completions)
    }
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.inner.wait(wait, ready)
    }
    fn cpu_fence(&self) {
        self.counts.cpu_fences.fetch_add(1, Ordering::SeqCst);
        self.inner.cpu_fence();
    }
}

impl<Q> CountingPair<Q> {
    fn count(&self, counter: &AtomicU64, work: Work) {
        counter.fetch_add(1, Ordering::SeqCst);
        let asked = [
            (&self.counts.signaled, work.signaled),
            (&self.counts.strong, work.strong),
            (&self.counts.fenced, work.fenced),
        ];
        for (counter, asks) in asked {
            counter.fetch_add(u64::from(asks), Ordering::SeqCst);
        }
    }
}

impl<Q: QueuePair> QueuePair for CountingPair<Q> {
    type Memory = Q::Memory;
    type Remote = Q::Remote;

    fn peer(&self) -> NodeId {
        self.inner.peer()
    }
    fn put(&mut self, src: Local<'_, Q::Memory>, dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.count(&self.counts.puts, work);
        self.inner.put(src, dst, work)
    }
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.counts.faults.put_inline(self.inner.peer())?;
        self.count(&self.counts.puts, work);
        self.inner.put_inline(data, dst, work)
    }
    fn get(&mut self, dst: Local<'_, Q::Memory>, src: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.count(&self.counts.results, work);
        self.inner.get(dst, src, work)
    }
    fn fetch_add(
        &mut self,
        target: Target<'_, Q::Remote>,
        add: u64,
        result: Local<'_, Q::Memory>,
        work: Work,
    ) -> Result<Posted> {
        self.count(&self.counts.results, work);
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
        self.count(&self.counts.results, work);
        self.inner.compare_swap(target, expected, new, result, work)
    }
    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.count(&self.counts.flushes, work);
        self.inner.flush(work)
    }
}
