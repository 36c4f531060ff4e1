//! The state of one node: who is alive, and which messages and contributions have arrived. It is filled by
//! the peers (in process) or by the I/O thread (TCP), and read by [`Mesh`](super::Mesh).
//!
//! Who is alive is decided by the node's [`Agreement`]. What it has decided is copied to where threads read it without that lock.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, PeerState, Platform, Result, Std, Time};

use super::agreement::{Action, Agreement, Gone, Revoked, Word};
use super::parcel::{PAYLOAD_BYTES_MAX, Parcel};
use super::system::time_left;
use crate::{Missed, note_missed};

/// Bytes that may wait for this node from one peer before that peer has to wait. While a loss is being agreed on there is no bound:
/// words come behind messages.
const WAITING_BYTES_MAX: usize = 4 * PAYLOAD_BYTES_MAX;
/// The bytes that a waiting message costs besides its payload.
const PARCEL_OVERHEAD_BYTES: usize = 64;
/// The time for which a sender waits for a receiver that takes nothing.
const SEND_PATIENCE: Duration = Duration::from_secs(10);

const ALIVE: u8 = 0;
const LEFT: u8 = 1;
const LOST: u8 = 2;

/// Revokes a lost node's access to this node's memory. The fabric implements it, because the access is by its means.
pub trait Revoke: Send + Sync + 'static {
    /// Returns once `peer` can no longer change this node's memory, whatever it does. May block for a while.
    fn revoke(&self, peer: NodeId) -> Revoked;

    /// Wakes the threads that wait for a node that is gone. The mesh calls it after it has reported one. Must not block.
    fn gone(&self) {}
}

/// Tells whether peers have revoked this node's access.
pub(super) type Revocation = Box<dyn Fn() -> bool + Send + Sync>;

/// One node's state. Peers are named by their index in `nodes`.
pub(super) struct State {
    node: NodeId,
    own: usize,
    nodes: Arc<[NodeId]>,
    /// What this node knows of who is in, and what follows from it. Locked before `arrivals` and before connections.
    agreement: Mutex<Agreement>,
    /// `ALIVE`, `LEFT` or `LOST`; leaves `ALIVE` once. A copy of what was agreed, written with its lock held.
    peers: Box<[AtomicU8]>,
    departures: AtomicU64,
    arrivals: Mutex<Arrivals>,
    /// Set once peers have declared this node lost.
    out: AtomicBool,
    /// Looks whether peers have declared this node lost, where the fabric can tell before a call fails.
    revocation: OnceLock<Revocation>,
    /// The revokers of the fabrics that were built from this mesh.
    revokers: Mutex<Vec<Arc<dyn Revoke>>>,
    /// Signals that anything in `arrivals` or `peers` changed.
    changed: Condvar,
}

/// What follows from an event for whoever drives the agreement.
pub(super) struct Agreed {
    /// The peers to [revoke](State::revoke), each by a call of [`Agreement::revoked`] afterwards.
    pub(super) revoke: Vec<usize>,
    /// Something has changed in how this node is to treat its peers.
    pub(super) is_news: bool,
}

struct Arrivals {
    messages: VecDeque<(usize, Vec<u8>)>,
    gathers: HashMap<String, Gather>,
    /// The bytes that wait in `messages` and `gathers`, by peer.
    waiting_bytes: Box<[usize]>,
    closed: bool,
    /// The peers that are gone: a copy of what was agreed.
    gone: Gone,
}

#[derive(Default)]
struct Gather {
    /// Rounds that this node has begun.
    begun: u64,
    /// Rounds below are over: what comes late is dropped.
    over: u64,
    contributions: HashMap<(u64, usize), Vec<u8>>,
}

impl State {
    /// Makes the state of `node`, one of `nodes`, which are in ascending order.
    pub(super) fn new(node: NodeId, nodes: Arc<[NodeId]>) -> State {
        assert!(nodes.is_sorted(), "nodes are in ascending order");
        let own = nodes.partition_point(|&other| other < node);
        assert_eq!(nodes.get(own), Some(&node), "a node is one of the nodes");
        State {
            node,
            own,
            agreement: Mutex::new(Agreement::new(own, nodes.len())),
            peers: nodes.iter().map(|_| AtomicU8::new(ALIVE)).collect(),
            departures: AtomicU64::new(0),
            arrivals: Mutex::new(Arrivals {
                messages: VecDeque::new(),
                gathers: HashMap::new(),
                waiting_bytes: nodes.iter().map(|_| 0).collect(),
                closed: false,
                gone: Gone::default(),
            }),
            out: AtomicBool::new(false),
            revocation: OnceLock::new(),
            revokers: Mutex::default(),
            changed: Condvar::new(),
            nodes,
        }
    }

    #[inline]
    pub(super) fn node(&self) -> NodeId {
        self.node
    }

    pub(super) fn own_index(&self) -> usize {
        self.own
    }

    #[inline]
    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    pub(super) fn index(&self, node: NodeId) -> Result<usize> {
        node.position_in(&self.nodes)
    }

    /// Returns the state of `node`. A node that is not part of the job counts as lost.
    pub(super) fn peer_state(&self, node: NodeId) -> PeerState {
        let Ok(index) = self.index(node) else {
            return PeerState::Lost;
        };
        // A suspect is still alive: its loss is not agreed.
        // Acquire: what the peer sent before it departed is in `arrivals`.
        match self.peers[index].load(Ordering::Acquire) {
            ALIVE => PeerState::Alive,
            LEFT => PeerState::Left,
            _ => PeerState::Lost,
        }
    }

    #[inline]
    pub(super) fn departures(&self) -> u64 {
        // Acquire pairs with the release in `show`: whoever sees the count sees the state.
        self.departures.load(Ordering::Acquire)
    }

    /// Waits until more than `known` peers are gone, or for `deadline`. Returns how many are gone.
    pub(super) fn wait_for_departures(&self, known: u64, deadline: Time) -> u64 {
        self.wait_until(deadline, |_| (self.departures() > known).then_some(()));
        self.departures()
    }

    /// Waits until `ready` returns a value, or for `deadline`. `ready` is called again after every change of this state and
    /// every call of [`notify`](State::notify), with the lock held. It gets the peer that was lost first, else the one that
    /// left first, if any is gone: those that go because of a loss say goodbye.
    pub(super) fn wait_until<T>(
        &self,
        deadline: Time,
        mut ready: impl FnMut(Option<NodeId>) -> Option<T>,
    ) -> Option<T> {
        let mut arrivals = self.lock();
        loop {
            let first = arrivals.gone.first(|_| true).map(|index| self.nodes[index]);
            if let Some(value) = ready(first) {
                return Some(value);
            }
            arrivals = self.wait(arrivals, Some(deadline))?;
        }
    }

    /// Returns the peer that is gone and that [`wait_until`](State::wait_until) would name, if there is one.
    pub(super) fn first_gone(&self) -> Option<NodeId> {
        let first = self.lock().gone.first(|_| true);
        first.map(|index| self.nodes[index])
    }

    /// Lets those that [wait](State::wait_until) look again.
    pub(super) fn notify(&self) {
        drop(self.lock());
        self.changed.notify_all();
    }

    /// Lets the agreement take in what happened, and shows what it has decided. `say` sends the words that follow, each to the
    /// peer at an index, and must not wait for it. It is called with the lock held, so that words leave in the order of the
    /// decisions.
    pub(super) fn agree(
        &self,
        event: impl FnOnce(&mut Agreement, &mut Vec<Action>),
        mut say: impl FnMut(usize, Word),
    ) -> Agreed {
        let mut actions = Vec::new();
        let mut revoke = Vec::new();
        let mut agreement = self.agreement();
        let before = agreement.suspected().clone();
        event(&mut agreement, &mut actions);
        let has_actions = !actions.is_empty();
        for action in actions {
            match action {
                Action::Say(to, word) => say(to, word),
                Action::Revoke(victim) => revoke.push(victim),
            }
        }
        for &victim in agreement.suspected().difference(&before) {
            // Nobody here has failed because of it yet.
            note_missed(self.node, Missed::Lost, self.nodes[victim]);
        }
        let has_changed = self.show(&agreement);
        drop(agreement);
        self.changed.notify_all();
        if has_changed {
            for revoker in self.revokers() {
                revoker.gone();
            }
        }
        Agreed {
            revoke,
            is_news: has_actions || has_changed,
        }
    }

    /// Copies what was agreed to where threads look. Returns true if more peers are gone than before.
    fn show(&self, agreement: &Agreement) -> bool {
        if agreement.is_out() {
            // Before the peers: whoever finds one gone finds the reason.
            self.out.store(true, Ordering::Release);
        }
        let mut arrivals = self.lock();
        let known = arrivals.gone.in_order().len();
        let new = &agreement.gone().in_order()[known..];
        for &(index, how) in new {
            let how = if how == PeerState::Left { LEFT } else { LOST };
            self.peers[index].store(how, Ordering::Release);
            self.departures.fetch_add(1, Ordering::Release);
        }
        arrivals.gone.clone_from(agreement.gone());
        !new.is_empty()
    }

    fn agreement(&self) -> MutexGuard<'_, Agreement> {
        // A panic elsewhere leaves it whole: its methods do not panic half way.
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a revoker, which makes lost nodes harmless from now on. Until there is one, a loss is reported as
    /// soon as it is suspected.
    pub(super) fn add_revoker(&self, revoke: Arc<dyn Revoke>) {
        let mut revokers = self.revokers.lock().unwrap_or_else(PoisonError::into_inner);
        revokers.push(revoke);
        drop(revokers);
        // A loss is reported without a revocation before this, or never: this node tells no lost peer that it takes part.
        self.agree(|agreement, _| agreement.expose(), |_, _| ());
    }

    fn revokers(&self) -> Vec<Arc<dyn Revoke>> {
        let revokers = self.revokers.lock().unwrap_or_else(PoisonError::into_inner);
        revokers.clone()
    }

    /// Makes `peer` harmless, through all fabrics. May block.
    pub(super) fn revoke(&self, peer: NodeId) -> Revoked {
        let revokers = self.revokers();
        let mut outcome = match revokers.is_empty() {
            true => Revoked::Done,
            false => Revoked::DoneForAll,
        };
        for revoker in revokers {
            match revoker.revoke(peer) {
                Revoked::WeAreOut => return Revoked::WeAreOut,
                Revoked::Done => outcome = Revoked::Done,
                Revoked::DoneForAll => {}
            }
        }
        outcome
    }

    pub(super) fn look_for_revocation(&self, look: Revocation) {
        // What was given first stays.
        let _ = self.revocation.set(look);
    }

    /// Returns true once peers have declared this node lost.
    #[inline]
    pub(super) fn is_out(&self) -> bool {
        if self.out.load(Ordering::Acquire) {
            return true;
        }
        let revoked = self.revocation.get().is_some_and(|look| look());
        if revoked {
            self.declare_out();
        }
        revoked
    }

    /// Takes note that peers have declared this node lost: all of them are lost to it.
    pub(super) fn declare_out(&self) {
        self.agree(|agreement, _| agreement.declare_out(), |_, _| ());
    }

    /// Takes note that this node is cut off from all others.
    pub(super) fn lose_all_peers(&self) {
        self.agree(|agreement, _| agreement.lose_all(), |_, _| ());
    }

    /// Returns true once this node has said goodbye.
    pub(super) fn has_left(&self) -> bool {
        self.agreement().has_left()
    }

    #[cfg(test)]
    pub(super) fn is_suspect(&self, index: usize) -> bool {
        self.agreement().is_suspect(index)
    }

    /// Returns true if nothing more is to be exchanged with that peer: it is gone, or a suspect.
    pub(super) fn is_shunned(&self, index: usize) -> bool {
        self.agreement().is_shunned(index)
    }

    /// Returns true if nothing more is said to that peer: it is gone, or was told that it is lost.
    pub(super) fn is_over(&self, index: usize) -> bool {
        self.agreement().is_over(index)
    }

    /// Takes no more sends and wakes receivers. Returns true at the first call.
    pub(super) fn close(&self) -> bool {
        let mut arrivals = self.lock();
        let first = !std::mem::replace(&mut arrivals.closed, true);
        drop(arrivals);
        self.changed.notify_all();
        first
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// Stores what peer `from` sent, waiting for room until `deadline`, or for a default time if there is none.
    pub(super) fn deliver_when_room(
        &self,
        from: usize,
        parcel: Parcel<'_>,
        deadline: Option<Time>,
    ) -> Result<()> {
        let start = Std.now();
        let deadline = deadline.unwrap_or_else(|| start.after(SEND_PATIENCE));
        let mut arrivals = self.lock();
        while !arrivals.has_room(from) {
            if arrivals.closed {
                return Err(FabricError::PeerLost(self.node));
            }
            arrivals = self
                .wait(arrivals, Some(deadline))
                .ok_or_else(|| FabricError::Timeout {
                    what: format!("{} to take the {WAITING_BYTES_MAX} bytes sent to it", self.node),
                    after: Std.now().since(start),
                })?;
        }
        if arrivals.closed {
            return Err(FabricError::PeerLost(self.node));
        }
        arrivals.deliver(from, parcel);
        drop(arrivals);
        self.changed.notify_all();
        Ok(())
    }

    /// Stores what peer `from` sent, room or not.
    pub(super) fn deliver(&self, from: usize, parcel: Parcel<'_>) {
        self.lock().deliver(from, parcel);
        self.changed.notify_all();
    }

    /// Returns true if peer `from` is to be read: more of it may wait here, or its word about a loss is awaited, which comes
    /// behind its messages.
    pub(super) fn has_room(&self, from: usize) -> bool {
        let arrivals = self.lock();
        arrivals.has_room(from) || arrivals.gone.is_agreeing()
    }

    /// Returns the next message; none at the deadline or once closed.
    pub(super) fn receive(&self, deadline: Option<Time>) -> Option<(NodeId, Vec<u8>)> {
        let mut arrivals = self.lock();
        loop {
            if arrivals.closed {
                return None;
            }
            if let Some((from, payload)) = arrivals.messages.pop_front() {
                arrivals.release(from, payload.len());
                drop(arrivals);
                self.changed.notify_all();
                return Some((self.nodes[from], payload));
            }
            arrivals = self.wait(arrivals, deadline)?;
        }
    }

    /// Starts this node's next round under `label` and returns its number.
    pub(super) fn begin_gather(&self, label: &str) -> u64 {
        let mut arrivals = self.lock();
        let gather = arrivals.gathers.entry(label.to_owned()).or_default();
        gather.begun += 1;
        gather.begun - 1
    }

    /// Returns the number of rounds under `label` that this node has begun.
    pub(super) fn begun(&self, label: &str) -> u64 {
        self.lock().gathers.get(label).map_or(0, |gather| gather.begun)
    }

    /// Returns all contributions to a round, in the order of nodes.
    pub(super) fn wait_gather(
        &self,
        label: &str,
        round: u64,
        deadline: Time,
    ) -> Result<Vec<(NodeId, Vec<u8>)>> {
        let start = Std.now();
        let mut arrivals = self.lock();
        loop {
            let missing = arrivals.missing(label, round, self.nodes.len());
            if missing.is_empty() {
                return Ok(arrivals.take_round(label, round, &self.nodes));
            }
            if let Some(peer) = arrivals.gone.first(|index| missing.contains(&index)) {
                // That one may have left because of the loss of another, which had contributed.
                let lost = arrivals.gone.first_lost(|_| true);
                return Err(FabricError::PeerLost(self.nodes[lost.unwrap_or(peer)]));
            }
            if arrivals.closed {
                return Err(FabricError::PeerLost(self.node));
            }
            arrivals = self
                .wait(arrivals, Some(deadline))
                .ok_or_else(|| FabricError::Timeout {
                    what: format!(
                        "`{label}` of {}",
                        NodeId::list(missing.iter().map(|&i| self.nodes[i]))
                    ),
                    after: Std.now().since(start),
                })?;
        }
    }

    /// Drops what is left of a round, and what comes late for it.
    pub(super) fn end_gather(&self, label: &str, round: u64) {
        let mut arrivals = self.lock();
        arrivals.drop_round(label, round);
        drop(arrivals);
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, Arrivals> {
        // A panic elsewhere leaves the state whole: every critical section ends in a consistent state.
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a change. Returns none when the deadline has passed.
    fn wait<'a>(
        &self,
        arrivals: MutexGuard<'a, Arrivals>,
        deadline: Option<Time>,
    ) -> Option<MutexGuard<'a, Arrivals>> {
        let left = time_left(deadline)?;
        let woken = self.changed.wait_timeout(arrivals, left);
        Some(woken.unwrap_or_else(PoisonError::into_inner).0)
    }
}

impl Arrivals {
    fn has_room(&self, from: usize) -> bool {
        self.waiting_bytes[from] < WAITING_BYTES_MAX
    }

    fn deliver(&mut self, from: usize, parcel: Parcel<'_>) {
        match parcel {
            Parcel::Message(payload) => {
                self.waiting_bytes[from] += payload.len() + PARCEL_OVERHEAD_BYTES;
                self.messages.push_back((from, payload.to_vec()));
            }
            Parcel::Gather { label, round, bytes } => {
                let gather = self.gathers.entry(label.to_owned()).or_default();
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

    fn missing(&self, label: &str, round: u64, nodes: usize) -> Vec<usize> {
        let gather = self.gathers.get(label);
        let has = |index| gather.is_some_and(|g| g.contributions.contains_key(&(round, index)));
        (0..nodes).filter(|&index| !has(index)).collect()
    }

    fn take_round(&mut self, label: &str, round: u64, nodes: &[NodeId]) -> Vec<(NodeId, Vec<u8>)> {
        let mut taken = Vec::with_capacity(nodes.len());
        for (index, &node) in nodes.iter().enumerate() {
            let gather = self.gathers.get_mut(label);
            if let Some(bytes) = gather.and_then(|g| g.contributions.remove(&(round, index))) {
                self.release(index, bytes.len());
                taken.push((node, bytes));
            }
        }
        taken
    }

    fn drop_round(&mut self, label: &str, round: u64) {
        let Some(gather) = self.gathers.get_mut(label) else {
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
