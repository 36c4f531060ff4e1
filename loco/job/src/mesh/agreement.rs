//! The agreement of the nodes that one of them is lost, see [`Membership`](loco_fabric::Membership). A node
//! that suspects a peer announces this to all. Each node revokes the suspect's access and announces that. The loss is
//! reported when all survivors have revoked.
//!
//! The suspects, and who has revoked each, are kept in `state`; the messages are sent here.

use std::sync::Arc;

use loco_fabric::{NodeId, PeerState};

use super::frame::Frame;
use super::state::{Revoked, State};
use super::system::spawn;
use super::wire::Wire;

impl Wire {
    /// Thinks `victim` lost from now on, and sees to it that all others do; what follows is in
    /// [`Membership`](loco_fabric::Membership).
    pub(super) fn suspect(self: &Arc<Self>, victim: usize) {
        if self.state.is_shunned(victim) {
            return;
        }
        // The others are told first: once this node knows, it may leave, and nothing follows its goodbye. The victim is told
        // as well: it may be able to hear it.
        let mut last_words = self.last_words();
        if last_words.lost.insert(victim) {
            self.tell_all(&Frame::Lost(self.state.nodes()[victim]));
        }
        drop(last_words);
        if !self.state.suspect(victim) {
            return;
        }
        if !self.state.is_exposed() {
            self.revoked(victim);
            // Nothing to agree about: no fabric is up.
            self.state.depart(victim, PeerState::Lost);
            return;
        }
        // In a thread of its own, as it may block and this one serves the connections.
        let wire = Arc::clone(self);
        let spawned = spawn("loco-revoke", move || wire.make_harmless(victim));
        if let Err(error) = spawned {
            tracing::warn!(%error, "revoking in the thread of the mesh");
            self.make_harmless(victim);
        }
    }

    fn make_harmless(&self, victim: usize) {
        let node = self.state.nodes()[victim];
        match self.state.revoke(node) {
            Revoked::Done => self.revoked(victim),
            Revoked::DoneForAll => {
                self.revoked(victim);
                self.state.revoked_for_all(victim);
            }
            Revoked::WeAreOut => self.state.declare_out(),
        }
    }

    /// Tells all that this node has revoked `victim`, and takes note of it.
    fn revoked(&self, victim: usize) {
        self.tell_all(&Frame::Revoked(self.state.nodes()[victim]));
        self.state.revoked(self.state.own_index(), victim);
    }

    /// Hears that peer `from` thinks `victim` lost.
    pub(super) fn hear_of_loss(self: &Arc<Self>, from: usize, victim: NodeId) {
        // The word of a suspect about others does not count: of two that suspect each other it may be the
        // lost one.
        if self.state.is_suspect(from) || self.state.is_out() {
            return;
        }
        let Ok(victim) = self.state.index(victim) else {
            return;
        };
        if victim == self.state.own_index() {
            tracing::error!(node = %self.state.node(), by = %self.state.nodes()[from], "declared lost by a peer");
            self.state.declare_out();
        } else if self.state.peer_state(self.state.nodes()[victim]) == PeerState::Alive {
            self.suspect(victim);
        } else {
            // It left here, or was lost before: it cannot affect this node, and `from` waits for that word.
            self.tell_all(&Frame::Revoked(self.state.nodes()[victim]));
        }
    }

    /// Hears that peer `from` has revoked `victim`. It has said before that it thinks `victim` lost.
    pub(super) fn hear_of_revocation(&self, from: usize, victim: NodeId) {
        if let Ok(victim) = self.state.index(victim)
            && !self.state.is_suspect(from)
        {
            self.state.revoked(from, victim);
        }
    }
}

/// Agrees that `victim` is lost among the nodes of one process, in this thread.
pub(super) fn agree_in_process(states: &[Arc<State>], victim: usize) {
    let node = states[victim].node();
    let survivors: Vec<_> = (0..states.len())
        .filter(|&index| index != victim && states[index].suspect(victim))
        .collect();
    for &survivor in &survivors {
        // Before a fabric is up there is nothing to agree about.
        let is_exposed = states[survivor].is_exposed();
        match states[survivor].revoke(node) {
            Revoked::WeAreOut => states[survivor].declare_out(),
            Revoked::Done | Revoked::DoneForAll => {
                states.iter().for_each(|state| state.revoked(survivor, victim));
                if !is_exposed {
                    states[survivor].depart(victim, PeerState::Lost);
                }
            }
        }
    }
}
