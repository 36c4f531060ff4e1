//! One-sided operations as values: the operation to post, and its options.

use loco_fabric::{
    Fabric, FabricError, Local, NodeId, Posted, QueuePair, RemoteMemory, Target, WordOp, Work,
};

use crate::fabric::AnyFabric;

/// The meaning of an operation for fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    /// A put. Its completion says that the source was read.
    Put,
    /// A get. Its completion says that it is done, and that earlier gets and atomics are.
    Read,
    /// A flush. Its completion says that everything earlier is done and placed.
    Flush,
    /// A read-modify-write. It is like a read, but its own write may have to be placed as a put's.
    Atomic,
}

/// An operation to post, by [`Raw::post`](crate::raw::Raw::post).
#[derive(Debug)]
pub enum Operation<'a, F: Fabric = AnyFabric> {
    /// Copies local memory to the peer's.
    Put(Local<'a, F::Memory>, Target<'a, F::Remote>),
    /// Copies these bytes to the peer's memory. They are read within the call.
    PutInline(&'a [u8], Target<'a, F::Remote>),
    /// Copies the peer's memory to local memory.
    Get(Local<'a, F::Memory>, Target<'a, F::Remote>),
    /// Adds to the peer's word. The old value is stored in the local one.
    FetchAdd(Target<'a, F::Remote>, u64, Local<'a, F::Memory>),
    /// Stores `.2` in the peer's word if it holds `.1`. The old value is stored in the local one.
    CompareSwap(Target<'a, F::Remote>, u64, u64, Local<'a, F::Memory>),
    /// Places every earlier put and atomic of this thread to the peer. They are placed when the flush is complete.
    Flush(NodeId),
}

impl<'a, F: Fabric> Operation<'a, F> {
    /// Returns the operation `op` on the peer's word. The old value is stored in the local one.
    #[inline(always)] // The caller's compiler knows which operation it is.
    pub(crate) fn on_word(word: Target<'a, F::Remote>, op: WordOp, result: Local<'a, F::Memory>) -> Self {
        match op {
            WordOp::Get => Operation::Get(result, word),
            WordOp::FetchAdd(add) => Operation::FetchAdd(word, add, result),
            WordOp::CompareSwap { expected, new } => Operation::CompareSwap(word, expected, new, result),
        }
    }
}

impl<F: Fabric> Operation<'_, F> {
    /// Returns the peer.
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
            Operation::Get(..) => OperationKind::Read,
            Operation::Flush(..) => OperationKind::Flush,
        }
    }

    /// Returns the name that timelines show.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            Operation::Put(..) | Operation::PutInline(..) => "put",
            Operation::Get(..) => "get",
            Operation::FetchAdd(..) => "fetch-add",
            Operation::CompareSwap(..) => "compare-swap",
            Operation::Flush(..) => "flush",
        }
    }

    /// Returns the number of bytes that the operation moves.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Operation::Put(local, _) | Operation::Get(local, _) => local.len,
            Operation::PutInline(data, _) => data.len(),
            Operation::FetchAdd(..) | Operation::CompareSwap(..) => size_of::<u64>(),
            Operation::Flush(..) => 0,
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

/// The options with which an operation is posted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    /// Starts the operation only when the results of this thread's earlier gets and atomics to that peer have come back to
    /// this node (remote fence). They may not be in local memory yet.
    pub fenced: bool,
    /// Lets the operation take effect at the peer only after this thread's earlier puts and atomics to that peer are placed
    /// there (strong order).
    pub strong: bool,
    /// Says that more operations to the same peer follow at once, so that the NIC need not be notified of this one alone.
    pub more: bool,
    /// Says that nobody waits for the operation soon, so that it may share a message with what this node sends next
    /// ([`Work::lazy`](loco_fabric::Work::lazy)).
    pub lazy: bool,
}

impl Flags {
    /// The flags of an operation that is followed at once by another to the same peer.
    pub(crate) const MORE: Flags = Flags {
        fenced: false,
        strong: false,
        more: true,
        lazy: false,
    };

    /// The flags of an operation in strong order.
    pub const STRONG: Flags = Flags {
        fenced: false,
        strong: true,
        more: false,
        lazy: false,
    };
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
