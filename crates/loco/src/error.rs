//! The error of this crate: each variant names the thing and the remedy.

use std::time::Duration;

use loco_fabric::{FabricError, NodeId};

/// Result with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What can go wrong in the manager, a channel or an object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The fabric refused or failed: a lost peer, a deadline, an access out of range.
    #[error(transparent)]
    Fabric(#[from] FabricError),
    /// Two endpoints of one name do not fit together. Reported on both nodes.
    #[error(
        "channel `{channel}` differs between nodes in {what}: {here} has {ours}, {peer} has {theirs}; \
         make both endpoints with the same type, sizes and participants"
    )]
    Mismatch {
        /// Full name of the channel.
        channel: String,
        /// What differs: type, participants, a region.
        what: String,
        /// The reporting node.
        here: NodeId,
        /// What this node has.
        ours: String,
        /// The other node.
        peer: NodeId,
        /// What the other node has.
        theirs: String,
    },
    /// A peer's endpoint could not connect to ours.
    #[error("{peer} could not connect its endpoint of channel `{channel}`: {reason}")]
    Refused {
        /// Full name of the channel.
        channel: String,
        /// The peer.
        peer: NodeId,
        /// Its error.
        reason: String,
    },
    /// Peers did not make their endpoint in time.
    #[error(
        "channel `{channel}` is not ready after {after:?}: no matching endpoint yet at {missing:?}; \
         every participant must make a channel of that name"
    )]
    NotReady {
        /// Full name of the channel.
        channel: String,
        /// Participants that have not connected.
        missing: Vec<NodeId>,
        /// How long was waited.
        after: Duration,
    },
    /// An object was used before its channel was connected to that peer.
    #[error("region `{region}` is not connected to {peer} yet: call `wait_for_ready` first")]
    NotConnected {
        /// Full name of the region.
        region: String,
        /// The peer.
        peer: NodeId,
    },
    /// A region name that the channel does not declare, or that is not offered here.
    #[error("channel `{channel}` declares no region `{region}` here")]
    UnknownRegion {
        /// Full name of the channel.
        channel: String,
        /// The region asked for.
        region: String,
    },
    /// This node already has a channel of that name.
    #[error("{node} already has a channel `{channel}`: drop it first, or take another name")]
    DuplicateChannel {
        /// Full name of the channel.
        channel: String,
        /// This node.
        node: NodeId,
    },
    /// A name that would be ambiguous.
    #[error("`{name}` cannot name a channel or region: it is empty or contains `/` or `.`")]
    BadName {
        /// The name.
        name: String,
    },
    /// A node that does not take part in the channel.
    #[error("{node} is not a participant of channel `{channel}`")]
    NotParticipant {
        /// Full name of the channel.
        channel: String,
        /// The node.
        node: NodeId,
    },
    /// An operation that only another node may do.
    #[error("only {owner} may {what} of `{channel}`, not {node}")]
    NotOwner {
        /// What was attempted.
        what: &'static str,
        /// Full name of the channel.
        channel: String,
        /// Who may.
        owner: NodeId,
        /// Who tried.
        node: NodeId,
    },
    /// A value or message that does not fit.
    #[error("{what}: {len} bytes do not fit into {max} bytes")]
    TooLarge {
        /// What was to be stored.
        what: String,
        /// Its size in bytes.
        len: usize,
        /// The limit in bytes.
        max: usize,
    },
    /// A value stayed torn for as long as the reader was willing to retry.
    #[error("`{channel}` stayed torn until the deadline: its writer is stuck or died while writing")]
    Torn {
        /// Full name of the channel.
        channel: String,
    },
    /// The node that held a lock is lost, and the lock's policy is to fail.
    #[error(
        "{node} was lost while it held lock `{lock}`: what the lock protects may be half done; \
         make the lock with `OnLoss::Recover` to be given it all the same"
    )]
    HolderLost {
        /// Full name of the lock.
        lock: String,
        /// The holder.
        node: NodeId,
    },
    /// More threads than work request ids can name.
    #[error("this node has no thread index left ({max} in use): drop `Thread`s that are done")]
    TooManyThreads {
        /// The limit.
        max: usize,
    },
    /// A parameter outside its range.
    #[error("{0}")]
    Config(String),
    /// The manager is shut down.
    #[error("the manager of this node is shut down")]
    Closed,
}

impl Error {
    /// The node whose loss this error reports, if that is what it reports.
    pub fn lost_peer(&self) -> Option<NodeId> {
        match self {
            Error::Fabric(FabricError::PeerLost(node)) => Some(*node),
            _ => None,
        }
    }

    /// True if a deadline passed.
    pub fn is_timeout(&self) -> bool {
        matches!(
            self,
            Error::Fabric(FabricError::Timeout { .. }) | Error::NotReady { .. }
        )
    }
}
