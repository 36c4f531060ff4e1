//! Hands connections, as they are made, and the processes of peers over to a [`Wire`] that runs already.
//!
//! Any thread may hand them over. The I/O thread begins to watch them in its next pass.
//!
//! Relies on [`wire`](super::wire). Used by nodes that connect and that accept.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use loco_fabric::{NodeId, Time};
use rustix::event::epoll::EventFlags;

use super::connection::{Connection, New};
use super::session::Session;
use super::watch::Watch;
use super::wire::{CUT, Incoming, Wire};

impl Wire {
    /// Takes over the connection with `node`. From now on it is watched.
    pub(super) fn attach(self: &Arc<Self>, node: NodeId, session: Session) {
        let Ok(index) = self.state.index(node) else {
            return;
        };
        let nodes = self.state.nodes().len();
        let stream = Arc::new(session.stream);
        match Connection::new(node, Arc::clone(&stream), session.sealer, &self.timeouts, nodes) {
            Ok(connection) => {
                if self.connections[index].set(connection).is_err() {
                    tracing::error!(%node, "a second connection with a peer");
                    return;
                }
                // It hears what the other peers were told before it was there. Nothing of it is heard before: what this node says then
                // would not be said to it.
                self.agree(|agreement, actions| agreement.attach(index, actions));
                self.hand_over(New::Connection(index, stream, session.opener));
                // Relaxed: `leave` writes it before it has the lock of the agreement, which this thread has had since.
                if self.phase.load(Ordering::Relaxed) == CUT {
                    self.connections[index]
                        .get()
                        .into_iter()
                        .for_each(Connection::shut);
                }
            }
            Err(error) => {
                tracing::warn!(node = %self.state.node(), peer = %node, %error, "peer lost");
                self.agree(|agreement, actions| agreement.lose(index, actions));
            }
        }
        self.state.notify();
    }

    /// Thinks `node` lost, for a reason that is not on its connection.
    pub(super) fn suspect_node(self: &Arc<Self>, peer: NodeId, why: &str) {
        if let Ok(index) = self.state.index(peer) {
            tracing::warn!(node = %self.state.node(), %peer, why, "peer lost");
            self.agree(|agreement, actions| agreement.lose(index, actions));
        }
    }

    /// Loses a newcomer with this key that has not connected.
    pub(super) fn lose_if_expected(self: &Arc<Self>, index: usize, key: u64) {
        self.agree(|agreement, actions| {
            if agreement.expects(index, key) {
                tracing::warn!(newcomer = %self.state.nodes()[index], "a node that was to join has not come");
                agreement.lose(index, actions);
            }
        });
    }

    /// Loses the newcomers that have not connected in time. `expected` has those that were expected before, and since when.
    pub(super) fn lose_late_newcomers(
        self: &Arc<Self>,
        expected: &mut BTreeMap<(usize, u64), Time>,
        now: Time,
    ) {
        let still = self.state.expected();
        expected.retain(|newcomer, _| still.contains(newcomer));
        for newcomer in still {
            let since = *expected.entry(newcomer).or_insert(now);
            if now.since(since) >= self.timeouts.connect {
                self.lose_if_expected(newcomer.0, newcomer.1);
            }
        }
    }

    /// Returns true if the connection with the peer at `index` is made.
    pub(super) fn is_attached(&self, index: usize) -> bool {
        self.connections[index].get().is_some()
    }

    /// Watches the process of the peer at `index`, which is on this host. Its connection may outlive it: a child that it
    /// has forked holds it, too.
    pub(super) fn watch_process(&self, index: usize, process: OwnedFd) {
        self.hand_over(New::Process(index, process));
    }

    fn hand_over(&self, new: New) {
        self.new.lock().unwrap_or_else(PoisonError::into_inner).push(new);
        self.wake();
    }

    /// Takes over the connections and processes that came since the last pass.
    pub(super) fn take_over_new(&self, incoming: &mut [Incoming], watch: &mut Watch, leave_by: Option<Time>) {
        let new = std::mem::take(&mut *self.new.lock().unwrap_or_else(PoisonError::into_inner));
        for new in new {
            match new {
                New::Connection(index, stream, opener) => {
                    incoming[index] = Incoming::new(stream, opener);
                    self.listen(watch, index, &incoming[index], leave_by);
                }
                // The connection came first. If it has ended meanwhile, nobody asks for the process.
                New::Process(index, process) if !incoming[index].ended => {
                    watch.listen(self.connections.len() + index, &process, EventFlags::IN);
                    incoming[index].process = Some(process);
                }
                New::Process(..) => {}
            }
        }
    }
}
