//! The agreement of the nodes on who is in: what one node knows of the others, and what follows from what it hears.
//!
//! A node that thinks a peer lost, a *suspect*, revokes the suspect's access to its memory. Then it says so to all, to the suspect,
//! too. Each node that hears it does the same. A survivor reports the loss once all survivors have revoked
//! ([`Membership`](loco_fabric::Membership) says what follows for programs). Suspects are reported together: one that is not
//! harmless yet may pass on what another one wrote to it.
//!
//! The revocation comes before the word, because where nodes share memory it fails for a node that is shut out itself. Such a node
//! would else have the better of the one that shut it out: a third node may hear its word first.
//!
//! A node may join while the others run, if there is room for it (`joins`). It gets an index that no node has had, so that a node
//! that was lost and comes back is another one, and its old self stays shut out. Where nodes may join, each node that joins, leaves or is
//! lost makes a view (`views`).
//!
//! An [`Agreement`] has no sockets, clocks or threads. What happened goes in, by its methods, and [`Action`]s come out. Whoever
//! drives it does these in their order and keeps to six rules:
//!
//! * Words of a peer are [heard](Agreement::hear) only once the peer is [attached](Agreement::attach): a newcomer that hears the last
//!   word that it waits for says once that it is in, to those that are attached.
//! * The words for a peer are sent in the order in which they came out, and heard in that order, or the connection ends.
//! * A peer that is [shunned](Agreement::is_shunned) is not read any more. Once [nothing more is said](Agreement::is_over) to it, the
//!   connection is closed behind what was said.
//! * While the node [is agreeing](Agreement::is_agreeing), every other peer is read, whether or not somebody takes the messages
//!   that it sends: words come behind messages.
//! * A peer that is cut off, has ended or is silent for too long is [lost](Agreement::lose) sooner or later.
//! * A connection with a newcomer is made only while it is [expected](Agreement::expects). A member loses a newcomer that does not
//!   connect in time. A newcomer that is not [in](Agreement::is_in) in time [leaves](Agreement::leave). One that is connected and
//!   lives is timed out by itself alone.
//!
//! Relies on no other module. Kept by `state`. Driven by `in_process` for nodes of one process, by `wire` between processes, and by
//! `checkers/mesh`, which explores it with a driver of its own.

use std::collections::{BTreeMap, BTreeSet};

use loco_fabric::PeerState;

mod joins;
mod views;

use views::Proposal;

pub use joins::{Newcomer, NotNow};
pub use views::View;

/// The outcome of a revocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Revoked {
    /// The peer can no longer affect this node.
    Done,
    /// The peer can no longer affect any node but itself.
    DoneForAll,
    /// Peers had revoked this node's access before: this node is no longer part of the job.
    WeAreOut,
}

/// A word of one node to another about who is in. Nodes are named by their index in the list of all nodes.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Word {
    /// The speaker thinks that node lost.
    Lost(usize),
    /// That node, which is thought lost, can no longer affect the speaker.
    Revoked(usize),
    /// The speaker leaves; nothing follows.
    Goodbye,
    /// The speaker has the newcomer for one that joins, and tells it of losses from now on. Said by the newcomer itself: it is in.
    Join(Newcomer),
    /// That node has left. Said to those that may have no connection with it.
    Left(usize),
    /// That node, which goes, has said that it is in. Said before the speaker says that it has revoked its access.
    WasIn(usize),
    /// The speaker is going to leave, and asks for a view without it.
    Leaving,
    /// The speaker has this for the next view, in which nobody joins.
    View(View),
}

/// A thing to do for whoever drives an [`Agreement`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Send the word to this peer. This must not wait for the peer.
    Say(usize, Word),
    /// Revoke the peer's access to this node's memory, then call [`Agreement::revoked`]. This may take long; other calls may
    /// come meanwhile.
    Revoke(usize),
}

/// The use that was made of an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Seat {
    /// No node has had it, as far as this one knows.
    Vacant,
    /// Its node joins.
    Joining,
    /// Its node is in.
    In,
    /// Its node is gone. No other gets the index.
    Gone(PeerState),
}

/// The peers that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Gone {
    in_order: Vec<(usize, PeerState)>,
    is_agreeing: bool,
}

/// One node's knowledge of who is in. Its methods take nodes by their index.
///
/// # Panics
/// The methods panic when an index is not below the room, also one in a word: the driver refuses words about nodes that it does
/// not know.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Agreement {
    own: usize,
    seats: Vec<Seat>,
    /// The peers with which there is, or was, a connection.
    attached: Vec<bool>,
    /// The peers that are thought lost and not yet reported as such, and who has revoked each.
    suspects: BTreeMap<usize, BTreeSet<usize>>,
    gone: Gone,
    /// The peers of which this node has said that they are lost. A connection that comes late is told, too: else its peer would
    /// take this node, when it leaves because of them, for the one that was lost first.
    suspected: BTreeSet<usize>,
    /// Holds what all must know of the nodes that have joined or asked to.
    newcomers: BTreeMap<usize, Newcomer>,
    /// The views that are being agreed on, by number.
    proposed: BTreeMap<usize, Proposal>,
    /// The members from which this node, which joins, hears nothing any more.
    unheard: BTreeSet<usize>,
    /// The members of which this node, which joins, was told that they have left, and whose own last words it still reads.
    leaving: BTreeSet<usize>,
    /// The nodes that have announced that they leave, this one too, and are not gone.
    announced: BTreeSet<usize>,
    /// The views that have come, in their order. That of a node which joins begins with one without members.
    views: Vec<View>,
    /// Nodes may join, so that there may be more than one view.
    grows: bool,
    is_exposed: bool,
    has_left: bool,
    is_out: bool,
    is_cut_off: bool,
}

impl Agreement {
    /// Returns what the node at index `own` of `nodes` nodes knows at its start: all are in, none is connected with it.
    pub fn new(own: usize, nodes: usize) -> Agreement {
        Agreement::with_room(own, nodes, nodes)
    }

    /// Returns what the node at index `own` of `nodes` nodes knows at its start, where nodes may join until `room` indices were
    /// used.
    ///
    /// Each attempt to join uses an index for good, also one that came to nothing. So `room` is the number of nodes and of
    /// attempts: leave some for those that try again, for when it is used up nobody can join this job any more. It costs a few bytes
    /// for each index. All nodes of a job must have the same.
    pub fn with_room(own: usize, nodes: usize, room: usize) -> Agreement {
        let mut seats = vec![Seat::In; nodes];
        seats.resize(room.max(nodes), Seat::Vacant);
        Agreement {
            own,
            attached: vec![false; seats.len()],
            seats,
            suspects: BTreeMap::new(),
            gone: Gone::default(),
            suspected: BTreeSet::new(),
            newcomers: BTreeMap::new(),
            proposed: BTreeMap::new(),
            unheard: BTreeSet::new(),
            leaving: BTreeSet::new(),
            announced: BTreeSet::new(),
            views: vec![View::first(nodes)],
            grows: room > nodes,
            is_exposed: false,
            has_left: false,
            is_out: false,
            is_cut_off: false,
        }
    }

    /// Takes note that lost nodes can affect this one from now on, unless their access is revoked. Before, there is nothing to
    /// agree about, and a loss is reported as soon as it is seen.
    pub fn expose(&mut self) {
        self.is_exposed = true;
    }

    /// Takes note that there is a connection with `peer`. It is told what the others were told before.
    pub fn attach(&mut self, peer: usize, actions: &mut Vec<Action>) {
        self.attached[peer] = true;
        // Who is told of a loss waits for the second word, which this node has said to the others and says only once.
        let words_of = |&victim: &usize| {
            let was_in = self.word_of_one_that_was_in(victim);
            was_in
                .into_iter()
                .chain([Word::Lost(victim), Word::Revoked(victim)])
        };
        let lost = self.suspected.iter().flat_map(words_of);
        // The joins come behind the losses: a newcomer that hears of its own has heard of these.
        let joins = self.words_of_joins(peer);
        let is_leaving = self.announced.contains(&self.own);
        let words = lost.chain(joins).chain(is_leaving.then_some(Word::Leaving));
        let words = words.chain(self.has_left.then_some(Word::Goodbye));
        actions.extend(words.map(|word| Action::Say(peer, word)));
    }

    /// Takes note that `peer` has ended, is cut off, or was silent for too long, as far as this node can see. It is a suspect from
    /// now on. A peer that ends after it was told that this node leaves has left. A node that joins accuses no member: it waits for
    /// the word of the others.
    pub fn lose(&mut self, peer: usize, actions: &mut Vec<Action>) {
        if self.has_left {
            self.go(peer, PeerState::Left);
        } else if self.leaving.contains(&peer) {
            self.go(peer, PeerState::Left);
            self.report();
        } else if !self.is_in() && self.seats[peer] == Seat::In {
            self.unheard.insert(peer);
        } else {
            self.suspect(peer, actions);
        }
        self.settle(actions);
    }

    /// Hears a word of the peer `from`. Words of a peer that is gone or a suspect do not count: of two nodes that suspect each
    /// other it may be the lost one.
    pub fn hear(&mut self, from: usize, word: Word, actions: &mut Vec<Action>) {
        if self.is_shunned(from) {
            return;
        }
        match word {
            Word::Goodbye => {
                let has_joined = self.seats[from] == Seat::In;
                self.go(from, PeerState::Left);
                // Its word is needed no longer.
                self.report();
                match has_joined {
                    true => self.say_to_newcomers(&Word::Left(from), actions),
                    // A member that is not connected with the newcomer would wait for its own deadline.
                    false => self.say_to_all(Word::Left(from), actions),
                }
            }
            Word::Lost(own) if own == self.own => self.declare_out(),
            Word::Lost(victim) if self.is_here(victim) => self.suspect(victim, actions),
            // It left here, or was lost before: it cannot affect this node, and `from` waits for that word.
            Word::Lost(victim) => self.say_revoked(victim, actions),
            Word::Revoked(victim) => {
                // No word is missed where the victim is no suspect yet. `from` has said before that it thinks the victim lost, or
                // has it for gone, and then says this again in answer to this node's own `Lost`.
                self.note_revoked([from], victim);
                self.report();
            }
            Word::Join(newcomer) => self.admit(from, newcomer, actions),
            Word::Left(peer) => self.hear_of_leaver(peer),
            Word::WasIn(peer) => self.note_was_in(peer, actions),
            Word::Leaving => {
                self.announced.insert(from);
            }
            Word::View(view) => self.hear_of_view(from, view, actions),
        }
        self.settle(actions);
    }

    /// Takes note that this node's access to the memory of `victim` was to be revoked, with this outcome.
    pub fn revoked(&mut self, victim: usize, outcome: Revoked, actions: &mut Vec<Action>) {
        match outcome {
            Revoked::WeAreOut => return self.declare_out(),
            Revoked::Done => self.note_revoked([self.own], victim),
            // One of them may know that the victim was in.
            Revoked::DoneForAll if self.seats[victim] == Seat::Joining => {
                self.note_revoked([self.own], victim)
            }
            // The word of the others, which may be slow or stopped, is needed no longer.
            Revoked::DoneForAll => self.note_revoked(0..self.seats.len(), victim),
        }
        self.accuse(victim, actions);
        self.report();
        self.settle(actions);
    }

    /// Takes note that the peers have declared this node lost: all of them are lost to it.
    pub fn declare_out(&mut self) {
        self.is_out = true;
        self.lose_all();
    }

    /// Says goodbye to all. Nothing follows it.
    pub fn leave(&mut self, actions: &mut Vec<Action>) {
        self.say_to_all(Word::Goodbye, actions);
        self.has_left = true;
    }

    /// Takes note that this node is cut off from all others, to which it says nothing more.
    pub fn lose_all(&mut self) {
        self.is_cut_off = true;
        self.suspects.clear();
        for peer in 0..self.seats.len() {
            self.go(peer, PeerState::Lost);
        }
    }

    /// Returns the state of a peer, none before it is in. A suspect is still alive: its loss is not agreed.
    pub fn peer_state(&self, peer: usize) -> Option<PeerState> {
        match self.seats[peer] {
            Seat::In => Some(PeerState::Alive),
            Seat::Gone(how) => Some(how),
            Seat::Vacant | Seat::Joining => None,
        }
    }

    /// Returns the peers that are gone.
    pub fn gone(&self) -> &Gone {
        &self.gone
    }

    /// Returns the peers of which this node has said that they are lost.
    pub fn suspected(&self) -> &BTreeSet<usize> {
        &self.suspected
    }

    /// Returns true if this node thinks `peer` lost and has not reported it yet.
    pub fn is_suspect(&self, peer: usize) -> bool {
        self.suspects.contains_key(&peer)
    }

    /// Returns true if nothing more is to be exchanged with `peer`: it is gone or a suspect, or there is no such node.
    pub fn is_shunned(&self, peer: usize) -> bool {
        !self.is_here(peer) || self.is_suspect(peer) || self.unheard.contains(&peer)
    }

    /// Returns the members, as its sponsor had them, that this node, which joins, may still come in with: they are not gone as far as it
    /// knows, and it hears those with which it is connected.
    pub fn members_left(&self) -> Vec<usize> {
        let members = self.newcomer(self.own).into_iter().flat_map(|own| &own.members);
        members
            .copied()
            .filter(|&member| !self.is_shunned(member))
            .collect()
    }

    /// Returns true if nothing more is said to `peer`: it is gone or was told that it is lost, or there is no such node.
    pub fn is_over(&self, peer: usize) -> bool {
        !self.is_here(peer) || self.suspected.contains(&peer)
    }

    /// Returns true if `peer` is in, or joins.
    fn is_here(&self, peer: usize) -> bool {
        matches!(self.seats[peer], Seat::In | Seat::Joining)
    }

    /// Returns true while there are suspects, so that the words of the other peers are awaited.
    pub fn is_agreeing(&self) -> bool {
        !self.suspects.is_empty()
    }

    /// Returns true if there is, or was, a connection with `peer`.
    pub fn is_attached(&self, peer: usize) -> bool {
        self.attached[peer]
    }

    /// Returns true once this node has said goodbye.
    pub fn has_left(&self) -> bool {
        self.has_left
    }

    /// Returns true once peers have declared this node lost.
    pub fn is_out(&self) -> bool {
        self.is_out
    }

    /// Thinks `victim` lost from now on, and sees to it that all others do.
    fn suspect(&mut self, victim: usize, actions: &mut Vec<Action>) {
        if victim == self.own || !self.is_here(victim) || self.is_suspect(victim) {
            return;
        }
        self.suspects.insert(victim, BTreeSet::new());
        self.gone.is_agreeing = true;
        if self.is_exposed {
            actions.push(Action::Revoke(victim));
        } else {
            self.accuse(victim, actions);
            self.go(victim, PeerState::Lost);
            self.report();
        }
    }

    /// Says that `victim` is lost, and can no longer affect this node. The victim is told as well: it may be able to hear it.
    fn accuse(&mut self, victim: usize, actions: &mut Vec<Action>) {
        // It may have left meanwhile. Others, which take it for lost, wait for the second word all the same.
        if self.is_suspect(victim) && self.suspected.insert(victim) {
            self.say_to_all(Word::Lost(victim), actions);
            if self.attached[victim] && !self.has_left {
                actions.push(Action::Say(victim, Word::Lost(victim)));
            }
        }
        self.say_revoked(victim, actions);
    }

    /// Says to all that `victim` can no longer affect this node, and before it whether it was in.
    fn say_revoked(&self, victim: usize, actions: &mut Vec<Action>) {
        if let Some(word) = self.word_of_one_that_was_in(victim) {
            self.say_to_all(word, actions);
        }
        self.say_to_all(Word::Revoked(victim), actions);
    }

    /// Says a word to every peer that is connected and not shunned. Nothing follows a goodbye.
    fn say_to_all(&self, word: Word, actions: &mut Vec<Action>) {
        let hears = |&peer: &usize| self.attached[peer] && !self.is_shunned(peer) && !self.has_left;
        let others = (0..self.seats.len()).filter(|&peer| peer != self.own);
        actions.extend(others.filter(hears).map(|peer| Action::Say(peer, word.clone())));
    }

    fn note_revoked(&mut self, by: impl IntoIterator<Item = usize>, victim: usize) {
        if let Some(revokers) = self.suspects.get_mut(&victim) {
            revokers.extend(by);
        }
    }

    /// Reports all suspects as lost, once every node that is in and no suspect has revoked every one of them. So has every newcomer
    /// that is connected: from then on it hears of losses as the others do.
    fn report(&mut self) {
        let is_needed =
            |index| self.seats[index] != Seat::Joining || index == self.own || self.attached[index];
        let mut survivors =
            (0..self.seats.len()).filter(|&index| !self.is_shunned(index) && is_needed(index));
        let has_revoked_all = |index| self.suspects.values().all(|revokers| revokers.contains(&index));
        if survivors.all(has_revoked_all) {
            for victim in std::mem::take(&mut self.suspects).into_keys() {
                self.go(victim, PeerState::Lost);
            }
            self.gone.is_agreeing = false;
        }
    }

    /// Marks a peer as gone. Only the first word counts. A newcomer that goes before it has said that it is in was no member, and
    /// is not reported. One that has said it was: it has its view first, when its turn comes, and is reported then.
    fn go(&mut self, peer: usize, how: PeerState) {
        if peer != self.own && self.is_here(peer) {
            if self.seats[peer] == Seat::In {
                self.gone.in_order.push((peer, how));
            }
            self.seats[peer] = Seat::Gone(how);
        }
        if !self.has_said_that_it_is_in(peer) {
            self.drop_proposal_of(peer);
        }
        self.announced.remove(&peer);
        self.unheard.remove(&peer);
        self.leaving.remove(&peer);
        self.suspects.remove(&peer);
        self.gone.is_agreeing = self.is_agreeing();
    }
}

impl Gone {
    /// Returns the peers that are gone, and how they went, in the order in which they did.
    pub fn in_order(&self) -> &[(usize, PeerState)] {
        &self.in_order
    }

    /// Returns true while there are suspects, see [`Agreement::is_agreeing`].
    pub fn is_agreeing(&self) -> bool {
        self.is_agreeing
    }

    /// Returns the first of `among` that was lost.
    pub fn first_lost(&self, among: impl Fn(usize) -> bool) -> Option<usize> {
        let mut gone = self.in_order.iter();
        let first = gone.find(|&&(peer, how)| how == PeerState::Lost && among(peer));
        first.map(|&(peer, _)| peer)
    }

    /// Returns the first of `among` that was lost, else the first that left. While a loss is being agreed on, those that
    /// left may have left because of it: then none, as that loss is to be named.
    pub fn first(&self, among: impl Fn(usize) -> bool) -> Option<usize> {
        let lost = self.first_lost(&among);
        if lost.is_some() || self.is_agreeing {
            return lost;
        }
        let left = self.in_order.iter().find(|&&(peer, _)| among(peer));
        left.map(|&(peer, _)| peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the agreement of node 0 of `nodes`, connected with all, with a fabric that is up, and what it has said.
    fn exposed(nodes: usize) -> (Agreement, Vec<Action>) {
        let (mut agreement, mut actions) = (Agreement::new(0, nodes), Vec::new());
        (1..nodes).for_each(|peer| agreement.attach(peer, &mut actions));
        agreement.expose();
        (agreement, actions)
    }

    #[test]
    fn a_suspect_is_revoked_before_anybody_hears_of_it_and_reported_when_all_have_revoked() {
        let (mut agreement, mut actions) = exposed(3);
        agreement.lose(2, &mut actions);
        assert_eq!(actions, [Action::Revoke(2)]);
        assert!(agreement.is_shunned(2) && !agreement.is_over(2));
        actions.clear();
        agreement.revoked(2, Revoked::Done, &mut actions);
        let said = [(1, Word::Lost(2)), (2, Word::Lost(2)), (1, Word::Revoked(2))];
        assert_eq!(actions, said.map(|(to, word)| Action::Say(to, word)));
        assert!(agreement.is_over(2) && agreement.is_agreeing());
        assert_eq!(agreement.peer_state(2), Some(PeerState::Alive));
        agreement.hear(1, Word::Revoked(2), &mut actions);
        assert_eq!(agreement.peer_state(2), Some(PeerState::Lost));
        assert!(!agreement.is_agreeing());
    }

    #[test]
    fn a_node_that_finds_itself_shut_out_accuses_nobody() {
        let (mut agreement, mut actions) = exposed(3);
        agreement.lose(2, &mut actions);
        actions.clear();
        agreement.revoked(2, Revoked::WeAreOut, &mut actions);
        assert_eq!(actions, []);
        assert!(agreement.is_out());
    }

    #[test]
    fn the_word_of_a_suspect_does_not_count() {
        let (mut agreement, mut actions) = exposed(3);
        agreement.lose(2, &mut actions);
        agreement.hear(2, Word::Lost(0), &mut actions);
        assert!(!agreement.is_out());
        agreement.hear(1, Word::Lost(0), &mut actions);
        assert!(agreement.is_out());
    }

    /// Its own `Lost` gets no answer, as the victim is still a suspect here.
    #[test]
    fn a_connection_that_comes_late_is_told_both_words_about_a_suspect() {
        let (mut agreement, mut actions) = (Agreement::new(0, 3), Vec::new());
        agreement.attach(2, &mut actions);
        agreement.expose();
        agreement.lose(2, &mut actions);
        agreement.revoked(2, Revoked::Done, &mut actions);
        actions.clear();
        agreement.attach(1, &mut actions);
        let said = [Word::Lost(2), Word::Revoked(2)];
        assert_eq!(actions, said.map(|word| Action::Say(1, word)));
        actions.clear();
        agreement.hear(1, Word::Lost(2), &mut actions);
        assert_eq!(actions, []);
        agreement.hear(1, Word::Revoked(2), &mut actions);
        assert_eq!(agreement.peer_state(2), Some(PeerState::Lost));
    }

    #[test]
    fn who_left_is_not_named_while_a_loss_is_agreed_on_and_then_the_lost_one_is() {
        let (mut agreement, mut actions) = exposed(4);
        let named = |agreement: &Agreement| agreement.gone().first(|_| true);
        agreement.hear(1, Word::Goodbye, &mut actions);
        assert_eq!(named(&agreement), Some(1));
        agreement.lose(2, &mut actions);
        assert_eq!(named(&agreement), None);
        agreement.revoked(2, Revoked::Done, &mut actions);
        agreement.hear(3, Word::Revoked(2), &mut actions);
        assert_eq!(named(&agreement), Some(2));
    }

    #[test]
    fn before_there_is_anything_to_revoke_a_loss_is_reported_as_soon_as_it_is_seen() {
        let (mut agreement, mut actions) = (Agreement::new(0, 3), Vec::new());
        agreement.attach(1, &mut actions);
        agreement.lose(2, &mut actions);
        assert_eq!(agreement.peer_state(2), Some(PeerState::Lost));
        let said = [Word::Lost(2), Word::Revoked(2)];
        assert_eq!(actions, said.map(|word| Action::Say(1, word)));
    }
}
