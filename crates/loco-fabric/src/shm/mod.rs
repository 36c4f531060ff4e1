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
//! From the bottom: `arena` (a mapping), `memory` (handles), `queue_pair`, `nic` and `send_queue` (deferred execution);
//! below them all `host`.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};

#[allow(unsafe_code)]
mod arena;
mod config;
#[allow(unsafe_code)]
mod memory;
mod nic;
mod queue_pair;
mod send_queue;

pub use config::{Nic, ShmConfig};
pub use memory::{ShmCell, ShmMemory, ShmRemote};
pub use queue_pair::ShmQueuePair;

use crate::host::arenas::Arenas;
use crate::host::membership::Membership;
use crate::host::word;
use crate::launch::random;
use crate::{
    Atomicity, Caps, Completion, Fabric, FabricError, HugePages, Memory, MemoryKind, Mesh, NodeId, RegionKey,
    Result, Std, Wait,
};
use arena::{Arena, ArenaId, Token};
use nic::DeferredNic;

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
    job: Membership,
    caps: Caps,
    /// How peers find this node's memory.
    card: Card,
    /// The peers', in the order of the mesh's nodes.
    cards: Vec<Card>,
    arenas: Arc<Arenas<Arena>>,
    huge_pages: HugePages,
    /// Peers' arenas that were imported, each mapped until this node ends.
    imported: Mutex<HashMap<ArenaId, Arc<Arena>>>,
    nic: Option<DeferredNic>,
}

/// What a node tells the others at set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Card {
    pid: u32,
    token: Token,
    /// Same for processes that can open one another's `/proc/PID`.
    host: String,
}

impl Card {
    fn new() -> Result<Card> {
        let os = |what: &'static str| {
            move |error: std::io::Error| FabricError::Os {
                what: format!("{what} (is /proc mounted?)"),
                source_text: error.to_string(),
            }
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(os("reading the host's boot id"))?;
        let namespace = fs::read_link("/proc/self/ns/pid").map_err(os("reading the PID namespace"))?;
        Ok(Card {
            pid: std::process::id(),
            token: random()?,
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
        let job = Membership::new(mesh);
        let card = Card::new()?;
        let cards = job.exchange("shm", BRING_UP_VERSION, &card, config.set_up_timeout)?;
        for (&node, its) in job.mesh.nodes().iter().zip(&cards) {
            check_host(&card, node, its)?;
        }
        let nic = match config.nic {
            Nic::Synchronous => None,
            Nic::Deferred {
                seed,
                delay_max,
                queue_depth,
            } => Some(DeferredNic::start(
                job.mesh.clone(),
                seed,
                delay_max,
                queue_depth,
            )?),
        };
        Ok(ShmFabric(Arc::new(Node {
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
            arenas: Arenas::new(config.arena_bytes, config.memory_limit_bytes, "ShmConfig"),
            huge_pages: config.huge_pages,
            imported: Mutex::default(),
            job,
            card,
            cards,
            nic,
        })))
    }

    /// The mesh that it was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.job.mesh
    }
}

fn check_host(own: &Card, node: NodeId, its: &Card) -> Result<()> {
    if its.host == own.host {
        return Ok(());
    }
    Err(FabricError::Config(format!(
        "{node} runs on another host or in another PID namespace: the shm fabric joins processes of one host; use \
         another fabric"
    )))
}

impl Node {
    fn card(&self, node: NodeId) -> Result<&Card> {
        self.job.card(&self.cards, node)
    }

    fn arena(&self, peer: NodeId, index: u32, fd: u32) -> Result<Arc<Arena>> {
        let card = self.card(peer)?;
        if peer == self.job.mesh.node() {
            return self.arenas.get(index as usize).ok_or_else(|| stale(peer));
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

    #[inline]
    fn node(&self) -> NodeId {
        self.0.job.mesh.node()
    }

    #[inline]
    fn nodes(&self) -> &[NodeId] {
        self.0.job.mesh.nodes()
    }

    #[inline]
    fn caps(&self) -> &Caps {
        &self.0.caps
    }

    #[inline]
    fn platform(&self) -> &Std {
        &self.0.job.platform
    }

    fn control(&self) -> &Mesh {
        &self.0.job.mesh
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ShmMemory> {
        match kind {
            MemoryKind::Host => {
                let node = &*self.0;
                let block = node.arenas.allocate(len, |index, len| {
                    let index =
                        u32::try_from(index).map_err(|_| FabricError::Unsupported("2^32 arenas".into()))?;
                    let token = node.card.token;
                    Arena::create(ArenaId { token, index }, self.node(), len, node.huge_pages)
                })?;
                Ok(ShmMemory::new(block, len))
            }
            MemoryKind::Device => Err(FabricError::Unsupported(
                "device memory: the shm fabric has no device, use `MemoryKind::Host`".into(),
            )),
        }
    }

    fn export(&self, memory: &ShmMemory) -> RegionKey {
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
        node.job.check_alive(peer)?;
        #[allow(clippy::cast_possible_truncation)] // Two halves of 32 bits, see `export`.
        let (fd, index) = ((key.arena >> 32) as u32, key.arena as u32);
        let arena = node.arena(peer, index, fd)?;
        let narrow = |value: u64| usize::try_from(value).map_err(|_| stale(peer));
        ShmRemote::new(arena, peer, narrow(key.address)?, narrow(key.len)?)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ShmQueuePair> {
        self.0.card(peer)?;
        self.0.job.check_alive(peer)?;
        Ok(ShmQueuePair::new(Arc::clone(&self.0), peer))
    }

    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.0.nic.as_ref().map_or(0, |nic| nic.poll(completions)))
    }

    #[inline]
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0.job.wait(wait, ready)
    }

    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.0.job.wait_within(wait, within, ready)
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}
