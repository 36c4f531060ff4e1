//! The control plane: reliable, ordered set-up messages between nodes, and who is alive.
//!
//! TCP between processes, queues within a process. Objects use it for set-up only; their data moves by one-sided
//! operations.

use crate::{NodeId, Result, Time};

/// What is known of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PeerState {
    /// Connected.
    Alive,
    /// It said goodbye before closing.
    Left,
    /// The survivors agreed that it is lost: its process died, its connection broke, or it was silent for too long. It
    /// may still run, but its access to the survivors' memory is revoked, see [`Membership`](crate::Membership).
    Lost,
}

/// One node's end of the control plane.
pub trait Control: Send + Sync + 'static {
    /// Sends `payload` to `to` (another node, or this one). Messages from one node to another arrive in order.
    ///
    /// # Errors
    /// [`PeerLost`](crate::FabricError::PeerLost), [`UnknownPeer`](crate::FabricError::UnknownPeer).
    fn send(&self, to: NodeId, payload: &[u8]) -> Result<()>;

    /// Returns the next message, waiting until `deadline` at the latest. `Ok(None)` when the deadline passed
    /// or [`close`](Control::close) was called. One thread receives.
    ///
    /// # Errors
    /// Only when the control plane as a whole is broken.
    fn receive(&self, deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>>;

    /// State of a peer; this node itself is always [`PeerState::Alive`].
    fn peer_state(&self, node: NodeId) -> PeerState;

    /// How many peers have left or been lost so far. Cheap (one atomic load): waiting loops look at it first.
    fn departures(&self) -> u64;

    /// True once this node's peers have declared it lost: it can no longer affect them, and never will again.
    fn declared_lost(&self) -> bool {
        false
    }

    /// Says goodbye to all peers and wakes the receiver. Idempotent.
    fn close(&self);
}
