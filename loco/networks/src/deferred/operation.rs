//! Posted operations.

use loco_fabric::{Fabric, WordOp, Work};

use super::place::Place;

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OperationKind {
    Put,
    Get,
    FetchAdd { add: u64 },
    CompareSwap { expected: u64, new: u64 },
    Flush,
}

impl OperationKind {
    /// Returns the value that a read-modify-write writes when it has read `old`, or `None` if it writes none.
    pub(super) fn computed(self, old: u64) -> Option<u64> {
        match self {
            OperationKind::FetchAdd { add } => Some(old.wrapping_add(add)),
            OperationKind::CompareSwap { expected, new } => (old == expected).then_some(new),
            OperationKind::Put | OperationKind::Get | OperationKind::Flush => None,
        }
    }

    /// Returns the operation on a word that a read-modify-write is.
    pub(super) fn word_op(self) -> WordOp {
        match self {
            OperationKind::FetchAdd { add } => WordOp::FetchAdd(add),
            OperationKind::CompareSwap { expected, new } => WordOp::CompareSwap { expected, new },
            OperationKind::Put | OperationKind::Get | OperationKind::Flush => WordOp::Get,
        }
    }
}

/// A posted operation.
pub(super) struct PostedOperation<F: Fabric> {
    pub(super) kind: OperationKind,
    pub(super) work: Work,
    /// The bytes at the peer, and their place.
    pub(super) remote: Option<(F::Remote, Place)>,
    /// The bytes of this node, and their place.
    pub(super) local: Option<(F::Memory, Place)>,
    /// The data that the NIC holds between its reads and its writes.
    pub(super) buffer: Vec<u8>,
    /// Set if the data are in `buffer` already.
    pub(super) inline: bool,
}

impl<F: Fabric> PostedOperation<F> {
    pub(super) fn new(kind: OperationKind, work: Work) -> PostedOperation<F> {
        PostedOperation {
            kind,
            work,
            remote: None,
            local: None,
            buffer: Vec::new(),
            inline: false,
        }
    }

    pub(super) fn remote(mut self, remote: F::Remote, place: Place, len: usize) -> PostedOperation<F> {
        self.remote = Some((remote, place));
        self.buffer.resize(len, 0);
        self
    }

    pub(super) fn local(mut self, memory: F::Memory, place: Place) -> PostedOperation<F> {
        self.local = Some((memory, place));
        self
    }

    pub(super) fn inline(mut self, data: &[u8]) -> PostedOperation<F> {
        data.clone_into(&mut self.buffer);
        self.inline = true;
        self
    }
}
