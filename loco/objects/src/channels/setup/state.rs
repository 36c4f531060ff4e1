//! The state that the set-up service and the makers of channels share, and waits for channels to be
//! connected.

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    AtomicCell, Control, Fabric, FabricError, Lock, NodeId, PeerState, Peers, Platform, Time, Wait,
};

use loco_host::interrupt;
use loco_job::{Missed, note_missed};
use loco_trace::waits::{self, Waiting};

use super::registry::{Registry, Unready};
use crate::operations::network::Network;
use crate::operations::platform::{AtomicU64Of, MutexOf};
use crate::operations::shown;
use crate::{Error, Result};

/// The time for which a wait goes on after the loss of a peer, because the service may not have handled the peer's last
/// messages yet. The service may have to wait for a processor: with fifty programs at work on two, 100 ms were not
/// enough.
const GRACE: Duration = Duration::from_millis(500);

/// The time after which a wait first reports what is missing, and the time until it reports again.
const REPORT_FIRST: Duration = Duration::from_secs(2);
const REPORT_EVERY: Duration = Duration::from_secs(10);

/// The set-up state of one node.
pub(crate) struct Setup<F: Fabric> {
    network: Arc<Network<F>>,
    registry: MutexOf<F, Registry<F>>,
    /// A counter that changes with the registry. Threads that wait for channels watch it.
    changes: AtomicU64Of<F>,
}

impl<F: Fabric> Setup<F> {
    pub(crate) fn new(network: Arc<Network<F>>) -> Setup<F> {
        Setup {
            network,
            registry: Lock::new(Registry::new()),
            changes: AtomicCell::new(0),
        }
    }

    pub(crate) fn network(&self) -> &Arc<Network<F>> {
        &self.network
    }

    pub(crate) fn registry(&self) -> &MutexOf<F, Registry<F>> {
        &self.registry
    }

    pub(super) fn fabric(&self) -> &F {
        self.network.fabric()
    }

    /// Wakes the threads that wait for channels, if a change of the registry concerns them.
    pub(super) fn report_change(&self) {
        if self.registry.lock().take_changed() {
            // A thread that sees the new count finds the change under the registry's lock anyway.
            self.changes.fetch_add(1);
        }
    }

    /// Returns how often the registry has changed.
    fn changes(&self) -> u64 {
        self.changes.load()
    }

    fn has_left(&self, peer: NodeId) -> bool {
        self.fabric().control().peer_state(peer) == PeerState::Left
    }

    /// Waits until `channel` and those below it, or all channels, are connected. Reports from time to time what is
    /// missing.
    pub(crate) fn wait_until_ready(&self, channel: Option<&str>, deadline: Time) -> Result<()> {
        let platform = self.fabric().platform();
        let begin = platform.now();
        let mut report = begin.after(REPORT_FIRST);
        let mut grace = None;
        let mut known = None;
        let mut waiting: Option<(String, Waiting)> = None;
        loop {
            // The count is read before the state, so that a later change is not missed.
            let changes = self.changes();
            let Some(unready) = self.find_unready(channel, &mut known)? else {
                return Ok(());
            };
            self.show(&mut waiting, unready, (begin, deadline));
            let Err(error) = self.wait_for_change(unready, changes, deadline.min(report)) else {
                continue;
            };
            // The awaited endpoints are determined anew, here and in the next round.
            known = None;
            let now = platform.now();
            let found = self.registry().lock().unready(channel);
            let Some(unready) = found else { continue };
            match error {
                FabricError::Timeout { .. }
                    if now < deadline && report < deadline && !interrupt::requested() =>
                {
                    report = now.after(REPORT_EVERY);
                    unready.report(now.since(begin));
                }
                FabricError::Timeout { .. } => return Err(self.not_ready(unready, now.since(begin))),
                // It is connected by now, or left while this thread waited.
                FabricError::PeerLost(peer) if !self.matters(&unready, peer) => {}
                FabricError::PeerLost(peer) => {
                    let end = *grace.get_or_insert(now.after(GRACE));
                    if now >= end.min(deadline) || interrupt::requested() {
                        note_missed(self.fabric().node(), Missed::Lost, peer);
                        return Err(FabricError::PeerLost(peer).into());
                    }
                    self.wait_for_last_messages(&unready, peer, changes, now);
                }
                error => return Err(error.into()),
            }
        }
    }

    /// Returns the endpoints of `channel` and those below it that are awaited; `None` if there are none. Keeps them in `known` with the
    /// generation of the registry at which they were found. Some may have become ready since then.
    fn find_unready<'a>(
        &self,
        channel: Option<&str>,
        known: &'a mut Option<(u64, Unready)>,
    ) -> Result<Option<&'a Unready>> {
        let registry = self.registry().lock();
        if registry.is_ready(channel)? {
            return Ok(None);
        }
        let generation = registry.generation();
        if known.as_ref().is_none_or(|(of, _)| *of != generation) {
            *known = registry.unready(channel).map(|unready| (generation, unready));
        }
        Ok(known.as_ref().map(|(_, unready)| unready))
    }

    /// Waits until the registry has changed more often than `changes`. Fails at `until`, and if a participant is lost that matters.
    fn wait_for_change(&self, unready: &Unready, changes: u64, until: Time) -> loco_fabric::Result<()> {
        let participants = unready.participants.iter().copied();
        let peers: Vec<NodeId> = participants.filter(|&peer| self.matters(unready, peer)).collect();
        let wait = Wait {
            what: &unready.channel,
            peers: Peers::These(&peers),
            deadline: Some(until),
        };
        self.fabric()
            .wait(wait, || (self.changes() != changes).then_some(()))
    }

    /// Waits a moment after the loss of `peer`: its last messages may be about to be handled, and they may suffice.
    fn wait_for_last_messages(&self, unready: &Unready, peer: NodeId, changes: u64, now: Time) {
        self.registry().lock().gone(peer);
        self.report_change();
        let wait = Wait {
            what: &unready.channel,
            peers: Peers::None,
            deadline: Some(now.after(GRACE / 100)),
        };
        let _ = self
            .fabric()
            .wait(wait, || (self.changes() != changes).then_some(()));
    }

    /// Returns the error that names the nodes that are missing. Notes them as late if the deadline has come: a call that the program
    /// has interrupted says nothing about other nodes.
    fn not_ready(&self, unready: Unready, after: Duration) -> Error {
        if !interrupt::requested() {
            for &node in &unready.missing {
                note_missed(self.fabric().node(), Missed::Late, node);
            }
        }
        Error::NotReady {
            channel: unready.channel,
            missing: unready.missing,
            after,
        }
    }

    /// Shows to those who look from outside what a wait with this beginning and deadline waits for.
    fn show(
        &self,
        shown: &mut Option<(String, Waiting)>,
        unready: &Unready,
        (begin, deadline): (Time, Time),
    ) {
        if !waits::is_on() {
            return;
        }
        if shown.as_ref().is_some_and(|(what, _)| *what == unready.channel) {
            waits::await_nodes(unready.missing.iter().copied());
            return;
        }
        // The one before ends first.
        *shown = None;
        let now = self.fabric().platform().now();
        let left = (deadline != Time::NEVER).then(|| deadline.since(now));
        let waiting = shown::set_up(
            self.fabric().node(),
            &unready.channel,
            &unready.missing,
            now.since(begin),
            left,
        );
        *shown = Some((unready.channel.clone(), waiting));
    }

    /// Returns true if the loss of `peer` matters to those endpoints. Participants that are connected may leave, but
    /// a crash may have cut short their messages to the others.
    fn matters(&self, unready: &Unready, peer: NodeId) -> bool {
        unready.absent.contains(&peer) || (unready.participants.contains(&peer) && !self.has_left(peer))
    }
}

impl Unready {
    /// Reports what is missing.
    fn report(&self, after: Duration) {
        let others = match self.endpoints {
            1 => String::new(),
            endpoints => format!(" and {} more", endpoints - 1),
        };
        tracing::info!(
            "after {:.1} s of set-up, `{}`{others} waits for {}",
            after.as_secs_f64(),
            self.channel,
            NodeId::list(self.missing.iter().copied())
        );
    }
}
