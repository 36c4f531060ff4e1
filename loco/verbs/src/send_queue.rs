//! The part of a queue pair that the posting thread shares with polling threads: the window of work requests
//! under way.
//!
//! A work request takes the next sequence number, and its slot in the window remembers what to report.
//! Completions of a reliable connection come in order, so one for number `n` ends everything up to `n`:
//! unsignaled operations cost no completion. The window has as many slots as the device's send queue. The
//! completion queue has room for every slot of every window (after an error each of them completes). Neither
//! can therefore overflow. The owner signals now and then for itself, so that slots become free.
//!
//! All completions are processed under one lock ([`Poller`]), which keeps them in order.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, OnceLock};

use super::connect::Connection;
use super::device::Device;
use super::ffi::ok;
use super::ffi::types::*;
use super::mailbox::Mailbox;
use super::status::{Op, failure};
use loco_fabric::{Completion, CompletionStatus, Control, FabricError, NodeId, Result, WorkRequestId};
use loco_job::Mesh;

/// The bits of a device's work request id that hold the sequence number. The other bits are the queue's
/// index.
const SEQUENCE_BITS: u32 = 40;
const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;
/// The number of completions taken from the device at once.
const BATCH: usize = 32;
/// The bit of a slot's `what` that says that the caller wants a completion.
const REPORTED: u32 = 1 << 31;

/// A queue pair's window.
pub(super) struct SendQueue {
    pub(super) connection: Connection,
    pub(super) peer: NodeId,
    slots: Box<[Slot]>,
    /// The number of work requests posted. Written by the owner.
    posted: AtomicU64,
    /// The number of work requests completed. Written under the poller's lock.
    completed: AtomicU64,
    /// Set when the queue pair is in the error state.
    broken: AtomicBool,
    /// The error that broke the queue pair.
    failure: OnceLock<FabricError>,
    /// Set when the owner is done: the queue pair is to be destroyed once nothing is under way.
    retired: AtomicBool,
    index: AtomicU32,
}

/// The report on a work request. The owner writes it before posting, and it is read when the completion has
/// come. The release of `posted` and the acquire of the poller order the two, so relaxed accesses suffice.
#[derive(Default)]
struct Slot {
    id: AtomicU64,
    what: AtomicU32,
}

impl SendQueue {
    pub(super) fn new(connection: Connection, peer: NodeId) -> SendQueue {
        let depth = connection.depth as usize;
        debug_assert!(depth.is_power_of_two());
        SendQueue {
            connection,
            peer,
            slots: (0..depth).map(|_| Slot::default()).collect(),
            posted: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            broken: AtomicBool::new(false),
            failure: OnceLock::new(),
            retired: AtomicBool::new(false),
            index: AtomicU32::new(u32::MAX),
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Fills the slot of work request `sequence` and returns the id under which the device reports it.
    #[inline]
    pub(super) fn fill(&self, sequence: u64, id: WorkRequestId, op: Op, reported: bool) -> u64 {
        let slot = self.slot(sequence);
        slot.id.store(id.0, Ordering::Relaxed);
        slot.what
            .store(op as u32 | if reported { REPORTED } else { 0 }, Ordering::Relaxed);
        // Relaxed: the index is set once, before the owner got the queue.
        u64::from(self.index.load(Ordering::Relaxed)) << SEQUENCE_BITS | sequence & SEQUENCE_MASK
    }

    /// Returns the id under which work request `sequence` is reported, if it is reported.
    pub(super) fn reported(&self, sequence: u64) -> Option<WorkRequestId> {
        let slot = self.slot(sequence);
        let reported = slot.what.load(Ordering::Relaxed) & REPORTED != 0;
        reported.then(|| WorkRequestId(slot.id.load(Ordering::Relaxed)))
    }

    /// Returns the number of the last put or read-modify-write that has not completed, of those below `posted`. Called by the
    /// owner.
    pub(super) fn last_write(&self, posted: u64) -> Option<u64> {
        (self.completed()..posted).rev().find(|&sequence| {
            let what = self.slot(sequence).what.load(Ordering::Relaxed) & !REPORTED;
            matches!(Op::ALL[what as usize], Op::Put | Op::FetchAdd | Op::CompareSwap)
        })
    }

    #[inline]
    fn slot(&self, sequence: u64) -> &Slot {
        // The length is a power of two, so this is a mask and always in range.
        #[allow(clippy::cast_possible_truncation)]
        &self.slots[sequence as usize & (self.slots.len() - 1)]
    }

    /// Publishes that work requests below `posted` have slots.
    #[inline]
    pub(super) fn publish(&self, posted: u64) {
        self.posted.store(posted, Ordering::Release);
    }

    /// Returns the number of work requests that have completed.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        // Acquire: the poller no longer uses the slots below.
        self.completed.load(Ordering::Acquire)
    }

    /// Fails if the queue pair no longer works.
    #[inline]
    pub(super) fn check(&self, mesh: &Mesh) -> Result<()> {
        // Relaxed: this is a hint. An operation posted on a broken queue pair is flushed.
        if self.broken.load(Ordering::Relaxed) {
            return Err(self.why_broken(mesh));
        }
        Ok(())
    }

    #[cold]
    fn why_broken(&self, mesh: &Mesh) -> FabricError {
        if let Err(gone) = mesh.check_alive(self.peer) {
            return gone;
        }
        self.failure
            .get()
            .cloned()
            .unwrap_or(FabricError::PeerLost(self.peer))
    }

    /// Moves the queue pair to the error state. The device then completes the operations under way as
    /// flushed.
    pub(super) fn break_off(&self, device: &Device) {
        if self.broken.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut attr = QpAttr {
            qp_state: IBV_QPS_ERR,
            ..zeroed()
        };
        // SAFETY: the queue pair is live as long as its connection.
        let moved =
            ok(unsafe { (device.api.modify_qp)(self.connection.qp, &raw mut attr, IBV_QP_STATE as i32) });
        if let Err(error) = moved {
            tracing::warn!("flushing the queue pair towards {}: {error}", self.peer);
        }
    }

    /// Records the error that broke the queue pair.
    pub(super) fn broke(&self, error: &FabricError) {
        let _ = self.failure.set(error.clone()); // The first one counts.
        self.broken.store(true, Ordering::Relaxed);
    }

    fn is_drained(&self) -> bool {
        // The owner is gone (acquire of `retired`) and the poller's lock is held, so neither count changes.
        self.retired.load(Ordering::Acquire)
            && self.completed.load(Ordering::Relaxed) == self.posted.load(Ordering::Relaxed)
    }

    fn error_of(&self, wc: &Wc, op: Op, mesh: &Mesh) -> FabricError {
        if let Err(gone) = mesh.check_alive(self.peer) {
            self.broke(&gone);
            return gone;
        }
        let error = failure(op, self.peer, wc.status, wc.vendor_err, self.failure.get());
        self.broke(&error);
        error
    }
}

/// A task for the service thread.
pub(super) enum Task {
    /// Destroy a drained queue pair, away from the polling path.
    Destroy(Arc<SendQueue>),
    /// Take a lost peer's access away for good, and drop the sender to say that it is done.
    Revoke(NodeId, Sender<()>),
    /// End the thread.
    Stop,
}

/// The queue pairs of a node, and the state of polling. Used by one thread at a time.
pub(super) struct Poller {
    queues: Vec<Option<Arc<SendQueue>>>,
    /// The free places in `queues`.
    free: Vec<u32>,
    /// The number of entries of the completion queue that are promised to live queue pairs.
    entries: u32,
    /// Completions still to be reported: those of operations that failed without reaching the device, and
    /// those that `poll_ahead` took.
    orphans: Vec<Completion>,
    departures_seen: u64,
    wcs: Box<[Wc; BATCH]>,
}

// SAFETY: `wcs` holds integers only once polled; the type has no thread affinity.
unsafe impl Send for Poller {}

impl Poller {
    pub(super) fn new() -> Poller {
        Poller {
            queues: Vec::new(),
            free: Vec::new(),
            entries: 0,
            orphans: Vec::new(),
            departures_seen: 0,
            wcs: Box::new([zeroed(); BATCH]),
        }
    }

    /// Reserves room for the completions of one more queue pair.
    pub(super) fn reserve(&mut self, device: &Device) -> Result<()> {
        let entries = self.entries + device.limits.queue_depth;
        device.grow_completion_queue(entries)?;
        self.entries = entries;
        Ok(())
    }

    /// Returns the room that `reserve` took.
    pub(super) fn unreserve(&mut self, device: &Device) {
        self.entries -= device.limits.queue_depth;
    }

    /// Adds a queue pair for which room was reserved.
    pub(super) fn add(&mut self, queue: &Arc<SendQueue>) {
        let index = self.free.pop().unwrap_or_else(|| {
            self.queues.push(None);
            u32::try_from(self.queues.len() - 1).unwrap_or(u32::MAX)
        });
        queue.index.store(index, Ordering::Relaxed);
        self.queues[index as usize] = Some(Arc::clone(queue));
        // The peer may have been lost between the decision to connect and now, so check all peers again.
        self.departures_seen = u64::MAX;
    }

    /// Destroys the queue pair of an owner that has gone: at once if it is drained, else as soon as it is.
    pub(super) fn retire(&mut self, queue: &SendQueue, device: &Device, service: &Mailbox<Task>) {
        queue.retired.store(true, Ordering::Release);
        self.collect(queue, device, service);
    }

    /// Records the failure of an operation that the device did not take, to be reported.
    pub(super) fn orphan(&mut self, completion: Completion) {
        self.orphans.push(completion);
    }

    /// Takes completions from the device, to be reported by the next [`poll`](Poller::poll), and returns their number.
    pub(super) fn poll_ahead(
        &mut self,
        device: &Device,
        mesh: &Mesh,
        service: &Mailbox<Task>,
    ) -> Result<usize> {
        let mut ahead = std::mem::take(&mut self.orphans);
        let polled = self.poll(device, mesh, service, &mut ahead);
        self.orphans = ahead;
        polled
    }

    /// Takes a batch of completions from the device.
    #[inline]
    pub(super) fn poll(
        &mut self,
        device: &Device,
        mesh: &Mesh,
        service: &Mailbox<Task>,
        out: &mut Vec<Completion>,
    ) -> Result<usize> {
        let departures = mesh.departures();
        if departures != self.departures_seen {
            self.departures_seen = departures;
            self.flush_lost(device, mesh);
        }
        let before = out.len();
        if !self.orphans.is_empty() {
            out.append(&mut self.orphans);
        }
        // SAFETY: the completion queue is live and `wcs` has room for `BATCH` entries.
        let n = unsafe { (device.poll_cq)(device.cq, BATCH as i32, self.wcs.as_mut_ptr()) };
        let Ok(n) = usize::try_from(n) else {
            return Err(FabricError::Os {
                what: format!("polling the completion queue of {}", device.choice),
                source: format!("ibv_poll_cq returned {n}: the device or its driver failed").into(),
            });
        };
        for at in 0..n.min(BATCH) {
            let wc = self.wcs[at];
            self.complete(&wc, device, mesh, service, out);
        }
        Ok(out.len() - before)
    }

    #[inline]
    fn complete(
        &mut self,
        wc: &Wc,
        device: &Device,
        mesh: &Mesh,
        service: &Mailbox<Task>,
        out: &mut Vec<Completion>,
    ) {
        #[allow(clippy::cast_possible_truncation)] // The bits above the sequence number fit.
        let index = (wc.wr_id >> SEQUENCE_BITS) as usize;
        let Some(Some(queue)) = self.queues.get(index) else {
            tracing::error!("completion of an unknown work request {:#x}", wc.wr_id);
            return;
        };
        // Acquire: sees what `fill` wrote to the slot.
        let posted = queue.posted.load(Ordering::Acquire);
        let completed = queue.completed.load(Ordering::Relaxed); // Written under our lock.
        let ended = (wc.wr_id + 1).wrapping_sub(completed) & SEQUENCE_MASK;
        if ended == 0 || ended > posted - completed {
            tracing::error!("completion of work request {:#x} out of turn", wc.wr_id);
            return;
        }
        let slot = queue.slot(completed + ended - 1);
        let what = slot.what.load(Ordering::Relaxed);
        let id = WorkRequestId(slot.id.load(Ordering::Relaxed));
        let status = if wc.status == IBV_WC_SUCCESS {
            CompletionStatus::Success
        } else {
            let op = Op::ALL[(what & !REPORTED) as usize];
            CompletionStatus::Failed(Box::new(queue.error_of(wc, op, mesh)))
        };
        queue.completed.store(completed + ended, Ordering::Release);
        if what & REPORTED != 0 {
            out.push(Completion {
                id,
                peer: queue.peer,
                status,
            });
        }
        if queue.is_drained() {
            let queue = Arc::clone(queue);
            self.collect(&queue, device, service);
        }
    }

    fn collect(&mut self, queue: &SendQueue, device: &Device, service: &Mailbox<Task>) {
        if !queue.is_drained() {
            return;
        }
        let index = queue.index.load(Ordering::Relaxed);
        if let Some(queue) = self.queues[index as usize].take() {
            self.free.push(index);
            self.unreserve(device);
            service.give(Task::Destroy(queue));
        }
    }

    #[cold]
    fn flush_lost(&mut self, device: &Device, mesh: &Mesh) {
        for queue in self.queues.iter().flatten() {
            if mesh.is_gone(queue.peer) {
                queue.break_off(device);
            }
        }
    }

    /// Fails the operations under way because the link is down and they will not be answered.
    pub(super) fn link_lost(&self, error: &FabricError, device: &Device) {
        for queue in self.queues.iter().flatten() {
            let _ = queue.failure.set(error.clone()); // The first one counts.
            queue.break_off(device);
        }
    }

    /// Returns the number of existing queue pairs, retired ones included.
    pub(super) fn queue_pairs(&self) -> usize {
        self.queues.iter().flatten().count()
    }
}
