//! The words of the [`Agreement`](super::agreement::Agreement) as frames: there nodes have indices, here ids.
//!
//! Relies on [`frame`](super::frame) and on the connections of [`wire`](super::wire), which alone uses it.

use std::sync::Arc;

use loco_fabric::{NodeId, Result};

use super::agreement::{Newcomer, View, Word};
use super::frame::Frame;
use super::parcel::{Closed, Parcel};
use super::view::{Scope, view_number};
use super::wire::Wire;

impl Wire {
    /// Queues a word for the peer at an index, room or not: this must not wait.
    pub(super) fn say(&self, to: usize, word: Word) {
        let nodes = self.state.nodes();
        let of = |members: Vec<usize>| members.into_iter().map(|member| nodes[member]).collect();
        let frame = match word {
            Word::Lost(victim) => Frame::Lost(nodes[victim]),
            Word::Revoked(victim) => Frame::Revoked(nodes[victim]),
            Word::Goodbye => Frame::Goodbye,
            Word::Left(peer) => Frame::Left(nodes[peer]),
            Word::WasIn(peer) => Frame::WasIn(nodes[peer]),
            Word::Join(newcomer) => Frame::Join {
                node: nodes[newcomer.index],
                key: newcomer.key,
                members: of(newcomer.members),
                view: view_number(newcomer.epoch),
            },
            Word::Leaving => Frame::Leaving,
            Word::View(view) => Frame::View {
                view: view_number(view.epoch),
                members: of(view.members),
            },
        };
        if let Some(connection) = self.connections[to].get() {
            let mut outgoing = connection.lock();
            outgoing.push(&frame.encode());
            connection.flush(&mut outgoing);
        }
    }

    /// Tells the members of a view that this node takes no part in it any more, behind what it has sent there. Does not wait for them.
    pub(super) fn say_closed(&self, scope: &Scope, how: Closed) {
        let view = scope.number();
        let frame = Frame::Parcel(Parcel::Closed { view, how }).encode();
        let mut is_queued = false;
        let members = scope.indices().iter();
        for connection in members.filter_map(|&member| self.connections[member].get()) {
            let mut outgoing = connection.lock();
            outgoing.push(&frame);
            is_queued |= connection.flush(&mut outgoing);
        }
        if is_queued {
            self.wake();
        }
    }

    /// Hears a word of the peer at `from` about `node`.
    pub(super) fn hear(self: &Arc<Self>, from: usize, node: NodeId, word: impl FnOnce(usize) -> Word) {
        let Ok(index) = self.state.index(node) else {
            return;
        };
        let was_out = self.state.is_out();
        self.agree(|agreement, actions| agreement.hear(from, word(index), actions));
        if !was_out && self.state.is_out() {
            tracing::error!(node = %self.state.node(), by = %self.state.nodes()[from], "declared lost by a peer");
        }
    }

    fn indices(&self, nodes: &[NodeId]) -> Result<Vec<usize>> {
        nodes.iter().map(|&node| self.state.index(node)).collect()
    }

    /// Hears from the peer at `from` that the view with this number has these members.
    pub(super) fn hear_of_view(self: &Arc<Self>, from: usize, view: u32, members: &[NodeId]) {
        match self.indices(members) {
            Ok(members) => {
                let epoch = view as usize;
                let word = Word::View(View { epoch, members });
                self.agree(|agreement, actions| agreement.hear(from, word, actions));
            }
            Err(error) => {
                let by = self.state.nodes()[from];
                tracing::warn!(node = %self.state.node(), %by, view, %error, "heard of a view of nodes that it does not know");
            }
        }
    }

    /// Hears from the peer at `from` that `node` joins `members`, which makes a view with this number.
    pub(super) fn hear_of_join(
        self: &Arc<Self>,
        from: usize,
        (node, key): (NodeId, u64),
        members: &[NodeId],
        view: u32,
    ) {
        let epoch = view as usize;
        match (self.state.index(node), self.indices(members)) {
            (Ok(index), Ok(members)) => {
                let word = Word::Join(Newcomer {
                    index,
                    key,
                    members,
                    epoch,
                });
                self.agree(|agreement, actions| agreement.hear(from, word, actions));
            }
            _ => {
                let by = self.state.nodes()[from];
                tracing::warn!(node = %self.state.node(), %by, newcomer = %node, "heard of a join of or with nodes that it does not know");
            }
        }
    }
}
