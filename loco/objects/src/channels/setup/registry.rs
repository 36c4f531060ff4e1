//! A node's endpoints by name, and the memory of endpoints that are gone but that peers may still access.
//!
//! The registry caches the answers that set-up needs often: which endpoints are not ready, which have failed, how
//! many links an endpoint still waits for, and who keeps which memory in quarantine. A message therefore costs the
//! same however many channels there are.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Included};
use std::sync::Arc;

use loco_fabric::{Control, Fabric, NodeId, PeerState, RegionKey};

use super::message::{Hello, Spec};
use crate::operations::region::Region;
use crate::{Error, Result};

/// A callback on a join or connect.
pub(crate) type OnPeer = Arc<dyn Fn(NodeId) -> Result<()> + Send + Sync>;

/// All endpoints of a node.
pub(crate) struct Registry<F: Fabric> {
    /// The endpoints, each in an allocation of its own: a map's nodes are half empty.
    endpoints: BTreeMap<Arc<str>, Box<Endpoint<F>>>,
    /// The endpoints that are not ready.
    unready: BTreeSet<Arc<str>>,
    /// The endpoints that can never be ready.
    broken: BTreeSet<Arc<str>>,
    /// The memory in quarantine, by the incarnation of its endpoint.
    quarantine: BTreeMap<u64, Quarantined<F>>,
    /// The number of departures that the quarantine has taken into account.
    departures: u64,
    next_incarnation: u64,
    /// The changes of endpoints that the service is to announce to the peers, in order.
    changes: Vec<EndpointChange>,
    /// Set if a change concerns threads that wait for channels.
    changed: bool,
}

/// A change of an endpoint, to be announced to its peers.
pub(super) enum EndpointChange {
    /// It was made.
    Made { channel: Arc<str>, incarnation: u64 },
    /// It is gone.
    Gone {
        channel: Arc<str>,
        incarnation: u64,
        peers: Vec<NodeId>,
        /// The peers that dropped their endpoints before this node did, with the incarnations of those endpoints. This
        /// node will not access their memory any more.
        acknowledged: Vec<(NodeId, u64)>,
    },
}

/// An endpoint as the set-up service sees it.
pub(crate) struct Endpoint<F: Fabric> {
    pub(crate) incarnation: u64,
    pub(crate) spec: Spec,
    pub(crate) keys: Vec<RegionKey>,
    pub(crate) regions: Vec<Region<F>>,
    /// The links to the other participants, in ascending order.
    links: Box<[(NodeId, Link)]>,
    /// The number of links that are not ready.
    open: usize,
    pub(crate) on_join: Option<OnPeer>,
    pub(crate) on_connect: Option<OnPeer>,
    /// The error that keeps the endpoint from becoming ready.
    error: Option<Error>,
}

/// An endpoint's knowledge about its counterpart.
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
pub(super) struct Quarantined<F: Fabric> {
    /// The regions, which keep the memory.
    _regions: Vec<Region<F>>,
    /// The participants that may still access it.
    waiting: Vec<NodeId>,
}

/// The endpoints of a set that are not connected to all their participants.
pub(crate) struct Unready {
    /// The first of them by name.
    pub(super) channel: String,
    /// The participants that the first one misses.
    pub(super) missing: Vec<NodeId>,
    /// The number of endpoints.
    pub(super) endpoints: usize,
    /// The participants that one of them misses.
    pub(super) absent: BTreeSet<NodeId>,
    /// The participants of any of these endpoints. A participant may die before it has met the others. They then never
    /// make the sub-channels that they would have made when its endpoint appeared.
    pub(super) participants: BTreeSet<NodeId>,
}

impl<F: Fabric> Registry<F> {
    pub(crate) fn new() -> Registry<F> {
        Registry {
            endpoints: BTreeMap::new(),
            unready: BTreeSet::new(),
            broken: BTreeSet::new(),
            quarantine: BTreeMap::new(),
            departures: 0,
            next_incarnation: 1,
            changes: Vec::new(),
            changed: false,
        }
    }

    /// Enters an endpoint, fills in its incarnation, and queues the change for the peers. Returns true if there was no
    /// other change, so that the service must be woken.
    pub(super) fn enter(&mut self, name: &str, mut endpoint: Endpoint<F>, node: NodeId) -> Result<bool> {
        if self.endpoints.contains_key(name) {
            return Err(Error::DuplicateChannel {
                channel: name.to_owned(),
                node,
            });
        }
        let (channel, incarnation): (Arc<str>, u64) = (name.into(), self.next_incarnation);
        self.next_incarnation += 1;
        endpoint.incarnation = incarnation;
        if endpoint.open > 0 {
            self.unready.insert(channel.clone());
        }
        self.endpoints.insert(channel.clone(), Box::new(endpoint));
        self.changed = true;
        Ok(self.queue(EndpointChange::Made { channel, incarnation }))
    }

    /// Takes an endpoint out of service, puts its memory into quarantine, and queues the change for the peers. `drained`
    /// says that none of this node's operations is outstanding. Returns the endpoint, to be dropped outside the lock,
    /// and whether the service must be woken.
    pub(super) fn retire(
        &mut self,
        channel: &str,
        drained: bool,
        control: &F::Control,
    ) -> Option<(Box<Endpoint<F>>, bool)> {
        let (channel, endpoint) = self.endpoints.remove_entry(channel)?;
        self.unready.remove(&channel);
        self.broken.remove(&channel);
        self.changed = true;
        let alive = |&peer: &NodeId| control.peer_state(peer) == PeerState::Alive;
        let peers: Vec<NodeId> = endpoint.peers().filter(alive).collect();
        if peers.is_empty() {
            return Some((endpoint, false));
        }
        self.quarantine.insert(
            endpoint.incarnation,
            Quarantined {
                _regions: endpoint.regions.clone(),
                waiting: peers.clone(),
            },
        );
        let gone = |(peer, link): &(NodeId, Link)| Some((*peer, link.connected.filter(|_| link.left)?));
        let change = EndpointChange::Gone {
            channel,
            incarnation: endpoint.incarnation,
            peers,
            acknowledged: match drained {
                true => endpoint.links.iter().filter_map(gone).collect(),
                // Peers keep their memory, because one of our operations may still change it.
                false => Vec::new(),
            },
        };
        let wake = self.queue(change);
        Some((endpoint, wake))
    }

    fn queue(&mut self, change: EndpointChange) -> bool {
        self.changes.push(change);
        self.changes.len() == 1
    }

    /// Takes the changes that are not announced yet.
    pub(super) fn drain_changes(&mut self) -> Vec<EndpointChange> {
        std::mem::take(&mut self.changes)
    }

    /// Returns true if a change since the last call concerns threads that wait for channels.
    pub(super) fn take_changed(&mut self) -> bool {
        std::mem::take(&mut self.changed)
    }

    /// Returns the endpoint of that incarnation.
    pub(super) fn endpoint(&self, channel: &str, incarnation: u64) -> Option<&Endpoint<F>> {
        self.endpoints
            .get(channel)
            .map(Box::as_ref)
            .filter(|endpoint| endpoint.incarnation == incarnation)
    }

    /// Returns the endpoint with this name.
    pub(super) fn current(&mut self, channel: &str) -> Option<&mut Endpoint<F>> {
        self.endpoints.get_mut(channel).map(Box::as_mut)
    }

    /// Changes the link with `peer` of the endpoint of that incarnation. Returns the endpoint, if there is one with such
    /// a link.
    pub(super) fn update(
        &mut self,
        channel: &str,
        incarnation: u64,
        peer: NodeId,
        change: impl FnOnce(&mut Link),
    ) -> Option<&Endpoint<F>> {
        let endpoint = self.endpoints.get_mut(channel)?.as_mut();
        if endpoint.incarnation != incarnation {
            return None;
        }
        let link = endpoint.link(peer)?;
        let before = link.is_ready();
        change(link);
        // A link that is ready stays so.
        if !before && link.is_ready() {
            endpoint.open -= 1;
            if endpoint.open == 0 {
                self.unready.remove(channel);
                self.changed = true;
            }
        }
        Some(endpoint)
    }

    /// Notes the error that keeps the endpoint of that incarnation from becoming ready. The first one stays.
    pub(super) fn fail(&mut self, channel: &str, incarnation: u64, error: Error) {
        if let Some((name, _)) = self.endpoints.get_key_value(channel)
            && let name = name.clone()
            && let Some(endpoint) = self.endpoints.get_mut(channel)
            && endpoint.incarnation == incarnation
            && endpoint.error.is_none()
        {
            endpoint.error = Some(error);
            self.broken.insert(name);
            self.changed = true;
        }
    }

    /// Returns a number that changes when an endpoint is entered.
    pub(super) fn generation(&self) -> u64 {
        self.next_incarnation
    }

    /// Returns true if `channel` and its sub-channels, or all channels, are ready.
    ///
    /// # Errors
    /// Returns the error that keeps one of them from becoming ready.
    pub(super) fn is_ready(&self, channel: Option<&str>) -> Result<bool> {
        let error = |name: &Arc<str>| self.endpoints.get(name)?.error.clone();
        match within(&self.broken, channel).find_map(error) {
            Some(error) => Err(error),
            None => Ok(within(&self.unready, channel).next().is_none()),
        }
    }

    /// Returns those of `channel` and its sub-channels, or of all channels, that are not ready; `None` if all are
    /// ready. This call looks at all their links.
    pub(super) fn unready(&self, channel: Option<&str>) -> Option<Unready> {
        let mut unready: Option<Unready> = None;
        for name in within(&self.unready, channel) {
            let Some(endpoint) = self.endpoints.get(name) else {
                continue;
            };
            let unready = unready.get_or_insert_with(|| Unready {
                channel: name.to_string(),
                missing: endpoint.missing().collect(),
                endpoints: 0,
                absent: BTreeSet::new(),
                participants: BTreeSet::new(),
            });
            unready.endpoints += 1;
            unready.absent.extend(endpoint.missing());
            unready.participants.extend(endpoint.peers());
        }
        unready
    }

    /// Notes that `peer` is gone. Endpoints that have its regions no longer wait for its acknowledgement.
    pub(crate) fn gone(&mut self, peer: NodeId) {
        let names: Vec<Arc<str>> = self.unready.iter().cloned().collect();
        for name in names {
            let Some(incarnation) = self.endpoints.get(&name).map(|endpoint| endpoint.incarnation) else {
                continue;
            };
            self.update(&name, incarnation, peer, |link| {
                link.acked |= link.connected.is_some()
            });
        }
    }

    /// Notes that `peer` has connected to the endpoint of that incarnation.
    pub(super) fn acknowledged(&mut self, channel: &str, incarnation: u64, peer: NodeId) {
        self.update(channel, incarnation, peer, |link| link.acked = true);
    }

    /// Notes that `peer` will not access the memory of that incarnation any more. Returns memory to be freed outside the
    /// lock.
    pub(super) fn released(&mut self, incarnation: u64, peer: NodeId) -> Option<Quarantined<F>> {
        let quarantined = self.quarantine.get_mut(&incarnation)?;
        quarantined.waiting.retain(|&waiting| waiting != peer);
        match quarantined.waiting.is_empty() {
            true => self.quarantine.remove(&incarnation),
            false => None,
        }
    }

    /// Removes quarantined memory that only peers that are gone by now could access. It is freed when the returned value is
    /// dropped, which must happen outside the lock.
    pub(super) fn sweep(&mut self, control: &F::Control) -> Vec<Quarantined<F>> {
        let departures = control.departures();
        if departures == self.departures {
            return Vec::new();
        }
        // Later departures change the number again.
        self.departures = departures;
        for quarantined in self.quarantine.values_mut() {
            quarantined
                .waiting
                .retain(|&peer| control.peer_state(peer) == PeerState::Alive);
        }
        let free = self
            .quarantine
            .iter()
            .filter(|(_, quarantined)| quarantined.waiting.is_empty());
        let free: Vec<u64> = free.map(|(&incarnation, _)| incarnation).collect();
        free.iter()
            .filter_map(|incarnation| self.quarantine.remove(incarnation))
            .collect()
    }

    /// Returns the number of channels whose memory is in quarantine.
    pub(crate) fn quarantined(&self) -> usize {
        self.quarantine.len()
    }
}

impl<F: Fabric> Endpoint<F> {
    pub(crate) fn new(
        spec: Spec,
        keys: Vec<RegionKey>,
        regions: Vec<Region<F>>,
        peers: &[NodeId],
    ) -> Endpoint<F> {
        Endpoint {
            incarnation: 0,
            spec,
            keys,
            regions,
            links: peers.iter().map(|&peer| (peer, Link::default())).collect(),
            open: peers.len(),
            on_join: None,
            on_connect: None,
            error: None,
        }
    }

    pub(super) fn hello<'a>(&'a self, channel: &'a str, answers: Option<u64>) -> Hello<'a> {
        Hello {
            channel: channel.into(),
            incarnation: self.incarnation,
            answers,
            spec: Cow::Borrowed(&self.spec),
            keys: Cow::Borrowed(&self.keys),
        }
    }

    /// Returns the other participants.
    fn peers(&self) -> impl Iterator<Item = NodeId> {
        self.links.iter().map(|&(peer, _)| peer)
    }

    /// Returns the participants to which this endpoint has not connected.
    pub(super) fn unconnected(&self) -> impl Iterator<Item = NodeId> {
        let links = self.links.iter().filter(|(_, link)| link.connected.is_none());
        links.map(|&(peer, _)| peer)
    }

    fn missing(&self) -> impl Iterator<Item = NodeId> {
        let links = self.links.iter().filter(|(_, link)| !link.is_ready());
        links.map(|&(peer, _)| peer)
    }

    /// Returns the link with `peer` for changes that do not affect its readiness. For others see
    /// [`Registry::update`].
    pub(super) fn link(&mut self, peer: NodeId) -> Option<&mut Link> {
        let index = self.links.binary_search_by_key(&peer, |&(peer, _)| peer).ok()?;
        Some(&mut self.links[index].1)
    }
}

impl Link {
    fn is_ready(&self) -> bool {
        self.connected.is_some() && self.acked
    }
}

/// Returns those of `names` that are `channel` or below it, or all of them.
fn within<'a>(names: &'a BTreeSet<Arc<str>>, channel: Option<&str>) -> impl Iterator<Item = &'a Arc<str>> {
    let own = channel.and_then(|channel| names.get(channel));
    // Names below a channel begin with its name and `/`. They are together, up to its name and the character after `/`.
    let below = channel.map(|channel| [format!("{channel}/"), format!("{channel}0")]);
    let (from, to) = match &below {
        Some([from, to]) => (Included(&**from), Excluded(&**to)),
        None => (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded),
    };
    own.into_iter().chain(names.range::<str, _>((from, to)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_channel_stands_for_those_below_it() {
        let names = ["a", "b", "b!", "b.c", "b/c", "b/c/d", "b0", "b0/c", "bc", "c"];
        let names: BTreeSet<Arc<str>> = names.into_iter().map(Arc::from).collect();
        let found = |channel| within(&names, channel).map(|name| &**name).collect::<Vec<_>>();
        assert_eq!(found(Some("b")), ["b", "b/c", "b/c/d"]);
        assert_eq!(found(Some("b/c")), ["b/c", "b/c/d"]);
        assert_eq!(found(Some("x")), Vec::<&str>::new());
        assert_eq!(found(None).len(), names.len());
    }
}
