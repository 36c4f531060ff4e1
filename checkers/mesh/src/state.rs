//! The state of a world, and the driver of each node's agreement: the moves that a state allows, and what they do. Those of nodes
//! that join are in `joins`.
//!
//! A node is a process here. The first nodes have their numbers for indices; a node that joins gets one, and another node may have
//! it elsewhere.

use std::hash::{Hash, Hasher};

use loco_fabric::PeerState;
use loco_job::agreement::{Action, Agreement, Revoked};

use crate::link::{Item, Link};
use crate::moves::Move;
use crate::world::{Begin, Fabric, World};

/// The state of a node's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Life {
    /// It has not asked to join yet.
    Outside,
    /// It runs.
    Runs,
    /// It has stopped for good.
    Crashed,
    /// It has left with a goodbye.
    Left,
    /// It has left because its set-up has failed, and names this node as the reason, unless its deadline was the reason.
    GaveUp(Option<usize>),
}

/// A node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    /// The shipped code.
    pub(crate) agreement: Agreement,
    /// Its index.
    pub(crate) id: Option<usize>,
    /// The nodes at the indices that were used before it joined, as its sponsor has told it.
    pub(crate) known: Vec<usize>,
    /// The process.
    pub(crate) life: Life,
    /// The peers whose access is being revoked, as bits.
    pub(crate) revoking: u8,
    /// The peers whose access has been revoked, as bits.
    pub(crate) revoked: u8,
    /// The nodes whose contribution to the set-up has come, as bits.
    pub(crate) heard: u8,
    /// It has contributed to the set-up.
    pub(crate) has_contributed: bool,
    /// It has heard from the rendezvous that a peer has ended.
    is_told: bool,
}

/// The state of a world.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    /// The nodes.
    pub(crate) nodes: Vec<Node>,
    /// The ways: that from node `a` to node `b` is at `a * nodes + b`.
    links: Vec<Link>,
    /// The pairs that have shaken hands: for each node, the others as bits.
    pub(crate) connected: Vec<u8>,
    /// The nodes that are shut out of all memory, in order. Of two that suspect each other, the first to enter the other stays.
    log: Vec<usize>,
    /// The first node that ended before it was set up.
    first_ended: Option<usize>,
    /// The faults that have happened.
    pub(crate) faults: u8,
    /// The node of which another has heard nothing for too long, unless words were lost since.
    pub(crate) silent: Option<usize>,
    leavers: u8,
    announcers: u8,
    /// The number of nodes that do not join.
    pub(crate) first: usize,
}

pub(crate) fn bit(node: usize) -> u8 {
    1 << node
}

pub(crate) fn has(set: u8, node: usize) -> bool {
    set & bit(node) != 0
}

impl State {
    /// Returns the first state of a world.
    pub(crate) fn new(world: &World) -> State {
        let count = world.nodes;
        let all = bit(count).wrapping_sub(1);
        let node = |own| {
            let is_first = own < count;
            let mut agreement = Agreement::with_room(own, count, world.room);
            if world.is_up() {
                agreement.expose();
            }
            Node {
                agreement,
                id: is_first.then_some(own),
                known: if is_first {
                    (0..count).collect()
                } else {
                    Vec::new()
                },
                life: if is_first { Life::Runs } else { Life::Outside },
                revoking: 0,
                revoked: 0,
                heard: if world.is_up() { all } else { 0 },
                has_contributed: world.is_up(),
                is_told: false,
            }
        };
        let mut state = State {
            nodes: (0..world.processes()).map(node).collect(),
            links: vec![Link::unattached(); world.processes() * world.processes()],
            connected: vec![0; world.processes()],
            log: Vec::new(),
            first_ended: None,
            faults: 0,
            silent: None,
            leavers: 0,
            announcers: 0,
            first: count,
        };
        if world.begin != Begin::Apart {
            for (node, peer) in pairs(count) {
                state.connected[node] |= bit(peer);
            }
        }
        if matches!(world.begin, Begin::Connected | Begin::Up) {
            pairs(count).for_each(|(node, peer)| state.attach(node, peer));
        }
        state
    }

    /// Returns the way from one node to another.
    pub(crate) fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * self.nodes.len() + to]
    }

    /// Returns the index under which `node` knows `peer`.
    pub(crate) fn id_at(&self, node: usize, peer: usize) -> Option<usize> {
        self.nodes[peer]
            .id
            .filter(|&id| self.process_at(node, id) == Some(peer))
    }

    /// Returns the node that `node` knows at an index.
    pub(crate) fn process_at(&self, node: usize, id: usize) -> Option<usize> {
        let own = &self.nodes[node];
        match own.agreement.newcomer(id) {
            Some(newcomer) => usize::try_from(newcomer.key).ok(),
            None => own.known.get(id).copied(),
        }
    }

    /// Returns true if `node` has `peer` for a member.
    pub(crate) fn has_member(&self, node: usize, peer: usize) -> bool {
        let id = self.id_at(node, peer);
        id.is_some_and(|id| self.nodes[node].agreement.peer_state(id) == Some(PeerState::Alive))
    }

    pub(crate) fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        &mut self.links[from * self.nodes.len() + to]
    }

    /// Returns true if the node's process runs.
    pub(crate) fn runs(&self, node: usize) -> bool {
        self.nodes[node].life == Life::Runs
    }

    /// Returns true if the node runs and was not declared lost, as far as it knows.
    pub(crate) fn is_in(&self, node: usize) -> bool {
        self.runs(node) && !self.nodes[node].agreement.is_out()
    }

    /// Returns true if the node's set-up is over.
    pub(crate) fn is_set_up(&self, node: usize) -> bool {
        match node < self.first {
            true => self.nodes[node].heard.count_ones() as usize == self.first,
            false => self.nodes[node].id.is_some(),
        }
    }

    fn is_attached(&self, node: usize) -> bool {
        let is_there = |peer| peer == node || self.has_been_attached(node, peer);
        (0..self.first).all(is_there)
    }

    pub(crate) fn has_been_attached(&self, node: usize, peer: usize) -> bool {
        let id = self.id_at(node, peer);
        id.is_some_and(|id| self.nodes[node].agreement.is_attached(id))
    }

    /// Appends the moves that are possible.
    pub(crate) fn enabled(&self, world: &World, moves: &mut Vec<Move>) {
        let count = self.nodes.len();
        if matches!(world.begin, Begin::Apart | Begin::Late) || world.joiners > 0 {
            let can_attach = |&(node, peer): &(usize, usize)| {
                // A connection may come while its node leaves.
                let is_there = matches!(self.nodes[node].life, Life::Runs | Life::GaveUp(_));
                is_there && has(self.connected[node], peer) && !self.has_been_attached(node, peer)
            };
            let attached = pairs(count).filter(can_attach);
            moves.extend(attached.map(|(node, peer)| Move::Attach { node, peer }));
        }
        for node in (0..count).filter(|&node| self.runs(node)) {
            for peer in (0..count).filter(|&peer| peer != node) {
                self.enabled_with(world, node, peer, moves);
            }
            let own = &self.nodes[node];
            let victims = (0..count).filter(|&victim| has(own.revoking, victim));
            moves.extend(victims.map(|victim| Move::Revoked { by: node, victim }));
            if self.log.contains(&node) && !own.agreement.is_out() {
                moves.push(Move::Look { node });
            }
            if !own.has_contributed && (world.begin == Begin::Connected || self.is_attached(node)) {
                moves.push(Move::Contribute { node });
            }
            if self.reason_to_give_up(world, node).is_some() {
                moves.push(Move::GiveUp { node });
            }
            if world.begin == Begin::Apart && !world.rendezvous && self.waits_in_vain(node) {
                moves.push(Move::Late { node });
            }
            if self.leavers < world.leavers && self.is_set_up(node) {
                moves.push(Move::Leave { node });
            }
            if self.announcers < world.announcers && own.agreement.is_in() && !own.agreement.has_announced() {
                moves.push(Move::Announce { node });
            }
            if world.faults.crashes && self.faults < world.faults.max {
                moves.push(Move::Crash { node });
            }
        }
        self.enabled_joins(moves);
    }

    /// Appends the moves of `node` that have to do with `peer`.
    fn enabled_with(&self, world: &World, node: usize, peer: usize, moves: &mut Vec<Move>) {
        let own = &self.nodes[node];
        let link = self.link(peer, node);
        let is_clogged =
            world.clogged.contains(&(peer, node)) && !own.agreement.is_agreeing() && !link.is_closed();
        if link.is_read && link.has_items() && !is_clogged {
            moves.push(Move::Deliver { from: peer, to: node });
        }
        if link.is_read && link.may_lose {
            moves.push(Move::LoseTail { from: peer, to: node });
        }
        if link.is_read && link.is_cut {
            moves.push(Move::Expire { node, peer });
        }
        if world.begin == Begin::Apart {
            let is_connected = has(self.connected[node], peer);
            if node < peer && self.runs(peer) && !is_connected {
                moves.push(Move::Connect {
                    one: node,
                    other: peer,
                });
            }
            if world.rendezvous && self.first_ended == Some(peer) && !own.is_told && !self.is_set_up(node) {
                moves.push(Move::Told { node, ended: peer });
            }
        }
        let is_parted = has(world.parted, node) != has(world.parted, peer);
        let has_faults = self.faults < world.faults.max;
        if link.is_read && !link.is_cut {
            if has_faults && world.faults.silences || is_parted {
                moves.push(Move::Silence { node, peer });
            }
            if has_faults && world.faults.cuts {
                moves.push(Move::Cut { from: peer, to: node });
                if node < peer {
                    moves.push(Move::CutBoth {
                        one: node,
                        other: peer,
                    });
                }
            }
        }
    }

    /// Returns true if the node waits for connections only with nodes that have ended, and knows of no loss.
    fn waits_in_vain(&self, node: usize) -> bool {
        let own = &self.nodes[node].agreement;
        let is_missing = |&peer: &usize| peer != node && !self.has_been_attached(node, peer);
        let is_dead = |peer: usize| !self.runs(peer) && !has(self.connected[node], peer);
        !self.is_attached(node)
            && own.gone().in_order().is_empty()
            && (0..self.nodes.len()).filter(is_missing).all(is_dead)
    }

    /// Returns the node whose loss makes the set-up of `node` fail, if one does.
    fn reason_to_give_up(&self, world: &World, node: usize) -> Option<usize> {
        let own = &self.nodes[node];
        let gone = own.agreement.gone();
        if self.is_set_up(node) || own.agreement.is_out() {
            return None;
        }
        let seen = if own.has_contributed {
            let missing = gone.first(|peer| !has(own.heard, peer))?;
            // That one may have left because of the loss of another, which had contributed.
            gone.first_lost(|_| true).unwrap_or(missing)
        } else {
            let waits_for_connections = world.begin == Begin::Apart && !self.is_attached(node);
            gone.first(|_| waits_for_connections)?
        };
        // While the mesh comes up, the node asks the rendezvous which node ended first, and waits for the answer. A node that was
        // set up is none whose end the rendezvous sees.
        match self
            .first_ended
            .filter(|_| world.begin == Begin::Apart && world.rendezvous)
        {
            Some(first) => own.is_told.then_some(first),
            None => Some(seen),
        }
    }

    /// Makes a move.
    pub(crate) fn apply(&mut self, world: &World, what: Move) {
        self.faults += u8::from(what.is_fault() && !self.is_free(world, what));
        match what {
            Move::Deliver { from, to } => match self.link_mut(from, to).pop() {
                Some(Item::Word(word)) => {
                    self.agree_about(to, from, |own, from, actions| own.hear(from, word, actions));
                }
                Some(Item::Contribution) => self.nodes[to].heard |= bit(from),
                Some(Item::End) => self.agree_about(to, from, Agreement::lose),
                None => {}
            },
            Move::LoseTail { from, to } => {
                self.silent = None;
                self.link_mut(from, to).lose_tail();
            }
            Move::Revoked { by, victim } => self.revoked(world, by, victim),
            Move::Look { node } => self.agree(node, |own, _| own.declare_out()),
            Move::Expire { node, peer } | Move::Silence { node, peer } => {
                if what.is_fault() {
                    self.silent = Some(peer);
                }
                self.agree_about(node, peer, Agreement::lose);
            }
            Move::Connect { one, other } => {
                self.connected[one] |= bit(other);
                self.connected[other] |= bit(one);
            }
            Move::Attach { node, peer } => self.attach(node, peer),
            Move::Told { node, ended } => {
                self.nodes[node].is_told = true;
                self.agree(node, |own, actions| own.lose(ended, actions));
            }
            Move::Contribute { node } => self.contribute(world, node),
            Move::GiveUp { node } => {
                if let Some(reason) = self.reason_to_give_up(world, node) {
                    self.leave(node, Life::GaveUp(Some(reason)));
                    self.first_ended.get_or_insert(reason);
                }
            }
            Move::Late { node } => {
                for peer in (0..self.first).filter(|&peer| peer != node) {
                    if !self.has_been_attached(node, peer) {
                        self.agree(node, |own, actions| own.lose(peer, actions));
                    }
                }
                self.leave(node, Life::GaveUp(None));
            }
            Move::Announce { node } => {
                self.announcers += 1;
                self.agree(node, Agreement::announce);
            }
            Move::Leave { node } => {
                self.leavers += 1;
                self.leave(node, Life::Left);
            }
            Move::Crash { node } => {
                if !self.is_set_up(node) {
                    self.first_ended.get_or_insert(node);
                }
                self.end(node, Life::Crashed, true);
            }
            Move::Ask { node, sponsor } => self.ask(world, node, sponsor),
            Move::Withdraw { node } => self.leave(node, Life::GaveUp(None)),
            Move::Cut { from, to } => self.link_mut(from, to).cut(),
            Move::CutBoth { one, other } => {
                self.link_mut(one, other).cut();
                self.link_mut(other, one).cut();
            }
        }
    }

    /// Returns true if the move is a silence of nodes that are parted.
    fn is_free(&self, world: &World, what: Move) -> bool {
        matches!(what, Move::Silence { node, peer } if has(world.parted, node) != has(world.parted, peer))
    }

    /// Lets the agreement of a node take in what happened, and does what follows, as the driver over sockets does.
    pub(crate) fn agree(&mut self, node: usize, event: impl FnOnce(&mut Agreement, &mut Vec<Action>)) {
        let mut actions = Vec::new();
        event(&mut self.nodes[node].agreement, &mut actions);
        for action in actions {
            let (Action::Say(peer, _) | Action::Revoke(peer)) = action;
            let Some(peer) = self.process_at(node, peer) else {
                continue;
            };
            match action {
                Action::Say(_, word) => self.link_mut(node, peer).push(Item::Word(word)),
                Action::Revoke(_) => self.nodes[node].revoking |= bit(peer),
            }
        }
        for peer in 0..self.nodes.len() {
            let Some(id) = self.id_at(node, peer) else {
                continue;
            };
            if self.nodes[node].agreement.is_shunned(id) && self.link(peer, node).is_read {
                self.link_mut(peer, node).stop_reading();
            }
            if self.nodes[node].agreement.is_over(id) && self.has_been_attached(node, peer) {
                // The driver over sockets gives up what the socket does not take at once, so the peer may miss it.
                self.link_mut(node, peer).close(true);
            }
        }
    }

    /// Lets the agreement of a node take in what happened with a peer.
    fn agree_about(
        &mut self,
        node: usize,
        peer: usize,
        event: impl FnOnce(&mut Agreement, usize, &mut Vec<Action>),
    ) {
        if let Some(id) = self.id_at(node, peer) {
            self.agree(node, |own, actions| event(own, id, actions));
        }
    }

    fn attach(&mut self, node: usize, peer: usize) {
        self.link_mut(peer, node).is_read = self.runs(node);
        self.agree_about(node, peer, Agreement::attach);
        if !self.runs(node) {
            self.link_mut(node, peer).close(false);
        }
    }

    fn contribute(&mut self, world: &World, node: usize) {
        if world.begin == Begin::Connected {
            self.agree(node, |own, _| own.expose());
        }
        self.nodes[node].has_contributed = true;
        self.nodes[node].heard |= bit(node);
        for peer in (0..self.first).filter(|&peer| peer != node) {
            // To a peer that is gone nothing is sent.
            if self.nodes[node].agreement.peer_state(peer) == Some(PeerState::Alive) {
                self.link_mut(node, peer).push(Item::Contribution);
            }
        }
    }

    fn revoked(&mut self, world: &World, by: usize, victim: usize) {
        self.nodes[by].revoking &= !bit(victim);
        let outcome = match world.fabric {
            Fabric::Network => {
                self.nodes[by].revoked |= bit(victim);
                Revoked::Done
            }
            Fabric::SharedMemory if self.log.contains(&by) => Revoked::WeAreOut,
            Fabric::SharedMemory => {
                if !self.log.contains(&victim) {
                    self.log.push(victim);
                }
                self.nodes.iter_mut().for_each(|node| node.revoked |= bit(victim));
                Revoked::DoneForAll
            }
        };
        self.agree_about(by, victim, |own, victim, actions| {
            own.revoked(victim, outcome, actions)
        });
    }

    /// Lets a node leave with a goodbye, which is read.
    fn leave(&mut self, node: usize, life: Life) {
        self.agree(node, Agreement::leave);
        self.end(node, life, false);
    }

    /// Ends the process of a node. Its connections close, with `may_lose` before what it said last is read.
    fn end(&mut self, node: usize, life: Life, may_lose: bool) {
        self.nodes[node].life = life;
        self.nodes[node].revoking = 0;
        let is_leaving = matches!(life, Life::GaveUp(_));
        for peer in (0..self.nodes.len()).filter(|&peer| peer != node) {
            let is_awaited = has(self.connected[node], peer) && !self.has_been_attached(node, peer);
            if !(is_leaving && is_awaited) {
                self.link_mut(node, peer).close(may_lose);
            }
            self.link_mut(peer, node).stop_reading();
        }
        if !is_leaving {
            // The node runs no more, so its knowledge is cleared: equal states get equal encodings.
            self.nodes[node].agreement = Agreement::new(0, self.nodes.len());
        }
    }

    /// Appends an encoding of the state: equal ones have equal futures.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.hash(&mut Bytes(out));
    }
}

/// Collects what a value hashes, which says all about it.
struct Bytes<'a>(&'a mut Vec<u8>);

impl Hasher for Bytes<'_> {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    fn finish(&self) -> u64 {
        0
    }
}

/// Returns the ordered pairs of different nodes.
pub(crate) fn pairs(count: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..count).flat_map(move |one| (0..count).map(move |other| (one, other)).filter(|(a, b)| a != b))
}
