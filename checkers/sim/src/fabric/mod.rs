//! The model fabric: the fabric contract on the operational machine.
//!
//! Memory is the machine's memory in words of eight bytes. CPU accesses and posted operations are the
//! machine's actions. A transfer of several words is one operation for each word. They are posted in
//! ascending order, the machine places them in any order, and the last one carries the completion. On a fabric with the
//! capabilities of shared memory, operations are CPU accesses ([`FabricKind`]). A narrower CPU store reads the word and writes it
//! back, so two threads that store to different bytes of one word at the same time are not modelled.

pub(crate) mod blame;
pub(crate) mod coroutine;
mod direct;
mod dying;
mod kind;
mod memory;
pub(crate) mod place;
pub(crate) mod platform;
mod queue_pair;
pub(crate) mod reaper;
pub(crate) mod request;

use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    Caps, Completion, CompletionStatus, Control, Fabric, FabricError, MemoryKind, NodeId, PeerState, Peers,
    RegionKey, Result, Seen, Time, Wait, WorkRequestId,
};

use mowgli::model::Tier;

use crate::fabric::coroutine::{ask, current, given_up};
use crate::fabric::direct::Direct;
use crate::fabric::memory::word_of;
use crate::fabric::platform::{ModelPlatform, allocate, outside, value};
use crate::fabric::queue_pair::Way;
use crate::fabric::request::{Deadline, NodeSet, Reply, Request, VirtualWord};

pub use kind::{FabricKind, UnknownFabric};
pub use memory::{ModelCell, ModelMemory, ModelRemote};
pub use queue_pair::ModelQueuePair;

/// Bytes of a model word.
const WORD: usize = 8;

/// The settings of an exploration that change how a fabric behaves.
#[derive(Clone, Copy)]
pub(crate) struct Options {
    /// The fabric.
    pub(crate) kind: FabricKind,
    /// Remote read-modify-writes are atomic against the CPU, too.
    pub(crate) glob: bool,
    /// The order of the network.
    pub(crate) tier: Tier,
    /// Deadlines may pass.
    pub(crate) timed: bool,
    /// Nodes may be lost.
    pub(crate) lossy: bool,
}

/// A node's model fabric. Made by [`World::node`](crate::World::node).
#[derive(Clone, Debug)]
pub struct ModelFabric {
    kind: FabricKind,
    caps: Arc<Caps>,
    platform: ModelPlatform,
    control: ModelControl,
}

impl ModelFabric {
    pub(crate) fn new(node: u16, nodes: u16, options: Options) -> ModelFabric {
        ModelFabric {
            kind: options.kind,
            caps: Arc::new(options.kind.caps(options.tier, options.glob)),
            platform: ModelPlatform { timed: options.timed },
            control: ModelControl {
                node: NodeId(node),
                nodes: (0..nodes).map(NodeId).collect(),
                lossy: options.lossy,
            },
        }
    }

    /// Returns which fabric this is.
    pub fn kind(&self) -> FabricKind {
        self.kind
    }
}

/// Returns the error of a call of `node` that fails since `who`, the node itself or another, is lost.
fn lost(node: NodeId, who: u16) -> FabricError {
    match NodeId(who) == node {
        true => FabricError::DeclaredLost,
        false => FabricError::PeerLost(NodeId(who)),
    }
}

impl Fabric for ModelFabric {
    type Platform = ModelPlatform;
    type Memory = ModelMemory;
    type Remote = ModelRemote;
    type QueuePair = ModelQueuePair;
    type Control = ModelControl;

    fn caps(&self) -> &Caps {
        &self.caps
    }

    fn platform(&self) -> &ModelPlatform {
        &self.platform
    }

    fn control(&self) -> &ModelControl {
        &self.control
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ModelMemory> {
        if kind == MemoryKind::Device {
            return Err(FabricError::Unsupported(
                "device memory on the model fabric".into(),
            ));
        }
        Ok(ModelMemory {
            first: allocate(len.div_ceil(WORD) as u64),
            offset: 0,
            len,
        })
    }

    /// Names the words in reports.
    fn name_memory(&self, memory: &ModelMemory, name: &str) {
        let words = (memory.offset + memory.len).div_ceil(WORD) as u64;
        coroutine::label(memory.first, words, name);
    }

    fn export(&self, memory: &ModelMemory) -> RegionKey {
        RegionKey {
            arena: 0,
            address: memory.first.0 * WORD as u64 + memory.offset as u64,
            len: memory.len as u64,
            rkey: 0,
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ModelRemote> {
        if !self.nodes().contains(&peer) {
            return Err(FabricError::UnknownPeer(peer));
        }
        let memory = ModelMemory {
            first: VirtualWord(key.address / WORD as u64),
            offset: (key.address % WORD as u64) as usize,
            len: key.len as usize,
        };
        self.reach(peer)?;
        Ok(ModelRemote { node: peer, memory })
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ModelQueuePair> {
        if !self.nodes().contains(&peer) {
            return Err(FabricError::UnknownPeer(peer));
        }
        let (owner, _) = current().ok_or_else(|| outside("a queue pair"))?;
        self.reach(peer)?;
        let node = self.node();
        Ok(ModelQueuePair {
            owner,
            node,
            peer,
            inline_bytes_max: self.caps.inline_bytes_max,
            way: match self.caps.synchronous {
                true => Way::Direct(Direct {
                    node,
                    peer,
                    lossy: self.control.lossy,
                }),
                false => Way::Posted(allocate(2)),
            },
        })
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        match ask(Request::Poll) {
            Reply::Completions(tags) => {
                completions.extend(tags.iter().map(|ended| Completion {
                    id: WorkRequestId(ended.tag),
                    peer: NodeId(ended.peer),
                    status: match ended.failed {
                        true => CompletionStatus::Failed(Box::new(FabricError::PeerLost(NodeId(ended.peer)))),
                        false => CompletionStatus::Success,
                    },
                }));
                Ok(tags.len())
            }
            Reply::Lost(_) => Err(FabricError::DeclaredLost),
            _ => Ok(0),
        }
    }

    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        let deadline = match wait.deadline {
            // No clock gets as far as the last time.
            Some(time) if time < Time::LAST => Deadline::At(time.0),
            _ => Deadline::Never,
        };
        let gives_up = wait.deadline.is_some_and(|deadline| deadline != Time::NEVER);
        self.wait_for(wait, deadline, gives_up, ready)
    }

    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let nanoseconds = u64::try_from(within.as_nanos()).unwrap_or(u64::MAX);
        self.wait_for(wait, Deadline::Within(nanoseconds), true, ready)
    }

    /// Waits until the memory differs from what was seen, whenever that is. Any number of looks in between
    /// would have found the same memory, so the exploration leaves nothing out.
    fn pause(&self, wait: Wait<'_>, _: Duration, seen: &Seen<'_, ModelRemote>) -> Result<()> {
        let words = seen.at.remote.memory.words(seen.at.offset, seen.bytes.len())?;
        let words: Vec<(VirtualWord, u64)> = words.zip(seen.bytes.chunks_exact(WORD).map(word_of)).collect();
        self.wait(wait, || {
            let differs = |&(word, old): &(VirtualWord, u64)| value(ask(Request::Load { word })) != old;
            words.iter().any(differs).then_some(())
        })
    }

    fn cpu_fence(&self) {
        ask(Request::Fence);
    }
}

impl ModelFabric {
    /// Waits until `ready` returns a value. Where no deadline may pass, the explorer reports a thread that
    /// waits in vain. `gives_up` says that the wait also ends when the thread's call is given up.
    fn wait_for<T>(
        &self,
        wait: Wait<'_>,
        deadline: Deadline,
        gives_up: bool,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        // A deadline at the beginning of time has passed already: who waits so only looks.
        let looks = deadline == Deadline::At(0);
        let deadline = match self.platform.timed {
            true => deadline,
            false => Deadline::Never,
        };
        let timeout = |after| FabricError::Timeout {
            what: wait.what.to_owned(),
            after: Duration::from_nanos(after),
        };
        let begun = ask(Request::WaitBegin {
            what: wait.what.into(),
            deadline,
            peers: self.named(wait.peers),
        });
        if begun == Reply::Dismantled {
            return Err(outside("a wait"));
        }
        loop {
            if let Some(result) = ready() {
                ask(Request::WaitEnd);
                return Ok(result);
            }
            if looks || (gives_up && given_up()) {
                ask(Request::WaitEnd);
                return Err(timeout(0));
            }
            match ask(Request::Park) {
                Reply::Dismantled => return Err(outside("a wait")),
                Reply::Expired => {
                    let (Deadline::At(after) | Deadline::Within(after)) = deadline else {
                        return Err(outside("a deadline"));
                    };
                    return Err(timeout(after));
                }
                // Ask once more, as the contract requires.
                Reply::Lost(node) => return ready().ok_or_else(|| lost(self.node(), node)),
                _ => {}
            }
        }
    }

    /// Returns the nodes whose loss ends a wait; none where nodes cannot be lost.
    fn named(&self, peers: Peers<'_>) -> NodeSet {
        if !self.control.lossy {
            return NodeSet::default();
        }
        let others = peers
            .among(self.nodes())
            .iter()
            .filter(|&&node| node != self.node());
        others.map(|node| node.0).collect()
    }

    /// Fails if this node or the peer is lost.
    fn reach(&self, peer: NodeId) -> Result<()> {
        if !self.control.lossy {
            return Ok(());
        }
        match ask(Request::Reach { peer: peer.0 }) {
            Reply::Lost(node) => Err(lost(self.node(), node)),
            _ => Ok(()),
        }
    }
}

/// Set-up messages of the model. They are delivered in the order in which they were sent, and none is lost.
/// A peer counts as lost here once this node has learned of the loss.
#[derive(Clone, Debug)]
pub struct ModelControl {
    node: NodeId,
    nodes: Arc<[NodeId]>,
    lossy: bool,
}

impl ModelControl {
    fn known(&self) -> NodeSet {
        match self.lossy {
            true => NodeSet::from_bits(value(ask(Request::Lost))),
            false => NodeSet::default(),
        }
    }
}

impl Control for ModelControl {
    fn node(&self) -> NodeId {
        self.node
    }

    fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    fn send(&self, to: NodeId, payload: &[u8]) -> Result<()> {
        if !self.nodes.contains(&to) {
            return Err(FabricError::UnknownPeer(to));
        }
        let sent = ask(Request::Send {
            to,
            payload: payload.into(),
        });
        match sent {
            Reply::Lost(node) => Err(lost(self.node, node)),
            _ => Ok(()),
        }
    }

    fn receive(&self, _deadline: Option<Time>) -> Result<Option<(NodeId, Vec<u8>)>> {
        match ask(Request::Receive) {
            Reply::Message(message) => Ok(message.map(|(from, payload)| (NodeId(from), payload.to_vec()))),
            _ => Ok(None),
        }
    }

    fn peer_state(&self, node: NodeId) -> PeerState {
        match node != self.node && self.known().contains(node.0) {
            true => PeerState::Lost,
            false => PeerState::Alive,
        }
    }

    fn departures(&self) -> u64 {
        u64::from(self.known().len())
    }

    fn declared_lost(&self) -> bool {
        self.known().contains(self.node.0)
    }

    fn close(&self) {
        ask(Request::Close);
    }
}
