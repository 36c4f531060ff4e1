//! Channels: named objects made of endpoints on several nodes (LOCO'26 A).
//!
//! An object holds a [`Channel`], declares regions when it is made, and has sub-channels as fields. The guide
//! `docs/writing-a-channel.md` builds one from nothing.

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{Fabric, FabricError, Lock, MemoryKind, NodeId, Peers, Platform, Time, Wait};
use smallvec::SmallVec;

use crate::node::Node;
use crate::region::Region;
use crate::setup::{self, Endpoint, OnPeer, Spec, SpecRegion, State};
use crate::{Error, Manager, Participants, Result, Thread};

/// How long set-up messages of a peer that is gone may still be on their way to the service.
const GRACE: Duration = Duration::from_millis(100);

/// Under what a channel is made: the manager, or another channel.
pub trait Parent<F: Fabric> {
    /// The node's manager.
    fn manager(&self) -> &Manager<F>;
    /// Full name; `None` for the manager.
    fn path(&self) -> Option<&str>;
    /// Who takes part in channels made here, unless they say otherwise.
    fn participants(&self) -> Participants;
}

/// One node's endpoint of a channel. Dropping it takes the endpoint out of service: operations of this node are
/// drained, the peers are told, and the memory is kept until none of them can access it any more.
pub struct Channel<F: Fabric> {
    manager: Manager<F>,
    name: String,
    participants: Participants,
    peers: Vec<NodeId>,
    regions: Vec<Region<F>>,
}

impl<F: Fabric> Channel<F> {
    /// Begins a channel called `name` under `parent`.
    pub fn builder(parent: &impl Parent<F>, name: &str) -> ChannelBuilder<F> {
        ChannelBuilder {
            manager: parent.manager().clone(),
            path: parent.path().map(str::to_owned),
            name: name.to_owned(),
            kind: String::new(),
            participants: parent.participants(),
            declared: Vec::new(),
            on_join: None,
            on_connect: None,
        }
    }

    /// Full name (`bar/sst`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.manager.node()
    }

    /// Fails unless this node is `owner`, who alone may do `what`.
    pub(crate) fn check_owner(&self, owner: NodeId, what: &'static str) -> Result<()> {
        if self.node() == owner {
            return Ok(());
        }
        Err(Error::NotOwner {
            what,
            channel: self.name.clone(),
            owner,
            node: self.node(),
        })
    }

    /// The participants other than this node, in ascending order.
    pub fn peers(&self) -> &[NodeId] {
        &self.peers
    }

    /// A region that was declared.
    ///
    /// # Errors
    /// `UnknownRegion`.
    pub fn region(&self, name: &str) -> Result<&Region<F>> {
        self.regions
            .iter()
            .find(|region| region.short_name() == name)
            .ok_or_else(|| Error::UnknownRegion {
                channel: self.name.clone(),
                region: name.to_owned(),
            })
    }

    /// Waits until this endpoint and its sub-channels are connected to all their participants, for the configured
    /// deadline at most.
    ///
    /// # Errors
    /// See [`Manager::wait_for_ready`].
    pub fn wait_for_ready(&self) -> Result<()> {
        let node = self.manager.shared();
        wait_until_ready(node, Some(&self.name), node.default_deadline())
    }

    /// Waits until `ready` returns `Some`, for the thread's deadline at most, as long as every participant lives.
    ///
    /// # Errors
    /// `PeerLost`, `Timeout`.
    #[inline]
    pub fn wait_until<T>(&self, thread: &Thread<F>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        thread.wait_until(&self.name, Peers::These(&self.peers), ready)
    }

    /// Waits until `arrived` has been true of each participant, not necessarily of all at one time, for the thread's
    /// deadline at most. A peer may be gone once it has been true of it.
    ///
    /// # Errors
    /// `PeerLost` for one of which it has not been true; `Timeout`.
    #[inline]
    pub fn wait_for_each(&self, thread: &Thread<F>, arrived: impl Fn(NodeId) -> bool) -> Result<()> {
        let nodes = self.participants.nodes();
        let mut left = nodes;
        let mut ready = || {
            while let Some((&first, rest)) = left.split_first() {
                if !arrived(first) {
                    return None;
                }
                left = rest;
            }
            Some(())
        };
        match thread.wait_until(&self.name, Peers::These(&self.peers), &mut ready) {
            Ok(()) => return Ok(()),
            // It arrived, and left while others were still awaited.
            Err(error) if error.lost_peer().is_some_and(&arrived) => {}
            Err(error) => return Err(error),
        }
        loop {
            let missing: SmallVec<[NodeId; 16]> = nodes.iter().copied().filter(|&n| !arrived(n)).collect();
            match thread.wait_until(&self.name, Peers::These(&missing), &mut ready) {
                Err(error) if error.lost_peer().is_some_and(&arrived) => {}
                outcome => return outcome,
            }
        }
    }
}

impl<F: Fabric> Parent<F> for Channel<F> {
    fn manager(&self) -> &Manager<F> {
        &self.manager
    }

    fn path(&self) -> Option<&str> {
        Some(&self.name)
    }

    fn participants(&self) -> Participants {
        self.participants.clone()
    }
}

impl<F: Fabric> Drop for Channel<F> {
    fn drop(&mut self) {
        let node = self.manager.shared();
        let drained = crate::fence::drain(node, Some(node.default_deadline()));
        if let Err(error) = &drained {
            tracing::warn!(channel = self.name, %error, "draining before leaving");
        }
        // What a lost peer did not take can land nowhere.
        let drained = drained.map_or_else(|error| error.lost_peer().is_some(), |()| true);
        setup::bury(node, &self.name, drained);
    }
}

impl<F: Fabric> std::fmt::Debug for Channel<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Channel")
            .field("name", &self.name)
            .field("node", &self.node())
            .finish_non_exhaustive()
    }
}

/// An endpoint as its callbacks see it: a parent for the sub-channels that they make.
pub struct ChannelRef<'a, F: Fabric> {
    manager: &'a Manager<F>,
    name: &'a str,
    participants: &'a [NodeId],
}

impl<'a, F: Fabric> ChannelRef<'a, F> {
    pub(crate) fn new(manager: &'a Manager<F>, name: &'a str, participants: &'a [NodeId]) -> Self {
        ChannelRef {
            manager,
            name,
            participants,
        }
    }
}

impl<F: Fabric> Parent<F> for ChannelRef<'_, F> {
    fn manager(&self) -> &Manager<F> {
        self.manager
    }

    fn path(&self) -> Option<&str> {
        Some(self.name)
    }

    fn participants(&self) -> Participants {
        Participants::of(self.participants.iter().copied())
    }
}

/// A channel under construction: [`join`](ChannelBuilder::join) makes the endpoint.
#[must_use = "nothing happens before `join`"]
pub struct ChannelBuilder<F: Fabric> {
    manager: Manager<F>,
    path: Option<String>,
    name: String,
    kind: String,
    participants: Participants,
    declared: Vec<Declared>,
    on_join: Option<OnPeer<F>>,
    on_connect: Option<OnPeer<F>>,
}

/// A region declared.
struct Declared {
    name: String,
    len: usize,
    offered: Option<MemoryKind>,
    expected_of: Vec<NodeId>,
}

impl<F: Fabric> ChannelBuilder<F> {
    /// The channel's type with its parameters (`sst<u64>`): all endpoints must have the same.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Who takes part; the parent's participants unless said. Declare before regions.
    pub fn participants(mut self, participants: &Participants) -> Self {
        self.participants = participants.clone();
        self
    }

    /// A region of `len` bytes, zeroed, on every participant, accessible to every participant.
    pub fn region(self, name: &str, len: usize) -> Self {
        let expected_of = self.participants.nodes().to_vec();
        self.declare(name, len, Some(MemoryKind::Host), expected_of)
    }

    /// The same in device memory (LOCO'26 C.4), for state that is accessed by operations only.
    pub fn device_region(self, name: &str, len: usize) -> Self {
        let expected_of = self.participants.nodes().to_vec();
        self.declare(name, len, Some(MemoryKind::Device), expected_of)
    }

    /// A region of `len` bytes that this node offers to the others, who may or may not want it.
    pub fn offers(self, name: &str, len: usize) -> Self {
        self.declare(name, len, Some(MemoryKind::Host), Vec::new())
    }

    /// A region of `len` bytes that `peer` must offer.
    pub fn expects(self, peer: NodeId, name: &str, len: usize) -> Self {
        self.declare(name, len, None, vec![peer])
    }

    /// Runs `callback` on the set-up thread once for every peer, when it turns up and before its regions are
    /// accessible: the place to make sub-channels per participant. The channel counts as ready only when those are.
    pub fn on_join(
        mut self,
        callback: impl Fn(&ChannelRef<'_, F>, NodeId) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_join = Some(Arc::new(callback));
        self
    }

    /// Runs `callback` on the set-up thread once for every peer, when its regions are accessible.
    pub fn on_connect(
        mut self,
        callback: impl Fn(&ChannelRef<'_, F>, NodeId) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(callback));
        self
    }

    /// Makes the endpoint: allocates its regions and tells the participants.
    ///
    /// # Errors
    /// `BadName`, `DuplicateChannel`, `NotParticipant`, `OutOfMemory`, `UnknownPeer` for a participant outside the
    /// job.
    pub fn join(self) -> Result<Channel<F>> {
        check_name(&self.name)?;
        let name = match &self.path {
            Some(path) => format!("{path}/{}", self.name),
            None => self.name,
        };
        let node = self.manager.shared();
        let here = self.manager.node();
        if !self.participants.contains(here) {
            return Err(Error::NotParticipant {
                channel: name,
                node: here,
            });
        }
        for &peer in self.participants.nodes() {
            node.position(peer)?;
        }
        let mut spec = Spec {
            kind: self.kind,
            participants: self.participants.nodes().to_vec(),
            offers: Vec::new(),
            expects: Vec::new(),
        };
        let (mut keys, mut regions) = (Vec::new(), Vec::new());
        for declared in &self.declared {
            check_name(&declared.name)?;
            let wanted = SpecRegion {
                name: declared.name.clone(),
                len: declared.len as u64,
            };
            let others = declared.expected_of.iter().filter(|&&peer| peer != here);
            spec.expects.extend(others.map(|&peer| (peer, wanted.clone())));
            let local = match declared.offered {
                Some(kind) => Some(node.fabric().allocate(declared.len, kind)?),
                None => None,
            };
            let region = Region::new(node.fabric(), &name, &declared.name, declared.len, local.clone());
            if let Some(memory) = &local {
                let key = node.fabric().export(memory);
                // The NIC loops back, for objects that treat all nodes alike.
                region.connect(node.position(here)?, node.fabric().import(here, &key)?);
                spec.offers.push(wanted);
                keys.push(key);
            }
            regions.push(region);
        }
        let peers: Vec<NodeId> = spec.participants.iter().copied().filter(|&n| n != here).collect();
        let endpoint = Endpoint {
            incarnation: 0,
            spec,
            keys,
            regions: regions.clone(),
            links: peers.iter().map(|&peer| (peer, setup::Link::default())).collect(),
            on_join: self.on_join,
            on_connect: self.on_connect,
            error: None,
        };
        node.registry().lock().enter(&name, endpoint, here)?;
        let channel = Channel {
            name,
            participants: self.participants,
            peers,
            regions,
            manager: self.manager,
        };
        setup::announce(channel.manager.shared(), &channel.name);
        Ok(channel)
    }

    fn declare(
        mut self,
        name: &str,
        len: usize,
        offered: Option<MemoryKind>,
        expected_of: Vec<NodeId>,
    ) -> Self {
        match self.declared.iter_mut().find(|d| d.name == name && d.len == len) {
            // `expects` of several peers, or of peers and offered here too.
            Some(declared) => {
                declared.offered = declared.offered.or(offered);
                declared.expected_of.extend(expected_of);
            }
            None => self.declared.push(Declared {
                name: name.to_owned(),
                len,
                offered,
                expected_of,
            }),
        }
        self
    }
}

/// Waits until `channel` and those below it, or all channels, are connected.
pub(crate) fn wait_until_ready<F: Fabric>(
    node: &Node<F>,
    channel: Option<&str>,
    deadline: Time,
) -> Result<()> {
    let begin = node.fabric().platform().now();
    let mut grace = None;
    loop {
        // Read before the state, so that a change after it is not missed.
        let changes = node.changes();
        // Who is missing changes as peers connect, and with it whose loss matters.
        let (waiting, missing) = match node.registry().lock().state(channel) {
            State::Ready => return Ok(()),
            State::Broken(error) => return Err(error),
            State::Waiting { channel, missing } => (channel, missing),
        };
        let wait = Wait {
            what: &waiting,
            peers: Peers::These(&missing),
            deadline: Some(deadline),
        };
        match node
            .fabric()
            .wait(wait, || (node.changes() != changes).then_some(()))
        {
            Ok(()) => {}
            Err(FabricError::Timeout { .. }) => {
                return Err(Error::NotReady {
                    channel: waiting,
                    missing,
                    after: node.fabric().platform().now().since(begin),
                });
            }
            // What the peer sent before it left may be about to be handled, and may be all that we need of it.
            Err(FabricError::PeerLost(peer)) => {
                let now = node.fabric().platform().now();
                let end = *grace.get_or_insert(now.after(GRACE));
                if now >= end.min(deadline) {
                    return Err(FabricError::PeerLost(peer).into());
                }
                node.registry().lock().gone(peer);
                let wait = Wait {
                    what: &waiting,
                    peers: Peers::None,
                    deadline: Some(now.after(GRACE / 50)),
                };
                let _ = node
                    .fabric()
                    .wait(wait, || (node.changes() != changes).then_some(()));
            }
            Err(error) => return Err(error.into()),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', '.']) {
        return Err(Error::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}
