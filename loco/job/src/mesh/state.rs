//! The state of one node: who is alive, and which messages and contributions have arrived. It is filled by
//! the peers (in process) or by the I/O thread (TCP), and read by [`Mesh`](super::Mesh).
//!
//! Who is alive is decided by the node's [`Agreement`]. What it has decided is copied to where threads read it without that lock.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, PeerState, Platform, Result, Std, Time};

use super::agreement::{Action, Agreement, Newcomer, Revoked, Word};
use super::arrivals::{Arrivals, Closing, WAITING_BYTES_MAX};
use super::parcel::Parcel;
use super::presence::Presence;
use super::revokers::{Look, Revoke, Revokers};
use super::system::time_left;
use super::view::{Scope, View};
use crate::{Missed, note_missed};

/// The time for which a sender waits for a receiver that takes nothing.
const SEND_PATIENCE: Duration = Duration::from_secs(10);

const ALIVE: u8 = 0;
const LEFT: u8 = 1;
const LOST: u8 = 2;
/// No node of this index is in yet.
const ABSENT: u8 = 3;

/// One node's state. Peers are named by their index in `nodes`.
pub(super) struct State {
    node: NodeId,
    own: usize,
    /// The ids of all nodes that there may ever be: those that the job begins with, then those that may join.
    nodes: Arc<[NodeId]>,
    /// Nodes may join the job, or this one has. So it may have several views, each with a fabric of its own.
    grows: bool,
    /// What this node knows of who is in, and what follows from it. Locked before `arrivals` and before connections.
    agreement: Mutex<Agreement>,
    /// `ABSENT`, then `ALIVE`, then `LEFT` or `LOST`. A copy of what was agreed, written with its lock held.
    peers: Box<[AtomicU8]>,
    arrivals: Mutex<Arrivals>,
    /// Set once peers have declared this node lost.
    out: AtomicBool,
    /// The fabrics that were built from this mesh.
    revokers: Revokers,
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

impl State {
    /// Makes the state of `node`, one of `nodes`, which are in ascending order and are all that there will be.
    pub(super) fn new(node: NodeId, nodes: Arc<[NodeId]>) -> State {
        let count = nodes.len();
        State::with_room(node, nodes, count)
    }

    /// Makes the state of `node` in a job that begins with the first `count` of `nodes`, and has room for the others.
    pub(super) fn with_room(node: NodeId, nodes: Arc<[NodeId]>, count: usize) -> State {
        assert!(nodes.is_sorted(), "nodes are in ascending order");
        let own = nodes.partition_point(|&other| other < node);
        assert!(
            own < count && nodes[own] == node,
            "a node is one of those that begin"
        );
        let agreement = Agreement::with_room(own, count, nodes.len());
        let first = View::first(&nodes[..count]);
        let grows = count < nodes.len();
        State::of(own, nodes, grows, agreement, vec![first])
    }

    /// Makes the state of a node that joins.
    pub(super) fn joining(newcomer: Newcomer, nodes: Arc<[NodeId]>) -> State {
        let own = newcomer.index;
        let agreement = Agreement::joining(newcomer, nodes.len());
        let members_left = agreement.members_left();
        let state = State::of(own, nodes, true, agreement, Vec::new());
        state.lock().members_left = members_left;
        state
    }

    fn of(own: usize, nodes: Arc<[NodeId]>, grows: bool, agreement: Agreement, views: Vec<View>) -> State {
        let state = |index| match agreement.peer_state(index) {
            Some(PeerState::Alive) => ALIVE,
            Some(PeerState::Left | PeerState::Lost) => LOST,
            None if index == own => ALIVE,
            None => ABSENT,
        };
        State {
            node: nodes[own],
            own,
            grows,
            peers: (0..nodes.len())
                .map(|index| AtomicU8::new(state(index)))
                .collect(),
            agreement: Mutex::new(agreement),
            arrivals: Mutex::new(Arrivals::new(nodes.len(), views)),
            out: AtomicBool::new(false),
            revokers: Revokers::new(grows),
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

    /// Returns the ids of all nodes that there may ever be, by index.
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

    /// Returns true if nodes may join the job, or this one has.
    pub(super) fn grows(&self) -> bool {
        self.grows
    }

    /// Returns true if the node at `index` is in, or was.
    pub(super) fn is_known(&self, index: usize) -> bool {
        self.peers[index].load(Ordering::Acquire) != ABSENT
    }

    /// Waits until more than `known` peers are missing from a view, or for `deadline`. Returns how many are.
    pub(super) fn wait_for_departures(&self, from: &Presence, known: u64, deadline: Time) -> u64 {
        self.wait_until(deadline, |_| (from.departures() > known).then_some(()));
        from.departures()
    }

    /// Waits until `ready` returns a value, or for `deadline`. `ready` is called again after every change of this state and
    /// every call of [`notify`](State::notify), with the lock held. It gets the peer that was lost first, else the one that
    /// left first, if any is gone: who goes because of a loss says goodbye, unless its program panics.
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

    /// Waits until this node is in, so that it has a view, until `failed` returns a reason why it will not be, or for `deadline`.
    /// `failed` is called like `ready` of [`wait_until`](State::wait_until). It gets the members with which this node may still come in. Once
    /// this node was declared lost, these are the ones that were left before.
    pub(super) fn wait_until_in<E>(
        &self,
        deadline: Time,
        mut failed: impl FnMut(&[usize]) -> Option<E>,
    ) -> Option<std::result::Result<View, E>> {
        let mut arrivals = self.lock();
        loop {
            if let Some(view) = arrivals.views.first() {
                return Some(Ok(view.clone()));
            }
            if let Some(why) = failed(&arrivals.members_left) {
                return Some(Err(why));
            }
            arrivals = self.wait(arrivals, Some(deadline))?;
        }
    }

    /// Waits for the first view with a number above `known`. Returns none at `deadline`, and once this node has left, was let go or declared
    /// lost: no more views come to it.
    pub(super) fn next_view(&self, known: u32, deadline: Time) -> Option<View> {
        let mut arrivals = self.lock();
        loop {
            let next = arrivals.views.iter().find(|view| view.number() > known);
            let is_last = arrivals.without_own.is_some() || self.is_over_for(&arrivals);
            if next.is_some() || is_last {
                return next.cloned();
            }
            arrivals = self.wait(arrivals, Some(deadline))?;
        }
    }

    /// Waits for a view without this node. Returns none at `deadline`, and once this node has left or was declared lost.
    pub(super) fn view_without_own(&self, deadline: Time) -> Option<View> {
        let mut arrivals = self.lock();
        while arrivals.without_own.is_none() && !self.is_over_for(&arrivals) {
            arrivals = self.wait(arrivals, Some(deadline))?;
        }
        arrivals.without_own.clone()
    }

    /// Returns true once this node has left or was declared lost.
    fn is_over_for(&self, arrivals: &Arrivals) -> bool {
        // Acquire: see `show`, which sets it before it wakes this thread.
        arrivals.closed || self.out.load(Ordering::Acquire)
    }

    /// Returns true if this node has had the view.
    pub(super) fn has_had(&self, view: &View) -> bool {
        self.lock().views.contains(view)
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
            // Nobody here has failed because of it yet. Nobody misses a newcomer that was never in.
            if self.is_known(victim) || agreement.has_said_that_it_is_in(victim) {
                note_missed(self.node, Missed::Lost, self.nodes[victim]);
            }
        }
        let has_changed = self.show(&agreement);
        drop(agreement);
        self.changed.notify_all();
        if has_changed {
            self.revokers.wake(None);
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
        let last = arrivals.without_own.as_ref().or(arrivals.views.last());
        for view in agreement.views_after(last.map_or(0, View::number) as usize) {
            for &member in &view.members {
                let peer = &self.peers[member];
                let _ = peer.compare_exchange(ABSENT, ALIVE, Ordering::Release, Ordering::Relaxed);
            }
            let is_member = view.members.contains(&self.own);
            let view = View::of(view, &self.nodes);
            match is_member {
                true => arrivals.views.push(view),
                false => arrivals.without_own = Some(view),
            }
        }
        let known = arrivals.gone.in_order().len();
        let new = &agreement.gone().in_order()[known..];
        for &(index, how) in new {
            let how = if how == PeerState::Left { LEFT } else { LOST };
            self.peers[index].store(how, Ordering::Release);
            arrivals.depart(index);
        }
        arrivals.gone.clone_from(agreement.gone());
        if self.grows && !agreement.is_in() && !agreement.is_out() {
            arrivals.members_left = agreement.members_left();
        }
        !new.is_empty()
    }

    pub(super) fn agreement(&self) -> MutexGuard<'_, Agreement> {
        // A panic elsewhere leaves it whole: its methods do not panic half way.
        self.agreement.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a revoker, which makes lost nodes of `scope` harmless from now on. Until there is one, a loss is reported as
    /// soon as it is suspected.
    pub(super) fn add_revoker(&self, scope: Arc<Scope>, revoke: Arc<dyn Revoke>) {
        self.revokers.add(Arc::clone(&scope), Arc::clone(&revoke));
        self.expose();
        if self.grows {
            self.revoke_late(&scope, &*revoke);
        }
    }

    /// Makes those harmless through a new fabric that this node has shut out of earlier ones.
    fn revoke_late(&self, scope: &Scope, revoker: &dyn Revoke) {
        let agreement = self.agreement();
        let is_shut_out = |index: &&usize| **index != self.own && agreement.is_shunned(**index);
        let shut_out: Vec<_> = scope.indices().iter().filter(is_shut_out).copied().collect();
        drop(agreement);
        for index in shut_out {
            if revoker.revoke(self.nodes[index]) == Revoked::WeAreOut {
                self.declare_out();
            }
        }
    }

    /// Reports losses only when all survivors have revoked the lost node's access from now on, although there may be no revoker yet.
    pub(super) fn expose(&self) {
        // A loss is reported without a revocation before this, or never: this node tells no lost peer that it takes part.
        self.agree(|agreement, _| agreement.expose(), |_, _| ());
    }

    /// Makes `peer` harmless, through all fabrics that reach it. May block.
    pub(super) fn revoke(&self, peer: NodeId) -> Revoked {
        self.revokers.revoke(peer)
    }

    /// Takes note of how a fabric of a view tells whether peers have shut this node out.
    pub(super) fn look_for_revocation(&self, view: u32, look: Look) {
        self.revokers.add_look(view, look);
    }

    /// Returns true once peers have declared this node lost.
    #[inline]
    pub(super) fn is_out(&self) -> bool {
        if self.out.load(Ordering::Acquire) {
            return true;
        }
        let revoked = self.revokers.is_shut_out();
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
    pub(super) fn revokers(&self) -> usize {
        self.revokers.len()
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

    /// Takes part in a view. Returns who else does, or none if this node has closed it.
    pub(super) fn open_view(&self, view: u32) -> Option<Arc<Presence>> {
        self.lock().open(view)
    }

    /// Takes part in a view no more, `at_once` or when its last user is gone.
    pub(super) fn close_view(&self, view: u32, at_once: bool) -> Closing {
        let mut arrivals = self.lock();
        let closing = match at_once {
            true => arrivals.close_view(view),
            false => arrivals.release_view(view),
        };
        let is_unused = arrivals.is_unused(view);
        drop(arrivals);
        if is_unused && self.grows {
            // The fabrics of the view have ended with their meshes.
            self.revokers.forget(view);
        }
        self.changed.notify_all();
        closing
    }

    /// Takes no more sends and wakes receivers. Returns true at the first call.
    pub(super) fn close(&self) -> bool {
        let mut arrivals = self.lock();
        let first = !std::mem::replace(&mut arrivals.closed, true);
        drop(arrivals);
        self.changed.notify_all();
        first
    }

    /// Returns true if this node takes part in the view no more, or is out of the job.
    pub(super) fn is_closed(&self, view: u32) -> bool {
        self.lock().is_closed(view)
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
        if let Parcel::Closed { view, .. } = parcel {
            self.revokers.wake(Some(view));
        }
    }

    /// Returns true if peer `from` is to be read: more of it may wait here, or its word about a loss is awaited, which comes
    /// behind its messages.
    pub(super) fn has_room(&self, from: usize) -> bool {
        let arrivals = self.lock();
        arrivals.has_room(from) || arrivals.gone.is_agreeing()
    }

    /// Returns the next message of a view; none at the deadline or once closed.
    pub(super) fn receive(&self, view: u32, deadline: Option<Time>) -> Option<(NodeId, Vec<u8>)> {
        let mut arrivals = self.lock();
        loop {
            if arrivals.is_closed(view) {
                return None;
            }
            if let Some((from, payload)) = arrivals.take_message(view) {
                drop(arrivals);
                self.changed.notify_all();
                return Some((self.nodes[from], payload));
            }
            arrivals = self.wait(arrivals, deadline)?;
        }
    }

    /// Starts this node's next round under `label` and returns its number.
    pub(super) fn begin_gather(&self, view: u32, label: &str) -> u64 {
        self.lock().begin_gather(view, label)
    }

    /// Returns the number of rounds under `label` that this node has begun.
    pub(super) fn begun(&self, view: u32, label: &str) -> u64 {
        self.lock().begun(view, label)
    }

    /// Returns all contributions to a round, in the order of nodes.
    pub(super) fn wait_gather(
        &self,
        scope: &Scope,
        label: &str,
        round: u64,
        deadline: Time,
    ) -> Result<Vec<(NodeId, Vec<u8>)>> {
        let start = Std.now();
        let mut arrivals = self.lock();
        loop {
            let missing = arrivals.missing(scope, label, round);
            if missing.is_empty() {
                let taken = arrivals.take_round(scope, label, round);
                return Ok(scope.nodes().iter().copied().zip(taken).collect());
            }
            let gone = arrivals.gone.first(|index| missing.contains(&index));
            if let Some(peer) = gone.or_else(|| arrivals.closed_by(scope.number(), &missing)) {
                // That one may have left because of the loss of another, which had contributed.
                let lost = arrivals.gone.first_lost(|index| scope.indices().contains(&index));
                return Err(FabricError::PeerLost(self.nodes[lost.unwrap_or(peer)]));
            }
            if arrivals.is_closed(scope.number()) {
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
    pub(super) fn end_gather(&self, view: u32, label: &str, round: u64) {
        self.lock().drop_round(view, label, round);
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
