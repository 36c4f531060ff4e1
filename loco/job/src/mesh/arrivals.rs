//! The parcels that have arrived at one node and wait to be taken: messages and contributions, each of a view.
//!
//! A parcel of a view that this node has not opened yet waits for that. One of a view that it has closed is dropped.
//!
//! Relies on `parcel` and `presence`. Kept by [`state`](super::state) under its lock.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use super::agreement::Gone;
use super::parcel::{PAYLOAD_BYTES_MAX, Parcel};
use super::presence::Presence;
use super::view::{Scope, View};

/// Bytes that may wait for this node from one peer before that peer has to wait. While a loss is being agreed on there is no bound:
/// words come behind messages.
pub(super) const WAITING_BYTES_MAX: usize = 4 * PAYLOAD_BYTES_MAX;
/// The bytes that a waiting message costs besides its payload.
const PARCEL_OVERHEAD_BYTES: usize = 64;

/// What has arrived at a node, and copies of what was agreed, which threads wait for.
pub(super) struct Arrivals {
    /// The parcels of each view, by its number.
    of_views: BTreeMap<u32, OfView>,
    /// The bytes that wait in all views, by peer.
    waiting_bytes: Box<[usize]>,
    /// The node has left, or is cut off.
    pub(super) closed: bool,
    /// The peers that are gone: a copy of what was agreed.
    pub(super) gone: Gone,
    /// The views so far that have this node for a member, in their order.
    pub(super) views: Vec<View>,
    /// The first view without this node, if one has come.
    pub(super) without_own: Option<View>,
    /// The [members that are left](super::agreement::Agreement::members_left) to a node that joins, until it is in or was declared lost.
    pub(super) members_left: Vec<usize>,
}

/// What follows when a node takes part in a view once less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Closing {
    /// Nothing: it takes part in the view still, or had closed it before.
    Nothing,
    /// The others are to hear that it takes no part in the view any more. It does in other views.
    View,
    /// It takes part in no view any more, and leaves.
    Job,
}

/// The parcels of one view, and who takes part in it.
struct OfView {
    presence: Arc<Presence>,
    messages: VecDeque<(usize, Vec<u8>)>,
    gathers: HashMap<String, Gather>,
    /// The number of [scopes](Scope) with which this node takes part in it.
    users: usize,
    closed: bool,
}

#[derive(Default)]
struct Gather {
    /// Rounds that this node has begun.
    begun: u64,
    /// Rounds below are over: what comes late is dropped.
    over: u64,
    contributions: HashMap<(u64, usize), Vec<u8>>,
}

impl Arrivals {
    /// Returns what a node that may hear of so many others has at its start.
    pub(super) fn new(nodes: usize, views: Vec<View>) -> Arrivals {
        Arrivals {
            of_views: BTreeMap::new(),
            waiting_bytes: vec![0; nodes].into(),
            closed: false,
            gone: Gone::default(),
            views,
            without_own: None,
            members_left: Vec::new(),
        }
    }

    fn of_view(&mut self, view: u32) -> &mut OfView {
        let gone = self.gone.in_order().len();
        self.of_views.entry(view).or_insert_with(|| OfView {
            presence: Arc::new(Presence::new(gone)),
            messages: VecDeque::new(),
            gathers: HashMap::new(),
            users: 0,
            closed: false,
        })
    }

    /// Takes part in a view once more. Returns who else does, or none if this node has closed it.
    pub(super) fn open(&mut self, view: u32) -> Option<Arc<Presence>> {
        let of_view = self.of_view(view);
        of_view.users += usize::from(!of_view.closed);
        (!of_view.closed).then(|| Arc::clone(&of_view.presence))
    }

    /// Takes part in a view once less.
    pub(super) fn release_view(&mut self, view: u32) -> Closing {
        let of_view = self.of_view(view);
        of_view.users = of_view.users.saturating_sub(1);
        match of_view.users {
            0 => self.close_view(view),
            _ => Closing::Nothing,
        }
    }

    /// Closes a view, and drops what has come for it.
    pub(super) fn close_view(&mut self, view: u32) -> Closing {
        let of_view = self.of_view(view);
        let was_closed = std::mem::replace(&mut of_view.closed, true);
        let messages = std::mem::take(&mut of_view.messages);
        let gathers = std::mem::take(&mut of_view.gathers);
        let contributions = gathers.into_values().flat_map(|gather| gather.contributions);
        let contributions = contributions.map(|((_, from), bytes)| (from, bytes));
        for (from, bytes) in messages.into_iter().chain(contributions) {
            self.release(from, bytes.len());
        }
        let is_used = |of_view: &OfView| of_view.users > 0 && !of_view.closed;
        match self.of_views.values().any(is_used) {
            false => Closing::Job,
            true if was_closed => Closing::Nothing,
            true => Closing::View,
        }
    }

    /// Takes note that the node at `index` is gone from the job.
    pub(super) fn depart(&self, index: usize) {
        self.of_views
            .values()
            .for_each(|of_view| of_view.presence.depart(index));
    }

    /// Returns the first of the nodes at `indices` that has closed a view. While a loss is being agreed on, none: it may have done so
    /// because of that.
    pub(super) fn closed_by(&self, view: u32, indices: &[usize]) -> Option<usize> {
        let presence = &self.of_views.get(&view)?.presence;
        let mut closed = indices
            .iter()
            .copied()
            .filter(|&index| presence.is_closed_by(index));
        closed.next().filter(|_| !self.gone.is_agreeing())
    }

    /// Returns true if no scope of the view is left.
    pub(super) fn is_unused(&self, view: u32) -> bool {
        self.of_views.get(&view).is_none_or(|of_view| of_view.users == 0)
    }

    /// Returns true if this node takes part in the view no more, or is out of the job.
    pub(super) fn is_closed(&self, view: u32) -> bool {
        self.closed || self.of_views.get(&view).is_some_and(|of_view| of_view.closed)
    }

    pub(super) fn has_room(&self, from: usize) -> bool {
        self.waiting_bytes[from] < WAITING_BYTES_MAX
    }

    pub(super) fn deliver(&mut self, from: usize, parcel: Parcel<'_>) {
        let (Parcel::Message { view, .. } | Parcel::Gather { view, .. } | Parcel::Closed { view, .. }) =
            parcel;
        // Who is gone was counted. Its last parcels may come behind the news of that.
        if matches!(parcel, Parcel::Closed { .. })
            && self.gone.in_order().iter().any(|&(index, _)| index == from)
        {
            return;
        }
        let of_view = self.of_view(view);
        if of_view.closed {
            return;
        }
        match parcel {
            Parcel::Closed { how, .. } => of_view.presence.close(from, how),
            Parcel::Message { payload, .. } => {
                of_view.messages.push_back((from, payload.to_vec()));
                self.waiting_bytes[from] += payload.len() + PARCEL_OVERHEAD_BYTES;
            }
            Parcel::Gather {
                label, round, bytes, ..
            } => {
                let gather = of_view.gathers.entry(label.to_owned()).or_default();
                if round >= gather.over {
                    let old = gather.contributions.insert((round, from), bytes.to_vec());
                    self.waiting_bytes[from] += bytes.len() + PARCEL_OVERHEAD_BYTES;
                    if let Some(old) = old {
                        self.release(from, old.len());
                    }
                }
            }
        }
    }

    fn release(&mut self, from: usize, payload_len: usize) {
        self.waiting_bytes[from] -= payload_len + PARCEL_OVERHEAD_BYTES;
    }

    /// Takes the next message of a view.
    pub(super) fn take_message(&mut self, view: u32) -> Option<(usize, Vec<u8>)> {
        let (from, payload) = self.of_views.get_mut(&view)?.messages.pop_front()?;
        self.release(from, payload.len());
        Some((from, payload))
    }

    fn gather(&self, view: u32, label: &str) -> Option<&Gather> {
        self.of_views.get(&view)?.gathers.get(label)
    }

    fn gather_mut(&mut self, view: u32, label: &str) -> Option<&mut Gather> {
        self.of_views.get_mut(&view)?.gathers.get_mut(label)
    }

    /// Starts this node's next round under `label` and returns its number.
    pub(super) fn begin_gather(&mut self, view: u32, label: &str) -> u64 {
        let of_view = self.of_view(view);
        let gather = of_view.gathers.entry(label.to_owned()).or_default();
        gather.begun += 1;
        gather.begun - 1
    }

    /// Returns the number of rounds under `label` that this node has begun.
    pub(super) fn begun(&self, view: u32, label: &str) -> u64 {
        self.gather(view, label).map_or(0, |gather| gather.begun)
    }

    /// Returns the indices of the nodes of `scope` that have not contributed to a round.
    pub(super) fn missing(&self, scope: &Scope, label: &str, round: u64) -> Vec<usize> {
        let gather = self.gather(scope.number(), label);
        let has = |index| gather.is_some_and(|g| g.contributions.contains_key(&(round, index)));
        let indices = scope.indices().iter().copied();
        indices.filter(|&index| !has(index)).collect()
    }

    /// Takes the contributions to a round, in the order of nodes.
    pub(super) fn take_round(&mut self, scope: &Scope, label: &str, round: u64) -> Vec<Vec<u8>> {
        let mut taken = Vec::with_capacity(scope.indices().len());
        for &index in scope.indices() {
            let gather = self.gather_mut(scope.number(), label);
            if let Some(bytes) = gather.and_then(|g| g.contributions.remove(&(round, index))) {
                self.release(index, bytes.len());
                taken.push(bytes);
            }
        }
        taken
    }

    /// Drops what is left of a round, and what comes late for it.
    pub(super) fn drop_round(&mut self, view: u32, label: &str, round: u64) {
        let Some(gather) = self.gather_mut(view, label) else {
            return;
        };
        gather.over = gather.over.max(round + 1);
        let over = gather.over;
        let late: Vec<_> = gather
            .contributions
            .extract_if(|&(round, _), _| round < over)
            .map(|((_, from), bytes)| (from, bytes.len()))
            .collect();
        for (from, len) in late {
            self.release(from, len);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::agreement::Agreement;
    use super::super::parcel::Closed;
    use super::*;

    fn message(view: u32) -> Parcel<'static> {
        Parcel::Message {
            view,
            payload: b"fine",
        }
    }

    fn closed(view: u32) -> Parcel<'static> {
        Parcel::Closed {
            view,
            how: Closed::Left,
        }
    }

    #[test]
    fn a_parcel_waits_for_its_view_and_comes_too_late_for_one_that_is_closed() {
        let mut own = Arrivals::new(2, Vec::new());
        assert!(own.open(1).is_some());
        own.deliver(1, message(2));
        assert_eq!(own.take_message(1), None);
        assert!(own.open(2).is_some());
        assert_eq!(own.release_view(1), Closing::View, "the other view is open");
        own.deliver(1, message(1));
        assert_eq!(own.take_message(1), None);
        assert_eq!(own.take_message(2), Some((1, b"fine".to_vec())));
        assert!(own.open(1).is_none());
        own.deliver(1, message(2));
        assert_eq!(own.release_view(2), Closing::Job);
        assert_eq!(own.waiting_bytes[1], 0, "what is dropped takes no room");
    }

    #[test]
    fn a_view_is_open_until_its_last_user_is_gone_or_one_closes_it() {
        let mut own = Arrivals::new(1, Vec::new());
        assert!(own.open(1).is_some() && own.open(1).is_some());
        assert_eq!(own.release_view(1), Closing::Nothing);
        assert!(!own.is_closed(1) && own.open(1).is_some());
        assert_eq!(own.close_view(1), Closing::Job);
        assert!(own.is_closed(1));
    }

    #[test]
    fn a_view_is_closed_once_while_others_are_open() {
        let mut own = Arrivals::new(1, Vec::new());
        assert!(own.open(1).is_some() && own.open(2).is_some());
        assert_eq!(own.close_view(1), Closing::View);
        assert_eq!(own.release_view(1), Closing::Nothing);
        assert_eq!(own.release_view(2), Closing::Job);
    }

    #[test]
    fn who_has_closed_a_view_is_known_before_it_is_opened() {
        let mut own = Arrivals::new(3, Vec::new());
        own.deliver(1, message(2));
        own.deliver(1, closed(2));
        let presence = own.open(2).unwrap();
        assert_eq!(own.take_message(2), Some((1, b"fine".to_vec())));
        assert!(presence.is_closed_by(1) && !presence.is_closed_by(2));
        assert_eq!(presence.departures(), 1);
        assert_eq!(own.closed_by(2, &[0, 1, 2]), Some(1));
        assert_eq!(own.closed_by(1, &[0, 1, 2]), None);
    }

    /// Its last words are read after the end of its process was found.
    #[test]
    fn who_is_gone_is_counted_once_although_its_word_comes_behind() {
        let mut own = Arrivals::new(2, Vec::new());
        let presence = own.open(2).unwrap();
        let mut agreement = Agreement::with_room(0, 2, 3);
        agreement.lose(1, &mut Vec::new());
        own.depart(1);
        own.gone.clone_from(agreement.gone());
        own.deliver(1, closed(2));
        assert_eq!((presence.departures(), presence.is_closed_by(1)), (1, false));
    }
}
