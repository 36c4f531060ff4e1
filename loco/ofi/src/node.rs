//! The state that the handles of a node share, and the data that nodes exchange at set-up.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use loco_fabric::{Caps, NodeId, Result};
use loco_job::{Revoke, Revoked};
use serde::{Deserialize, Serialize};

use crate::config::OfiConfig;
use crate::memory::OfiMemory;
use crate::progress::Progress;
use crate::provider::OfiProvider;
use crate::shared::Shared;

/// The version of the set-up data. It changes when [`Card`] or the layout of keys does.
pub(crate) const BRING_UP_VERSION: u32 = 1;

/// The time for which an ending node waits for operations that its threads have posted.
const FAREWELL: Duration = Duration::from_secs(1);

/// The state that the handles of a node share.
pub(crate) struct Node {
    /// The thread that makes progress. It ends before the rest.
    pub(crate) _progress: Progress,
    pub(crate) shared: Arc<Shared>,
    pub(crate) caps: Caps,
    pub(crate) config: OfiConfig,
    pub(crate) provider: OfiProvider,
    /// The cards of all nodes, in the order of the mesh's nodes.
    pub(crate) cards: Vec<Card>,
    /// The word that peers' flushes read.
    pub(crate) _scratch: OfiMemory,
}

/// The data that a node tells the others at set-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Card {
    /// The provider's name.
    pub(crate) provider: String,
    /// The name of the endpoint.
    pub(crate) name: Vec<u8>,
    /// The address of the mapping, as the provider counts.
    pub(crate) base: u64,
    /// The length of the mapping.
    pub(crate) len: u64,
    /// The keys of the mapping, one a node, in the order of the mesh's nodes.
    pub(crate) keys: Vec<u64>,
    /// The place of the word that flushes read.
    pub(crate) scratch: u64,
    /// Distinguishes this run's keys from those of another.
    pub(crate) token: u32,
}

impl Node {
    /// Returns the data that `node` sent at set-up.
    pub(crate) fn card(&self, node: NodeId) -> Result<&Card> {
        self.shared.job.card(&self.cards, node)
    }

    /// Returns the position of `node` among the nodes.
    pub(crate) fn index(&self, node: NodeId) -> Result<usize> {
        node.position_in(self.shared.job.mesh.nodes())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Posted operations must still be sent.
        let until = Instant::now() + FAREWELL;
        loop {
            let mut engine = self.shared.engine();
            engine.progress(&self.shared.job);
            if !engine.is_busy() || Instant::now() > until {
                return;
            }
            drop(engine);
            std::thread::yield_now();
        }
    }
}

/// Takes lost nodes' access away, on behalf of the mesh. The reference is weak because the node holds the mesh.
pub(crate) struct Revoker(pub(crate) Weak<Node>);

impl Revoke for Revoker {
    fn revoke(&self, peer: NodeId) -> Revoked {
        // Once the node is gone, nobody has access to anything here.
        if let Some(node) = self.0.upgrade()
            && let Ok(index) = node.index(peer)
        {
            // The holder of the lock finishes what the provider has begun, so no operation of the peer is half done.
            node.shared.engine().revoke(index);
        }
        Revoked::Done
    }

    fn gone(&self) {
        if let Some(node) = self.0.upgrade() {
            node.shared.waker.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OfiFabric, usable};
    use loco_fabric::{
        CompletionStatus, Fabric, Memory, MemoryKind, Peers, QueuePair, Target, Wait, Work, WorkRequestId,
    };
    use loco_host::HugePages;
    use loco_job::Mesh;

    /// A node may not know yet that it was declared lost. The provider accepts nothing from it any more.
    #[test]
    fn a_revoked_node_reaches_nothing() {
        let config = OfiConfig::default()
            .provider(Some("tcp".to_owned()))
            .memory_limit_bytes(1 << 20)
            .huge_pages(HugePages::Never);
        if usable(&config).is_err() {
            return; // The conformance suite says that it is skipped.
        }
        let meshes = Mesh::in_process(3).unwrap();
        let fabrics: Vec<OfiFabric> = std::thread::scope(|scope| {
            let up = |mesh| scope.spawn(|| OfiFabric::new(mesh, config.clone()).unwrap());
            let ups: Vec<_> = meshes.into_iter().map(up).collect();
            ups.into_iter().map(|up| up.join().unwrap()).collect()
        });
        let [a, lost, c] = &fabrics[..] else {
            unreachable!()
        };
        let (here, there) = (lost.node(), a.node());
        let memory = a.allocate(64, MemoryKind::Host).unwrap();
        let key = a.export(&memory);
        let revoker = Revoker(Arc::downgrade(a.node_arc()));
        assert_eq!(revoker.revoke(here), Revoked::Done);
        for user in [lost, c] {
            let remote = user.import(there, &key).unwrap();
            let mut qp = user.queue_pair(there).unwrap();
            let target = Target {
                remote: &remote,
                offset: 0,
            };
            let _pending = qp.put_inline(&[1; 8], target, Work::unsignaled()).unwrap();
            let _pending = qp.flush(Work::signaled(WorkRequestId(1))).unwrap();
            let mut completions = Vec::new();
            let wait = Wait {
                what: "a completion",
                peers: Peers::None,
                deadline: None,
            };
            let polled = || (user.poll(&mut completions).unwrap() > 0).then_some(());
            user.wait(wait, polled).unwrap();
            let mut word = [0; 8];
            memory.read(0, &mut word).unwrap();
            let is_lost = user.node() == here;
            assert_eq!(completions[0].status == CompletionStatus::Success, !is_lost);
            assert_eq!(word == [1; 8], !is_lost, "the lost node comes first");
        }
    }
}
