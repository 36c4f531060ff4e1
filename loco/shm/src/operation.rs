//! Posted operations, which the queue pair executes at once or hands to a deferred NIC.

use loco_fabric::{FabricError, Local, Result, Target, Work};

use crate::memory::{ShmMemory, ShmRemote};

/// The kind of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OperationKind {
    Put,
    Get,
    FetchAdd { add: u64 },
    CompareSwap { expected: u64, new: u64 },
    Flush,
}

impl OperationKind {
    /// Returns the value that a read-modify-write writes when it has read `old`, or `None` if it writes none.
    #[cfg(feature = "deferred-nic")]
    pub(crate) fn computed(self, old: u64) -> Option<u64> {
        match self {
            OperationKind::FetchAdd { add } => Some(old.wrapping_add(add)),
            OperationKind::CompareSwap { expected, new } => (old == expected).then_some(new),
            OperationKind::Put | OperationKind::Get | OperationKind::Flush => None,
        }
    }

    /// Executes a read-modify-write. Returns the old value.
    #[inline]
    pub(crate) fn apply(self, remote: &ShmRemote, offset: usize) -> Result<u64> {
        match self {
            OperationKind::FetchAdd { add } => remote.span().fetch_add(offset, add),
            OperationKind::CompareSwap { expected, new } => remote.span().compare_swap(offset, expected, new),
            OperationKind::Put | OperationKind::Get | OperationKind::Flush => {
                Err(FabricError::Unsupported("no read-modify-write".into()))
            }
        }
    }
}

/// A posted operation.
#[cfg_attr(not(feature = "deferred-nic"), allow(dead_code))] // Read by the deferred NIC alone.
#[derive(Debug)]
pub(crate) struct PostedOperation {
    pub(crate) kind: OperationKind,
    pub(crate) work: Work,
    pub(crate) remote: Option<(ShmRemote, usize)>,
    pub(crate) local: Option<(ShmMemory, usize)>,
    /// The data that the NIC holds between its reads and its writes.
    pub(crate) buffer: Vec<u8>,
    /// Set if the data are in `buffer` already.
    pub(crate) inline: bool,
}

impl PostedOperation {
    pub(crate) fn new(kind: OperationKind, work: Work) -> PostedOperation {
        PostedOperation {
            kind,
            work,
            remote: None,
            local: None,
            buffer: Vec::new(),
            inline: false,
        }
    }

    pub(crate) fn remote(mut self, target: Target<'_, ShmRemote>, len: usize) -> PostedOperation {
        self.remote = Some((target.remote.clone(), target.offset));
        self.buffer.resize(len, 0);
        self
    }

    pub(crate) fn local(mut self, local: Local<'_, ShmMemory>) -> PostedOperation {
        self.local = Some((local.memory.clone(), local.offset));
        self
    }

    pub(crate) fn inline(mut self, data: &[u8]) -> PostedOperation {
        data.clone_into(&mut self.buffer);
        self.inline = true;
        self
    }
}
