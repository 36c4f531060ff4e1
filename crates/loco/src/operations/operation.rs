//! One-sided operations as values: what to post, and how.

use loco_fabric::{Fabric, FabricError, Local, NodeId, Posted, QueuePair, RemoteMemory, Target, Work};

use crate::fabric::AnyFabric;

/// What an operation means for fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// Completion says that the source was read.
    Put,
    /// A get or a flush: completion says that it and every earlier operation of the queue pair are done.
    Read,
    /// A read-modify-write: the same, but its own write may have to be placed as a put's.
    Atomic,
}

/// An operation to post, by [`Raw::post`](crate::raw::Raw::post).
#[derive(Debug)]
pub enum Operation<'a, F: Fabric = AnyFabric> {
    /// Local memory to the peer's.
    Put(Local<'a, F::Memory>, Target<'a, F::Remote>),
    /// These bytes, copied at the call, to the peer's memory.
    PutInline(&'a [u8], Target<'a, F::Remote>),
    /// The peer's memory to local memory.
    Get(Local<'a, F::Memory>, Target<'a, F::Remote>),
    /// Adds to the peer's word; the old value lands in the local one.
    FetchAdd(Target<'a, F::Remote>, u64, Local<'a, F::Memory>),
    /// Stores `.2` in the peer's word if it holds `.1`; the old value lands in the local one.
    CompareSwap(Target<'a, F::Remote>, u64, u64, Local<'a, F::Memory>),
    /// Once complete, every earlier put of this thread to the peer is placed.
    Flush(NodeId),
}

impl<F: Fabric> Operation<'_, F> {
    /// The peer.
    #[inline]
    pub fn peer(&self) -> NodeId {
        match self {
            Operation::Put(_, target)
            | Operation::PutInline(_, target)
            | Operation::Get(_, target)
            | Operation::FetchAdd(target, ..)
            | Operation::CompareSwap(target, ..) => target.remote.node(),
            Operation::Flush(peer) => *peer,
        }
    }

    #[inline]
    pub(crate) fn kind(&self) -> OperationKind {
        match self {
            Operation::Put(..) | Operation::PutInline(..) => OperationKind::Put,
            Operation::FetchAdd(..) | Operation::CompareSwap(..) => OperationKind::Atomic,
            Operation::Get(..) | Operation::Flush(..) => OperationKind::Read,
        }
    }

    #[inline]
    pub(crate) fn post(&self, queue: &mut F::QueuePair, work: Work) -> Result<Posted, FabricError> {
        match self {
            Operation::Put(src, dst) => queue.put(again(src), target(dst), work),
            Operation::PutInline(data, dst) => queue.put_inline(data, target(dst), work),
            Operation::Get(dst, src) => queue.get(again(dst), target(src), work),
            Operation::FetchAdd(dst, add, result) => queue.fetch_add(target(dst), *add, again(result), work),
            Operation::CompareSwap(dst, expected, new, result) => {
                queue.compare_swap(target(dst), *expected, *new, again(result), work)
            }
            Operation::Flush(_) => queue.flush(work),
        }
    }
}

/// How an operation is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Start only when earlier gets and atomics to that peer have completed (remote fence).
    pub fenced: bool,
    /// More follows at once to the same peer.
    pub more: bool,
}

#[inline]
fn again<'a, M>(local: &Local<'a, M>) -> Local<'a, M> {
    Local { ..*local }
}

/// Copies a target, which the fabric contract does not make `Clone`.
#[inline]
pub(crate) fn target<'a, R>(target: &Target<'a, R>) -> Target<'a, R> {
    Target { ..*target }
}
