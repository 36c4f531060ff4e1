//! The fabric: set-up, memory of this node and of its peers, queue pairs.

use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    Atomicity, Caps, Completion, Control, Fabric, FabricError, MemoryKind, NodeId, RegionKey, Result, Std,
    Wait,
};
use loco_host::arenas::Arena as _;
use loco_host::heap::Heap;
use loco_host::membership::Membership;
use loco_host::word;
use loco_job::{Mesh, random};

use crate::config::OfiConfig;
use crate::engine::{Engine, Peer};
use crate::ffi::types::{FI_MR_ALLOCATED, FI_MR_LOCAL, FI_MR_PROV_KEY, FI_MR_VIRT_ADDR};
use crate::memory::{OfiMemory, OfiRemote};
use crate::node::{BRING_UP_VERSION, Card, Node, Revoker};
use crate::order::Words;
use crate::port::{Port, Registration};
use crate::progress::Progress;
use crate::provider::{OfiProvider, PIECE_BYTES_MAX, choose};
use crate::queue_pair::OfiQueuePair;
use crate::shared::Shared;

/// The libfabric fabric of one node.
#[derive(Clone)]
pub struct OfiFabric(Arc<Node>);

impl OfiFabric {
    /// Brings the fabric up on every node of `mesh`: a collective call.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for things that this host lacks, with the remedy, and for nodes that chose
    /// different providers; [`FabricError::Unsupported`] for a provider that cannot carry the contract;
    /// [`FabricError::PeerLost`] and [`FabricError::Timeout`] when a node does not take part, and [`FabricError::Os`]
    /// for a failed call of libfabric. After an error this node has no fabric. It leaves the job with the last handle
    /// on `mesh`.
    pub fn new(mesh: Mesh, config: OfiConfig) -> Result<OfiFabric> {
        config.check()?;
        let job = Membership::new(mesh);
        let offer = choose(&config)?;
        let provider = offer.describe(&config);
        let mapping = offer.mapping(&config);
        tracing::info!(
            "{}: libfabric's provider {} on {}: {mapping}",
            job.mesh.node(),
            provider.name,
            provider.domain
        );
        let order = mapping.order();
        let port = Port::open(offer)?;
        let piece_bytes = piece_bytes(&port, &provider)?;
        let heap = new_heap(&job, &config, &port)?;
        let scratch = heap.allocate(64)?;
        let own = job.mesh.node().position_in(job.mesh.nodes())?;
        let has_rmws = port.has_read_modify_writes();
        let token: [u8; 8] = random()?;

        let mut engine = Engine::new(port, heap, mapping, own, piece_bytes);
        register_for_each(&mut engine, job.mesh.nodes().len(), u64::from_ne_bytes(token))?;
        check_keys_differ(&engine, &provider)?;
        let card = own_card(&engine, &provider, &scratch, token)?;
        let cards = job.exchange("ofi", BRING_UP_VERSION, &card, config.set_up_timeout)?;
        add_peers(&mut engine, &job, &cards, own)?;
        let shared = Arc::new(Shared::new(engine, job)?);
        let node = Arc::new(Node {
            _progress: Progress::start(&shared)?,
            shared,
            caps: Caps {
                name: format!("ofi:{}", provider.name),
                inline_bytes_max: config.inline_bytes_max,
                atomicity: if has_rmws { Atomicity::Hca } else { Atomicity::None },
                order,
                puts_placed_on_post: false,
                synchronous: false,
                device_memory_bytes: 0,
            },
            config,
            provider,
            cards,
            _scratch: scratch,
        });
        let revoker = Arc::new(Revoker(Arc::downgrade(&node)));
        node.shared
            .job
            .enforce_losses("ofi up", revoker, node.config.set_up_timeout)?;
        Ok(OfiFabric(node))
    }

    #[cfg(test)]
    pub(crate) fn node_arc(&self) -> &Arc<Node> {
        &self.0
    }

    /// Returns the mesh that the fabric was built from.
    pub fn mesh(&self) -> &Mesh {
        &self.0.shared.job.mesh
    }

    /// Returns the provider in use.
    pub fn provider(&self) -> &OfiProvider {
        &self.0.provider
    }
}

/// Maps this node's memory: fewer bytes by default where registration pins it.
fn new_heap(job: &Membership, config: &OfiConfig, port: &Port) -> Result<Heap> {
    let bytes = match port.offer.registers_with(FI_MR_ALLOCATED | FI_MR_LOCAL) {
        true => config.pinned_limit_bytes,
        false => config.memory_limit_bytes,
    };
    Heap::new(job.mesh.node(), bytes, config.huge_pages, "OfiConfig")
}

/// Registers this node's memory once for each of `nodes` nodes, so that the access of each can be revoked by itself.
fn register_for_each(engine: &mut Engine, nodes: usize, token: u64) -> Result<()> {
    let (start, len) = (engine.heap.arena().start(), engine.heap.arena().len());
    let first_key = first_key(&engine.port, token);
    for index in 0..nodes {
        // SAFETY: the engine drops its registrations before its memory.
        #[allow(unsafe_code)]
        let registration = unsafe { engine.port.register(start, len, first_key + index as u64) }?;
        engine.registrations.push(Some(registration));
    }
    Ok(())
}

/// Fails if two registrations have one key. A provider that keeps registrations gives the same one again, and a lost peer's could not
/// be closed.
fn check_keys_differ(engine: &Engine, provider: &OfiProvider) -> Result<()> {
    let mut keys = keys(engine);
    keys.sort_unstable();
    if keys.windows(2).any(|pair| pair[0] == pair[1]) {
        return Err(FabricError::Config(format!(
            "libfabric's provider {} gives all peers the same key to this node's memory, so that a lost one would keep its \
             access: set `FI_MR_CACHE_MAX_COUNT=0` on all nodes",
            provider.name
        )));
    }
    Ok(())
}

/// Returns the keys of this node's registrations, in the order of the nodes that they are for.
fn keys(engine: &Engine) -> Vec<u64> {
    let registrations = engine.registrations.iter().flatten();
    registrations.map(Registration::key).collect()
}

/// Returns what the others must know of this node.
fn own_card(engine: &Engine, provider: &OfiProvider, scratch: &OfiMemory, token: [u8; 8]) -> Result<Card> {
    let arena = engine.heap.arena();
    let base = match engine.port.offer.registers_with(FI_MR_VIRT_ADDR) {
        true => arena.start().as_ptr().expose_provenance() as u64,
        false => 0,
    };
    Ok(Card {
        provider: provider.name.clone(),
        name: engine.port.name()?,
        base,
        len: arena.len() as u64,
        keys: keys(engine),
        scratch: scratch.place(),
        token: u32::from_ne_bytes([token[0], token[1], token[2], token[3]]),
    })
}

/// Adds every node of the job to the engine. All must have this node's provider; `own` is the position of this node.
fn add_peers(engine: &mut Engine, job: &Membership, cards: &[Card], own: usize) -> Result<()> {
    let provider = &cards[own].provider;
    for (&node, its) in job.mesh.nodes().iter().zip(cards) {
        if its.provider != *provider {
            return Err(FabricError::Config(format!(
                "{node} uses libfabric's provider {}, and {} uses {provider}: name one for all, `--fabric ofi:PROVIDER`",
                its.provider,
                job.mesh.node(),
            )));
        }
        engine.peers.push(Peer {
            addr: engine.port.insert(&its.name)?,
            base: its.base,
            key: its.keys.get(own).copied().ok_or_else(|| {
                FabricError::Config(format!("{node} knows of fewer nodes: start all nodes alike"))
            })?,
        });
    }
    Ok(())
}

/// Returns the length of the longest piece.
fn piece_bytes(port: &Port, provider: &OfiProvider) -> Result<usize> {
    if provider.mapping.words == Words::Rma {
        return Ok(PIECE_BYTES_MAX);
    }
    let counts = [1, 2, 4, 8].map(|word_bytes| port.words_max(word_bytes));
    match counts {
        [Some(_), Some(_), Some(_), Some(words)] => Ok((8 * words).min(PIECE_BYTES_MAX)),
        _ => Err(FabricError::Unsupported(format!(
            "libfabric's provider {}: it has no atomic reads and writes of words, without which words tear",
            provider.name
        ))),
    }
}

/// Returns the first of the keys to ask for: at random where keys are long enough.
fn first_key(port: &Port, token: u64) -> u64 {
    match port.offer.domain().mr_key_size {
        8.. if !port.offer.registers_with(FI_MR_PROV_KEY) => token >> 17,
        _ => 1,
    }
}

impl fmt::Debug for OfiFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OfiFabric")
            .field("node", &self.mesh().node())
            .field("provider", &self.0.provider.name)
            .finish_non_exhaustive()
    }
}

impl Fabric for OfiFabric {
    type Platform = Std;
    type Memory = OfiMemory;
    type Remote = OfiRemote;
    type QueuePair = OfiQueuePair;
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

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<OfiMemory> {
        match kind {
            MemoryKind::Host => self.0.shared.engine().heap.allocate(len),
            MemoryKind::Device => Err(FabricError::Unsupported(
                "device memory: the ofi fabric has none, use `MemoryKind::Host`".into(),
            )),
        }
    }

    fn export(&self, memory: &OfiMemory) -> RegionKey {
        memory.key(self.0.card(self.node()).map_or(0, |card| card.token))
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<OfiRemote> {
        let card = self.0.card(peer)?;
        self.0.shared.job.mesh.check_alive(peer)?;
        OfiRemote::of_key(peer, key, card.token, card.len)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<OfiQueuePair> {
        self.0.card(peer)?;
        self.0.shared.job.mesh.check_alive(peer)?;
        OfiQueuePair::new(Arc::clone(&self.0), peer)
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        let shared = &self.0.shared;
        // Another thread that has the lock makes progress. The reports stay for the next call.
        let Some(mut engine) = shared.try_engine() else {
            return Ok(0);
        };
        shared.help(&mut engine);
        engine.reports(completions)
    }

    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.0.shared.job.wait(wait, self.nudging(ready))
    }

    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.0.shared.job.wait_within(wait, within, self.nudging(ready))
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        loco_host::pages::prefer_large(memory);
    }

    #[inline]
    fn cpu_fence(&self) {
        word::full_fence();
    }
}

impl OfiFabric {
    /// Returns a condition that asks `ready`, makes progress, and asks `ready` again. The awaited change may come by
    /// this progress, sooner than by that of the node's own thread. If `ready` polls for completions, it has made
    /// progress itself, and is not asked again.
    fn nudging<T>(&self, mut ready: impl FnMut() -> Option<T>) -> impl FnMut() -> Option<T> {
        let shared = &self.0.shared;
        move || {
            let helped = shared.helped();
            ready().or_else(|| {
                if shared.helped() != helped {
                    return None;
                }
                shared.nudge();
                ready()
            })
        }
    }
}
