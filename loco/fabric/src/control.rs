//! The control plane: reliable, ordered set-up messages between nodes, and the state of each peer.
//!
//! TCP between processes, queues within a process. Objects use it for set-up only; their data moves by one-sided
//! operations.

use crate::{FabricError, Membership, NodeId, Result, Time};

/// The known state of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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
    /// Returns this node.
    fn node(&self) -> NodeId;

    /// Returns all nodes of the job, this one included, in ascending order.
    fn nodes(&self) -> &[NodeId];

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

    /// Returns true if `node` has left or was lost.
    fn is_gone(&self, node: NodeId) -> bool {
        self.peer_state(node) != PeerState::Alive
    }

    /// Fails if this node was declared lost by its peers.
    ///
    /// # Errors
    /// Returns [`DeclaredLost`](crate::FabricError::DeclaredLost).
    fn check_in(&self) -> Result<()> {
        match self.declared_lost() {
            true => Err(FabricError::DeclaredLost),
            false => Ok(()),
        }
    }

    /// Fails if this node was declared lost by its peers, or `peer` has left or was lost.
    ///
    /// # Errors
    /// Returns [`DeclaredLost`](crate::FabricError::DeclaredLost), or else [`PeerLost`](crate::FabricError::PeerLost).
    fn check_alive(&self, peer: NodeId) -> Result<()> {
        self.check_in()?;
        match self.is_gone(peer) {
            true => Err(FabricError::PeerLost(peer)),
            false => Ok(()),
        }
    }

    /// Returns the members of the job, as this node knows them.
    fn membership(&self) -> Membership {
        loop {
            let epoch = self.departures();
            let own = match self.declared_lost() {
                true => PeerState::Lost,
                false => PeerState::Alive,
            };
            let of = |state| {
                let is = |&other: &NodeId| {
                    let its = match other == self.node() {
                        true => own,
                        false => self.peer_state(other),
                    };
                    its == state
                };
                self.nodes().iter().copied().filter(is).collect()
            };
            let view = Membership {
                epoch,
                members: of(PeerState::Alive),
                left: of(PeerState::Left),
                lost: of(PeerState::Lost),
            };
            // A node may have gone meanwhile. Each node goes only once.
            if self.departures() == epoch {
                return view;
            }
        }
    }

    /// Says goodbye to all peers and wakes the receiver. Further calls have no effect.
    fn close(&self);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node of three whose peers are in these states, the node itself being declared lost or not.
    struct Seen([PeerState; 3], bool);

    impl Control for Seen {
        fn node(&self) -> NodeId {
            NodeId(0)
        }

        fn nodes(&self) -> &[NodeId] {
            &[NodeId(0), NodeId(1), NodeId(2)]
        }

        fn send(&self, to: NodeId, _: &[u8]) -> Result<()> {
            Err(FabricError::UnknownPeer(to))
        }

        fn receive(&self, _: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>> {
            Ok(None)
        }

        fn peer_state(&self, node: NodeId) -> PeerState {
            self.0[usize::from(node.0)]
        }

        fn departures(&self) -> u64 {
            self.0
                .iter()
                .map(|state| u64::from(*state != PeerState::Alive))
                .sum()
        }

        fn declared_lost(&self) -> bool {
            self.1
        }

        fn close(&self) {}
    }

    #[test]
    fn whoever_is_gone_is_told_apart_from_whoever_is_out() {
        use PeerState::{Alive, Left, Lost};
        let inside = Seen([Alive, Left, Lost], false);
        assert_eq!(inside.check_in(), Ok(()));
        assert_eq!(inside.check_alive(NodeId(0)), Ok(()));
        for gone in [NodeId(1), NodeId(2)] {
            assert!(inside.is_gone(gone));
            assert_eq!(inside.check_alive(gone), Err(FabricError::PeerLost(gone)));
        }
        // A node that is out says so, whatever it knows of the peer.
        let outside = Seen([Alive, Alive, Lost], true);
        assert_eq!(outside.check_in(), Err(FabricError::DeclaredLost));
        for peer in [NodeId(1), NodeId(2)] {
            assert_eq!(outside.check_alive(peer), Err(FabricError::DeclaredLost));
        }
    }

    #[test]
    fn a_view_has_every_node_once() {
        use PeerState::{Alive, Left, Lost};
        let view = Seen([Alive, Left, Lost], false).membership();
        assert_eq!((view.epoch, view.members), (2, vec![NodeId(0)]));
        assert_eq!((view.left, view.lost), (vec![NodeId(1)], vec![NodeId(2)]));
        let view = Seen([Alive, Alive, Lost], true).membership();
        assert_eq!(
            (view.members, view.lost),
            (vec![NodeId(1)], vec![NodeId(0), NodeId(2)])
        );
    }
}
