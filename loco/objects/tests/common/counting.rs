//! A fabric that counts what is posted, and holds completions back or fails when told to, around another one.
//!
//! It tells [`trips`](crate::trips) what each thread posts and when it waits.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

use loco::fabric::{
    Caps, Completion, Fabric, Local, MemoryKind, NodeId, Posted, QueuePair, RegionKey, Result, Target, Wait,
    WordOp, Work, WorkRequestId,
};

use crate::failing::Faults;
use crate::trips::{self, Pair, Post};

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
    /// While this is set, a thread hears of its own operations only, and of all that are under way at once: as on a network on which
    /// each batch takes the same time. Otherwise chance says how often a thread waits.
    pub in_step: AtomicBool,
    /// What is to fail.
    pub faults: Faults,
    polled: Mutex<Polled>,
}

/// Operations under way by thread, which is named by what the ids of its operations have in common.
#[derive(Debug, Default)]
struct Polled(HashMap<u64, UnderWay>);

/// The operations of a thread.
#[derive(Debug)]
struct UnderWay {
    thread: ThreadId,
    /// Those that will report a completion, and those that have.
    count: usize,
    ended: Vec<Completion>,
}

/// Returns what the ids of one thread have in common.
fn window(id: WorkRequestId) -> u64 {
    id.0 >> 48
}

impl Polled {
    /// Notes an operation of this thread that will report a completion.
    fn begins(&mut self, id: WorkRequestId) {
        let under_way = self.0.entry(window(id)).or_insert_with(|| UnderWay {
            thread: std::thread::current().id(),
            count: 0,
            ended: Vec::new(),
        });
        under_way.thread = std::thread::current().id();
        under_way.count += 1;
    }

    /// Takes what the network reports. Moves the completions of this thread to `completions` when all its operations have ended.
    fn take(&mut self, reported: Vec<Completion>, completions: &mut Vec<Completion>) -> usize {
        let before = completions.len();
        for completion in reported {
            match self.0.get_mut(&window(completion.id)) {
                Some(under_way) => under_way.ended.push(completion),
                None => completions.push(completion),
            }
        }
        let me = std::thread::current().id();
        for mine in self.0.values_mut().filter(|under_way| under_way.thread == me) {
            // One that was posted before the window, and reports in it, is not counted.
            if mine.ended.len() >= mine.count {
                mine.count = 0;
                completions.append(&mut mine.ended);
            }
        }
        completions.len() - before
    }
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
    pair: Pair,
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
            pair: Pair::new(self.caps().order),
        })
    }
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        if self.counts.completions_held.load(Ordering::SeqCst) {
            return Ok(0);
        }
        if !self.counts.in_step.load(Ordering::SeqCst) {
            let before = completions.len();
            let count = self.inner.poll(completions)?;
            self.counts.faults.report(&mut completions[before..]);
            return Ok(count);
        }
        let mut reported = Vec::new();
        let mut polled = self.counts.polled.lock().unwrap();
        self.inner.poll(&mut reported)?;
        self.counts.faults.report(&mut reported);
        Ok(polled.take(reported, completions))
    }
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        trips::waits_for_others();
        self.inner.wait(wait, ready)
    }
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        trips::waits_for_own();
        self.inner.wait(wait, ready)
    }
    fn cpu_fence(&self) {
        self.counts.cpu_fences.fetch_add(1, Ordering::SeqCst);
        self.inner.cpu_fence();
    }
}

impl<Q: QueuePair> CountingPair<Q> {
    /// Counts an operation, and posts it by `post`.
    fn post(
        &mut self,
        counter: impl Fn(&Counts) -> &AtomicU64,
        kind: Post,
        work: Work,
        post: impl FnOnce(&mut Q) -> Result<Posted>,
    ) -> Result<Posted> {
        counter(&self.counts).fetch_add(1, Ordering::SeqCst);
        let asked = [
            (&self.counts.signaled, work.signaled),
            (&self.counts.strong, work.strong),
            (&self.counts.fenced, work.fenced),
        ];
        for (counter, asks) in asked {
            counter.fetch_add(u64::from(asks), Ordering::SeqCst);
        }
        // Another thread may poll the completion before the call returns.
        let mut polled = self.counts.polled.lock().unwrap();
        let posted = post(&mut self.inner)?;
        if work.signaled && posted == Posted::Pending && self.counts.in_step.load(Ordering::SeqCst) {
            polled.begins(work.id);
        }
        self.pair.posted(kind, work, posted);
        Ok(posted)
    }
}

impl<Q: QueuePair> QueuePair for CountingPair<Q> {
    type Memory = Q::Memory;
    type Remote = Q::Remote;

    fn peer(&self) -> NodeId {
        self.inner.peer()
    }
    fn put(&mut self, src: Local<'_, Q::Memory>, dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.post(
            |counts| &counts.puts,
            Post::Write,
            work,
            |qp| qp.put(src, dst, work),
        )
    }
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.counts.faults.put_inline(self.inner.peer())?;
        self.post(
            |counts| &counts.puts,
            Post::Write,
            work,
            |qp| qp.put_inline(data, dst, work),
        )
    }
    fn get(&mut self, dst: Local<'_, Q::Memory>, src: Target<'_, Q::Remote>, work: Work) -> Result<Posted> {
        self.counts.faults.get(work.id);
        self.post(
            |counts| &counts.results,
            Post::Read,
            work,
            |qp| qp.get(dst, src, work),
        )
    }
    fn fetch_add(
        &mut self,
        target: Target<'_, Q::Remote>,
        add: u64,
        result: Local<'_, Q::Memory>,
        work: Work,
    ) -> Result<Posted> {
        self.post(
            |counts| &counts.results,
            Post::Write,
            work,
            |qp| qp.fetch_add(target, add, result, work),
        )
    }
    fn compare_swap(
        &mut self,
        target: Target<'_, Q::Remote>,
        expected: u64,
        new: u64,
        result: Local<'_, Q::Memory>,
        work: Work,
    ) -> Result<Posted> {
        self.post(
            |counts| &counts.results,
            Post::Write,
            work,
            |qp| qp.compare_swap(target, expected, new, result, work),
        )
    }
    fn flush(&mut self, work: Work) -> Result<Posted> {
        self.post(|counts| &counts.flushes, Post::Flush, work, |qp| qp.flush(work))
    }
    fn word_at_once(&mut self, target: Target<'_, Q::Remote>, op: WordOp) -> Result<Option<u64>> {
        let old = self.inner.word_at_once(target, op)?;
        if old.is_some() {
            self.counts.results.fetch_add(1, Ordering::SeqCst);
            self.pair.posted(Post::Write, Work::unsignaled(), Posted::Done);
        }
        Ok(old)
    }
    fn read_at_once(&mut self, src: Target<'_, Q::Remote>, out: &mut [u8]) -> Result<()> {
        self.inner.read_at_once(src, out)?;
        self.counts.results.fetch_add(1, Ordering::SeqCst);
        self.pair.posted(Post::Read, Work::unsignaled(), Posted::Done);
        Ok(())
    }
}
