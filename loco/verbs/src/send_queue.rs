//! The part of a queue pair that the posting thread shares with polling threads: the window of work requests
//! under way.
//!
//! A work request takes the next sequence number, and its slot in the window remembers what to report.
//! Completions of a reliable connection come in order, so one for number `n` ends everything up to `n`:
//! unsignaled operations cost no completion. The window has as many slots as the device's send queue. The
//! completion queue has room for every slot of every window (after an error each of them completes). Neither
//! can therefore overflow. The owner signals now and then for itself, so that slots become free.
//!
//! On a device whose order is bought, each work request asks for a completion, and operations end in any order. There the
//! queue pair has a [line](super::line), which says when an operation is reported and which ones go to the device next.
//!
//! All completions are processed under one lock ([`Poller`]), which keeps them in order.
//!
//! A peer that does not acknowledge has ended, or cannot be reached. Which of the two it is, only the job can tell, which may
//! be about to agree on the peer's loss. So the [`Poller`] leaves such a completion *unprocessed*, and with it all later ones of the queue pair,
//! until the peer is lost or the patience of the configuration is over.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use super::connect::Connection;
use super::device::Device;
use super::ffi::ok;
use super::ffi::types::*;
use super::line::Line;
use super::mailbox::Mailbox;
use super::status::{Op, failure};
use super::window::{SEQUENCE_BITS, SEQUENCE_MASK, Window};
use loco_fabric::{
    Completion, CompletionStatus, Control, FabricError, NodeId, Platform, Result, Std, Time, WorkRequestId,
};
use loco_job::Mesh;

/// The number of completions taken from the device at once.
const BATCH: usize = 32;
/// The bit of a slot's `what` that says that the caller wants a completion.
const REPORTED: u32 = 1 << 31;

/// A queue pair's window.
pub(super) struct SendQueue {
    pub(super) connection: Connection,
    pub(super) peer: NodeId,
    window: Window,
    /// The operations that are not reported, where order is bought.
    line: Option<Mutex<Line>>,
    /// Set when the queue pair is in the error state.
    broken: AtomicBool,
    /// The error that broke the queue pair.
    failure: OnceLock<FabricError>,
    /// Set while completions of the queue pair stay unprocessed.
    unprocessed: AtomicBool,
    /// Set when the owner is done: the queue pair is to be destroyed once nothing is under way.
    retired: AtomicBool,
    index: AtomicU32,
}

impl SendQueue {
    pub(super) fn new(connection: Connection, peer: NodeId, line: Option<Line>) -> SendQueue {
        SendQueue {
            window: Window::new(connection.depth as usize),
            connection,
            peer,
            line: line.map(Mutex::new),
            broken: AtomicBool::new(false),
            failure: OnceLock::new(),
            unprocessed: AtomicBool::new(false),
            retired: AtomicBool::new(false),
            index: AtomicU32::new(u32::MAX),
        }
    }

    pub(super) fn depth(&self) -> usize {
        self.window.depth()
    }

    /// Fills the slot of work request `sequence` and returns the id under which the device reports it.
    #[inline]
    pub(super) fn fill(&self, sequence: u64, id: WorkRequestId, op: Op, reported: bool) -> u64 {
        let what = op as u32 | if reported { REPORTED } else { 0 };
        self.window.fill(sequence, id, what);
        // Relaxed: the index is set once, before the owner got the queue.
        u64::from(self.index.load(Ordering::Relaxed)) << SEQUENCE_BITS | sequence & SEQUENCE_MASK
    }

    /// Returns the id under which work request `sequence` is reported, if it is reported.
    pub(super) fn reported(&self, sequence: u64) -> Option<WorkRequestId> {
        let (id, what) = self.window.filled(sequence);
        (what & REPORTED != 0).then_some(id)
    }

    /// Locks the line, if the queue pair has one.
    #[inline]
    pub(super) fn line(&self) -> Option<MutexGuard<'_, Line>> {
        let line = self.line.as_ref()?;
        Some(line.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reports the operations of the line that have ended, in their order.
    fn report_ended(&self, line: &mut Line, out: &mut Vec<Completion>) {
        while let Some((sequence, error)) = line.take_ended() {
            out.extend(self.reported(sequence).map(|id| Completion {
                id,
                peer: self.peer,
                status: error.map_or(CompletionStatus::Success, CompletionStatus::Failed),
            }));
        }
        self.window.complete_all(line.reported());
    }

    /// Fails what the queue pair holds back, once it is broken.
    fn fail_held(&self, line: &mut Line, mesh: &Mesh) {
        line.fail_held(|op| self.error_of(IBV_WC_WR_FLUSH_ERR, 0, op, mesh));
    }

    /// Publishes that work requests below `posted` have slots.
    #[inline]
    pub(super) fn publish(&self, posted: u64) {
        self.window.publish(posted);
    }

    /// Returns the number of work requests that have completed.
    #[inline]
    pub(super) fn completed(&self) -> u64 {
        self.window.completed()
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

    /// Breaks the queue pair off because of `error`.
    pub(super) fn fail(&self, error: &FabricError, device: &Device) {
        let _ = self.failure.set(error.clone()); // The first one counts.
        self.break_off(device);
    }

    /// Records the error that broke the queue pair.
    fn broke(&self, error: &FabricError) {
        let _ = self.failure.set(error.clone()); // The first one counts.
        self.broken.store(true, Ordering::Relaxed);
    }

    fn is_drained(&self) -> bool {
        // The owner is gone (acquire of `retired`) and the poller's lock is held, so neither count changes.
        self.retired.load(Ordering::Acquire) && self.window.is_drained()
    }

    fn error_of(&self, status: u32, vendor: u32, op: Op, mesh: &Mesh) -> FabricError {
        if let Err(gone) = mesh.check_alive(self.peer) {
            self.broke(&gone);
            return gone;
        }
        let error = failure(op, self.peer, status, vendor, self.failure.get());
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
    /// Look after operations that are held back, on a device without completion events.
    Advance,
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
    /// The number of operations that are held back in their queue pairs, and of completions that stay unprocessed.
    waiting: Arc<AtomicUsize>,
    departures_seen: u64,
    /// The number of completions that the device has reported.
    taken: u64,
    wcs: Box<[Wc; BATCH]>,
    /// Completions of queue pairs whose peers do not acknowledge, oldest first, with the time at which each came.
    unprocessed: Vec<(Wc, Time)>,
    /// The time for which a completion stays unprocessed at most.
    patience: Duration,
}

// SAFETY: `wcs` and `unprocessed` hold integers only once polled; the type has no thread affinity.
unsafe impl Send for Poller {}

impl Poller {
    /// Creates a poller that waits for `patience` until a peer that does not acknowledge is lost.
    pub(super) fn new(patience: Duration) -> Poller {
        Poller {
            unprocessed: Vec::new(),
            patience,
            waiting: Arc::default(),
            queues: Vec::new(),
            free: Vec::new(),
            entries: 0,
            orphans: Vec::new(),
            departures_seen: 0,
            taken: 0,
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

    /// Lets operations that are held back go on as far as completions have come, and asks for an event of the next one if that
    /// is not the end. Returns true if it took completions, to be reported by the next [`poll`](Poller::poll).
    pub(super) fn advance(&mut self, device: &Device, mesh: &Mesh, service: &Mailbox<Task>) -> Result<bool> {
        let mut taken = false;
        while self.waiting.load(Ordering::Relaxed) > 0 {
            // A completion that comes before the request raises no event, so it is taken afterwards. Without events the
            // service thread looks by itself.
            let _ = device.request_event();
            let before = self.taken;
            taken |= self.poll_ahead(device, mesh, service)? > 0;
            if self.taken - before < BATCH as u64 {
                break;
            }
        }
        Ok(taken)
    }

    /// Returns the number of operations that are held back and of completions that stay unprocessed, as it changes. It orders nothing.
    pub(super) fn waiting(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.waiting)
    }

    /// Ends the operations of a queue pair that was broken off because the device refused one. `refused` are those of the chain that the device did
    /// not take. The last of them is not reported if its caller gets the error (`returned`). Returns the number of the next
    /// operation.
    pub(super) fn refuse(
        &mut self,
        queue: &SendQueue,
        refused: Range<u64>,
        returned: bool,
        error: &FabricError,
        mesh: &Mesh,
    ) -> u64 {
        let reported = refused.start..refused.end - u64::from(returned);
        let Some(mut line) = queue.line() else {
            for sequence in reported {
                self.orphans.extend(queue.reported(sequence).map(|id| Completion {
                    id,
                    peer: queue.peer,
                    status: CompletionStatus::Failed(Box::new(error.clone())),
                }));
            }
            queue.publish(refused.start);
            return refused.start;
        };
        if returned {
            line.take_back();
        }
        let next = reported.end;
        queue.publish(next);
        for sequence in reported {
            line.failed(sequence, error.clone());
        }
        queue.fail_held(&mut line, mesh);
        queue.report_ended(&mut line, &mut self.orphans);
        next
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
        if !self.unprocessed.is_empty() {
            self.process_decided(device, mesh, service, out);
        }
        // SAFETY: the completion queue is live and `wcs` has room for `BATCH` entries.
        let n = unsafe { (device.poll_cq)(device.cq, BATCH as i32, self.wcs.as_mut_ptr()) };
        let Ok(n) = usize::try_from(n) else {
            return Err(FabricError::Os {
                what: format!("polling the completion queue of {}", device.choice),
                source: format!("ibv_poll_cq returned {n}: the device or its driver failed").into(),
            });
        };
        self.taken += n as u64;
        for at in 0..n.min(BATCH) {
            let wc = self.wcs[at];
            if wc.status != IBV_WC_SUCCESS && self.is_undecided(&wc, mesh) {
                self.unprocessed.push((wc, Std.now()));
                self.waiting.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            self.complete(&wc, device, mesh, service, out);
        }
        Ok(out.len() - before)
    }

    /// Returns true if the completion is to stay unprocessed: the peer did not acknowledge, and is not lost yet, or an earlier
    /// completion of the queue pair is unprocessed.
    #[cold]
    fn is_undecided(&self, wc: &Wc, mesh: &Mesh) -> bool {
        let index = wc.wr_id >> SEQUENCE_BITS;
        let Some(queue) = self.queue(index) else {
            return false;
        };
        // Relaxed, here and below: changed under the poller's lock.
        let earlier = queue.unprocessed.load(Ordering::Relaxed);
        let undecided = earlier || wc.status == IBV_WC_RETRY_EXC_ERR && !self.is_decided(index, mesh);
        queue.unprocessed.store(undecided, Ordering::Relaxed);
        undecided
    }

    fn queue(&self, index: u64) -> Option<&Arc<SendQueue>> {
        self.queues.get(usize::try_from(index).ok()?)?.as_ref()
    }

    /// Returns true if nothing more is to be learnt about why the queue pair at `index` failed: its peer is lost, or it was broken off.
    fn is_decided(&self, index: u64, mesh: &Mesh) -> bool {
        // Relaxed: who breaks a queue pair off holds the poller's lock or is about to post on it, and a later look finds it.
        self.queue(index)
            .is_none_or(|queue| mesh.is_gone(queue.peer) || queue.broken.load(Ordering::Relaxed))
    }

    /// Processes the completions that were left unprocessed, once their peers are lost or the patience is over.
    #[cold]
    fn process_decided(
        &mut self,
        device: &Device,
        mesh: &Mesh,
        service: &Mailbox<Task>,
        out: &mut Vec<Completion>,
    ) {
        let now = Std.now();
        let is_over = |poller: &Poller, (wc, came): &(Wc, Time)| {
            now.since(*came) >= poller.patience || poller.is_decided(wc.wr_id >> SEQUENCE_BITS, mesh)
        };
        if !self.unprocessed.iter().any(|entry| is_over(self, entry)) {
            return;
        }
        for entry in std::mem::take(&mut self.unprocessed) {
            // The first completion that is processed breaks the queue pair, so those after it are processed as well.
            if is_over(self, &entry) {
                self.waiting.fetch_sub(1, Ordering::Relaxed);
                if let Some(queue) = self.queue(entry.0.wr_id >> SEQUENCE_BITS) {
                    queue.unprocessed.store(false, Ordering::Relaxed);
                }
                self.complete(&entry.0, device, mesh, service, out);
            } else {
                self.unprocessed.push(entry);
            }
        }
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
        if queue.line.is_some() {
            let queue = Arc::clone(queue);
            return self.complete_in_line(wc, &queue, device, mesh, service, out);
        }
        let Some(ended) = queue.window.ended(wc.wr_id) else {
            tracing::error!("completion of work request {:#x} out of turn", wc.wr_id);
            return;
        };
        let (id, what) = (ended.id, ended.what);
        let status = if wc.status == IBV_WC_SUCCESS {
            CompletionStatus::Success
        } else {
            let op = Op::ALL[(what & !REPORTED) as usize];
            CompletionStatus::Failed(Box::new(queue.error_of(wc.status, wc.vendor_err, op, mesh)))
        };
        queue.window.complete(&ended);
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

    /// Ends an operation of a queue pair that has a line, and hands on what waited for it.
    fn complete_in_line(
        &mut self,
        wc: &Wc,
        queue: &Arc<SendQueue>,
        device: &Device,
        mesh: &Mesh,
        service: &Mailbox<Task>,
        out: &mut Vec<Completion>,
    ) {
        let Some(mut line) = queue.line() else { return };
        let Some((sequence, op)) = line.under_way(wc.wr_id, SEQUENCE_MASK) else {
            tracing::error!("completion of work request {:#x} out of turn", wc.wr_id);
            return;
        };
        if wc.status == IBV_WC_SUCCESS {
            line.ended(sequence);
        } else {
            line.failed(sequence, queue.error_of(wc.status, wc.vendor_err, op, mesh));
        }
        // Relaxed: what is posted on a broken queue pair is flushed.
        if !queue.broken.load(Ordering::Relaxed)
            && let Err(error) = line.hand_on()
        {
            queue.fail(&error, device);
        }
        if queue.broken.load(Ordering::Relaxed) {
            queue.fail_held(&mut line, mesh);
        }
        queue.report_ended(&mut line, out);
        drop(line);
        self.collect(queue, device, service);
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
            queue.fail(error, device);
        }
    }

    /// Returns the number of existing queue pairs, retired ones included.
    pub(super) fn queue_pairs(&self) -> usize {
        self.queues.iter().flatten().count()
    }
}
