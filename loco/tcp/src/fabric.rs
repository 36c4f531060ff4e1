//! The fabric: set-up, memory of this node and of its peers, queue pairs.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    Atomicity, Caps, Completion, Control, Cost, Doorbell, Fabric, FabricError, Known, MemoryKind, NodeId,
    Order, RegionKey, Result, Std, Tier, Wait,
};
use loco_host::heap::Heap;
use loco_host::membership::Membership;
use loco_host::word;
use loco_job::Mesh;

use crate::background::Background;
use crate::config::TcpConfig;
use crate::memory::{TcpMemory, TcpRemote};
use crate::node::{Node, Revoker};
use crate::queue_pair::TcpQueuePair;
use crate::service::Service;
use crate::set_up::{BRING_UP_VERSION, SetUpListener};
use crate::shared::Shared;

/// The rounds of spinning of a wait, which take 40 us or so: each looks at the sockets.
const SPINS: u32 = 100;

/// The orders that the fabric gives by itself, those of the one connection with each peer, and the costs of the others.
pub const ORDER: Order = Order {
    tier: Tier::Ibta,
    known: Known::Device,
    strong: Cost::Free,
    fenced: Cost::Wait,
    flush: Cost::Read,
};

/// The TCP fabric of one node.
#[derive(Clone)]
pub struct TcpFabric(Arc<Node>);

impl TcpFabric {
    /// Brings the fabric up on every node of `mesh`: a collective call.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for settings that cannot work, and for nodes that disagree on encryption;
    /// [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part, and [`FabricError::Os`]
    /// for a failed system call. After an error this node has no fabric. It leaves the job with the last handle on
    /// `mesh`.
    pub fn new(mesh: Mesh, config: TcpConfig) -> Result<TcpFabric> {
        config.check()?;
        let job = Membership::new(mesh).spinning_at_most(SPINS);
        let heap = Heap::new(
            job.mesh.node(),
            config.memory_limit_bytes,
            config.huge_pages,
            "TcpConfig",
        )?;
        let memory = heap.whole();
        let listener = SetUpListener::open(&job.mesh, &config)?;
        let card = listener.card(&config, memory.len() as u64)?;
        let cards = job.exchange("tcp", BRING_UP_VERSION, &card, config.set_up_timeout)?;
        for (&node, its) in job.mesh.nodes().iter().zip(&cards) {
            if its.encrypt != config.encrypt {
                let [encrypts, plain] = match its.encrypt {
                    true => [node, job.mesh.node()],
                    false => [job.mesh.node(), node],
                };
                return Err(FabricError::Config(format!(
                    "{encrypts} encrypts its data, and {plain} does not: set LOCO_TCP_ENCRYPT alike on all nodes"
                )));
            }
        }
        let streams = listener.connect(&job, &cards, config.set_up_timeout)?;
        let shared = Arc::new(Shared::new(job, memory, streams)?);
        let node = Arc::new(Node {
            _service: Service::start(&shared)?,
            shared,
            heap,
            caps: Caps {
                name: "tcp".to_owned(),
                inline_bytes_max: config.inline_bytes_max,
                atomicity: Atomicity::Glob,
                order: ORDER,
                puts_placed_on_post: false,
                synchronous: false,
                device_memory_bytes: 0,
            },
            config,
            cards,
        });
        let revoker = Arc::new(Revoker(Arc::downgrade(&node)));
        node.shared
            .job
            .enforce_losses("tcp up", revoker, node.config.set_up_timeout)?;
        Ok(TcpFabric(node))
    }

    #[cfg(test)]
    pub(crate) fn node_arc(&self) -> &Arc<Node> {
        &self.0
    }

    /// Returns the mesh that the fabric was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.shared.job.mesh
    }

    fn wait_by<T>(
        &self,
        wait: Wait<'_>,
        within: Option<Duration>,
        rings: bool,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let shared = &*self.0.shared;
        let mut ready = shared.looking(ready);
        if let Some(value) = ready() {
            return Ok(value);
        }
        let _attendance = shared.attend();
        match rings {
            true => shared.job.wait_asleep(wait, within, shared, true, ready),
            false => {
                let bell = Background::new(&self.0.shared);
                shared.job.wait_asleep(wait, within, &bell, false, ready)
            }
        }
    }
}

impl fmt::Debug for TcpFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpFabric")
            .field("node", &self.mesh().node())
            .finish_non_exhaustive()
    }
}

impl Fabric for TcpFabric {
    type Platform = Std;
    type Memory = TcpMemory;
    type Remote = TcpRemote;
    type QueuePair = TcpQueuePair;
    type Control = Mesh;

    #[inline]
    fn caps(&self) -> &Caps {
        &self.0.caps
    }

    #[inline]
    fn platform(&self) -> &Std {
        &self.0.shared.job.platform
    }

    fn control(&self) -> &Mesh {
        self.mesh()
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<TcpMemory> {
        match kind {
            MemoryKind::Host => self.0.heap.allocate(len),
            MemoryKind::Device => Err(FabricError::Unsupported(
                "device memory: the tcp fabric has none, use `MemoryKind::Host`".into(),
            )),
        }
    }

    fn export(&self, memory: &TcpMemory) -> RegionKey {
        memory.key(self.0.card(self.node()).map_or(0, |card| card.token))
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<TcpRemote> {
        let card = self.0.card(peer)?;
        self.mesh().check_alive(peer)?;
        TcpRemote::of_key(peer, key, card.token, card.len)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<TcpQueuePair> {
        self.0.card(peer)?;
        self.mesh().check_alive(peer)?;
        TcpQueuePair::new(Arc::clone(&self.0), peer)
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        Ok(self.0.shared.poll(completions))
    }

    #[inline]
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait_by(wait, None, false, ready)
    }

    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_by(wait, Some(within), false, ready)
    }

    #[inline]
    fn wait_for_arrival<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait_by(wait, None, true, ready)
    }

    #[inline]
    fn wait_for_arrival_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_by(wait, Some(within), true, ready)
    }

    #[inline]
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait_by(wait, None, true, ready)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        Some(Arc::clone(&self.0.shared) as Arc<dyn Doorbell>)
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        loco_host::pages::prefer_large(memory);
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}
