//! Posts operations. Posting shares only the window with other threads (`send_queue`), and where the device orders, it allocates
//! nothing. Where order is bought, an operation that asks for it may be held back (`line`).

use std::ops::Range;
use std::ptr;
use std::sync::Arc;

use super::chain::{CHAIN_MAX, Chain};
use super::ffi::types::*;
use super::line::{Asked, refused};
use super::memory::{VerbsMemory, VerbsRemote};
use super::node::Node;
use super::request::{Flush, Request};
use super::send_queue::SendQueue;
use super::status::Op;
use loco_fabric::{
    Atomicity, Control, FabricError, Local, NodeId, Posted, QueuePair, Result, Target, Tier, Work,
};

/// A thread's reliable connection to a peer.
pub struct VerbsQueuePair {
    node: Arc<Node>,
    queue: Arc<SendQueue>,
    qp: *mut Qp,
    peer: NodeId,
    /// The number of work requests handed out, including those still in `chain`.
    posted: u64,
    /// The last known number of completed work requests.
    completed: u64,
    /// The number of operations that may be under way. It is one less than the window's slots, see `drop`.
    capacity: u64,
    /// The number of work requests since the last signaled one.
    unsignaled: u64,
    /// The number of work requests without a completion that one with a completion may follow.
    unsignaled_max: u64,
    /// Whether the device does not order by itself what strong operations and flushes ask for: the queue has a line.
    buys: bool,
    chain: Chain,
    flush: Flush,
    /// The number of departures known when the peer was last seen alive.
    departures_seen: u64,
}

// SAFETY: used by one thread at a time (`&mut self`); the pointer is to the queue pair, which `queue` keeps alive and
// which verbs allow any thread to use; those within the chain are made anew by `Chain::link` before they are used.
unsafe impl Send for VerbsQueuePair {}

impl VerbsQueuePair {
    pub(super) fn new(node: Arc<Node>, queue: Arc<SendQueue>, flush: Flush) -> VerbsQueuePair {
        let depth = queue.depth();
        let capacity = depth as u64 - 1;
        let buys = queue.line().is_some();
        VerbsQueuePair {
            qp: queue.connection.qp,
            peer: queue.peer,
            posted: 0,
            completed: 0,
            capacity,
            unsignaled: 0,
            // At most a quarter of the window waits for a completion that nobody asked for. A strong operation may have to
            // wait for each write, so where order is bought, each has a completion.
            unsignaled_max: if buys { 0 } else { capacity / 4 },
            buys,
            chain: Chain::new(CHAIN_MAX.min(depth), node.caps.inline_bytes_max),
            flush,
            departures_seen: 0,
            queue,
            node,
        }
    }

    /// Fails unless the queue pair works and has a free slot.
    #[inline]
    fn admit(&mut self) -> Result<()> {
        let departures = self.node.job.mesh.departures();
        if departures != self.departures_seen {
            self.node.job.mesh.check_alive(self.peer)?;
            self.departures_seen = departures;
        }
        self.queue.check(&self.node.job.mesh)?;
        if self.posted - self.completed < self.capacity {
            return Ok(());
        }
        self.completed = self.queue.completed();
        if self.posted - self.completed < self.capacity {
            return Ok(());
        }
        // The requests that wait for their doorbell would wait for ever if the caller now polls.
        self.ring()?;
        Err(FabricError::QueueFull(self.peer))
    }

    #[inline]
    fn check_remote(&self, target: &Target<'_, VerbsRemote>) -> Result<()> {
        if target.remote.node == self.peer {
            Ok(())
        } else {
            Err(wrong_peer(target.remote.node, self.peer))
        }
    }

    /// Lets operations go that waited for one more to share its doorbell, if that one was not `posted`.
    #[inline(always)]
    fn ring_if_refused(&mut self, posted: Result<Posted>) -> Result<Posted> {
        if posted.is_err() {
            self.ring_after_refusal();
        }
        posted
    }

    #[cold]
    fn ring_after_refusal(&mut self) {
        // Operations that the device does not take are reported as failed.
        if let Err(error) = self.ring() {
            tracing::debug!("{}: {error}", self.peer);
        }
    }

    /// Adds a request to the chain, and rings the doorbell unless more requests follow. `data` is the source
    /// of an inline put and is valid during the call only.
    #[inline]
    fn post(&mut self, request: Request, work: Work, data: Option<&[u8]>) -> Result<Posted> {
        let work = match self.buys {
            true => match self.line_up(&request, work, data)? {
                Some(work) => work,
                None => return Ok(Posted::Pending),
            },
            false if work.fenced && self.node.device.fences_stall => {
                self.drain()?;
                Work {
                    fenced: false,
                    ..work
                }
            }
            false => work,
        };
        let sequence = self.posted;
        let wr_id = self.queue.fill(sequence, work.id, request.op, work.signaled);
        let signaled = work.signaled || self.unsignaled >= self.unsignaled_max;
        self.unsignaled = if signaled { 0 } else { self.unsignaled + 1 };

        let last = !work.more || self.chain.len + 1 == self.chain.wrs.len();
        let at = self.chain.len;
        let wr = &mut self.chain.wrs[at];
        let flags =
            if signaled { IBV_SEND_SIGNALED } else { 0 } | if work.fenced { IBV_SEND_FENCE } else { 0 };
        request.write(wr, wr_id, flags);
        if let Some(sge) = request.local {
            self.chain.sges[at] = sge;
        }
        if let Some(data) = data
            && !(last && at == 0)
        {
            // The doorbell comes after this call, so the data must be kept until then.
            let start = at * self.chain.inline_bytes_max;
            self.chain.data[start..start + data.len()].copy_from_slice(data);
            self.chain.kept |= 1 << at;
        }
        self.chain.len = at + 1;
        self.posted = sequence + 1;
        if !last {
            return Ok(Posted::Pending);
        }
        self.ring_for(sequence)?;
        Ok(Posted::Pending)
    }

    /// Gives the next operation its place in the line, where order is bought. Returns how to post it, or `None` if it waits.
    fn line_up(&mut self, request: &Request, work: Work, data: Option<&[u8]>) -> Result<Option<Work>> {
        let asked = Asked {
            strong: work.strong,
            fenced: work.fenced,
        };
        if work.strong || work.fenced {
            // What it waits for must be on its way.
            self.ring()?;
        }
        let sequence = self.posted;
        let wr_id = self.queue.fill(sequence, work.id, request.op, work.signaled);
        let Some(mut line) = self.queue.line() else {
            return Ok(Some(work));
        };
        let fenced = line.tells_fence(asked);
        if line.add(asked, request, wr_id, data) {
            return Ok(Some(Work { fenced, ..work }));
        }
        self.posted = sequence + 1;
        self.queue.publish(self.posted);
        let handed_on = line.hand_on();
        drop(line);
        match handed_on {
            Ok(()) => self.node.look_after_held(),
            Err(error) => self.refuse(self.posted..self.posted, false, &error),
        }
        Ok(None)
    }

    /// Posts the chain.
    fn ring(&mut self) -> Result<()> {
        self.ring_for(u64::MAX)
    }

    /// Posts the chain. If the device refuses a part, the caller of request `current` gets the error. Earlier
    /// requests of that part are reported as failed.
    #[inline]
    fn ring_for(&mut self, current: u64) -> Result<()> {
        let len = self.chain.len;
        if len == 0 {
            return Ok(());
        }
        self.queue.publish(self.posted);
        let first = self.chain.link();
        let mut bad = ptr::null_mut();
        let line = self.queue.line(); // Under its lock nobody else posts.
        // SAFETY: the queue pair is live; the chain was just linked through live boxes; local pieces are
        // registered memory (kept by the caller until completion, as the contract says) or inline data valid now;
        // there is room, since no more requests are under way than the window has slots.
        let status = unsafe { (self.node.device.post_send)(self.qp, first, &raw mut bad) };
        drop(line);
        self.chain.len = 0;
        if status == 0 {
            return Ok(());
        }
        Err(self.chain_refused(status, bad, len, current))
    }

    /// Breaks the queue pair off because the device did not take the chain from `bad` on. Returns the error.
    #[cold]
    fn chain_refused(&mut self, status: i32, bad: *mut SendWr, len: usize, current: u64) -> FabricError {
        let taken = self
            .chain
            .wrs
            .iter()
            .take(len)
            .position(|wr| ptr::eq(wr, bad))
            .unwrap_or(0);
        let error = refused(self.peer, status);
        let first = self.posted - (len - taken) as u64;
        self.refuse(first..self.posted, current + 1 == self.posted, &error);
        error
    }

    /// Breaks the queue pair off because the device refused the operations `refused`, or one that was held back. The caller of the
    /// last of them gets the error if it is `returned`. The others are reported as failed.
    #[cold]
    fn refuse(&mut self, refused: Range<u64>, returned: bool, error: &FabricError) {
        self.queue.fail(error, &self.node.device);
        let mut poller = self.node.poller();
        self.posted = poller.refuse(&self.queue, refused, returned, error, &self.node.job.mesh);
        drop(poller);
        self.node.ring();
    }

    /// Replaces a fence on a device without reliable fences: waits until everything posted has completed.
    #[cold]
    fn drain(&mut self) -> Result<()> {
        self.ring()?;
        if self.unsignaled > 0 {
            // The last operations asked for no completion. One more operation brings it, in the slot kept for
            // `drop`.
            self.unsignaled = self.capacity;
            let _ = self.post_read(Work::unsignaled())?;
        }
        self.wait_until(self.posted)
    }

    /// Waits until the first `count` work requests have completed, of which the last asks for a completion. An error also
    /// ends the operations under way, so the wait takes at most as long as an operation, and `link_timeout` longer if the peer does not
    /// acknowledge.
    fn wait_until(&mut self, count: u64) -> Result<()> {
        self.ring()?;
        let node = Arc::clone(&self.node);
        let mut backoff = node.job.backoff();
        while self.queue.completed() < count {
            let taken = node
                .poller()
                .poll_ahead(&node.device, &node.job.mesh, node.service.mailbox())?;
            if taken > 0 {
                node.ring();
            }
            backoff.pause();
        }
        self.completed = self.queue.completed();
        self.queue.check(&node.job.mesh)
    }

    /// Reads as a flush does on a device that orders it, to try the device.
    pub(super) fn read_nothing(&mut self, work: Work) -> Result<Posted> {
        let posted = self.admit().and_then(|()| self.post_read(work));
        self.ring_if_refused(posted)
    }

    /// See [`VerbsFabric::places_words_of_a_write_in_order`](super::VerbsFabric::places_words_of_a_write_in_order).
    pub(super) fn places_words_of_a_write_in_order(&self) -> Option<bool> {
        let ask = self.node.device.api.data_in_order?;
        // SAFETY: the queue pair is live; no flags, so the answer is 1 or 0.
        Some(unsafe { ask(self.qp, IBV_WR_RDMA_WRITE, 0) } == 1)
    }

    /// Posts a read that moves no data the caller sees.
    fn post_read(&mut self, work: Work) -> Result<Posted> {
        self.post(Request::read(self.flush), work, None)
    }

    fn try_atomic(
        &mut self,
        op: Op,
        opcode: u32,
        target: &Target<'_, VerbsRemote>,
        operands: (u64, u64),
        result: &Local<'_, VerbsMemory>,
        work: Work,
    ) -> Result<Posted> {
        self.check_remote(target)?;
        if self.node.caps.atomicity == Atomicity::None {
            return Err(FabricError::Unsupported(format!(
                "{} has no remote atomics",
                self.node.device.choice
            )));
        }
        if result.len != 8 {
            return Err(FabricError::OutOfRange {
                offset: result.offset,
                len: result.len,
                region_len: 8,
            });
        }
        let request = Request {
            op,
            opcode,
            local: Some(result.memory.sge_word(result.offset)?),
            remote_addr: target.remote.word_address(target.offset)?,
            rkey: target.remote.rkey,
            operands: Some(operands),
            flags: 0,
        };
        self.admit()?;
        self.post(request, work, None)
    }

    #[inline(always)]
    fn try_put(
        &mut self,
        src: Local<'_, VerbsMemory>,
        dst: Target<'_, VerbsRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.check_remote(&dst)?;
        let request = Request {
            op: Op::Put,
            opcode: IBV_WR_RDMA_WRITE,
            local: src.memory.sge(src.offset, src.len)?,
            remote_addr: dst.remote.address(dst.offset, src.len)?,
            rkey: dst.remote.rkey,
            operands: None,
            flags: 0,
        };
        self.admit()?;
        self.post(request, work, None)
    }

    #[inline(always)]
    fn try_put_inline(&mut self, data: &[u8], dst: Target<'_, VerbsRemote>, work: Work) -> Result<Posted> {
        self.check_remote(&dst)?;
        let max = self.chain.inline_bytes_max;
        if data.len() > max {
            return Err(FabricError::Unsupported(format!(
                "an inline put of {} bytes: the device takes {max}, put longer data from registered memory",
                data.len()
            )));
        }
        let request = Request {
            op: Op::Put,
            opcode: IBV_WR_RDMA_WRITE,
            local: (!data.is_empty()).then_some(Sge {
                addr: data.as_ptr().expose_provenance() as u64,
                #[allow(clippy::cast_possible_truncation)] // At most `max`, which is 32 bits.
                length: data.len() as u32,
                lkey: 0,
            }),
            remote_addr: dst.remote.address(dst.offset, data.len())?,
            rkey: dst.remote.rkey,
            operands: None,
            flags: if data.is_empty() { 0 } else { IBV_SEND_INLINE },
        };
        self.admit()?;
        self.post(request, work, (!data.is_empty()).then_some(data))
    }

    #[inline(always)]
    fn try_get(
        &mut self,
        dst: Local<'_, VerbsMemory>,
        src: Target<'_, VerbsRemote>,
        work: Work,
    ) -> Result<Posted> {
        self.check_remote(&src)?;
        if dst.len == 0 {
            // Post it as a flush, because devices differ in their handling of a read of length zero.
            src.remote.address(src.offset, 0)?;
            dst.memory.sge(dst.offset, 0)?;
            return self.try_flush(work);
        }
        let request = Request {
            op: Op::Get,
            opcode: IBV_WR_RDMA_READ,
            local: dst.memory.sge(dst.offset, dst.len)?,
            remote_addr: src.remote.address(src.offset, dst.len)?,
            rkey: src.remote.rkey,
            operands: None,
            flags: 0,
        };
        self.admit()?;
        self.post(request, work, None)
    }

    fn try_flush(&mut self, work: Work) -> Result<Posted> {
        self.admit()?;
        if !self.buys {
            return self.post_read(work);
        }
        let request = match self.node.caps.order.tier {
            Tier::PcieRelaxed => Request::barrier(self.flush),
            _ => Request::read(self.flush),
        };
        self.post(request, work.strong(), None)
    }
}

#[cold]
fn wrong_peer(memory: NodeId, peer: NodeId) -> FabricError {
    FabricError::Config(format!("memory of {memory} used on a queue pair towards {peer}"))
}

impl QueuePair for VerbsQueuePair {
    type Memory = VerbsMemory;
    type Remote = VerbsRemote;

    fn peer(&self) -> NodeId {
        self.peer
    }

    #[inline]
    fn put(
        &mut self,
        src: Local<'_, VerbsMemory>,
        dst: Target<'_, VerbsRemote>,
        work: Work,
    ) -> Result<Posted> {
        let posted = self.try_put(src, dst, work);
        self.ring_if_refused(posted)
    }

    #[inline]
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, VerbsRemote>, work: Work) -> Result<Posted> {
        let posted = self.try_put_inline(data, dst, work);
        self.ring_if_refused(posted)
    }

    #[inline]
    fn get(
        &mut self,
        dst: Local<'_, VerbsMemory>,
        src: Target<'_, VerbsRemote>,
        work: Work,
    ) -> Result<Posted> {
        let posted = self.try_get(dst, src, work);
        self.ring_if_refused(posted)
    }

    #[inline]
    fn fetch_add(
        &mut self,
        target: Target<'_, VerbsRemote>,
        add: u64,
        result: Local<'_, VerbsMemory>,
        work: Work,
    ) -> Result<Posted> {
        let posted = self.try_atomic(
            Op::FetchAdd,
            IBV_WR_ATOMIC_FETCH_AND_ADD,
            &target,
            (add, 0),
            &result,
            work,
        );
        self.ring_if_refused(posted)
    }

    #[inline]
    fn compare_swap(
        &mut self,
        target: Target<'_, VerbsRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, VerbsMemory>,
        work: Work,
    ) -> Result<Posted> {
        let posted = self.try_atomic(
            Op::CompareSwap,
            IBV_WR_ATOMIC_CMP_AND_SWP,
            &target,
            (expected, new),
            &result,
            work,
        );
        self.ring_if_refused(posted)
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        let posted = self.try_flush(work);
        self.ring_if_refused(posted)
    }
}

impl Drop for VerbsQueuePair {
    /// Lets operations under way go on. The queue pair is destroyed when they have completed, and their
    /// completions are reported.
    fn drop(&mut self) {
        let mut posted_last = self.ring();
        if posted_last.is_ok() && self.unsignaled > 0 && self.queue.check(&self.node.job.mesh).is_ok() {
            // The last operations would end without a completion. One more operation brings it, in the slot
            // kept for this.
            self.unsignaled = self.capacity; // Forces a signal.
            posted_last = self.post_read(Work::unsignaled()).map(|_| ());
        }
        if posted_last.is_err() {
            // The end cannot be learned, so bring it about.
            self.queue.break_off(&self.node.device);
        }
        self.node.retire(&self.queue);
    }
}
