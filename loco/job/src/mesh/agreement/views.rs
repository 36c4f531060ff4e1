//! The views of a job that nodes may join: who proposes one, and when it has come.
//!
//! A view is proposed by the *sponsor*, the lowest member of the last view that is not gone: one with a node that joins (`joins`), or one
//! without the members that are gone or have announced that they leave. It says so to all, and each member that hears it says the same to all. A
//! view has come to a member once all members of the view before it have said so that are in and no suspects, and once the newcomer has, if
//! there is one. So all who survive hear of a view that has come to one of them, although the sponsor is lost in the middle.
//!
//! Views are proposed one after the other, and none while a loss is being agreed on. They have numbers, which are given by one member at a
//! time: a sponsor stays the sponsor until its loss is reported, it says goodbye, or a view without it has come. Whoever speaks has said
//! the numbers before in their order. So the next sponsor knows every number that a survivor knows, and members hear of views in their order.
//!
//! A node that has announced that it leaves takes part in the agreement on the view without it, and so learns that it may go. It takes no
//! part in later ones: it hears of no newcomers, and they do not hear of it. It is a peer in earlier views until it is gone: losses wait
//! for its word, and its own is agreed on like another's. If it is lost before, a view comes without it all the same.
//!
//! Relies on no other module. What a newcomer does is in `joins`.

use std::collections::BTreeSet;

use super::{Action, Agreement, Seat, Word};

/// The members at a time, named by index in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct View {
    /// Its number, which grows from view to view, not always by one: the number of one whose newcomer went is not used again. The first has
    /// that of the nodes that the job began with. Views with the same number have the same members at all nodes that have one another for
    /// members. In parts that take each other for lost they may differ.
    pub epoch: usize,
    /// The members. Each that is gone is [reported](Agreement::gone).
    pub members: Vec<usize>,
}

impl View {
    pub(super) fn first(nodes: usize) -> View {
        View {
            epoch: nodes,
            members: (0..nodes).collect(),
        }
    }
}

/// A view that is being agreed on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Proposal {
    pub(super) view: View,
    /// The node that joins, if one does.
    pub(super) newcomer: Option<usize>,
    /// The nodes that have said so.
    pub(super) said: BTreeSet<usize>,
}

impl Agreement {
    /// Announces that this node leaves, and asks for a view without it. Further calls do nothing.
    pub fn announce(&mut self, actions: &mut Vec<Action>) {
        if self.is_in() && self.announced.insert(self.own) {
            self.say_to_all(Word::Leaving, actions);
            self.settle(actions);
        }
    }

    /// Returns true once this node has announced that it leaves.
    pub fn has_announced(&self) -> bool {
        self.announced.contains(&self.own)
    }

    /// Returns true once a view without this node has come.
    pub fn is_let_go(&self) -> bool {
        self.is_in() && !self.view().members.contains(&self.own)
    }

    /// Returns true once this node has heard of a view without it, so that it hears of no later one.
    pub fn is_left_out(&self) -> bool {
        let proposed = self.proposed.values().map(|proposal| &proposal.view);
        let mut views = proposed.chain([self.view()]);
        self.is_in() && views.any(|view| !view.members.contains(&self.own))
    }

    /// Returns true while a view is being agreed on.
    pub fn is_changing(&self) -> bool {
        !self.proposed.is_empty()
    }

    /// Returns the last view.
    pub fn view(&self) -> &View {
        // There is always one.
        &self.views[self.views.len() - 1]
    }

    /// Returns the views that have come with a number above `epoch`, in the order in which they came.
    pub fn views_after(&self, epoch: usize) -> &[View] {
        let known = self.views.partition_point(|view| view.epoch <= epoch);
        &self.views[known..]
    }

    /// Returns the highest number of a view that this node has heard of, also of one that has not come.
    pub(super) fn last_number(&self) -> usize {
        let of_joins = self.newcomers.values().next_back();
        let proposed = self.proposed.keys().next_back();
        let heard = of_joins.map(|newcomer| newcomer.epoch).max(proposed.copied());
        self.view().epoch.max(heard.unwrap_or(0))
    }

    /// Returns the member that proposes views, if there is one.
    pub(super) fn sponsor(&self) -> Option<usize> {
        let mut members = self.view().members.iter().copied();
        members.find(|&member| self.seats[member] == Seat::In)
    }

    /// Returns the members of the last view that are not gone and have not announced that they leave.
    pub(super) fn staying(&self) -> Vec<usize> {
        let stays = |member: &usize| self.seats[*member] == Seat::In && !self.announced.contains(member);
        self.view().members.iter().copied().filter(stays).collect()
    }

    /// Returns true if this node may propose a view: no other is being agreed on, and no loss.
    pub(super) fn is_idle(&self) -> bool {
        self.proposed.is_empty() && !self.is_agreeing()
    }

    /// Returns true if this node is in, has not left, and is not cut off.
    pub(super) fn takes_part(&self) -> bool {
        self.is_in() && !self.is_out && !self.is_cut_off && !self.has_left
    }

    /// Proposes a view without the members that are gone or leave, if there are any and this node is the sponsor. Returns true if it does.
    fn renew(&mut self, actions: &mut Vec<Action>) -> bool {
        let may = self.grows && self.takes_part() && self.is_idle() && self.sponsor() == Some(self.own);
        let members = if may { self.staying() } else { return false };
        if members.len() == self.view().members.len() {
            return false;
        }
        let epoch = self.last_number() + 1;
        self.hear_of_view(self.own, View { epoch, members }, actions);
        true
    }

    /// Hears from `from` that a view is proposed in which nobody joins.
    pub(super) fn hear_of_view(&mut self, from: usize, view: View, actions: &mut Vec<Action>) {
        let is_new = self.is_in() && !self.is_left_out() && view.epoch > self.last_number();
        self.note_proposal(from, view.clone(), None, is_new);
        if is_new {
            self.say_to_all(Word::View(view), actions);
        }
    }

    /// Takes note that `from` has said that a view is proposed, which this node hears of for the first time if it `is_new`. A word about
    /// another view with that number counts for nothing.
    pub(super) fn note_proposal(&mut self, from: usize, view: View, newcomer: Option<usize>, is_new: bool) {
        if is_new {
            let proposal = Proposal {
                view: view.clone(),
                newcomer,
                said: BTreeSet::from([self.own]),
            };
            self.proposed.insert(view.epoch, proposal);
        }
        if let Some(proposal) = self.proposed.get_mut(&view.epoch)
            && proposal.view == view
            && proposal.newcomer == newcomer
        {
            proposal.said.insert(from);
        }
    }

    /// Takes the views for those of the job that all have said, in the order of their numbers. Proposes the next one, if it is due.
    pub(super) fn settle(&mut self, actions: &mut Vec<Action>) {
        loop {
            self.settle_proposed(actions);
            if !self.renew(actions) {
                return;
            }
        }
    }

    fn settle_proposed(&mut self, actions: &mut Vec<Action>) {
        while let Some((&epoch, proposal)) = self.proposed.first_key_value() {
            // A newcomer that goes has its turn all the same, when it was in.
            let newcomer = proposal.newcomer;
            let is_gone = newcomer.is_some_and(|index| matches!(self.seats[index], Seat::Gone(_)));
            if !is_gone && !self.is_agreed(proposal) {
                return;
            }
            if let Some(proposal) = self.proposed.remove(&epoch) {
                self.views.push(proposal.view);
            }
            if let Some(index) = newcomer {
                self.take_in(index, is_gone, actions);
            }
            self.report_gone_members();
        }
    }

    /// Returns true if all have said so whose word is needed.
    fn is_agreed(&self, proposal: &Proposal) -> bool {
        // A newcomer has those for in that its sponsor had.
        let is_member = |peer| !self.is_in() || self.view().members.contains(&peer);
        let is_needed =
            |&peer: &usize| self.seats[peer] == Seat::In && !self.is_suspect(peer) && is_member(peer);
        let mut needed = (0..self.seats.len()).filter(is_needed).peekable();
        // A newcomer that has lost everybody has not joined anything.
        let has_members = needed.peek().is_some();
        let have_said = needed.all(|peer| proposal.said.contains(&peer));
        match proposal.newcomer {
            None => have_said,
            Some(index) if index != self.own => have_said && proposal.said.contains(&index),
            Some(_) => {
                let hears_all = self.unheard.is_empty() && !self.is_agreeing();
                have_said && has_members && hears_all && !self.has_left
            }
        }
    }

    /// Reports the members of the view that were gone before it came, so that nobody waits for them.
    fn report_gone_members(&mut self) {
        for member in self.view().members.clone() {
            let is_reported = self.gone.in_order.iter().any(|&(gone, _)| gone == member);
            if let (Seat::Gone(how), false) = (self.seats[member], is_reported) {
                self.gone.in_order.push((member, how));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use loco_fabric::PeerState;

    use super::super::{NotNow, Revoked};
    use super::*;

    /// Returns the agreement of node `own` of `nodes`, connected with all, in a job with room for one more.
    fn member(own: usize, nodes: usize) -> Agreement {
        let mut agreement = Agreement::with_room(own, nodes, nodes + 1);
        let peers = (0..nodes).filter(|&peer| peer != own);
        peers.for_each(|peer| agreement.attach(peer, &mut Vec::new()));
        agreement.expose();
        agreement
    }

    fn view(epoch: usize, members: &[usize]) -> View {
        let members = members.to_vec();
        View { epoch, members }
    }

    #[test]
    fn a_node_that_announces_that_it_leaves_makes_a_view_without_it_and_learns_of_it() {
        let [mut own, mut leaver] = [0, 2].map(|node| member(node, 3));
        let mut actions = Vec::new();
        leaver.announce(&mut actions);
        assert_eq!(actions, [0, 1].map(|to| Action::Say(to, Word::Leaving)));
        assert!(leaver.has_announced() && !leaver.is_let_go());
        actions.clear();
        leaver.announce(&mut actions);
        assert_eq!(actions, []);

        own.hear(2, Word::Leaving, &mut actions);
        let without = view(4, &[0, 1]);
        let said = [1, 2].map(|to| Action::Say(to, Word::View(without.clone())));
        assert_eq!(actions, said);
        leaver.hear(0, Word::View(without.clone()), &mut actions);
        assert!(leaver.is_left_out() && !leaver.is_let_go());
        leaver.hear(1, Word::View(without.clone()), &mut actions);
        assert!(leaver.is_let_go());

        own.hear(1, Word::View(without.clone()), &mut actions);
        assert_eq!(own.view().epoch, 3, "the leaver has not said so");
        own.hear(2, Word::View(without.clone()), &mut actions);
        assert_eq!(own.views_after(3), [without]);
        assert_eq!(own.peer_state(2), Some(PeerState::Alive));
        own.hear(2, Word::Goodbye, &mut actions);
        assert_eq!(own.view().epoch, 4, "it was not a member any more");
    }

    #[test]
    fn a_member_that_is_gone_makes_a_view_without_it() {
        let mut actions = Vec::new();
        let mut own = member(0, 2);
        own.hear(1, Word::Goodbye, &mut actions);
        assert_eq!(*own.view(), view(3, &[0]));
        let mut own = member(0, 2);
        own.lose(1, &mut actions);
        assert_eq!(own.view().epoch, 2);
        own.revoked(1, Revoked::Done, &mut actions);
        assert_eq!(*own.view(), view(3, &[0]));
    }

    /// Nothing is said beyond what losses need.
    #[test]
    fn a_job_of_a_fixed_number_of_nodes_has_one_view() {
        let mut own = Agreement::new(0, 2);
        own.attach(1, &mut Vec::new());
        own.lose(1, &mut Vec::new());
        assert_eq!(*own.view(), view(2, &[0, 1]));
    }

    #[test]
    fn a_view_comes_although_its_sponsor_and_the_leaver_are_lost_on_the_way() {
        let (mut own, mut actions) = (member(1, 3), Vec::new());
        own.hear(2, Word::Leaving, &mut actions);
        own.hear(0, Word::View(view(4, &[0, 1])), &mut actions);
        own.lose(2, &mut actions);
        assert_eq!(*own.view(), view(4, &[0, 1]), "a suspect is not waited for");
        own.lose(0, &mut actions);
        for lost in [0, 2] {
            own.revoked(lost, Revoked::Done, &mut actions);
        }
        assert_eq!(*own.view(), view(5, &[1]));
    }

    #[test]
    fn a_node_without_which_a_view_has_come_takes_no_part_in_later_ones() {
        let (mut own, mut actions) = (member(0, 2), Vec::new());
        own.announce(&mut actions);
        own.hear(1, Word::View(view(3, &[1])), &mut actions);
        assert!(own.is_let_go());
        assert_eq!(own.propose(7, &mut actions), Err(NotNow::Sponsor(1)));
        actions.clear();
        let newcomer = super::super::Newcomer {
            index: 2,
            key: 7,
            members: vec![1],
            epoch: 4,
        };
        own.hear(1, Word::Join(newcomer), &mut actions);
        own.hear(1, Word::View(view(5, &[1])), &mut actions);
        assert!(actions.is_empty() && !own.expects(2, 7) && own.view().epoch == 3);
        // It is asked for its word on a node that it does not know.
        own.hear(1, Word::Lost(2), &mut actions);
        assert_eq!(actions, [Action::Say(1, Word::Revoked(2))]);
    }

    #[test]
    fn all_may_leave_at_once() {
        let (mut own, mut actions) = (member(0, 2), Vec::new());
        own.hear(1, Word::Leaving, &mut actions);
        own.announce(&mut actions);
        own.hear(1, Word::View(view(3, &[0])), &mut actions);
        assert_eq!(*own.view(), view(4, &[]));
        assert_eq!(own.propose(7, &mut actions), Err(NotNow::Over));
    }
}
