//! How a node joins: who proposes it, who admits it, and when it is in.
//!
//! A process that wants to join asks any member. The [sponsor](NotNow::Sponsor), which is the lowest member, gives it an index and
//! says so to all. Each member that hears it says the same to all, so that all who survive hear of it although the sponsor is lost
//! in the middle. The newcomer connects with every member. A member tells it of the losses that were before, and then that it
//! joins. Once all members have told the newcomer, and it knows of no loss that is not agreed on, it says that it is in. A member
//! has it for in once the newcomer and all members have said so.
//!
//! So two things hold at every member that has the newcomer for in: all other survivors have it for one that joins, and it has
//! revoked the access of every node whose loss was reported without its word. Losses that are found meanwhile wait for its word as
//! soon as it is connected.
//!
//! Indices are given by one member at a time, as the numbers of views are (`views`). So the next sponsor knows every index that a
//! survivor knows. Newcomers come in one after the other. None is proposed while a loss is being agreed on, so that it need not
//! wait for that.
//!
//! A newcomer costs no member its place: it accuses none, and leaves if it cannot hear one.
//!
//! Each join makes a view. Its members are those that the sponsor had, so that they are the same for all that have the view.
//! Those that go later are reported as gone, and so are those that were gone before the view came.
//!
//! Survivors have had the same views. For this a newcomer that goes after it has said that it is in has its view all the
//! same, and is reported then. Before a survivor says that the access of a lost newcomer is revoked, it says that the newcomer was
//! in, if it has heard it.
//!
//! Two parts of a network that take each other for lost may both go on, and each may let a node in: under the same index,
//! with views of the same number. No majority is asked for. One that is asked for by the sponsor alone would not be enough: it may
//! lose the others between its proposal and the join. The [key](Newcomer::key) tells such newcomers apart.
//!
//! Driven between processes by `door`, for the members, and by `entering`, for the newcomer; and by the worlds of `checkers/mesh`.

use loco_fabric::PeerState;

use super::{Action, Agreement, Proposal, Seat, View, Word};

/// A node that joins, as all members know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Newcomer {
    /// Its index, which no node has had before.
    pub index: usize,
    /// A number that its process has drawn for this attempt, by which it is told from another attempt that was to have the same
    /// index.
    pub key: u64,
    /// The members that its sponsor had, in ascending order.
    pub members: Vec<usize>,
    /// The number of the view that it makes.
    pub epoch: usize,
}

/// The reason why a node proposes no newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotNow {
    /// This member does.
    Sponsor(usize),
    /// A loss or a view is being agreed on. Ask again later.
    Busy,
    /// Every index was used.
    Full,
    /// The node is not in, leaves, or is cut off.
    Over,
}

impl Newcomer {
    fn view(&self) -> View {
        let mut members = self.members.clone();
        members.push(self.index);
        View {
            epoch: self.epoch,
            members,
        }
    }
}

impl Agreement {
    /// Returns what a newcomer knows at its start, of a job with this room. It is connected with nobody. Its view has no members
    /// until it [is in](Agreement::is_in).
    ///
    /// # Panics
    /// Panics when the newcomer's index, or that of a member, is not below `room`: the driver compares the rooms of both sides before.
    pub fn joining(newcomer: Newcomer, room: usize) -> Agreement {
        let own = newcomer.index;
        let mut agreement = Agreement::with_room(own, 0, room);
        // An index below that is not that of a member was used before, or never will be.
        agreement.seats[..own].fill(Seat::Gone(PeerState::Lost));
        for &member in &newcomer.members {
            agreement.seats[member] = Seat::In;
        }
        agreement.seats[own] = Seat::Joining;
        agreement.note_proposal(own, newcomer.view(), Some(own), true);
        agreement.newcomers.insert(own, newcomer);
        agreement
    }

    /// Gives an index to the process that has drawn `key` for this attempt, and says so to all. The index is used up, also if
    /// nothing comes of the attempt.
    ///
    /// # Errors
    /// Returns the reason why this node cannot.
    pub fn propose(&mut self, key: u64, actions: &mut Vec<Action>) -> Result<Newcomer, NotNow> {
        if !self.takes_part() {
            return Err(NotNow::Over);
        }
        let Some(index) = self.next() else {
            return Err(NotNow::Full);
        };
        if !self.is_idle() {
            return Err(NotNow::Busy);
        }
        match self.sponsor() {
            Some(sponsor) if sponsor == self.own => {}
            Some(sponsor) => return Err(NotNow::Sponsor(sponsor)),
            None => return Err(NotNow::Over),
        }
        let newcomer = Newcomer {
            index,
            key,
            members: self.staying(),
            epoch: self.last_number() + 1,
        };
        self.admit(self.own, newcomer.clone(), actions);
        Ok(newcomer)
    }

    /// Returns the lowest index above all that were used, if there is one.
    fn next(&self) -> Option<usize> {
        let last = self.seats.iter().rposition(|&seat| seat != Seat::Vacant);
        Some(last.map_or(0, |last| last + 1)).filter(|&index| index < self.seats.len())
    }

    /// Returns true unless every index was used.
    pub fn has_room(&self) -> bool {
        self.next().is_some()
    }

    /// Returns true if `peer` joins, with that key, and is not connected yet.
    pub fn expects(&self, peer: usize, key: u64) -> bool {
        self.seats[peer] == Seat::Joining
            && !self.is_shunned(peer)
            && !self.attached[peer]
            && self.newcomer(peer).is_some_and(|newcomer| newcomer.key == key)
    }

    /// Returns what this node knows of a node that joins or has joined, also after it is gone.
    pub fn newcomer(&self, peer: usize) -> Option<&Newcomer> {
        self.newcomers.get(&peer)
    }

    /// Returns the nodes that join, and those that have gone after they said that they are in, until their view comes.
    pub fn joins(&self) -> impl Iterator<Item = usize> {
        self.proposed.values().filter_map(|proposal| proposal.newcomer)
    }

    /// Returns true unless this node joins and is not in yet.
    pub fn is_in(&self) -> bool {
        self.seats[self.own] == Seat::In
    }

    /// Hears from `from` that a node joins. Says so to all, if this is the first word of it.
    pub(super) fn admit(&mut self, from: usize, newcomer: Newcomer, actions: &mut Vec<Action>) {
        let index = newcomer.index;
        // This node is no member any more if the sponsor did not have it.
        let is_new = self.seats[index] == Seat::Vacant
            && newcomer.members.contains(&self.own)
            && newcomer.epoch > self.last_number();
        if is_new {
            self.seats[index] = Seat::Joining;
            self.newcomers.insert(index, newcomer.clone());
        }
        // A word about another newcomer counts for nothing.
        if self.newcomers.get(&index) == Some(&newcomer) {
            self.note_proposal(from, newcomer.view(), Some(index), is_new);
        }
        if is_new {
            self.say_to_all(Word::Join(newcomer), actions);
        }
    }

    /// Returns the proposal of the view that a newcomer makes, until that has come.
    fn proposal_of(&self, peer: usize) -> Option<&Proposal> {
        let proposal = self.proposed.get(&self.newcomer(peer)?.epoch)?;
        Some(proposal).filter(|proposal| proposal.newcomer == Some(peer))
    }

    /// Makes no view of a newcomer that goes.
    pub(super) fn drop_proposal_of(&mut self, peer: usize) {
        if self.proposal_of(peer).is_some()
            && let Some(newcomer) = self.newcomers.get(&peer)
        {
            self.proposed.remove(&newcomer.epoch);
        }
    }

    /// Returns true if the newcomer has said that it is in, and its view has not come yet.
    pub fn has_said_that_it_is_in(&self, peer: usize) -> bool {
        let proposal = self.proposal_of(peer);
        peer != self.own && proposal.is_some_and(|proposal| proposal.said.contains(&peer))
    }

    /// Returns what is said of a newcomer that goes, if it has said that it is in: others may not have heard it.
    pub(super) fn word_of_one_that_was_in(&self, peer: usize) -> Option<Word> {
        let has_been = self.has_said_that_it_is_in(peer) || self.has_been_in(peer);
        has_been.then_some(Word::WasIn(peer))
    }

    /// Returns true if the view of the newcomer has come.
    fn has_been_in(&self, peer: usize) -> bool {
        let is_reported = || self.gone.in_order.iter().any(|&(gone, _)| gone == peer);
        self.newcomers.contains_key(&peer) && (self.seats[peer] == Seat::In || is_reported())
    }

    /// Hears that a newcomer has said that it is in, and passes it on, if this node has not heard it from the newcomer.
    pub(super) fn note_was_in(&mut self, peer: usize, actions: &mut Vec<Action>) {
        if self.seats[peer] == Seat::Joining && !self.has_said_that_it_is_in(peer) {
            if let Some(newcomer) = self.newcomers.get(&peer) {
                self.note_proposal(peer, newcomer.view(), Some(peer), false);
            }
            self.say_to_all(Word::WasIn(peer), actions);
        }
    }

    /// Hears from another that `peer` has left. Where this node still reads what that one has said itself, it goes behind that.
    pub(super) fn hear_of_leaver(&mut self, peer: usize) {
        let is_read = self.attached[peer] && !self.is_shunned(peer);
        match self.seats[peer] {
            Seat::In if !self.is_in() && is_read => {
                self.leaving.insert(peer);
            }
            Seat::In if self.is_in() => {}
            Seat::Joining if peer == self.own || self.attached[peer] => {}
            Seat::In | Seat::Joining => {
                self.go(peer, PeerState::Left);
                self.report();
            }
            Seat::Vacant | Seat::Gone(_) => {}
        }
    }

    /// Takes the newcomer for in whose view has come, unless it `is_gone` already. This node says so if it is the one.
    pub(super) fn take_in(&mut self, index: usize, is_gone: bool, actions: &mut Vec<Action>) {
        if !is_gone {
            self.seats[index] = Seat::In;
        }
        if let Some(newcomer) = self.newcomers.get(&index).filter(|_| index == self.own) {
            self.say_to_all(Word::Join(newcomer.clone()), actions);
        }
    }

    /// Returns what a node that gets connected with `peer` says of nodes that join. To a newcomer it says which members have left.
    pub(super) fn words_of_joins(&self, peer: usize) -> impl Iterator<Item = Word> {
        let is_newcomer = self.seats[peer] == Seat::Joining;
        let members = self.newcomer(peer).filter(|_| is_newcomer);
        let members = members.into_iter().flat_map(|newcomer| &newcomer.members);
        let left = members.filter(|&&member| self.seats[member] == Seat::Gone(PeerState::Left));
        let joins = self.joins().filter(|&index| index != self.own);
        let joins = joins.filter_map(|index| self.newcomer(index));
        left.map(|&member| Word::Left(member))
            .chain(joins.map(|newcomer| Word::Join(newcomer.clone())))
    }

    /// Says a word to every newcomer that is connected.
    pub(super) fn say_to_newcomers(&self, word: &Word, actions: &mut Vec<Action>) {
        let hears = |&peer: &usize| {
            peer != self.own && self.attached[peer] && !self.is_shunned(peer) && !self.has_left
        };
        let newcomers = self.joins().filter(hears);
        actions.extend(newcomers.map(|peer| Action::Say(peer, word.clone())));
    }
}

#[cfg(test)]
mod tests {
    use super::super::Revoked;
    use super::*;

    /// Returns the agreement of node 0 of `nodes`, connected with all, with a fabric that is up.
    fn sponsor(nodes: usize, room: usize) -> Agreement {
        let mut agreement = Agreement::with_room(0, nodes, room);
        (1..nodes).for_each(|peer| agreement.attach(peer, &mut Vec::new()));
        agreement.expose();
        agreement
    }

    /// Returns the agreement of node 2, which joins nodes 0 and 1 and is connected with both.
    fn newcomer() -> (Agreement, Newcomer) {
        let newcomer = Newcomer {
            index: 2,
            key: 7,
            members: vec![0, 1],
            epoch: 3,
        };
        let mut agreement = Agreement::joining(newcomer.clone(), 4);
        agreement.expose();
        (0..2).for_each(|peer| agreement.attach(peer, &mut Vec::new()));
        (agreement, newcomer)
    }

    #[test]
    fn a_node_is_in_once_it_and_all_members_have_said_so() {
        let (mut own, mut actions) = (sponsor(2, 3), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        assert_eq!(actions, [Action::Say(1, Word::Join(newcomer.clone()))]);
        assert!(own.expects(2, 7) && !own.expects(2, 8) && !own.expects(1, 7));
        actions.clear();
        own.attach(2, &mut actions);
        assert_eq!(actions, [Action::Say(2, Word::Join(newcomer.clone()))]);
        assert!(!own.expects(2, 7));
        own.hear(2, Word::Join(newcomer.clone()), &mut actions);
        assert_eq!((own.peer_state(2), own.view().epoch), (None, 2));
        own.hear(1, Word::Join(newcomer), &mut actions);
        assert_eq!(own.peer_state(2), Some(PeerState::Alive));
        let members = vec![0, 1, 2];
        assert_eq!(*own.view(), View { epoch: 3, members });
    }

    #[test]
    fn views_come_in_order_and_those_of_attempts_that_failed_do_not() {
        let (mut own, mut actions) = (sponsor(1, 4), Vec::new());
        let failed = own.propose(7, &mut actions).unwrap();
        own.lose(failed.index, &mut actions);
        own.revoked(failed.index, Revoked::Done, &mut actions);
        for key in [8, 9] {
            let newcomer = own.propose(key, &mut actions).unwrap();
            own.attach(newcomer.index, &mut actions);
            for member in 2..=newcomer.index {
                own.hear(member, Word::Join(newcomer.clone()), &mut actions);
            }
        }
        let views = |after| {
            let views = own.views_after(after).iter();
            views.map(|view| view.members.clone()).collect::<Vec<_>>()
        };
        assert_eq!(views(1), [vec![0, 2], vec![0, 2, 3]]);
        assert_eq!(views(3), [vec![0, 2, 3]]);
        assert_eq!(views(4), Vec::<Vec<usize>>::new());
    }

    #[test]
    fn a_node_that_comes_back_gets_another_index_and_its_old_self_is_not_expected() {
        let (mut own, mut actions) = (sponsor(2, 4), Vec::new());
        let first = own.propose(7, &mut actions).unwrap();
        own.lose(first.index, &mut actions);
        own.revoked(first.index, Revoked::Done, &mut actions);
        own.hear(1, Word::Revoked(first.index), &mut actions);
        assert!(!own.is_agreeing() && own.gone().in_order().is_empty());
        let second = own.propose(7, &mut actions).unwrap();
        assert_eq!((first.index, second.index), (2, 3));
        assert!(own.expects(3, 7) && !own.expects(2, 7));
        own.hear(1, Word::Lost(3), &mut actions);
        own.revoked(3, Revoked::DoneForAll, &mut actions);
        assert_eq!(own.propose(7, &mut actions), Err(NotNow::Full));
    }

    #[test]
    fn a_node_that_cannot_propose_says_why() {
        let mut actions = Vec::new();
        let mut other = Agreement::with_room(1, 2, 3);
        assert_eq!(other.propose(7, &mut actions), Err(NotNow::Sponsor(0)));
        assert_eq!(sponsor(2, 2).propose(7, &mut actions), Err(NotNow::Full));
        let mut own = sponsor(3, 5);
        own.lose(2, &mut actions);
        assert_eq!(own.propose(7, &mut actions), Err(NotNow::Busy));
        own.revoked(2, Revoked::DoneForAll, &mut actions);
        // A view without the lost node comes first.
        assert_eq!(own.propose(7, &mut actions), Err(NotNow::Busy));
        let members = vec![0, 1];
        own.hear(1, Word::View(View { epoch: 4, members }), &mut actions);
        assert_eq!(own.propose(7, &mut actions).unwrap().members, [0, 1]);
        assert_eq!(own.propose(8, &mut actions), Err(NotNow::Busy));
        own.leave(&mut actions);
        assert_eq!(own.propose(9, &mut actions), Err(NotNow::Over));
    }

    #[test]
    fn a_newcomer_accuses_nobody_and_waits_for_the_word_of_the_others() {
        let ((mut own, newcomer), mut actions) = (newcomer(), Vec::new());
        own.hear(0, Word::Join(newcomer.clone()), &mut actions);
        assert_eq!(own.members_left(), [0, 1]);
        own.lose(1, &mut actions);
        assert_eq!(actions, []);
        assert!(own.is_shunned(1) && !own.is_in());
        assert_eq!(own.members_left(), [0]);
        own.hear(0, Word::Lost(1), &mut actions);
        assert_eq!(actions, [Action::Revoke(1)]);
        own.revoked(1, Revoked::Done, &mut actions);
        assert!(!own.is_in());
        own.hear(0, Word::Revoked(1), &mut actions);
        assert!(own.is_in());
        assert_eq!(actions.last(), Some(&Action::Say(0, Word::Join(newcomer))));
    }

    #[test]
    fn a_newcomer_that_has_lost_everybody_does_not_come_in() {
        let ((mut own, newcomer), mut actions) = (newcomer(), Vec::new());
        own.hear(0, Word::Join(newcomer), &mut actions);
        own.hear(1, Word::Goodbye, &mut actions);
        assert!(own.is_in());
        let ((mut own, _), mut actions) = (self::newcomer(), Vec::new());
        own.hear(0, Word::Goodbye, &mut actions);
        own.hear(1, Word::Goodbye, &mut actions);
        assert!(!own.is_in() && own.members_left().is_empty());
    }

    #[test]
    fn a_newcomer_hears_which_members_have_left() {
        let (mut own, mut actions) = (sponsor(3, 5), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        own.hear(2, Word::Goodbye, &mut actions);
        actions.clear();
        own.attach(3, &mut actions);
        let said = [Word::Left(2), Word::Join(newcomer)];
        assert_eq!(actions, said.map(|word| Action::Say(3, word)));
        actions.clear();
        own.hear(1, Word::Goodbye, &mut actions);
        assert_eq!(actions, [Action::Say(3, Word::Left(1))]);
    }

    #[test]
    fn a_newcomer_that_goes_after_it_was_in_has_its_view_and_is_reported() {
        let (mut own, mut actions) = (sponsor(2, 4), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        own.attach(2, &mut actions);
        own.hear(2, Word::Join(newcomer), &mut actions);
        own.hear(2, Word::Goodbye, &mut actions);
        assert_eq!(
            (own.view().epoch, own.gone().in_order()),
            (3, &[(2, PeerState::Left)][..])
        );
    }

    #[test]
    fn survivors_tell_one_another_that_a_lost_newcomer_was_in() {
        let (mut own, mut actions) = (sponsor(2, 4), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        own.attach(2, &mut actions);
        let mut other = own.clone();
        own.hear(2, Word::Join(newcomer), &mut actions);
        actions.clear();
        own.lose(2, &mut actions);
        own.revoked(2, Revoked::Done, &mut actions);
        let to_member = actions
            .iter()
            .filter(|action| matches!(action, Action::Say(1, _)));
        let said = [Word::Lost(2), Word::WasIn(2), Word::Revoked(2)].map(|word| Action::Say(1, word));
        assert!(to_member.eq(&said), "{actions:?}");
        // One revocation counts for all, and yet the other's word is awaited.
        other.lose(2, &mut actions);
        other.revoked(2, Revoked::DoneForAll, &mut actions);
        assert!(other.is_agreeing());
        other.hear(1, Word::WasIn(2), &mut actions);
        other.hear(1, Word::Revoked(2), &mut actions);
        assert_eq!(
            (other.view().epoch, other.gone().in_order()),
            (3, &[(2, PeerState::Lost)][..])
        );
    }

    /// The one that said so may stop before all have heard it, and this node has said already that it has revoked.
    #[test]
    fn who_hears_from_another_that_a_newcomer_was_in_passes_it_on() {
        let (mut own, mut actions) = (sponsor(3, 4), Vec::new());
        own.propose(7, &mut actions).unwrap();
        own.attach(3, &mut actions);
        own.lose(3, &mut actions);
        own.revoked(3, Revoked::Done, &mut actions);
        actions.clear();
        own.hear(1, Word::WasIn(3), &mut actions);
        assert!(actions.contains(&Action::Say(2, Word::WasIn(3))), "{actions:?}");
    }

    #[test]
    fn a_member_of_a_view_that_was_gone_before_it_is_reported() {
        let (mut own, mut actions) = (Agreement::with_room(1, 2, 4), Vec::new());
        own.attach(0, &mut actions);
        let newcomer = |index, members| Newcomer {
            index,
            key: 7,
            members,
            epoch: index + 1,
        };
        own.hear(0, Word::Join(newcomer(2, vec![0, 1])), &mut actions);
        own.lose(2, &mut actions);
        own.hear(0, Word::Revoked(2), &mut actions);
        assert_eq!(own.gone().in_order(), []);
        let second = newcomer(3, vec![0, 1, 2]);
        own.hear(0, Word::Join(second.clone()), &mut actions);
        own.attach(3, &mut actions);
        own.hear(3, Word::Join(second), &mut actions);
        assert_eq!(
            (own.view().epoch, own.gone().in_order()),
            (4, &[(2, PeerState::Lost)][..])
        );
    }

    /// The words that a member sent before its goodbye are read first, although another member has told of the goodbye already.
    #[test]
    fn a_newcomer_reads_a_member_on_although_another_says_that_it_has_left() {
        let ((mut own, newcomer), mut actions) = (newcomer(), Vec::new());
        own.hear(0, Word::Join(newcomer.clone()), &mut actions);
        own.hear(0, Word::Left(1), &mut actions);
        assert!(!own.is_shunned(1) && !own.is_in());
        let mut cut = own.clone();
        own.hear(1, Word::Goodbye, &mut actions);
        assert_eq!((own.peer_state(1), own.is_in()), (Some(PeerState::Left), true));
        // Its goodbye is lost with the connection.
        cut.lose(1, &mut actions);
        assert_eq!((cut.peer_state(1), cut.is_in()), (Some(PeerState::Left), true));
    }

    #[test]
    fn a_member_believes_nobody_that_another_member_has_left() {
        let (mut own, mut actions) = (sponsor(3, 3), Vec::new());
        own.hear(1, Word::Left(2), &mut actions);
        assert_eq!(own.peer_state(2), Some(PeerState::Alive));
    }

    #[test]
    fn a_newcomer_that_gives_up_is_not_awaited_by_those_it_has_not_reached() {
        let (mut own, mut actions) = (sponsor(2, 3), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        own.attach(2, &mut actions);
        actions.clear();
        own.hear(2, Word::Goodbye, &mut actions);
        assert_eq!(actions, [Action::Say(1, Word::Left(2))]);
        let mut other = Agreement::with_room(1, 2, 3);
        other.hear(0, Word::Join(newcomer), &mut actions);
        assert!(other.expects(2, 7));
        other.hear(0, Word::Left(2), &mut actions);
        assert!(!other.expects(2, 7) && other.joins().next().is_none());
    }

    #[test]
    fn a_word_about_another_newcomer_with_the_index_counts_for_nothing() {
        let (mut own, mut actions) = (sponsor(2, 3), Vec::new());
        let newcomer = own.propose(7, &mut actions).unwrap();
        own.attach(2, &mut actions);
        own.hear(2, Word::Join(newcomer.clone()), &mut actions);
        let other = Newcomer { key: 8, ..newcomer };
        own.hear(1, Word::Join(other), &mut actions);
        assert_eq!(own.peer_state(2), None);
    }

    #[test]
    fn a_node_that_is_cut_off_proposes_nobody() {
        let mut own = sponsor(2, 3);
        own.lose_all();
        assert_eq!(own.propose(7, &mut Vec::new()), Err(NotNow::Over));
    }
}
