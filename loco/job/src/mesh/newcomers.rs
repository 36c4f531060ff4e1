//! Answers for a member which nodes join, to the threads that wait for the connections of those nodes.
//!
//! Relies on [`state`](super::state). Used by [`door`](super::door) and by the thread of [`wire`](super::wire).

use loco_fabric::PeerState;

use super::handshake::Refusal;
use super::state::State;

impl State {
    /// Returns true if the node at `index` joins, with that key, and is not connected yet.
    pub(super) fn expects(&self, index: usize, key: u64) -> bool {
        self.agreement().expects(index, key)
    }

    /// Returns true if the node at `index` joins, with that key, and is neither in nor lost.
    pub(super) fn is_on_its_way(&self, index: usize, key: u64) -> bool {
        let agreement = self.agreement();
        let has_key = agreement
            .newcomer(index)
            .is_some_and(|newcomer| newcomer.key == key);
        has_key && !agreement.is_shunned(index) && agreement.joins().any(|joining| joining == index)
    }

    /// Returns the reason why this node does not expect the newcomer at `index` with that key, which the member at `by` has let in. Once the
    /// loss of that member is reported, this node has heard of all newcomers that a survivor has heard of.
    pub(super) fn why_not_expected(&self, index: usize, key: u64, by: usize) -> Refusal {
        let agreement = self.agreement();
        match agreement.newcomer(index) {
            Some(newcomer) if newcomer.key != key => Refusal::NoLonger,
            Some(_) if agreement.is_shunned(index) => Refusal::Late,
            None if agreement.peer_state(by) != Some(PeerState::Alive) => Refusal::NoLonger,
            // It may have reached this node before the word that it joins.
            _ => Refusal::NotNow,
        }
    }

    /// Returns the nodes that join and are not connected yet, with their keys.
    pub(super) fn expected(&self) -> Vec<(usize, u64)> {
        let agreement = self.agreement();
        let key = |index| Some((index, agreement.newcomer(index)?.key));
        let joining = agreement.joins().filter_map(key);
        joining
            .filter(|&(index, key)| agreement.expects(index, key))
            .collect()
    }
}
