//! The members of the job: views, positions, and the meaning of a loss.

use serde::{Deserialize, Serialize};

use crate::{FabricError, NodeId, Result};

/// A node's *view*: its knowledge of the members of the job.
///
/// A loss is agreed before it is reported. A node that suspects a peer revokes the suspect's access to its memory, and then
/// announces this to all others. They suspect it, too, and do the same. A survivor reports the loss (by
/// [`PeerLost`](crate::FabricError::PeerLost), [`peer_state`](crate::Control::peer_state) and a larger epoch) only when every
/// survivor has revoked. Where one survivor can revoke the access to the memory of all, as on the shared-memory fabric, it
/// reports the loss as soon as it has done so, without waiting for survivors that are slow or stopped.
/// Therefore:
///
/// * After a survivor has reported a loss, the lost node changes no memory of any survivor, even if it still
///   runs. (It may only have been stopped by a debugger, or be on a host that was paused.) This needs no
///   assumption about clocks: clocks only decide who is suspected.
/// * A node that was declared lost and runs on gets [`DeclaredLost`](crate::FabricError::DeclaredLost) from
///   its next operation or wait, and from every later one. It may read old values from its own memory.
/// * Survivors that see the same losses and departures have the same epoch. Two losses at about the same time
///   may be seen in either order. The survivors' views agree again after the second.
/// * If two nodes suspect each other, at most one of them stays in the job where they share memory (the first
///   to revoke). Without shared memory and without a third node, neither affects the other any more, and each
///   goes on alone.
///
/// Before a fabric is up, nodes cannot affect one another, and a loss is reported as soon as it is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// The number of nodes that have left or been lost so far. It grows with every change.
    pub epoch: u64,
    /// The present nodes, ascending, without this node once it was declared lost.
    pub members: Vec<NodeId>,
    /// The nodes that said goodbye.
    pub left: Vec<NodeId>,
    /// The lost nodes, including this node once it was declared lost.
    pub lost: Vec<NodeId>,
}

impl NodeId {
    /// Returns this node's position among `nodes`, which are in ascending order.
    ///
    /// # Errors
    /// Returns [`UnknownPeer`](FabricError::UnknownPeer) if it is not one of them.
    #[inline]
    pub fn position_in(self, nodes: &[NodeId]) -> Result<usize> {
        let guess = usize::from(self.0);
        // The ids are usually 0, 1, 2, ...
        if nodes.get(guess) == Some(&self) {
            return Ok(guess);
        }
        nodes
            .binary_search(&self)
            .map_err(|_| FabricError::UnknownPeer(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_are_those_in_the_list() {
        let nodes = [0, 1, 4, 6].map(NodeId);
        for (position, node) in nodes.into_iter().enumerate() {
            assert_eq!(node.position_in(&nodes), Ok(position));
        }
        for node in [2, 3, 5, 7].map(NodeId) {
            assert_eq!(node.position_in(&nodes), Err(FabricError::UnknownPeer(node)));
        }
    }
}
