//! Who is in the job: views, and what a loss means.

use serde::{Deserialize, Serialize};

use crate::{Control, NodeId, PeerState};

/// What one node knows of who is in the job: a *view*.
///
/// A loss is agreed before it is reported. A node that thinks a peer lost tells all others, and the suspicion is theirs
/// too. Each of them revokes the lost node's access to its memory and says so; only when every survivor has done that
/// does any of them report the loss (by [`PeerLost`](crate::FabricError::PeerLost),
/// [`peer_state`](Control::peer_state) and a larger epoch). So:
///
/// * After a survivor has reported a loss, the lost node changes no memory of any survivor, even if it still runs: if it
///   was only stopped by a debugger, or is on a host that was paused. This rests on no assumption about clocks;
///   clocks only decide who is suspected.
/// * A node that was declared lost and runs on gets [`DeclaredLost`](crate::FabricError::DeclaredLost) from its next
///   operation or wait, and from every later one. What it reads of its own memory may be old.
/// * Survivors that see the same losses and departures have the same epoch. Two losses at about the same time may be seen
///   in either order; then the survivors' views agree again after the second.
/// * Two nodes that suspect each other: at most one of them stays in the job where they share memory (the first to
///   revoke). Without shared memory and without a third node neither affects the other any more, and each goes on alone.
///
/// Before a fabric is up, nothing can be affected, and a loss is reported as soon as it is seen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Membership {
    /// How many nodes have left or been lost so far; grows with every change.
    pub epoch: u64,
    /// Those who are in, ascending; without this node once it was declared lost.
    pub members: Vec<NodeId>,
    /// Those who said goodbye.
    pub left: Vec<NodeId>,
    /// Those who are lost, this node included once it was declared lost.
    pub lost: Vec<NodeId>,
}

impl Membership {
    /// Returns the view of `node` among `nodes`, as `control` has it.
    pub fn of(control: &impl Control, node: NodeId, nodes: &[NodeId]) -> Membership {
        loop {
            let epoch = control.departures();
            let own = if control.declared_lost() {
                PeerState::Lost
            } else {
                PeerState::Alive
            };
            let of = |state| {
                let is = |&other: &NodeId| {
                    let its = if other == node {
                        own
                    } else {
                        control.peer_state(other)
                    };
                    its == state
                };
                nodes.iter().copied().filter(is).collect()
            };
            let view = Membership {
                epoch,
                members: of(PeerState::Alive),
                left: of(PeerState::Left),
                lost: of(PeerState::Lost),
            };
            // Somebody may have gone meanwhile; each does so once.
            if control.departures() == epoch {
                return view;
            }
        }
    }
}
