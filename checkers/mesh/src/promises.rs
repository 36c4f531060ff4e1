//! Judges states and ends of worlds by what [`Membership`](loco_fabric::Membership) promises.
//!
//! After every move:
//!
//! * *Shut out first.* When a node reports that a peer was lost, it and all survivors that it knows have revoked the access of
//!   that peer to their memory, unless the peer has left, or was never able to reach it. So whatever the lost node posts next has no
//!   effect on any of them.
//!
//! Where an execution may end, with nothing left to happen but faults, of the nodes that run and were not declared lost:
//!
//! * *Nobody waits for ever.* None has a suspect that is not reported, a peer that has ended and is not gone, or a set-up that is
//!   neither done nor given up. Without faults, none reports the loss of a peer that said goodbye.
//! * *Survivors agree.* If one has another for a member, so has the other, with the same members; and the connection between
//!   them is whole.
//! * *Who is shut out learns it.* If one has reported the loss of another, that one knows that it was declared lost, or has
//!   the first for lost or left. This is the first half of the point before. If all that went wrong is that one node heard
//!   nothing of another for too long, and its loss was reported, that other one knows that it was declared lost.
//! * *The cause is named.* A node whose set-up has failed names a node that has stopped, and not one that left because of it.
//! * *Not more are lost than need be.* At least [`survivors_min`](crate::World::survivors_min) nodes have one another.

use loco_fabric::PeerState;

use crate::state::{Life, State, pairs};
use crate::world::{Begin, World};

/// Returns what is broken after a move, if anything is.
pub(crate) fn always(world: &World, state: &State) -> Option<String> {
    if world.begin == Begin::Apart {
        // Before a fabric is up there is nothing to revoke.
        return None;
    }
    for (node, lost) in pairs(world.nodes) {
        let own = &state.nodes[node];
        if !state.is_in(node) || own.agreement.peer_state(lost) != PeerState::Lost {
            continue;
        }
        let has_left = matches!(state.nodes[lost].life, Life::Left | Life::GaveUp(_));
        if has_left || !state.is_set_up(lost) {
            continue;
        }
        for survivor in (0..world.nodes).filter(|&survivor| state.runs(survivor)) {
            let is_survivor = survivor == node || !own.agreement.is_shunned(survivor);
            if is_survivor && state.nodes[survivor].revoked >> lost & 1 == 0 {
                return Some(format!(
                    "node {node} reports that node {lost} was lost, which can still write to node {survivor}"
                ));
            }
        }
    }
    None
}

/// Returns what is broken where an execution may end, if anything is.
pub(crate) fn at_end(world: &World, state: &State) -> Option<String> {
    let count = world.nodes;
    for node in (0..count).filter(|&node| state.is_in(node)) {
        let own = &state.nodes[node].agreement;
        if own.is_agreeing() {
            return Some(format!("node {node} waits for ever to report a loss"));
        }
        if !state.is_set_up(node) {
            return Some(format!("node {node} waits for ever to be set up"));
        }
        for peer in (0..count).filter(|&peer| peer != node) {
            let has = own.peer_state(peer) == PeerState::Alive;
            if state.faults == 0
                && state.nodes[peer].life == Life::Left
                && own.peer_state(peer) == PeerState::Lost
            {
                return Some(format!(
                    "node {node} reports the loss of node {peer}, which said goodbye"
                ));
            }
            if has && !state.runs(peer) {
                return Some(format!("node {node} never finds that node {peer} has ended"));
            }
            if !has || !state.is_in(peer) {
                if has {
                    return Some(format!("node {node} keeps node {peer}, which was declared lost"));
                }
                continue;
            }
            let its = &state.nodes[peer].agreement;
            if its.peer_state(node) != PeerState::Alive {
                return Some(format!(
                    "node {peer} goes on without node {node}, which does not learn it"
                ));
            }
            if state.link(peer, node).is_cut {
                return Some(format!("node {node} keeps node {peer}, from which nothing comes"));
            }
            let is_third = |&other: &usize| other != node && other != peer;
            let has_each =
                |other| [own, its].map(|agreement| agreement.peer_state(other) == PeerState::Alive);
            let differs = |&other: &usize| has_each(other)[0] != has_each(other)[1];
            if let Some(other) = (0..count).filter(is_third).find(differs) {
                return Some(format!("nodes {node} and {peer} do not agree about node {other}"));
            }
        }
    }
    let loses = |node: usize, peer: usize| {
        state.is_in(node) && state.nodes[node].agreement.peer_state(peer) == PeerState::Lost
    };
    if let (1, 0, Some(silent)) = (state.faults, world.parted, state.silent)
        && state.is_in(silent)
        && (0..count).any(|node| loses(node, silent))
    {
        return Some(format!("node {silent} does not learn that it was declared lost"));
    }
    let gave_up = (0..count).filter_map(|node| match state.nodes[node].life {
        Life::GaveUp(reason) => Some((node, reason?)),
        _ => None,
    });
    for (node, reason) in gave_up {
        let has_cause =
            state.nodes[reason].life == Life::Crashed || world.faults.silences || world.faults.cuts;
        if !has_cause {
            return Some(format!("node {node} names node {reason}, which did not stop"));
        }
    }
    let members = |node| {
        let is_member =
            |peer: &usize| *peer == node || state.nodes[node].agreement.peer_state(*peer) == PeerState::Alive;
        (0..count).filter(is_member).count()
    };
    let most = (0..count).filter(|&node| state.is_in(node)).map(members).max();
    let most = most.unwrap_or(0);
    (most < world.survivors_min).then(|| format!("only {most} nodes go on together"))
}
