//! Links between nodes that are cut for a while.
//!
//! Nothing is lost by it: the operations that have to pass the link wait until it is there again. Used by [`super::faults`], which counts
//! cuts among the faults, and by walkers, which leave out the steps that cannot pass.

use mowgli::machine::{QpId, Rule, Step};
use smallvec::SmallVec;

use super::State;

/// The links that are cut, and how many more may be.
#[derive(Clone, Default)]
pub(crate) struct Links {
    left: u32,
    /// The ends of each link that is cut, the smaller number first, in order.
    cut: SmallVec<[(u16, u16); 2]>,
}

impl Links {
    pub(super) fn new(left: u32) -> Links {
        Links {
            left,
            cut: SmallVec::new(),
        }
    }

    /// Returns the links that are cut.
    pub(super) fn cut(&self) -> impl Iterator<Item = (u16, u16)> + '_ {
        self.cut.iter().copied()
    }

    /// Returns whether links are cut, or may yet be.
    pub(crate) fn is_unsettled(&self) -> bool {
        self.left > 0 || !self.cut.is_empty()
    }

    fn is_cut(&self, one: u16, other: u16) -> bool {
        self.cut.contains(&(one.min(other), one.max(other)))
    }

    /// Cuts a link. Returns false if that cannot happen now.
    pub(super) fn fail(&mut self, node: u16, peer: u16) -> bool {
        let (Some(left), Err(at)) = (self.left.checked_sub(1), self.cut.binary_search(&(node, peer))) else {
            return false;
        };
        self.left = left;
        self.cut.insert(at, (node, peer));
        true
    }

    /// Brings a link back. Returns false if it is there.
    pub(super) fn heal(&mut self, node: u16, peer: u16) -> bool {
        let at = self.cut.binary_search(&(node, peer));
        at.map(|at| self.cut.remove(at)).is_ok()
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.left.to_le_bytes());
        out.push(self.cut.len() as u8);
        for (node, peer) in &self.cut {
            out.extend_from_slice(&node.to_le_bytes());
            out.extend_from_slice(&peer.to_le_bytes());
        }
    }
}

impl State {
    /// Returns whether the step has to wait for a link that is cut. Reads of the source and writes to the poster's own memory go on. A write
    /// that has left counts as under way until it is placed: an exploration may have moved it to the other end at once, since that
    /// commutes with everything.
    pub(crate) fn waits_for_link(&self, step: Step) -> bool {
        let Step::Nic { qp, rule, .. } = step else {
            return false;
        };
        let passes = match rule {
            Rule::RemoteWrite
            | Rule::PlaceRemote
            | Rule::RemoteRead
            | Rule::AtomicRead
            | Rule::Respond
            | Rule::Complete => true,
            // An exchange that has begun is finished by the card at the other end.
            Rule::AtomicWrite | Rule::Fence | Rule::LocalRead | Rule::PlaceLocal | Rule::Forward => false,
        };
        let links = &self.losses.links;
        passes && !links.cut.is_empty() && links.is_cut(self.info(qp.thread).node, qp.peer)
    }

    /// Passes on the links that can be cut and on which something is under way: a cut before that is the same.
    pub(super) fn links_to_cut(&self, mut add: impl FnMut(u16, u16)) {
        let links = &self.losses.links;
        if links.left == 0 {
            return;
        }
        let nodes = self.node_count() as u16;
        for node in 0..nodes {
            for peer in node + 1..nodes {
                let busy = || self.is_under_way(node, peer) || self.is_under_way(peer, node);
                if !links.is_cut(node, peer) && busy() {
                    add(node, peer);
                }
            }
        }
    }

    /// Returns whether an operation of a thread of `node` towards `peer` is under way.
    fn is_under_way(&self, node: u16, peer: u16) -> bool {
        (0..self.threads.len() as u16)
            .filter(|&thread| self.info(thread).node == node)
            .any(|thread| {
                let mut found = false;
                self.machine.outstanding(QpId { thread, peer }, |_| found = true);
                found
            })
    }
}
