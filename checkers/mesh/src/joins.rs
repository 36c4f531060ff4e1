//! The moves of nodes that join, as the driver of a job makes them, and what is promised of joins and views.

use std::collections::BTreeSet;

use loco_fabric::PeerState;
use loco_job::agreement::Agreement;

use crate::moves::Move;
use crate::state::{Life, State, has, pairs};
use crate::world::World;

impl State {
    /// Appends the moves of nodes that join. A deadline comes only where nothing else happens: before, it is the choice of a node
    /// to leave.
    pub(crate) fn enabled_joins(&self, moves: &mut Vec<Move>) {
        let count = self.nodes.len();
        let outside = (self.first..count).find(|&node| self.nodes[node].life == Life::Outside);
        if let Some(node) = outside {
            let sponsors = (0..count).filter(|&sponsor| self.is_in(sponsor) && self.lets_in(sponsor, node));
            moves.extend(sponsors.map(|sponsor| Move::Ask { node, sponsor }));
        }
        for (node, peer) in pairs(count) {
            if self.can_connect(node, peer) {
                moves.push(Move::Connect {
                    one: node,
                    other: peer,
                });
            }
            if self.waits_for_nobody(node, peer) {
                moves.push(Move::Expire { node, peer });
            }
        }
        if moves.iter().all(|what| what.is_optional()) {
            let stuck = (self.first..count).filter(|&node| self.is_joining(node));
            moves.extend(stuck.map(|node| Move::Withdraw { node }));
        }
    }

    /// Makes a sponsor let a node join, which hears it.
    pub(crate) fn ask(&mut self, world: &World, node: usize, sponsor: usize) {
        let mut proposed = None;
        self.agree(sponsor, |own, actions| {
            proposed = own.propose(key(node), actions).ok()
        });
        let Some(newcomer) = proposed else {
            return;
        };
        let known = (0..newcomer.index).map(|id| self.process_at(sponsor, id).unwrap_or(node));
        let known = known.collect();
        let joins = &mut self.nodes[node];
        joins.id = Some(newcomer.index);
        joins.known = known;
        joins.life = Life::Runs;
        joins.agreement = Agreement::joining(newcomer, world.room);
        joins.agreement.expose();
    }

    /// Returns true if the node runs, joins, and may still come in.
    fn is_joining(&self, node: usize) -> bool {
        self.is_in(node) && !self.nodes[node].agreement.is_in()
    }

    fn lets_in(&self, sponsor: usize, node: usize) -> bool {
        let mut its = self.nodes[sponsor].agreement.clone();
        its.propose(key(node), &mut Vec::new()).is_ok()
    }

    /// Returns true if `node`, which joins, can shake hands with the member `peer`.
    fn can_connect(&self, node: usize, peer: usize) -> bool {
        let (Some(own), true) = (self.nodes[node].id, self.is_joining(node) && self.runs(peer)) else {
            return false;
        };
        !has(self.connected[node], peer)
            && self.has_member(node, peer)
            && self.nodes[peer].agreement.expects(own, key(node))
    }

    /// Returns true if `node` waits for the connection of a newcomer that will not come.
    fn waits_for_nobody(&self, node: usize, peer: usize) -> bool {
        let Some(id) = self
            .id_at(node, peer)
            .filter(|_| self.runs(node) && peer >= self.first)
        else {
            return false;
        };
        let will_come = self.is_in(peer) && self.has_survivor(peer, node);
        self.nodes[node].agreement.expects(id, key(peer)) && !will_come && !has(self.connected[node], peer)
    }

    /// Returns true if `node` has `peer` for a member that goes on.
    pub(crate) fn has_survivor(&self, node: usize, peer: usize) -> bool {
        let is_survivor = |id| !self.nodes[node].agreement.is_shunned(id);
        self.has_member(node, peer) && self.id_at(node, peer).is_some_and(is_survivor)
    }
}

/// Returns the number that the process of a node has drawn.
fn key(node: usize) -> u64 {
    node as u64
}

/// Returns what is broken after a move at a node alone, if anything is.
pub(crate) fn always_at(state: &State, node: usize) -> Option<String> {
    let own = &state.nodes[node].agreement;
    if !state.is_in(node) || !own.is_in() {
        return None;
    }
    let is_gone = |id| own.gone().in_order().iter().any(|&(gone, _)| gone == id);
    let is_told = |&&id: &&usize| state.nodes[node].id == Some(id) || is_alive(own, id) || is_gone(id);
    if let Some(id) = own.view().members.iter().find(|id| !is_told(id)) {
        return Some(format!(
            "the view of node {node} has index {id}, which is no member, and is not reported as gone"
        ));
    }
    let is_late = |&id: &usize| {
        own.newcomer(id)
            .is_some_and(|newcomer| newcomer.epoch <= own.view().epoch)
    };
    let late = own.joins().find(is_late)?;
    Some(format!("index {late} joins at node {node} after a later view"))
}

/// Returns what is broken after a move between a node and a peer, if anything is.
pub(crate) fn always(state: &State, node: usize, peer: usize) -> Option<String> {
    if !state.is_in(node)
        || !state.is_in(peer)
        || !state.has_survivor(node, peer)
        || !state.has_survivor(peer, node)
    {
        return None;
    }
    let [own, its] = [node, peer].map(|node| &state.nodes[node].agreement);
    let are_in = own.is_in() && its.is_in();
    if are_in && own.view().epoch == its.view().epoch && own.view().members != its.view().members {
        return Some(format!(
            "nodes {node} and {peer} have different views of one number"
        ));
    }
    if own.is_left_out() || its.is_left_out() {
        // A node that is left out of the last view hears of no newcomer.
        return None;
    }
    for other in (state.first..state.nodes.len()).filter(|&other| other != node && other != peer) {
        let Some(id) = state.id_at(node, other).filter(|_| state.has_member(node, other)) else {
            continue;
        };
        match its.newcomer(id) {
            Some(newcomer) if newcomer.key != key(other) => {
                return Some(format!("nodes {node} and {peer} know two nodes by one index"));
            }
            None if state.id_at(peer, other).is_none() => {
                return Some(format!(
                    "node {other} is in at node {node}, and node {peer} has not heard of it"
                ));
            }
            _ => {}
        }
    }
    None
}

/// Returns what is broken between two nodes that have each other for members, where an execution may end, if anything is.
///
/// A view differs from the one before it by the node that joins. So nodes with the same members, and with the same nodes reported
/// as gone, have had the same views.
pub(crate) fn at_end_between(state: &State, node: usize, peer: usize) -> Option<String> {
    let [own, its] = [node, peer].map(|node| &state.nodes[node].agreement);
    if own.is_let_go() || its.is_let_go() {
        return None;
    }
    if own.view() != its.view() {
        return Some(format!("nodes {node} and {peer} have different last views"));
    }
    let gone = |of: &Agreement| -> BTreeSet<usize> {
        let gone = of.gone().in_order().iter().map(|&(gone, _)| gone);
        gone.filter(|&gone| [node, peer].iter().all(|&one| concerns(state, one, gone)))
            .collect()
    };
    let [own, its] = [gone(own), gone(its)];
    let differs = own.symmetric_difference(&its).next()?;
    Some(format!(
        "of nodes {node} and {peer} one alone has had index {differs} for a member, and reports it as gone"
    ))
}

/// Returns true unless `node` joined after the node at `id` was gone or let go.
pub(crate) fn concerns(state: &State, node: usize, id: usize) -> bool {
    let own = &state.nodes[node];
    let newcomer = own.id.and_then(|own_id| own.agreement.newcomer(own_id));
    newcomer.is_none_or(|newcomer| id > newcomer.index || newcomer.members.contains(&id))
}

fn is_alive(agreement: &Agreement, id: usize) -> bool {
    agreement.peer_state(id) == Some(PeerState::Alive)
}

/// Returns what is broken where an execution may end, if anything is.
pub(crate) fn at_end(world: &World, state: &State, node: usize) -> Option<String> {
    let own = &state.nodes[node].agreement;
    if !own.is_in() {
        return Some(format!("node {node} waits for ever to come in"));
    }
    if own.joins().next().is_some() {
        return Some(format!("node {node} waits for ever for a node that joins"));
    }
    if own.is_changing() {
        return Some(format!("node {node} waits for ever for a view"));
    }
    if own.is_let_go() {
        return None;
    }
    if own.has_announced() {
        return Some(format!("node {node} waits for ever to be let go"));
    }
    let may_change = world.room > world.nodes;
    if let Some(id) = own
        .view()
        .members
        .iter()
        .find(|&&id| may_change && state.nodes[node].id != Some(id) && !is_alive(own, id))
    {
        return Some(format!(
            "no view comes to node {node} without index {id}, which is gone"
        ));
    }
    let joiners = state.first..state.nodes.len();
    for joiner in joiners {
        let life = state.nodes[joiner].life;
        if life == Life::Outside && own.has_room() {
            return Some(format!("node {joiner} is never let in, although there is room"));
        }
        // A member that goes in the middle may cost the newcomer its place.
        let nothing_happened =
            state.faults == 0 && world.parted == 0 && (0..state.first).all(|node| state.runs(node));
        if matches!(life, Life::GaveUp(_)) && nothing_happened {
            return Some(format!("node {joiner} cannot join, and nothing went wrong"));
        }
    }
    None
}
