//! The state that the handles of a node share.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use loco_fabric::{Caps, Doorbell, FabricError, NodeId, Result};
use loco_host::HugePages;
use loco_host::arenas::Arenas;
use loco_host::membership::Membership;
use loco_job::{Revoke, Revoked};

use crate::arena::{Arena, ArenaId};
use crate::bell::Bell;
use crate::bring_up::Card;
use crate::gate::{OwnGate, Peer, shut_out};

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
    /// The gate between this node and its peers' memory.
    pub(crate) gate: Arc<OwnGate>,
    /// The peers' gates, in the order of the mesh's nodes; `None` for this node.
    pub(crate) peers: Vec<Option<Peer>>,
    /// This node's doorbell, if every node of the job can ring it.
    pub(crate) bell: Option<Arc<Bell>>,
}

impl Node {
    /// Returns the data that `node` sent at set-up.
    pub(crate) fn card(&self, node: NodeId) -> Result<&Card> {
        self.job.card(&self.cards, node)
    }

    /// Returns the doorbell of `peer`.
    pub(crate) fn bell_of(&self, peer: NodeId) -> Result<Bell> {
        let index = peer.position_in(self.job.mesh.nodes())?;
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
            return Revoked::DoneForAll;
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
        let (own, victim) = (self.job.mesh.node().position_in(nodes)?, peer.position_in(nodes)?);
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
            outcomes.sort_by_key(|outcome| *outcome == Revoked::DoneForAll);
            assert_eq!(outcomes, [Revoked::WeAreOut, Revoked::DoneForAll]);
            for (own, (qp, remote)) in ends.iter_mut().enumerate() {
                // Before any call of the fabric has failed.
                let declared_lost = fabrics[own].mesh().declared_lost();
                assert_eq!(declared_lost, revoked[own] == Revoked::WeAreOut);
                let put = qp.put_inline(&[1; 8], Target { remote, offset: 0 }, Work::unsignaled());
                match revoked[own] {
                    Revoked::Done | Revoked::DoneForAll => assert!(put.is_ok()),
                    Revoked::WeAreOut => {
                        assert_eq!(put.err(), Some(FabricError::DeclaredLost));
                    }
                }
            }
        }
    }
}
