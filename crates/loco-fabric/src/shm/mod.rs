//! The shared-memory fabric: nodes are processes of one host (or several in one process) that map one another's
//! registered memory.
//!
//! A put is a bounds check and a store into the peer's memory. The stamp order of the contract (LOCO'26 Fig. 10) comes from
//! the order of the CPU's own accesses: puts are release stores, in order; a get, and the read of a put's source, is
//! preceded by a full fence, because a CPU store comes before later NIC reads (cells B6, B8) and a put before later
//! remote reads (cell G8). With that every operation is done when its call returns, and placed after a
//! CPU fence ([`Caps::puts_placed_on_post`]).
//!
//! With [`Nic::Deferred`] a thread plays the network card and uses the freedom that the contract leaves it.
//!
//! From the bottom: `word` (racy accesses), `arena` (a mapping), `ranges` and `pool` (allocation), `memory` (handles),
//! `queue_pair`, `nic` and `send_queue` (deferred execution), `backoff` (waiting).

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::Read;
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};

#[allow(unsafe_code)]
mod arena;
pub(crate) mod backoff;
mod config;
#[allow(unsafe_code)]
mod memory;
mod nic;
#[allow(unsafe_code)]
mod pool;
mod queue_pair;
pub(crate) mod ranges;
mod send_queue;
#[allow(unsafe_code)]
pub(crate) mod word;

pub use config::{HugePages, Nic, ShmConfig};
pub use memory::{ShmCell, ShmMemory, ShmRemote};
pub use queue_pair::ShmQueuePair;

use crate::{
    Atomicity, Caps, Completion, Control, Fabric, FabricError, MemoryKind, Mesh, NodeId, PeerState, Peers,
    Platform, RegionKey, Result, Std, Wait,
};
use arena::{Arena, ArenaId, Token};
use backoff::Patience;
use nic::DeferredNic;
use pool::Pool;

/// Changes when [`Card`] or the layout of keys does.
const BRING_UP_VERSION: u32 = 1;
/// Longest inline put of the synchronous NIC: there is no limit by nature, this is where copying twice begins to show.
const INLINE_BYTES_SYNCHRONOUS: usize = 4096;
/// Longest inline put of the deferred NIC: that of a modest card, so that longer puts take the other path.
const INLINE_BYTES_DEFERRED: usize = 64;

/// The shared-memory fabric of one node.
#[derive(Clone, Debug)]
pub struct ShmFabric(Arc<Node>);

/// What the handles of a node share.
#[derive(Debug)]
struct Node {
    mesh: Mesh,
    platform: Std,
    caps: Caps,
    /// How peers find this node's memory.
    card: Card,
    /// The peers', in the order of the mesh's nodes.
    cards: Vec<Card>,
    pool: Arc<Pool>,
    /// Peers' arenas that were imported, each mapped until this node ends.
    imported: Mutex<HashMap<ArenaId, Arc<Arena>>>,
    patience: Patience,
    nic: Option<DeferredNic>,
}

/// What a node tells the others at set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    version: u32,
    pid: u32,
    token: Token,
    /// Same for processes that can open one another's `/proc/PID`.
    host: String,
}

impl Card {
    fn new() -> Result<Card> {
        let os = |what: &str| {
            let what = what.to_owned();
            move |error: std::io::Error| FabricError::Os {
                what,
                source_text: error.to_string(),
            }
        };
        let mut token = Token::default();
        File::open("/dev/urandom")
            .and_then(|mut random| random.read_exact(&mut token))
            .map_err(os("reading /dev/urandom"))?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(os("reading the host's boot id (is /proc mounted?)"))?;
        let namespace = fs::read_link("/proc/self/ns/pid")
            .map_err(os("reading the PID namespace (is /proc mounted?)"))?;
        Ok(Card {
            version: BRING_UP_VERSION,
            pid: std::process::id(),
            token,
            host: format!("{} {}", boot.trim(), namespace.display()),
        })
    }

    /// The part of the token that travels in keys.
    fn rkey(&self) -> u32 {
        let [.., a, b, c, d] = self.token;
        u32::from_be_bytes([a, b, c, d])
    }
}

impl ShmFabric {
    /// Brings the fabric up on every node of `mesh`: a collective call.
    ///
    /// # Errors
    /// [`FabricError::Config`] for a configuration that cannot work, or for a node on another host;
    /// [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part; [`FabricError::Os`].
    pub fn new(mesh: Mesh, config: ShmConfig) -> Result<ShmFabric> {
        config.check()?;
        let platform = Std;
        let card = Card::new()?;
        let bytes = postcard::to_stdvec(&card).map_err(|error| FabricError::Config(error.to_string()))?;
        let deadline = platform.now().after(config.set_up_timeout);
        let cards = mesh
            .allgather("shm", &bytes, deadline)?
            .into_iter()
            .map(|(node, bytes)| accept_card(&card, node, &bytes))
            .collect::<Result<Vec<_>>>()?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let nic = match config.nic {
            Nic::Synchronous => None,
            Nic::Deferred {
                seed,
                delay_max,
                queue_depth,
            } => Some(DeferredNic::start(mesh.clone(), seed, delay_max, queue_depth)?),
        };
        Ok(ShmFabric(Arc::new(Node {
            platform,
            caps: Caps {
                name: "shm".to_owned(),
                inline_bytes_max: match nic {
                    None => INLINE_BYTES_SYNCHRONOUS,
                    Some(_) => INLINE_BYTES_DEFERRED,
                },
                // Remote atomics are this CPU's atomics.
                atomicity: Atomicity::Glob,
                puts_placed_on_post: nic.is_none(),
                synchronous: nic.is_none(),
                device_memory_bytes: 0,
            },
            pool: Arc::new(Pool::new(mesh.node(), card.token, config)),
            imported: Mutex::default(),
            patience: Patience::new(mesh.nodes().len() > cores),
            mesh,
            card,
            cards,
            nic,
        })))
    }

    /// The mesh that it was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.mesh
    }
}

fn accept_card(own: &Card, node: NodeId, bytes: &[u8]) -> Result<Card> {
    // The version comes first, so that it can be read whatever follows.
    let version = postcard::take_from_bytes::<u32>(bytes).map(|(version, _)| version);
    if version != Ok(BRING_UP_VERSION) {
        return Err(FabricError::Config(format!(
            "{node} runs another version of the shm fabric: build all nodes from one version"
        )));
    }
    let card: Card = postcard::from_bytes(bytes)
        .map_err(|error| FabricError::Config(format!("bring-up data of {node}: {error}")))?;
    if card.host != own.host {
        return Err(FabricError::Config(format!(
            "{node} runs on another host or in another PID namespace: the shm fabric joins processes of one host; \
             use another fabric"
        )));
    }
    Ok(card)
}

impl Node {
    fn card(&self, node: NodeId) -> Result<&Card> {
        let index = self.mesh.nodes().binary_search(&node);
        let card = index.ok().and_then(|index| self.cards.get(index));
        card.ok_or(FabricError::UnknownPeer(node))
    }

    fn is_gone(&self, peer: NodeId) -> bool {
        self.mesh.peer_state(peer) != PeerState::Alive
    }

    fn gone_among(&self, peers: Peers<'_>) -> Option<NodeId> {
        let one;
        let peers = match peers {
            Peers::None => &[],
            Peers::One(peer) => {
                one = [peer];
                &one[..]
            }
            Peers::These(peers) => peers,
            Peers::All => self.mesh.nodes(),
        };
        peers.iter().copied().find(|&peer| self.is_gone(peer))
    }

    fn arena(&self, peer: NodeId, index: u32, fd: u32) -> Result<Arc<Arena>> {
        let card = self.card(peer)?;
        if peer == self.mesh.node() {
            return self.pool.arena(index).ok_or_else(|| stale(peer));
        }
        let id = ArenaId {
            token: card.token,
            index,
        };
        let mut imported = self.imported.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = imported.get(&id) {
            return Ok(Arc::clone(arena));
        }
        let arena = Arena::open(id, peer, card.pid, fd)?;
        imported.insert(id, Arc::clone(&arena));
        Ok(arena)
    }
}

fn stale(peer: NodeId) -> FabricError {
    FabricError::Refused(format!(
        "the region key is not one that {peer} exported in this run"
    ))
}

impl Fabric for ShmFabric {
    type Platform = Std;
    type Memory = ShmMemory;
    type Remote = ShmRemote;
    type QueuePair = ShmQueuePair;
    type Control = Mesh;

    fn node(&self) -> NodeId {
        self.0.mesh.node()
    }

    fn nodes(&self) -> &[NodeId] {
        self.0.mesh.nodes()
    }

    fn caps(&self) -> &Caps {
        &self.0.caps
    }

    fn platform(&self) -> &Std {
        &self.0.platform
    }

    fn control(&self) -> &Mesh {
        &self.0.mesh
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ShmMemory> {
        match kind {
            MemoryKind::Host => Ok(ShmMemory::new(self.0.pool.allocate(len)?, len)),
            MemoryKind::Device => Err(FabricError::Unsupported(
                "device memory: the shm fabric has no device, use `MemoryKind::Host`".into(),
            )),
        }
    }

    fn export(&self, memory: &ShmMemory) -> RegionKey {
        use crate::Memory;
        let (arena, offset) = memory.place();
        // Memory is made by `allocate` only, hence from an arena that this process owns and that has a descriptor.
        let fd = arena.descriptor().unwrap_or(u32::MAX);
        RegionKey {
            arena: u64::from(fd) << 32 | u64::from(arena.id().index),
            address: offset as u64,
            len: memory.len() as u64,
            rkey: self.0.card.rkey(),
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ShmRemote> {
        let node = &*self.0;
        if key.rkey != node.card(peer)?.rkey() {
            return Err(stale(peer));
        }
        if node.is_gone(peer) {
            return Err(FabricError::PeerLost(peer));
        }
        #[allow(clippy::cast_possible_truncation)] // Two halves of 32 bits, see `export`.
        let (fd, index) = ((key.arena >> 32) as u32, key.arena as u32);
        let arena = node.arena(peer, index, fd)?;
        let narrow = |value: u64| usize::try_from(value).map_err(|_| stale(peer));
        ShmRemote::new(arena, peer, narrow(key.address)?, narrow(key.len)?)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ShmQueuePair> {
        self.0.card(peer)?;
        if self.0.is_gone(peer) {
            return Err(FabricError::PeerLost(peer));
        }
        Ok(ShmQueuePair::new(Arc::clone(&self.0), peer))
    }

    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.0.nic.as_ref().map_or(0, |nic| nic.poll(completions)))
    }

    fn wait<T>(&self, wait: Wait<'_>, mut ready: impl FnMut() -> Option<T>) -> Result<T> {
        if let Some(value) = ready() {
            return Ok(value);
        }
        let node = &*self.0;
        // Of the first look at the clock, which takes as long as a message: whoever is about to be answered is spared it.
        let mut start = None;
        let mut backoff = node.patience.backoff();
        // Those who left before the wait count too, so the first comparison is with none.
        let mut departures_seen = 0;
        loop {
            let departures = node.mesh.departures();
            if departures != departures_seen {
                departures_seen = departures;
                if let Some(peer) = node.gone_among(wait.peers) {
                    return ready().ok_or(FabricError::PeerLost(peer));
                }
            }
            if backoff.pause()
                && let Some(deadline) = wait.deadline
            {
                let now = node.platform.now();
                let start = *start.get_or_insert(now);
                if now >= deadline {
                    return ready().ok_or_else(|| FabricError::Timeout {
                        what: wait.what.to_owned(),
                        after: now.since(start),
                    });
                }
            }
            if let Some(value) = ready() {
                backoff.answered();
                return Ok(value);
            }
        }
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}
