//! A thread's queue pairs, and their outstanding operations, on which fences decide.

use std::cell::RefCell;
use std::sync::Arc;

use loco_fabric::{Cost, Fabric, FabricError, NodeId, Posted, QueuePair, RemoteMemory, Target, Work};

use crate::Result;
use crate::operations::completion::Window;
use crate::operations::operation::OperationKind;
use crate::operations::peers::{atomics_placed, position_of};
use crate::operations::platform::MutexOf;
use crate::operations::slots::{Status, WINDOW_SLOTS};

/// A thread's queues. On some fabrics every operation is done and placed when it is posted. There no other
/// thread ever looks at the queues, and posting takes no lock. On other fabrics, node-scope fences of other
/// threads post flushes on them.
pub(crate) enum ThreadQueues<F: Fabric> {
    Private(RefCell<Queues<F>>),
    Shared(SharedQueues<F>),
}

/// Queues that other threads may post on.
pub(crate) type SharedQueues<F> = Arc<MutexOf<F, Queues<F>>>;

/// The queue pairs of one thread, made when first used, and the numbering of its operations.
pub(crate) struct Queues<F: Fabric> {
    window: Arc<Window<F>>,
    /// The sequence number of the next operation that turns out to be pending.
    next: u64,
    /// The first operation that may not have ended: every earlier one has.
    tail: u64,
    /// The queue pairs, by position of the peer among the job's nodes.
    pairs: Vec<Option<Pair<F>>>,
}

struct Pair<F: Fabric> {
    queue: F::QueuePair,
    peer: NodeId,
    /// Set if a put, or an atomic that is like one, was posted after the last flush or the last get or atomic in strong
    /// order. It may not be placed.
    puts: bool,
    /// The last read-like operation that was pending when posted. Later ones complete later.
    read: Option<u64>,
}

/// The result of an attempt to post.
pub(crate) enum Attempt {
    /// The operation completed within the call.
    Done,
    /// The operation is under way. The number is 0 if it is untracked.
    Pending(u64),
    /// Nothing was posted. Poll, then try again.
    WindowFull,
}

/// The work that a fence still has to do for one queue pair.
pub(crate) enum Unfenced {
    /// Nothing is outstanding.
    Nothing,
    /// A read-like operation that places what came before it came last: wait for it.
    WaitFor(u64),
    /// Puts came last and are placed after a CPU fence; a read-like operation before them may be under way.
    CpuFence(Option<u64>),
    /// Puts may not be placed: post a flush and wait for it. A read-like operation before them may be under way.
    Flush(Option<u64>),
}

impl<F: Fabric> Queues<F> {
    pub(crate) fn new(window: Arc<Window<F>>, nodes: usize) -> Queues<F> {
        Queues {
            window,
            next: 1,
            tail: 1,
            pairs: (0..nodes).map(|_| None).collect(),
        }
    }

    /// Makes the queue pairs towards `peers` that are not there yet. Passes over peers that are lost.
    pub(crate) fn open_all(&mut self, fabric: &F, peers: &[NodeId]) -> Result<(), FabricError> {
        for &peer in peers {
            match pair_of(&mut self.pairs, fabric, peer) {
                Ok(_) | Err(FabricError::PeerLost(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Returns the completion window of these queues.
    pub(crate) fn window(&self) -> &Arc<Window<F>> {
        &self.window
    }

    /// Posts one operation, or returns the reason that it cannot yet. `work` has everything except the id.
    #[inline]
    pub(crate) fn post(
        &mut self,
        fabric: &F,
        peer: NodeId,
        kind: OperationKind,
        work: Work,
        mut operation: impl FnMut(&mut F::QueuePair, Work) -> Result<Posted, FabricError>,
    ) -> Result<Attempt, FabricError> {
        let work = if work.signaled {
            if self.is_full() {
                return Ok(Attempt::WindowFull);
            }
            if !fabric.caps().synchronous {
                self.window.slots().prepare(self.next);
            }
            Work {
                id: self.window.id(self.next),
                ..work
            }
        } else {
            work
        };
        let pair = pair_of(&mut self.pairs, fabric, peer)?;
        let posted = operation(&mut pair.queue, work)?;
        if posted == Posted::Done {
            // Where operations are done when they are posted, the earlier ones are placed before the next one begins.
            pair.note(fabric, kind, true, 0);
            return Ok(Attempt::Done);
        }
        let mut seq = 0;
        if work.signaled {
            seq = self.next;
            self.next += 1;
        }
        let in_order = work.strong || fabric.caps().order.strong == Cost::Free;
        pair.note(fabric, kind, in_order, seq);
        Ok(Attempt::Pending(seq))
    }

    /// Executes an operation on a word within the call, if the queue pair can. Returns the old value of the word, or
    /// `None` if the queue pair cannot.
    #[inline(always)] // a few instructions, once it is known what is done
    pub(crate) fn at_once(
        &mut self,
        fabric: &F,
        peer: NodeId,
        kind: OperationKind,
        operation: impl FnOnce(&mut F::QueuePair) -> Result<Option<u64>, FabricError>,
    ) -> Result<Option<u64>, FabricError> {
        let pair = pair_of(&mut self.pairs, fabric, peer)?;
        let done = operation(&mut pair.queue)?;
        if done.is_some() {
            pair.note(fabric, kind, true, 0);
        }
        Ok(done)
    }

    /// Reads bytes where a get is done when it is posted.
    #[inline(always)] // a few instructions, once it is known what is read
    pub(crate) fn read_at_once(
        &mut self,
        fabric: &F,
        src: Target<'_, F::Remote>,
        out: &mut [u8],
    ) -> Result<(), FabricError> {
        let pair = pair_of(&mut self.pairs, fabric, src.remote.node())?;
        pair.queue.read_at_once(src, out)
    }

    /// Puts bytes where a put is done when it is posted.
    #[inline(always)] // a few instructions, once it is known what is done
    pub(crate) fn put_at_once(
        &mut self,
        fabric: &F,
        data: &[u8],
        dst: Target<'_, F::Remote>,
    ) -> Result<(), FabricError> {
        let pair = pair_of(&mut self.pairs, fabric, dst.remote.node())?;
        let _: Posted = pair.queue.put_inline(data, dst, Work::unsignaled())?;
        pair.note(fabric, OperationKind::Put, true, 0);
        Ok(())
    }

    /// Puts pieces of bytes in `remote`, each at its offset, where a put is done when it is posted. `strong_last` is that of
    /// [`put_inline_each`](QueuePair::put_inline_each).
    #[inline(always)]
    pub(crate) fn put_each_at_once(
        &mut self,
        fabric: &F,
        pieces: &[(usize, &[u8])],
        remote: &F::Remote,
        strong_last: bool,
    ) -> Result<(), FabricError> {
        let pair = pair_of(&mut self.pairs, fabric, remote.node())?;
        // Before the first, as a later one may fail.
        pair.note(fabric, OperationKind::Put, true, 0);
        pair.queue.put_inline_each(pieces, remote, strong_last)
    }

    /// Returns the work of a fence towards `position`.
    #[inline]
    pub(crate) fn unfenced(&mut self, position: usize, placed_on_post: bool) -> Unfenced {
        let Some(pair) = &mut self.pairs[position] else {
            return Unfenced::Nothing;
        };
        if let Some(seq) = pair.read {
            match self.window.slots().status(seq) {
                Status::Pending => {}
                Status::Done => pair.read = None,
                // This fence reports the failure, and no later one does.
                Status::Failed => {
                    pair.read = None;
                    return Unfenced::WaitFor(seq);
                }
            }
        }
        match (pair.puts, pair.read) {
            (false, None) => Unfenced::Nothing,
            (false, Some(seq)) => Unfenced::WaitFor(seq),
            (true, read) if placed_on_post => Unfenced::CpuFence(read),
            (true, read) => Unfenced::Flush(read),
        }
    }

    /// Leaves the failure of operation `seq` towards `position` for the next fence, unless a later operation is to be waited for.
    pub(crate) fn leave_failure(&mut self, position: usize, seq: u64) {
        if let Some(pair) = &mut self.pairs[position] {
            pair.read.get_or_insert(seq);
        }
    }

    /// Notes that everything posted to `position` so far is done, or reported as failed.
    #[inline]
    pub(crate) fn mark_fenced(&mut self, position: usize) {
        if let Some(pair) = &mut self.pairs[position] {
            pair.puts = false;
            pair.read = None;
        }
    }

    /// Returns true if the window has no free slot.
    fn is_full(&mut self) -> bool {
        if self.next - self.tail < WINDOW_SLOTS {
            return false;
        }
        while self.tail < self.next && self.window.slots().status(self.tail) != Status::Pending {
            self.tail += 1;
        }
        self.next - self.tail >= WINDOW_SLOTS
    }
}

/// Returns the queue pair towards `peer`, made when first used.
#[inline(always)]
fn pair_of<'a, F: Fabric>(
    pairs: &'a mut [Option<Pair<F>>],
    fabric: &F,
    peer: NodeId,
) -> Result<&'a mut Pair<F>, FabricError> {
    let guess = usize::from(peer.0); // ids are usually 0, 1, 2, ...
    match pairs.get(guess) {
        Some(Some(pair)) if pair.peer == peer => {}
        _ => return find_pair(pairs, fabric, peer),
    }
    match &mut pairs[guess] {
        Some(pair) => Ok(pair),
        None => Err(FabricError::UnknownPeer(peer)), // not reached: seen just now
    }
}

#[cold]
fn find_pair<'a, F: Fabric>(
    pairs: &'a mut [Option<Pair<F>>],
    fabric: &F,
    peer: NodeId,
) -> Result<&'a mut Pair<F>, FabricError> {
    let position = position_of(fabric.nodes(), peer)?;
    match &mut pairs[position] {
        Some(pair) => Ok(pair),
        empty => open(empty, fabric, peer),
    }
}

impl<F: Fabric> Pair<F> {
    /// Records the operation that was posted last. `in_order` says that it takes effect after the earlier writes are placed.
    /// `seq` is 0 if it has ended or is untracked.
    #[inline]
    fn note(&mut self, fabric: &F, kind: OperationKind, in_order: bool, seq: u64) {
        match kind {
            OperationKind::Put => self.puts = true,
            OperationKind::Read | OperationKind::Flush | OperationKind::Atomic => {
                // Operations of one pair end in order, so the end of this one implies that every earlier one has ended. A
                // fence therefore waits for this one alone, or for nothing if it has ended already. Its end does not
                // imply that earlier puts are placed: `puts` records whether one may not be.
                let unplaced = self.puts && !in_order && kind != OperationKind::Flush;
                self.puts = unplaced || (kind == OperationKind::Atomic && !atomics_placed(fabric));
                self.read = (seq != 0).then_some(seq);
            }
        }
    }
}

#[cold]
fn open<'a, F: Fabric>(
    place: &'a mut Option<Pair<F>>,
    fabric: &F,
    peer: NodeId,
) -> Result<&'a mut Pair<F>, FabricError> {
    Ok(place.insert(Pair {
        queue: fabric.queue_pair(peer)?,
        peer,
        puts: false,
        read: None,
    }))
}
