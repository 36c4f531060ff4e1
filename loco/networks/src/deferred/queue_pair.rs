//! A queue pair: it checks an operation and hands it to the card, or to the other fabric where there is no card.

use std::sync::Arc;

use loco_fabric::{
    Control, Fabric, FabricError, Local, Memory, NodeId, Posted, QueuePair, RemoteMemory, Result, Target,
    WordOp, Work,
};

use super::card::{Card, QueueId};
use super::operation::{OperationKind, PostedOperation};
use super::place::{Place, Placed};

/// A queue pair of [`Deferred`](super::Deferred).
pub struct DeferredQueuePair<F: Fabric>(Way<F>);

/// The way of operations.
enum Way<F: Fabric> {
    /// They are the other fabric's.
    Straight(F::QueuePair),
    /// The card has a queue for them.
    Card(Posting<F>),
}

/// A queue of the card.
struct Posting<F: Fabric> {
    fabric: F,
    card: Arc<Card<F>>,
    queue: QueueId,
    peer: NodeId,
    inline_bytes_max: usize,
}

impl<F: Fabric> DeferredQueuePair<F> {
    /// Returns a queue pair that is the other fabric's.
    pub(super) fn straight(qp: F::QueuePair) -> DeferredQueuePair<F> {
        DeferredQueuePair(Way::Straight(qp))
    }

    /// Returns a queue pair whose operations the card executes by `qp`.
    pub(super) fn on(
        card: &Arc<Card<F>>,
        fabric: F,
        qp: F::QueuePair,
        inline_bytes_max: usize,
    ) -> DeferredQueuePair<F> {
        let peer = qp.peer();
        DeferredQueuePair(Way::Card(Posting {
            fabric,
            card: Arc::clone(card),
            queue: card.open(qp),
            peer,
            inline_bytes_max,
        }))
    }
}

impl<F: Fabric> Posting<F> {
    /// Fails if `remote` is not the peer's memory, or the peer is known to be gone.
    fn check(&self, remote: &Placed<F::Remote>) -> Result<()> {
        if remote.node() != self.peer {
            return Err(FabricError::Config(format!(
                "memory of {} on a queue pair towards {}: each peer needs its own queue pair",
                remote.node(),
                self.peer
            )));
        }
        self.fabric.control().check_alive(self.peer)
    }

    fn post(&self, operation: PostedOperation<F>) -> Result<Posted> {
        self.card.post(self.queue, operation)?;
        Ok(Posted::Pending)
    }

    /// Returns the local side of an operation and its place.
    fn near(&self, local: &Local<'_, F::Memory>) -> Result<(F::Memory, Place)> {
        let memory = local.memory.slice(local.offset, local.len)?;
        let place = Place::of(&self.fabric.export(&memory));
        Ok((memory, place))
    }

    /// Posts a put or get.
    fn transfer(
        &self,
        kind: OperationKind,
        local: &Local<'_, F::Memory>,
        target: &Target<'_, Placed<F::Remote>>,
        work: Work,
    ) -> Result<Posted> {
        let (memory, near) = self.near(local)?;
        let Placed { remote, place } = target.remote.slice(target.offset, local.len)?;
        self.check(target.remote)?;
        let operation = PostedOperation::new(kind, work);
        self.post(operation.remote(remote, place, local.len).local(memory, near))
    }

    /// Posts a read-modify-write.
    fn atomic(
        &self,
        kind: OperationKind,
        target: &Target<'_, Placed<F::Remote>>,
        result: &Local<'_, F::Memory>,
        work: Work,
    ) -> Result<Posted> {
        let Placed { remote, place } = target.remote.slice(target.offset, 8)?;
        if place.phase() != 0 {
            return Err(FabricError::Misaligned {
                offset: target.offset,
                align: 8,
            });
        }
        result.memory.cell::<u64>(result.offset)?;
        if result.len != 8 {
            return Err(FabricError::Unsupported(format!(
                "a result of {} bytes: that of an atomic operation has 8",
                result.len
            )));
        }
        let (memory, near) = self.near(result)?;
        self.check(target.remote)?;
        let operation = PostedOperation::new(kind, work);
        self.post(operation.remote(remote, place, 8).local(memory, near))
    }
}

/// Returns the other fabric's form of a target.
fn inner<'a, R>(target: &Target<'a, Placed<R>>) -> Target<'a, R> {
    Target {
        remote: &target.remote.remote,
        offset: target.offset,
    }
}

impl<F: Fabric> Drop for Posting<F> {
    fn drop(&mut self) {
        self.card.close(self.queue);
    }
}

impl<F: Fabric> QueuePair for DeferredQueuePair<F> {
    type Memory = F::Memory;
    type Remote = Placed<F::Remote>;

    fn peer(&self) -> NodeId {
        match &self.0 {
            Way::Straight(qp) => qp.peer(),
            Way::Card(posting) => posting.peer,
        }
    }

    fn put(
        &mut self,
        src: Local<'_, F::Memory>,
        dst: Target<'_, Placed<F::Remote>>,
        work: Work,
    ) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.put(src, inner(&dst), work),
            Way::Card(posting) => posting.transfer(OperationKind::Put, &src, &dst, work),
        }
    }

    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Placed<F::Remote>>, work: Work) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.put_inline(data, inner(&dst), work),
            Way::Card(posting) => {
                if data.len() > posting.inline_bytes_max {
                    return Err(FabricError::Unsupported(format!(
                        "{} bytes inline: at most {} go, put the rest from registered memory",
                        data.len(),
                        posting.inline_bytes_max
                    )));
                }
                let Placed { remote, place } = dst.remote.slice(dst.offset, data.len())?;
                posting.check(dst.remote)?;
                let operation = PostedOperation::new(OperationKind::Put, work);
                posting.post(operation.remote(remote, place, data.len()).inline(data))
            }
        }
    }

    fn get(
        &mut self,
        dst: Local<'_, F::Memory>,
        src: Target<'_, Placed<F::Remote>>,
        work: Work,
    ) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.get(dst, inner(&src), work),
            Way::Card(posting) => posting.transfer(OperationKind::Get, &dst, &src, work),
        }
    }

    fn fetch_add(
        &mut self,
        target: Target<'_, Placed<F::Remote>>,
        add: u64,
        result: Local<'_, F::Memory>,
        work: Work,
    ) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.fetch_add(inner(&target), add, result, work),
            Way::Card(posting) => posting.atomic(OperationKind::FetchAdd { add }, &target, &result, work),
        }
    }

    fn compare_swap(
        &mut self,
        target: Target<'_, Placed<F::Remote>>,
        expected: u64,
        new: u64,
        result: Local<'_, F::Memory>,
        work: Work,
    ) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.compare_swap(inner(&target), expected, new, result, work),
            Way::Card(posting) => {
                let kind = OperationKind::CompareSwap { expected, new };
                posting.atomic(kind, &target, &result, work)
            }
        }
    }

    fn flush(&mut self, work: Work) -> Result<Posted> {
        match &mut self.0 {
            Way::Straight(qp) => qp.flush(work),
            Way::Card(posting) => {
                posting.fabric.control().check_alive(posting.peer)?;
                posting.post(PostedOperation::new(OperationKind::Flush, work))
            }
        }
    }

    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &Placed<F::Remote>,
        strong_last: bool,
    ) -> Result<()> {
        if let Way::Straight(qp) = &mut self.0 {
            return qp.put_inline_each(pieces, &remote.remote, strong_last);
        }
        let last = pieces.len().wrapping_sub(1);
        let pieces = pieces.iter().enumerate();
        for (index, &(offset, data)) in pieces.filter(|(_, (_, data))| !data.is_empty()) {
            let work = Work {
                strong: strong_last && index == last,
                ..Work::unsignaled()
            };
            let _: Posted = self.put_inline(data, Target { remote, offset }, work)?;
        }
        Ok(())
    }

    fn word_at_once(&mut self, target: Target<'_, Placed<F::Remote>>, op: WordOp) -> Result<Option<u64>> {
        match &mut self.0 {
            Way::Straight(qp) => qp.word_at_once(inner(&target), op),
            Way::Card(_) => Ok(None),
        }
    }

    fn read_at_once(&mut self, src: Target<'_, Placed<F::Remote>>, out: &mut [u8]) -> Result<()> {
        match &mut self.0 {
            Way::Straight(qp) => qp.read_at_once(inner(&src), out),
            Way::Card(_) => Err(FabricError::Unsupported(
                "reads at once: the deferred NIC reads later".into(),
            )),
        }
    }
}
