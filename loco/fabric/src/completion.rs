//! The end of a posted operation, as [`Fabric::poll`](crate::Fabric::poll) reports it. The contract, `contract.rs`,
//! says what it promises.

use crate::{FabricError, NodeId, WorkRequestId};

/// The end of a posted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The id of the operation.
    pub id: WorkRequestId,
    /// The operation's peer.
    pub peer: NodeId,
    /// The status of the operation.
    pub status: CompletionStatus,
}

/// The status of an operation that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionStatus {
    /// The operation has completed; the contract says what that promises.
    Success,
    /// The operation failed, with this cause. Its effect at the peer is unknown.
    Failed(Box<FabricError>),
}
