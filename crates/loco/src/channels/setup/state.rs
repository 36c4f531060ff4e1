//! The state that the set-up service and the makers of channels share, and waits for channels to be
//! connected.

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    AtomicCell, Control, Fabric, FabricError, Lock, NodeId, PeerState, Peers, Platform, Time, Wait,
};

use super::registry::{Registry, State};
use crate::operations::network::Network;
use crate::operations::platform::{AtomicU64Of, MutexOf};
use crate::{Error, Result};

/// The time that set-up messages of a peer that is gone may still be on their way to the service.
const GRACE: Duration = Duration::from_millis(100);

/// The set-up state of one node.
pub(crate) struct Setup<F: Fabric> {
    network: Arc<Network<F>>,
    registry: MutexOf<F, Registry<F>>,
    /// A counter that changes with the registry. Waits for channels watch it.
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

    /// Reports that the registry has changed.
    pub(super) fn changed(&self) {
        // A thread that sees the new count finds the change under the registry's lock anyway.
        self.changes.fetch_add(1);
    }

    /// Returns how often the registry has changed.
    fn changes(&self) -> u64 {
        self.changes.load()
    }

    fn has_left(&self, peer: NodeId) -> bool {
        self.fabric().control().peer_state(peer) == PeerState::Left
    }

    /// Waits until `channel` and those below it, or all channels, are connected.
    pub(crate) fn wait_until_ready(&self, channel: Option<&str>, deadline: Time) -> Result<()> {
        let begin = self.fabric().platform().now();
        let mut grace = None;
        loop {
            // The count is read before the state, so that a later change is not missed.
            let changes = self.changes();
            let unready = match self.registry().lock().state(channel) {
                State::Ready => return Ok(()),
                State::Broken(error) => return Err(error),
                State::Waiting(unready) => unready,
            };
            // Participants that are connected may leave, but a crash may have cut short what they told the others.
            let matter = |&peer: &NodeId| unready.absent.contains(&peer) || !self.has_left(peer);
            let peers: Vec<NodeId> = unready.participants.iter().copied().filter(matter).collect();
            let wait = Wait {
                what: &unready.channel,
                peers: Peers::These(&peers),
                deadline: Some(deadline),
            };
            match self
                .fabric()
                .wait(wait, || (self.changes() != changes).then_some(()))
            {
                Ok(()) => {}
                Err(FabricError::Timeout { .. }) => {
                    return Err(Error::NotReady {
                        channel: unready.channel,
                        missing: unready.missing,
                        after: self.fabric().platform().now().since(begin),
                    });
                }
                // It left while this thread waited.
                Err(FabricError::PeerLost(peer)) if !matter(&peer) => {}
                // The last messages of the peer may be about to be handled, and may be all that we need of
                // it.
                Err(FabricError::PeerLost(peer)) => {
                    let now = self.fabric().platform().now();
                    let end = *grace.get_or_insert(now.after(GRACE));
                    if now >= end.min(deadline) {
                        return Err(FabricError::PeerLost(peer).into());
                    }
                    self.registry().lock().gone(peer);
                    let wait = Wait {
                        what: &unready.channel,
                        peers: Peers::None,
                        deadline: Some(now.after(GRACE / 50)),
                    };
                    let _ = self
                        .fabric()
                        .wait(wait, || (self.changes() != changes).then_some(()));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}
