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
//! Indices are given by one member at a time. A member gives none while a loss is being agreed on: before a survivor says that the
//! sponsor before can no longer affect it, it has said which newcomers it has heard of. Newcomers come in one after the other.
//!
//! A newcomer costs no member its place: it accuses none, and leaves if it cannot hear one.
//!
//! Each join makes a [`View`]. Its members are those that the sponsor had, so that they are the same for all that have the view.
//! Those that go later are reported as gone.

use std::collections::BTreeSet;

use loco_fabric::PeerState;

use super::{Action, Agreement, Seat, Word};

/// A node that joins, as all members know it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Newcomer {
    /// Its index, which no node has had before.
    pub index: usize,
    /// A number that its process has drawn, by which it is told from another that was to have the same index.
    pub key: u64,
    /// The members that its sponsor had, in ascending order.
    pub members: Vec<usize>,
}

/// The members at a time, named by index in ascending order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    /// The number of indices that were given until then. It grows from view to view. Views with the same number have the same
    /// members.
    pub epoch: usize,
    /// The members. Some may be gone since.
    pub members: Vec<usize>,
}

/// The reason why a node proposes no newcomer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NotNow {
    /// This member does.
    Sponsor(usize),
    /// A loss is being agreed on, or another newcomer joins. Ask again later.
    Busy,
    /// Every index was used.
    Full,
    /// The node is not in, or leaves.
    Over,
}

impl View {
    pub(super) fn first(nodes: usize) -> View {
        View {
            epoch: nodes,
            members: (0..nodes).collect(),
        }
    }
}

impl Newcomer {
    fn view(&self) -> View {
        let mut members = self.members.clone();
        members.push(self.index);
        View {
            epoch: self.index + 1,
            members,
        }
    }
}

impl Agreement {
    /// Returns what a newcomer knows at its start, of a job with this room. It is connected with nobody. Its view has no members
    /// until it [is in](Agreement::is_in).
    pub fn joining(newcomer: Newcomer, room: usize) -> Agreement {
        let own = newcomer.index;
        let mut agreement = Agreement::with_room(own, 0, room);
        // An index below that is not that of a member was used before, or never will be.
        agreement.seats[..own].fill(Seat::Gone(PeerState::Lost));
        for &member in &newcomer.members {
            agreement.seats[member] = Seat::In;
        }
        agreement.seats[own] = Seat::Joining;
        agreement.joining.insert(own, BTreeSet::new());
        agreement.newcomers.insert(own, newcomer);
        agreement
    }

    /// Gives an index to the process that has drawn `key`, and says so to all.
    ///
    /// # Errors
    /// Returns the reason why this node cannot.
    pub fn propose(&mut self, key: u64, actions: &mut Vec<Action>) -> Result<Newcomer, NotNow> {
        let members = || (0..self.seats.len()).filter(|&peer| self.seats[peer] == Seat::In);
        if !self.is_in() || self.is_out || self.has_left {
            return Err(NotNow::Over);
        }
        let Some(index) = self.next() else {
            return Err(NotNow::Full);
        };
        if self.is_agreeing() || !self.joining.is_empty() {
            return Err(NotNow::Busy);
        }
        if let Some(sponsor) = members().next().filter(|&lowest| lowest != self.own) {
            return Err(NotNow::Sponsor(sponsor));
        }
        let newcomer = Newcomer {
            index,
            key,
            members: members().collect(),
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

    /// Returns the nodes that join.
    pub fn joins(&self) -> impl Iterator<Item = usize> {
        self.joining.keys().copied()
    }

    /// Returns the last view.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Returns true unless this node joins and is not in yet.
    pub fn is_in(&self) -> bool {
        self.seats[self.own] == Seat::In
    }

    /// Hears from `from` that a node joins. Says so to all, if this is the first word of it.
    pub(super) fn admit(&mut self, from: usize, newcomer: Newcomer, actions: &mut Vec<Action>) {
        let index = newcomer.index;
        if self.seats[index] == Seat::Vacant {
            self.seats[index] = Seat::Joining;
            self.joining.insert(index, BTreeSet::from([self.own]));
            self.newcomers.insert(index, newcomer.clone());
            self.say_to_all(Word::Join(newcomer), actions);
        }
        if let Some(said) = self.joining.get_mut(&index) {
            said.insert(from);
        }
    }

    /// Takes the nodes for in that all have admitted, in the order of their indices.
    pub(super) fn settle(&mut self, actions: &mut Vec<Action>) {
        while let Some((&index, said)) = self.joining.first_key_value() {
            let is_own = index == self.own;
            let is_member = |&peer: &usize| self.seats[peer] == Seat::In && !self.is_suspect(peer);
            let mut members = (0..self.seats.len()).filter(is_member).peekable();
            // A newcomer that has lost everybody has not joined anything.
            let is_late = is_own && (self.has_left || self.is_agreeing() || members.peek().is_none());
            let has_come = is_own || said.contains(&index);
            if is_late
                || !has_come
                || !members.all(|peer| said.contains(&peer) && !self.unheard.contains(&peer))
            {
                return;
            }
            self.joining.remove(&index);
            self.seats[index] = Seat::In;
            if let Some(newcomer) = self.newcomers.get(&index) {
                self.view = newcomer.view();
                if is_own {
                    self.say_to_all(Word::Join(newcomer.clone()), actions);
                }
            }
        }
    }

    /// Returns what a node that gets connected with `peer` says of nodes that join. To a newcomer it says which members have left.
    pub(super) fn words_of_joins(&self, peer: usize) -> impl Iterator<Item = Word> {
        let is_newcomer = self.joining.contains_key(&peer);
        let members = self.newcomer(peer).filter(|_| is_newcomer);
        let members = members.into_iter().flat_map(|newcomer| &newcomer.members);
        let left = members.filter(|&&member| self.seats[member] == Seat::Gone(PeerState::Left));
        let joins = self.joining.keys().filter(|&&index| index != self.own);
        let joins = joins.filter_map(|&index| self.newcomer(index));
        left.map(|&member| Word::Left(member))
            .chain(joins.map(|newcomer| Word::Join(newcomer.clone())))
    }

    /// Says a word to every newcomer that is connected.
    pub(super) fn say_to_newcomers(&self, word: &Word, actions: &mut Vec<Action>) {
        let hears = |&&peer: &&usize| {
            peer != self.own && self.attached[peer] && !self.is_shunned(peer) && !self.has_left
        };
        let newcomers = self.joining.keys().filter(hears);
        actions.extend(newcomers.map(|&peer| Action::Say(peer, word.clone())));
    }
}
