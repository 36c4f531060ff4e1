//! The nodes of one process: drives the [`Agreement`] of each, in the threads of those that leave.
//!
//! The words for a node wait in its inbox. Whoever has put one there takes it out again, with the lock of the node's agreement
//! held, and so in order.
//!
//! Relies on [`state`](super::state). Used by [`Mesh`](super::Mesh) for nodes without connections.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loco_fabric::PeerState;

use super::agreement::{Action, Agreement, Word};
use super::state::State;

/// All nodes of a mesh in one process.
pub(super) struct Neighbours {
    /// The states of the nodes, in the order of `State::nodes`.
    states: Box<[Arc<State>]>,
    inboxes: Box<[Inbox]>,
}

/// The words for a node, each with who said it.
type Inbox = Mutex<VecDeque<(usize, Word)>>;

impl Neighbours {
    /// Joins the nodes with these states, which know nothing of one another yet.
    pub(super) fn new(states: Box<[Arc<State>]>) -> Neighbours {
        let inboxes = states.iter().map(|_| Mutex::default()).collect();
        let neighbours = Neighbours { states, inboxes };
        let nodes = neighbours.states.len();
        for own in 0..nodes {
            neighbours.agree(own, |agreement, actions| {
                let peers = (0..nodes).filter(|&peer| peer != own);
                peers.for_each(|peer| agreement.attach(peer, actions));
            });
        }
        neighbours
    }

    /// Returns the states of the nodes, in the order of `State::nodes`.
    pub(super) fn states(&self) -> &[Arc<State>] {
        &self.states
    }

    /// Lets the node at `own` leave, with a goodbye or as if it had been killed. Returns once all have heard of it, and have
    /// revoked its access in the latter case, unless another thread that lets a node leave is about to do the last of that.
    pub(super) fn leave(&self, own: usize, how: PeerState) {
        if how == PeerState::Left {
            let revoke = self.agree(own, Agreement::leave);
            return self.settle(of(own, revoke));
        }
        self.states[own].lose_all_peers();
        let mut revocations = VecDeque::new();
        for peer in (0..self.states.len()).filter(|&peer| peer != own) {
            let revoke = self.agree(peer, |agreement, actions| agreement.lose(own, actions));
            revocations.extend(of(peer, revoke));
        }
        self.settle(revocations);
    }

    /// Lets the agreement of the node at `own` take in what happened. Returns the peers whose access it is to revoke.
    fn agree(&self, own: usize, event: impl FnOnce(&mut Agreement, &mut Vec<Action>)) -> Vec<usize> {
        let say = |to: usize, word| self.inbox(to).push_back((own, word));
        self.states[own].agree(event, say).revoke
    }

    /// Lets all nodes hear what was said to them, and makes the revocations `(who, whom)`, until nothing is left.
    fn settle(&self, mut revocations: VecDeque<(usize, usize)>) {
        loop {
            let mut is_quiet = true;
            for own in 0..self.states.len() {
                while !self.inbox(own).is_empty() {
                    is_quiet = false;
                    let revoke = self.agree(own, |agreement, actions| {
                        let next = self.inbox(own).pop_front();
                        if let Some((from, word)) = next {
                            agreement.hear(from, word, actions);
                        }
                    });
                    revocations.extend(of(own, revoke));
                }
            }
            if !is_quiet {
                continue;
            }
            let Some((own, victim)) = revocations.pop_front() else {
                return;
            };
            let state = &self.states[own];
            let outcome = state.revoke(state.nodes()[victim]);
            let revoke = self.agree(own, |agreement, actions| {
                agreement.revoked(victim, outcome, actions)
            });
            revocations.extend(of(own, revoke));
        }
    }

    fn inbox(&self, own: usize) -> MutexGuard<'_, VecDeque<(usize, Word)>> {
        // A panic elsewhere leaves it whole.
        self.inboxes[own].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns the revocations of the node at `own`.
fn of(own: usize, victims: Vec<usize>) -> VecDeque<(usize, usize)> {
    victims.into_iter().map(|victim| (own, victim)).collect()
}
