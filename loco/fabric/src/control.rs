//! The control plane: reliable, ordered set-up messages between nodes, and the state of each peer.
//!
//! TCP between processes, queues within a process. Objects use it for set-up only; their data moves by one-sided
//! operations.

use crate::{NodeId, Result, Time};

/// The known state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// The peer is connected.
    Alive,
    /// The peer said goodbye before closing.
    Left,
    /// The survivors agreed that the peer is lost: its process died, its connection broke, or it was silent
    /// for too long. It may still run, but its access to the survivors' memory is revoked, see
    /// [`Membership`](crate::Membership).
    Lost,
}

/// A node's end of the control plane.
pub trait Control: Send + Sync + 'static {
    /// Sends `payload` to `to` (another node, or this one). Messages from one node to another arrive in order.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::FabricError::PeerLost) or
    /// [`UnknownPeer`](crate::FabricError::UnknownPeer).
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<()>;

    /// Returns the next message, waiting until `deadline` at the latest. Returns `Ok(None)` when the deadline
    /// passed or [`close`](Control::close) was called. Only one thread may receive.
    ///
    /// # Errors
    /// Fails only when the control plane as a whole is broken.
    fn receive(&self, deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>>;

    /// Returns the state of a peer. This node itself is always [`PeerState::Alive`].
    fn peer_state(&self, node: NodeId) -> PeerState;

    /// Returns the number of peers that have left or been lost so far. It is cheap (one atomic load), so
    /// waiting loops look at it first.
    fn departures(&self) -> u64;

    /// Returns true once this node's peers have declared it lost. It can no longer affect them, and never will again.
    /// On fabrics that revoke access by memory (shared memory, the model) a node reads this in its own memory, and so
    /// knows at once. Over a network it knows once one of its operations has failed, or the control plane has heard
    /// of the loss.
    fn declared_lost(&self) -> bool {
        false
    }

    /// Says goodbye to all peers and wakes the receiver. Further calls have no effect.
    fn close(&self);
}
