//! Channels: named objects that consist of endpoints on several nodes (LOCO'26 A).
//!
//! An object holds a [`Channel`], declares regions when it is made, and has sub-channels as fields. The guide
//! `docs/writing-a-channel.md` builds one from nothing.

use std::sync::Arc;

use loco_fabric::{Caps, Fabric, MemoryKind, NodeId, Peers, Time};
use loco_trace::waits::{self, Shown};
use smallvec::SmallVec;

use crate::channels::manager::Manager;
use crate::channels::parent::Parent;
use crate::channels::participants::Participants;
use crate::channels::setup::{self, Endpoint, Expected, OnPeer, Spec, SpecRegion};
use crate::fabric::AnyFabric;
use crate::operations::region::Region;
use crate::operations::timing::late_since;
use crate::operations::{fence, panics, thread::Thread};
use crate::{Error, Result};

/// One node's endpoint of a channel. Dropping it takes the endpoint out of service: it drains the operations of
/// this node, for the configured deadline at most, announces the end to the peers, and keeps the memory until none of
/// them can access it any more. If the operations do not drain, peers that drop their endpoints keep their memory, too.
pub struct Channel<F: Fabric = AnyFabric> {
    manager: Manager<F>,
    name: String,
    participants: Participants,
    peers: Vec<NodeId>,
    regions: Vec<Region<F>>,
    /// The endpoint as it is seen from outside.
    shown: Shown,
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

    /// Returns the full name (`bar/sst`).
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns this node.
    pub fn node(&self) -> NodeId {
        self.manager.node()
    }

    /// Returns what the fabric can do.
    pub(crate) fn caps(&self) -> &Caps {
        self.manager.fabric().caps()
    }

    /// Returns the endpoint as it is seen from outside.
    #[inline]
    pub(crate) fn shown(&self) -> &Shown {
        &self.shown
    }

    /// Fails unless this node is `owner`: only the owner may do `what`.
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

    /// Returns the participants other than this node, in ascending order.
    pub fn peers(&self) -> &[NodeId] {
        &self.peers
    }

    /// Returns a region that was declared.
    ///
    /// # Errors
    /// Returns [`UnknownRegion`](crate::Error::UnknownRegion).
    pub fn region(&self, name: &str) -> Result<&Region<F>> {
        self.find(name, false)
    }

    /// Returns a region that was declared as published. It is for its object, which posts to it only by
    /// `Published`.
    ///
    /// # Errors
    /// Returns `UnknownRegion`.
    pub(crate) fn published(&self, name: &str) -> Result<&Region<F>> {
        self.find(name, true)
    }

    fn find(&self, name: &str, published: bool) -> Result<&Region<F>> {
        self.regions
            .iter()
            .find(|region| region.short_name() == name && region.is_published() == published)
            .ok_or_else(|| Error::UnknownRegion {
                channel: self.name.clone(),
                region: name.to_owned(),
            })
    }

    /// Waits until this endpoint and its sub-channels are connected to all their participants, for the configured
    /// deadline at most.
    ///
    /// # Errors
    /// Returns the errors of [`Manager::wait_for_ready`].
    ///
    /// # After a timeout
    /// (The error is [`NotReady`](crate::Error::NotReady) here.) Set-up goes on in the background. Wait again.
    pub fn wait_for_ready(&self) -> Result<()> {
        self.wait_for_ready_until(self.manager.network().default_deadline())
    }

    /// Waits as [`wait_for_ready`](Channel::wait_for_ready) does, until `deadline`.
    ///
    /// # Errors
    /// Returns the errors of [`Manager::wait_for_ready`].
    ///
    /// # After a timeout
    /// See [`wait_for_ready`](Channel::wait_for_ready).
    pub fn wait_for_ready_until(&self, deadline: Time) -> Result<()> {
        self.manager.setup().wait_until_ready(Some(&self.name), deadline)
    }

    /// Waits until `ready` returns `Some`, for the thread's deadline at most, as long as every participant lives.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) or [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Only `ready` itself may have changed anything. Wait again.
    #[inline]
    pub fn wait_until<T>(&self, thread: &Thread<F>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        thread.wait_until(&self.name, Peers::These(&self.peers), ready)
    }

    /// Waits until `arrived` has been true of each participant, not necessarily of all at one time, for the
    /// thread's deadline at most. A peer may be gone once `arrived` has been true of it.
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) for a participant for which `arrived` never returned true, or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// Nothing has changed. Wait again: `arrived` is asked again about each participant.
    #[inline]
    pub fn wait_for_each(&self, thread: &Thread<F>, arrived: impl Fn(NodeId) -> bool) -> Result<()> {
        self.wait_for_all(thread, false, arrived)
    }

    /// Waits as [`wait_for_each`](Channel::wait_for_each) does. `by_puts` says that the result of `arrived` depends
    /// only on puts towards this node.
    #[inline]
    pub(crate) fn wait_for_all(
        &self,
        thread: &Thread<F>,
        by_puts: bool,
        arrived: impl Fn(NodeId) -> bool,
    ) -> Result<()> {
        let nodes = self.participants.nodes();
        let mut left = nodes;
        let mut ready = || {
            while let Some((&first, rest)) = left.split_first() {
                if !arrived(first) {
                    if waits::is_shown() {
                        waits::await_nodes(left.iter().copied().filter(|&node| !arrived(node)));
                    }
                    return None;
                }
                left = rest;
            }
            Some(())
        };
        let mut wait = |peers: Peers<'_>| thread.wait_for(by_puts, &self.name, peers, &mut ready);
        match wait(Peers::These(&self.peers)) {
            Ok(()) => Ok(()),
            Err(error) => self.wait_on(thread, error, &arrived, &mut wait),
        }
    }

    /// Goes on with a wait for all after `error`, as far as those who are missing can still arrive.
    #[cold]
    fn wait_on(
        &self,
        thread: &Thread<F>,
        error: Error,
        arrived: &dyn Fn(NodeId) -> bool,
        wait: &mut dyn FnMut(Peers<'_>) -> Result<()>,
    ) -> Result<()> {
        let nodes = self.participants.nodes();
        let missing =
            || -> SmallVec<[NodeId; 16]> { nodes.iter().copied().filter(|&n| !arrived(n)).collect() };
        let mut waited = Err(error);
        let mut timing = None;
        loop {
            match waited {
                // The peer arrived, and left while others were still awaited.
                Err(error) if error.lost_peer().is_some_and(arrived) => {
                    timing.get_or_insert_with(|| thread.timing());
                    waited = wait(Peers::These(&missing()));
                }
                Err(error) if error.is_timeout() => {
                    let error = late_since(timing, thread, error);
                    let missing = missing();
                    let list = NodeId::list(missing.iter().copied());
                    return Err(error.because(&missing, format!("{} waits for {list}", self.name)));
                }
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
        let network = self.manager.network();
        let drained = fence::drain(network, Some(network.default_deadline()));
        if let Err(error) = &drained {
            tracing::warn!(channel = self.name, %error, "draining before leaving");
        }
        // Operations that a lost peer did not take can change no memory.
        let drained = drained.map_or_else(|error| error.lost_peer().is_some(), |()| true);
        setup::retire(self.manager.setup(), &self.name, drained);
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

/// An endpoint as its callbacks see it: the parent of the sub-channels that they make.
pub struct ChannelRef<'a, F: Fabric = AnyFabric> {
    manager: &'a Manager<F>,
    name: &'a str,
    participants: &'a Participants,
}

impl<F: Fabric> Parent<F> for ChannelRef<'_, F> {
    fn manager(&self) -> &Manager<F> {
        self.manager
    }

    fn path(&self) -> Option<&str> {
        Some(self.name)
    }

    fn participants(&self) -> Participants {
        self.participants.clone()
    }
}

/// A callback on a join or connect.
type Callback<F> = Arc<dyn Fn(&ChannelRef<'_, F>, NodeId) -> Result<()> + Send + Sync>;

/// A channel under construction: [`join`](ChannelBuilder::join) makes the endpoint.
#[must_use = "nothing happens before `join`"]
pub struct ChannelBuilder<F: Fabric = AnyFabric> {
    manager: Manager<F>,
    path: Option<String>,
    name: String,
    kind: String,
    participants: Participants,
    declared: Vec<Declared>,
    on_join: Option<Callback<F>>,
    on_connect: Option<Callback<F>>,
}

/// A declared region.
struct Declared {
    name: String,
    len: usize,
    offered: Option<MemoryKind>,
    expected: Option<Expected>,
    published: bool,
}

impl<F: Fabric> ChannelBuilder<F> {
    /// Sets the channel's type with its parameters (`sst<u64>`). It must be equal on all endpoints.
    pub fn kind(mut self, kind: impl Into<String>) -> Self {
        self.kind = kind.into();
        self
    }

    /// Declares a zeroed region of `len` bytes on every participant. Every participant can access it.
    pub fn region(self, name: &str, len: usize) -> Self {
        self.declare(name, len, Some(MemoryKind::Host), Some(Expected::Everybody))
    }

    /// Declares a zeroed region of `len` bytes on every participant, for places that one node writes and the others
    /// have copies of. [`Channel::region`] does not return it, so that only its object posts to it.
    pub(crate) fn published(self, name: &str, len: usize) -> Self {
        let mut builder = self.region(name, len);
        if let Some(declared) = builder.declared.last_mut() {
            declared.published = true;
        }
        builder
    }

    /// Declares a zeroed region of `len` bytes on every participant in device memory (LOCO'26 C.4), for state that is
    /// accessed only by operations.
    pub fn device_region(self, name: &str, len: usize) -> Self {
        self.declare(name, len, Some(MemoryKind::Device), Some(Expected::Everybody))
    }

    /// Declares a region of `len` bytes that this node offers to the others, who may or may not expect it.
    pub fn offers(self, name: &str, len: usize) -> Self {
        self.declare(name, len, Some(MemoryKind::Host), None)
    }

    /// Declares a region of `len` bytes that `peer` must offer.
    pub fn expects(self, peer: NodeId, name: &str, len: usize) -> Self {
        self.declare(name, len, None, Some(Expected::Of(vec![peer])))
    }

    /// Runs `callback` on the set-up thread once for every peer, when the peer's endpoint appears and before its
    /// regions are accessible. This is the place to make sub-channels for each participant. The channel counts as
    /// ready only when those are. If `callback` fails or panics, the channel cannot become ready: waiting for it returns the
    /// callback's error here ([`Panicked`](crate::Error::Panicked) for a panic), and [`Refused`](crate::Error::Refused) at the peer.
    pub fn on_join(
        mut self,
        callback: impl Fn(&ChannelRef<'_, F>, NodeId) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_join = Some(Arc::new(callback));
        self
    }

    /// Runs `callback` on the set-up thread once for every peer, when its regions are accessible. If `callback` fails,
    /// the consequences are those of a failure of [`on_join`](ChannelBuilder::on_join).
    pub fn on_connect(
        mut self,
        callback: impl Fn(&ChannelRef<'_, F>, NodeId) -> Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.on_connect = Some(Arc::new(callback));
        self
    }

    /// Makes the endpoint: allocates its regions and announces it to the participants.
    ///
    /// # Errors
    /// Returns [`BadName`](crate::Error::BadName), [`DuplicateChannel`](crate::Error::DuplicateChannel),
    /// [`NotParticipant`](crate::Error::NotParticipant), [`OutOfMemory`](crate::fabric::FabricError::OutOfMemory), and
    /// [`UnknownPeer`](crate::fabric::FabricError::UnknownPeer) for a participant outside the job.
    pub fn join(self) -> Result<Channel<F>> {
        check_name(&self.name)?;
        let name = match &self.path {
            Some(path) => format!("{path}/{}", self.name),
            None => self.name,
        };
        let network = self.manager.network();
        let here = self.manager.node();
        if !self.participants.contains(here) {
            return Err(Error::NotParticipant {
                channel: name,
                node: here,
            });
        }
        for &peer in self.participants.nodes() {
            network.position(peer)?;
        }
        // Most channels have one region, for which a growing vector would take the room of four.
        let number = self.declared.len();
        let mut spec = Spec {
            kind: self.kind,
            participants: self.participants.clone(),
            offers: Vec::with_capacity(number),
            expects: Vec::with_capacity(number),
        };
        let (mut keys, mut regions) = (Vec::with_capacity(number), Vec::with_capacity(number));
        for declared in self.declared {
            check_name(&declared.name)?;
            let wanted = SpecRegion {
                name: declared.name.clone(),
                len: declared.len as u64,
            };
            if let Some(expected) = declared.expected {
                spec.expects.push((expected, wanted.clone()));
            }
            let local = match declared.offered {
                Some(kind) => Some(network.fabric().allocate(declared.len, kind)?),
                None => None,
            };
            let region = Region::new(
                network.fabric(),
                &name,
                &declared.name,
                declared.len,
                local.clone(),
                declared.published,
            );
            if let Some(memory) = &local {
                let key = network.fabric().export(memory);
                // The NIC loops back, for objects that treat all nodes alike.
                region.connect(network.position(here)?, network.fabric().import(here, &key)?);
                spec.offers.push(wanted);
                keys.push(key);
            }
            regions.push(region);
        }
        let peers: Vec<NodeId> = self
            .participants
            .nodes()
            .iter()
            .copied()
            .filter(|&n| n != here)
            .collect();
        let bind = |callback: Option<Callback<F>>, which: &'static str| -> Option<OnPeer> {
            callback.map(|callback| bind(callback, which, &self.manager, &name, &self.participants))
        };
        let shown = waits::object(here, &name, &spec.kind);
        let mut endpoint = Endpoint::new(spec, keys, regions.clone(), &peers);
        endpoint.on_join = bind(self.on_join, "on_join");
        endpoint.on_connect = bind(self.on_connect, "on_connect");
        setup::enter(self.manager.setup(), &name, endpoint)?;
        Ok(Channel {
            name,
            participants: self.participants,
            peers,
            regions,
            manager: self.manager,
            shown,
        })
    }

    fn declare(
        mut self,
        name: &str,
        len: usize,
        offered: Option<MemoryKind>,
        expected: Option<Expected>,
    ) -> Self {
        match self.declared.iter_mut().find(|d| d.name == name && d.len == len) {
            // The region is expected of several peers, or is expected of peers and offered here too.
            Some(declared) => {
                declared.offered = declared.offered.or(offered);
                declared.expected = Expected::both(declared.expected.take(), expected);
            }
            None => self.declared.push(Declared {
                name: name.to_owned(),
                len,
                offered,
                expected,
                published: false,
            }),
        }
        self
    }
}

/// Binds a callback to the context that it needs besides the peer. The bound callback does not keep the node up. A panic of
/// the callback becomes its error, because it must not end the set-up service of the node.
fn bind<F: Fabric>(
    callback: Callback<F>,
    which: &'static str,
    manager: &Manager<F>,
    name: &str,
    participants: &Participants,
) -> OnPeer {
    let manager = manager.downgrade();
    let (name, participants) = (name.to_owned(), participants.clone());
    Arc::new(move |peer| {
        let manager = manager.upgrade().ok_or(Error::Closed)?;
        let reference = ChannelRef {
            manager: &manager,
            name: &name,
            participants: &participants,
        };
        let outcome = panics::catch(manager.fabric().platform(), || callback(&reference, peer));
        manager.drop_on_service();
        outcome.unwrap_or_else(|payload| {
            let whose = format!("the callback `{which}` of channel `{name}` for {peer}");
            Err(panics::error(whose, &*payload))
        })
    })
}

/// Returns `bytes` if a region can have so many. The error calls them `what`, of the object that is to be called `name`.
///
/// # Errors
/// Returns `TooLarge` otherwise.
pub(crate) fn check_bytes(name: &str, what: &str, bytes: usize) -> Result<usize> {
    // The limit is that of Rust's own allocations.
    let max = isize::MAX as usize;
    if bytes > max {
        return Err(Error::TooLarge {
            what: format!("{what} for `{name}`"),
            len: bytes,
            max,
        });
    }
    Ok(bytes)
}

/// Returns the size of a region for `count` items of `each` bytes, for the object that is to be called `name`.
///
/// # Errors
/// Returns `TooLarge` if no region can have that size.
pub(crate) fn region_bytes(name: &str, count: usize, each: usize) -> Result<usize> {
    let what = format!("{count} items of {each} bytes on each node");
    check_bytes(name, &what, count.saturating_mul(each))
}

fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || name.contains(['/', '.']) {
        return Err(Error::BadName {
            name: name.to_owned(),
        });
    }
    Ok(())
}
