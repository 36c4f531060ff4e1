//! The fabric: set-up, memory of this node and of its peers, queue pairs.

use std::mem::MaybeUninit;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco_fabric::{
    Atomicity, Caps, Completion, Control, Doorbell, Fabric, FabricError, Memory, MemoryKind, NodeId, Order,
    RegionKey, Result, Std, Wait,
};
use loco_host::arenas::Arenas;
use loco_host::membership::Membership;
use loco_host::word;
use loco_job::Mesh;

use crate::arena::{Arena, ArenaId};
use crate::bring_up;
use crate::config::ShmConfig;
use crate::gate::{Gate, Peer};
use crate::memory::{ShmMemory, ShmRemote};
use crate::node::{Node, Revoker, stale};
use crate::queue_pair::ShmQueuePair;

/// The longest inline put. The fabric itself, which copies straight to the peer, would need no limit.
const INLINE_BYTES: usize = 4 << 20;

/// The shared-memory fabric of one node.
#[derive(Clone, Debug)]
pub struct ShmFabric(Arc<Node>);

impl ShmFabric {
    /// Brings the fabric up on every node of `mesh`: a collective call.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for a configuration that cannot work, and on every node if one of them cannot
    /// map the memory of another; [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take
    /// part. After an error this node has no fabric. It leaves the job with the last handle on `mesh`.
    pub fn new(mesh: Mesh, config: ShmConfig) -> Result<ShmFabric> {
        ShmFabric::try_new(mesh, config)?
    }

    /// Brings the fabric up if every node can map the memory of every other: a collective call, in which the nodes agree
    /// on the outcome. They cannot if they are on several hosts, in several PID namespaces or user namespaces, or run as
    /// several users, and where the system gives no shared memory.
    ///
    /// Returns `Ok(Err(why))` on every node if one of them cannot. Nothing stays behind, and the nodes may bring another
    /// fabric up.
    ///
    /// # Errors
    /// See [`new`](ShmFabric::new).
    pub fn try_new(mesh: Mesh, config: ShmConfig) -> Result<Result<ShmFabric>> {
        config.check()?;
        let job = Membership::new(mesh);
        let (gate, cards) = match bring_up::exchange_cards(&job, config.set_up_timeout)? {
            Ok(exchanged) => exchanged,
            Err(why) => return Ok(Err(why)),
        };
        let peers = match bring_up::open_peers(&job, &cards, config.set_up_timeout)? {
            Ok(peers) => peers,
            Err(why) => return Ok(Err(why)),
        };
        let mut gates = peers.iter().flatten().map(Peer::gate);
        let rings = gate.gate().has_barrier() && gates.all(Gate::has_barrier);
        if !rings {
            // A survivor without the barrier could not order a section that relies on it.
            gate.fence_by_itself();
        }
        gate.show_revocation();
        let bell = rings.then(|| gate.gate().bell()).transpose()?.map(Arc::new);
        let card = job.card(&cards, job.mesh.node())?.clone();
        let node = Arc::new(Node {
            caps: Caps {
                name: "shm".to_owned(),
                inline_bytes_max: INLINE_BYTES,
                // Remote atomics are atomics of this CPU.
                atomicity: Atomicity::Glob,
                order: Order::IMMEDIATE,
                puts_placed_on_post: true,
                synchronous: true,
                device_memory_bytes: 0,
            },
            arenas: Arenas::new(config.arena_bytes, config.memory_limit_bytes, "ShmConfig"),
            huge_pages: config.huge_pages,
            imported: Mutex::default(),
            job,
            card,
            cards,
            gate,
            peers,
            bell,
        });
        let revoker = Revoker {
            node: Arc::downgrade(&node),
            bell: node.bell.clone(),
        };
        node.job
            .enforce_losses("shm gates", Arc::new(revoker), config.set_up_timeout)?;
        Ok(Ok(ShmFabric(node)))
    }

    #[cfg(test)]
    pub(crate) fn node_arc(&self) -> &Arc<Node> {
        &self.0
    }

    /// Returns the mesh that the fabric was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.job.mesh
    }
}

impl Fabric for ShmFabric {
    type Platform = Std;
    type Memory = ShmMemory;
    type Remote = ShmRemote;
    type QueuePair = ShmQueuePair;
    type Control = Mesh;

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
        let arena = memory.arena();
        // Memory comes from `allocate` only, hence from an arena that this process owns and that has a
        // descriptor.
        let fd = arena.descriptor().unwrap_or(u32::MAX);
        RegionKey {
            arena: u64::from(fd) << 32 | u64::from(arena.id().index),
            address: memory.place(),
            len: memory.len() as u64,
            rkey: self.0.card.rkey(),
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ShmRemote> {
        let node = &*self.0;
        if key.rkey != node.card(peer)?.rkey() {
            return Err(stale(peer));
        }
        node.job.mesh.check_alive(peer)?;
        #[allow(clippy::cast_possible_truncation)] // Two halves of 32 bits, see `export`.
        let (fd, index) = ((key.arena >> 32) as u32, key.arena as u32);
        let arena = node.arena(peer, index, fd)?;
        let narrow = |value: u64| usize::try_from(value).map_err(|_| stale(peer));
        ShmRemote::new(arena, peer, narrow(key.address)?, narrow(key.len)?)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ShmQueuePair> {
        self.0.card(peer)?;
        self.0.job.mesh.check_alive(peer)?;
        ShmQueuePair::new(Arc::clone(&self.0), peer)
    }

    #[inline]
    fn poll(&self, _completions: &mut Vec<Completion>) -> Result<usize> {
        Ok(0) // Operations complete within the calls that post them.
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
    fn wait_for_arrival<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0.job.wait_by_bell(wait, self.0.sleeps_by(), ready)
    }

    #[inline]
    fn wait_for_arrival_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.0
            .job
            .wait_by_bell_within(wait, self.0.sleeps_by(), within, ready)
    }

    #[inline]
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0.job.wait_by_bell(wait, self.0.sleeps_by(), ready)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        let bell = self.0.bell.clone()?;
        Some(bell)
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        loco_host::pages::prefer_large(memory);
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}
