//! The state that the handles of a node share, and the data that nodes exchange at set-up.

use std::collections::HashMap;
use std::fs;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use loco_fabric::{Caps, Doorbell, FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::Arenas;
use loco_host::membership::Membership;
use loco_job::{Revoke, Revoked};
use serde::{Deserialize, Serialize};

use crate::arena::{Arena, ArenaId, Token};
use crate::bell::Bell;
use crate::gate::{Gate, OwnGate, Peer, shut_out};
use crate::nic::DeferredNic;

/// The version of the set-up data. It changes when [`Card`], the layout of keys or the layout of the gate does.
pub(crate) const BRING_UP_VERSION: u32 = 3;

/// The state that the handles of a node share.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) job: Membership,
    pub(crate) caps: Caps,
    /// The data by which peers find this node's memory.
    pub(crate) card: Card,
    /// The peers' cards, in the order of the mesh's nodes.
    pub(crate) cards: Vec<Card>,
    pub(crate) arenas: Arc<Arenas<Arena>>,
    pub(crate) huge_pages: HugePages,
    /// The imported arenas of peers. Each stays mapped until this node ends.
    pub(crate) imported: Mutex<HashMap<ArenaId, Arc<Arena>>>,
    pub(crate) nic: Option<DeferredNic>,
    /// The gate between this node and its peers' memory.
    pub(crate) gate: Arc<OwnGate>,
    /// The peers' gates, in the order of the mesh's nodes; `None` for this node.
    pub(crate) peers: Vec<Option<Peer>>,
    /// This node's doorbell, if every node of the job can ring it.
    pub(crate) bell: Option<Arc<Bell>>,
}

/// The data that a node tells the others at set-up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Card {
    pid: u32,
    pub(crate) token: Token,
    /// The descriptor of the gate.
    gate: u32,
    /// An identifier that is equal for processes that can open one another's `/proc/PID`.
    host: String,
}

impl Card {
    pub(crate) fn new(token: Token, gate: &OwnGate) -> Result<Card> {
        let os = |what: &'static str| {
            move |error: std::io::Error| FabricError::Os {
                what: format!("{what} (is /proc mounted?)"),
                source: error.into(),
            }
        };
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
            .map_err(os("reading the host's boot id"))?;
        let namespace = fs::read_link("/proc/self/ns/pid").map_err(os("reading the PID namespace"))?;
        Ok(Card {
            pid: std::process::id(),
            token,
            gate: gate.descriptor(),
            host: format!("{} {}", boot.trim(), namespace.display()),
        })
    }

    /// Maps the gate of `node`, whose card this is.
    pub(crate) fn peer(&self, node: NodeId) -> Result<Peer> {
        // The process is opened first. If its memory is then found there, it is the right process.
        let process = Peer::process(node, self.pid)?;
        let gate = Gate::open(self.token, node, self.pid, self.gate)?;
        Ok(Peer::new(gate, process))
    }

    /// Returns the part of the token that travels in keys.
    pub(crate) fn rkey(&self) -> u32 {
        let [.., a, b, c, d] = self.token;
        u32::from_be_bytes([a, b, c, d])
    }
}

/// Fails if `its`, the card of `node`, is from another host than `own`.
pub(crate) fn check_host(own: &Card, node: NodeId, its: &Card) -> Result<()> {
    if its.host == own.host {
        return Ok(());
    }
    Err(FabricError::Config(format!(
        "{node} runs on another host or in another PID namespace: the shm fabric joins processes of one host; use \
         another fabric"
    )))
}

impl Node {
    /// Returns the data that `node` told at set-up.
    pub(crate) fn card(&self, node: NodeId) -> Result<&Card> {
        self.job.card(&self.cards, node)
    }

    /// Returns the doorbell of `peer`.
    pub(crate) fn bell_of(&self, peer: NodeId) -> Result<Bell> {
        let index = self.job.mesh.nodes().binary_search(&peer);
        let index = index.map_err(|_| FabricError::UnknownPeer(peer))?;
        match self.peers.get(index) {
            Some(Some(peer)) => peer.gate().bell(),
            _ => self.gate.gate().bell(),
        }
    }

    /// Returns the doorbell by which this node's threads sleep, if it has one.
    #[inline]
    pub(crate) fn sleeps_by(&self) -> Option<&dyn Doorbell> {
        let bell: &Bell = self.bell.as_deref()?;
        Some(bell)
    }

    /// Returns the arena of `peer`, mapped here.
    pub(crate) fn arena(&self, peer: NodeId, index: u32, fd: u32) -> Result<Arc<Arena>> {
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

/// Shuts lost nodes out, on behalf of the mesh. The reference is weak because the node holds the mesh.
pub(crate) struct Revoker {
    pub(crate) node: Weak<Node>,
    /// The node's doorbell, if it has one. It does not keep the node.
    pub(crate) bell: Option<Arc<Bell>>,
}

impl Revoke for Revoker {
    fn revoke(&self, peer: NodeId) -> Revoked {
        // Once the node is gone, nobody has access to anything here.
        let Some(node) = self.node.upgrade() else {
            return Revoked::Done;
        };
        node.shut_out(peer).unwrap_or_else(|error| {
            // This cannot fail: the offsets are within a mapping of fixed length.
            tracing::error!("shutting {peer} out: {error}");
            Revoked::WeAreOut
        })
    }

    fn gone(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Node {
    fn shut_out(&self, peer: NodeId) -> Result<Revoked> {
        let nodes = self.job.mesh.nodes();
        let index = |node: NodeId| {
            nodes
                .binary_search(&node)
                .map_err(|_| FabricError::UnknownPeer(node))
        };
        let (own, victim) = (index(self.job.mesh.node())?, index(peer)?);
        // The log is in the lowest node's gate.
        let log = match self.peers.first() {
            Some(Some(lowest)) => lowest.gate(),
            _ => self.gate.gate(),
        };
        match self.peers.get(victim) {
            Some(Some(peer)) => shut_out(log, own, victim, peer),
            _ => Err(FabricError::UnknownPeer(peer)),
        }
    }
}

/// Returns the error for a key that `peer` did not export, or that belongs to another process with its id.
pub(crate) fn stale(peer: NodeId) -> FabricError {
    FabricError::Refused(format!(
        "the region key is not one that {peer} exported in this run"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ShmConfig, ShmFabric};
    use loco_fabric::{Control as _, Fabric, MemoryKind, QueuePair, Target, Work};
    use loco_job::Mesh;

    /// One of two nodes that suspect each other stays, and the other can do nothing any more.
    #[test]
    fn of_two_that_suspect_each_other_one_stays() {
        for _ in 0..20 {
            let meshes = Mesh::in_process(2).unwrap();
            let fabrics: Vec<ShmFabric> = std::thread::scope(|scope| {
                let up = |mesh| scope.spawn(|| ShmFabric::new(mesh, ShmConfig::default()).unwrap());
                let ups: Vec<_> = meshes.into_iter().map(up).collect();
                ups.into_iter().map(|up| up.join().unwrap()).collect()
            });
            let mut ends: Vec<_> = (0..2)
                .map(|own| {
                    let (own, peer) = (&fabrics[own], &fabrics[1 - own]);
                    let memory = peer.allocate(64, MemoryKind::Host).unwrap();
                    let remote = own.import(peer.node(), &peer.export(&memory)).unwrap();
                    (own.queue_pair(peer.node()).unwrap(), remote)
                })
                .collect();
            let revoked: Vec<_> = std::thread::scope(|scope| {
                let revoke = |own: usize| {
                    let (node, peer) = (fabrics[own].node_arc(), fabrics[1 - own].node());
                    let revoker = Revoker {
                        node: Arc::downgrade(node),
                        bell: None,
                    };
                    scope.spawn(move || revoker.revoke(peer))
                };
                let threads = [revoke(0), revoke(1)];
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let mut outcomes = revoked.clone();
            outcomes.sort_by_key(|outcome| *outcome == Revoked::Done);
            assert_eq!(outcomes, [Revoked::WeAreOut, Revoked::Done]);
            for (own, (qp, remote)) in ends.iter_mut().enumerate() {
                // Before any call of the fabric has failed.
                let declared_lost = fabrics[own].mesh().declared_lost();
                assert_eq!(declared_lost, revoked[own] == Revoked::WeAreOut);
                let put = qp.put_inline(&[1; 8], Target { remote, offset: 0 }, Work::unsignaled());
                match revoked[own] {
                    Revoked::Done => assert!(put.is_ok()),
                    Revoked::WeAreOut => {
                        assert_eq!(put.err(), Some(FabricError::DeclaredLost));
                    }
                }
            }
        }
    }
}
