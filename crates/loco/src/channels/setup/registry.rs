//! A node's endpoints by name, and the memory of endpoints that are gone but that peers may still access.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use loco_fabric::{Control, Fabric, NodeId, PeerState, RegionKey};

use super::message::{Greeting, Spec};
use crate::operations::region::Region;
use crate::{Error, Result};

/// A callback on a join or connect.
pub(crate) type OnPeer = Arc<dyn Fn(NodeId) -> Result<()> + Send + Sync>;

/// All endpoints of a node.
pub(crate) struct Registry<F: Fabric> {
    pub(super) endpoints: BTreeMap<String, Endpoint<F>>,
    pub(super) buried: Vec<Buried<F>>,
    next_incarnation: u64,
}

/// An endpoint as the set-up service sees it.
pub(crate) struct Endpoint<F: Fabric> {
    pub(crate) incarnation: u64,
    pub(crate) spec: Spec,
    pub(crate) keys: Vec<RegionKey>,
    pub(crate) regions: Vec<Region<F>>,
    /// The links to the other participants.
    pub(crate) links: BTreeMap<NodeId, Link>,
    pub(crate) on_join: Option<OnPeer>,
    pub(crate) on_connect: Option<OnPeer>,
    /// The error because of which the endpoint can never be ready.
    pub(crate) error: Option<Error>,
}

/// The knowledge of an endpoint about its counterpart.
#[derive(Default)]
pub(crate) struct Link {
    /// Set when the callback on joining has run.
    pub(super) joined: bool,
    /// The incarnation of the counterpart, once its regions are usable.
    pub(super) connected: Option<u64>,
    /// Set when the counterpart has connected to us. It no longer needs us to become ready.
    pub(super) acked: bool,
    /// Set when the counterpart has sent its leave.
    pub(super) left: bool,
    /// The incarnation up to which the counterpart's endpoints are gone.
    pub(super) gone: u64,
}

/// Memory in quarantine.
pub(super) struct Buried<F: Fabric> {
    pub(super) channel: String,
    pub(super) incarnation: u64,
    /// The regions, which keep the memory.
    pub(super) _regions: Vec<Region<F>>,
    /// The participants that may still access it.
    pub(super) waiting: Vec<NodeId>,
}

/// The state of a set of endpoints.
pub(crate) enum State {
    Ready,
    Waiting(Unready),
    Broken(Error),
}

/// The endpoints of a set that are not connected to all their participants.
pub(crate) struct Unready {
    /// The first of them by name.
    pub(super) channel: String,
    /// The participants that the first one misses.
    pub(super) missing: Vec<NodeId>,
    /// The participants that one of them misses.
    pub(super) absent: BTreeSet<NodeId>,
    /// The participants of any of them. One that dies may not have met the others, which then never make the sub-channels
    /// that its endpoint would have.
    pub(super) participants: BTreeSet<NodeId>,
}

impl<F: Fabric> Registry<F> {
    pub(crate) fn new() -> Registry<F> {
        Registry {
            endpoints: BTreeMap::new(),
            buried: Vec::new(),
            next_incarnation: 1,
        }
    }

    /// Enters an endpoint, and fills in its incarnation.
    pub(crate) fn enter(&mut self, name: &str, mut endpoint: Endpoint<F>, node: NodeId) -> Result<u64> {
        if self.endpoints.contains_key(name) {
            return Err(Error::DuplicateChannel {
                channel: name.to_owned(),
                node,
            });
        }
        endpoint.incarnation = self.next_incarnation;
        self.next_incarnation += 1;
        let incarnation = endpoint.incarnation;
        self.endpoints.insert(name.to_owned(), endpoint);
        Ok(incarnation)
    }

    /// Returns the state of `channel` and its sub-channels, or of all channels.
    pub(crate) fn state(&self, channel: Option<&str>) -> State {
        let mut unready: Option<Unready> = None;
        for (name, endpoint) in &self.endpoints {
            let asked = channel.is_none_or(|channel| is_within(name, channel));
            if !asked {
                continue;
            }
            if let Some(error) = &endpoint.error {
                return State::Broken(error.clone());
            }
            let missing = endpoint.missing();
            if missing.is_empty() {
                continue;
            }
            let unready = unready.get_or_insert_with(|| Unready {
                channel: name.clone(),
                missing: missing.clone(),
                absent: BTreeSet::new(),
                participants: BTreeSet::new(),
            });
            unready.absent.extend(missing);
            unready.participants.extend(endpoint.links.keys());
        }
        unready.map_or(State::Ready, State::Waiting)
    }

    /// Notes that `peer` is gone. Endpoints that have its regions no longer wait for its acknowledgement.
    pub(crate) fn gone(&mut self, peer: NodeId) {
        for endpoint in self.endpoints.values_mut() {
            if let Some(link) = endpoint.links.get_mut(&peer) {
                link.acked |= link.connected.is_some();
            }
        }
    }

    /// Notes that `peer` has connected to the endpoint of that incarnation.
    pub(super) fn acknowledged(&mut self, channel: &str, incarnation: u64, peer: NodeId) {
        if let Some(endpoint) = self.endpoints.get_mut(channel)
            && endpoint.incarnation == incarnation
            && let Some(link) = endpoint.links.get_mut(&peer)
        {
            link.acked = true;
        }
    }

    /// Removes quarantined memory that nobody can access any more. It is freed when the returned value is
    /// dropped, which must happen outside the lock.
    pub(super) fn sweep(&mut self, control: &F::Control) -> Vec<Buried<F>> {
        for buried in &mut self.buried {
            buried
                .waiting
                .retain(|&peer| control.peer_state(peer) == PeerState::Alive);
        }
        let (free, kept) = std::mem::take(&mut self.buried)
            .into_iter()
            .partition(|buried| buried.waiting.is_empty());
        self.buried = kept;
        free
    }

    /// Returns the number of channels whose memory is in quarantine.
    pub(crate) fn quarantined(&self) -> usize {
        self.buried.len()
    }
}

impl<F: Fabric> Endpoint<F> {
    pub(super) fn greeting(&self, channel: &str, answers: Option<u64>) -> Greeting {
        Greeting {
            channel: channel.to_owned(),
            incarnation: self.incarnation,
            answers,
            spec: self.spec.clone(),
            keys: self.keys.clone(),
        }
    }

    fn missing(&self) -> Vec<NodeId> {
        self.links
            .iter()
            .filter(|(_, link)| link.connected.is_none() || !link.acked)
            .map(|(&node, _)| node)
            .collect()
    }
}

/// Returns true if `name` is `channel` or below it.
fn is_within(name: &str, channel: &str) -> bool {
    name.strip_prefix(channel)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}
