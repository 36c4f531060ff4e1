//! Judges states and ends of worlds by what [`Membership`](loco_fabric::Membership) promises.
//!
//! After every move:
//!
//! * *Shut out first.* When a node reports that a peer was lost, it and all survivors that it knows have revoked the access of
//!   that peer to their memory, unless the peer has left, or was never able to reach it. So whatever the lost node posts next has no
//!   effect on any of them.
//! * *A view is one.* Of two nodes that have each other for members, views with the same number have the same members, and an
//!   index is that of the same node.
//! * *A view hides nobody.* Each other node of the last view is a member, or is reported as gone. Views come in the order of their
//!   numbers.
//! * *All know who is in.* Who is in at a node is in, or joins, at every survivor that the node knows.
//!
//! * *Who has announced that it leaves hears of no newcomer* once it has heard of a view without it.
//!
//! Where an execution may end, with nothing left to happen but faults, of the nodes that run and were not declared lost:
//!
//! * *Nobody waits for ever.* None has a suspect that is not reported, a peer that has ended and is not gone, or a set-up that is
//!   neither done nor given up, or a newcomer that is neither in nor gone. A node that wants to join is let in where there is room;
//!   without faults it comes in. Who has announced that it leaves is let go by a view without it, and where nodes may join, the
//!   last view of a node has no member that is gone. Without faults, none reports the loss of a peer that said goodbye.
//! * *Survivors agree.* If one has another for a member, so has the other, with the same members; and the connection between
//!   them is whole.
//! * *Survivors have had the same views.* If two have each other for members, their last views are the same, and so are the
//!   nodes that they have reported as gone, of those that were in when the later of the two joined, or joined after it.
//! * *Who is shut out learns it.* If one has reported the loss of another, that one knows that it was declared lost, or has
//!   the first for lost or left. This is the first half of the point before. If all that went wrong is that one node heard
//!   nothing of another for too long, and its loss was reported, that other one knows that it was declared lost.
//! * *The cause is named.* A node whose set-up has failed names a node that has stopped, and not one that left because of it.
//! * *Not more are lost than need be.* At least [`survivors_min`](crate::World::survivors_min) nodes have one another.
//!
//! What no world has: a member's deadline for a newcomer that is on its way; a node that asks twice, or comes back; a newcomer
//! that gives up though it could still come in. With three members and any fault, and with two newcomers in a partition, the worlds
//! are too large to be completed: there the promises rest on a search within bounds.

use loco_fabric::PeerState;

use crate::joins;
use crate::state::{Life, State, pairs};
use crate::world::{Begin, World};

/// Returns what is broken after a move, if anything is.
pub(crate) fn always(world: &World, state: &State) -> Option<String> {
    if world.begin == Begin::Apart {
        // Before a fabric is up there is nothing to revoke.
        return None;
    }
    for node in 0..world.processes() {
        if let Some(broken) = joins::always_at(state, node) {
            return Some(broken);
        }
    }
    for (node, peer) in pairs(world.processes()) {
        if let Some(broken) = joins::always(state, node, peer) {
            return Some(broken);
        }
    }
    for (node, lost) in pairs(world.processes()) {
        if !state.is_in(node) || !loses(state, node, lost) {
            continue;
        }
        let has_left = matches!(state.nodes[lost].life, Life::Left | Life::GaveUp(_));
        if has_left || !state.is_set_up(lost) {
            continue;
        }
        for survivor in (0..world.processes()).filter(|&survivor| state.runs(survivor)) {
            let is_survivor = survivor == node || state.has_survivor(node, survivor);
            // A newcomer opens its memory to those with which it is connected.
            let is_open =
                survivor < world.nodes && lost < world.nodes || state.has_been_attached(survivor, lost);
            if is_survivor && is_open && state.nodes[survivor].revoked >> lost & 1 == 0 {
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
    let count = world.processes();
    for node in (0..count).filter(|&node| state.is_in(node)) {
        let own = &state.nodes[node].agreement;
        if own.is_agreeing() {
            return Some(format!("node {node} waits for ever to report a loss"));
        }
        if let Some(broken) = joins::at_end(world, state, node) {
            return Some(broken);
        }
        if !state.is_set_up(node) {
            return Some(format!("node {node} waits for ever to be set up"));
        }
        for peer in (0..count).filter(|&peer| peer != node) {
            let has = state.has_member(node, peer);
            if state.faults == 0 && state.nodes[peer].life == Life::Left && loses(state, node, peer) {
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
            if !state.has_member(peer, node) {
                return Some(format!(
                    "node {peer} goes on without node {node}, which does not learn it"
                ));
            }
            if state.link(peer, node).is_cut {
                return Some(format!("node {node} keeps node {peer}, from which nothing comes"));
            }
            let is_third = |&other: &usize| other != node && other != peer;
            // A node that was let go has not heard of those that joined later, nor have they heard of it.
            let is_let_go = |one: usize| state.runs(one) && state.nodes[one].agreement.is_let_go();
            let need_not_know = |other: usize| {
                let id = |one: usize| state.id_at(one, other);
                let knows = |one: usize| id(one).is_some_and(|id| joins::concerns(state, one, id));
                [node, peer, other].into_iter().any(is_let_go) && !(knows(node) && knows(peer))
            };
            let differs = |&other: &usize| {
                !need_not_know(other) && state.has_member(node, other) != state.has_member(peer, other)
            };
            if let Some(other) = (0..count).filter(is_third).find(differs) {
                return Some(format!("nodes {node} and {peer} do not agree about node {other}"));
            }
            if let Some(broken) = joins::at_end_between(state, node, peer) {
                return Some(broken);
            }
        }
    }
    if let (1, 0, Some(silent)) = (state.faults, world.parted, state.silent)
        && state.is_in(silent)
        && (0..count).any(|node| state.is_in(node) && loses(state, node, silent))
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
        let is_member = |peer: &usize| *peer == node || state.has_member(node, *peer);
        (0..count).filter(is_member).count()
    };
    let most = (0..count).filter(|&node| state.is_in(node)).map(members).max();
    let most = most.unwrap_or(0);
    (most < world.survivors_min).then(|| format!("only {most} nodes go on together"))
}

/// Returns true if `node` has reported that `peer` was lost.
fn loses(state: &State, node: usize, peer: usize) -> bool {
    let own = &state.nodes[node].agreement;
    let mut gone = own.gone().in_order().iter();
    let id = state.id_at(node, peer);
    gone.any(|&(gone, how)| how == PeerState::Lost && Some(gone) == id)
}
