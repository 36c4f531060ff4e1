//! The state that the handles of a node share.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use loco_fabric::{Caps, Doorbell, NodeId, Result};
use loco_host::heap::Heap;
use loco_job::{Revoke, Revoked};

use crate::config::TcpConfig;
use crate::service::Service;
use crate::set_up::Card;
use crate::shared::Shared;

/// The time for which an ending node waits until what its threads have posted is sent.
const FAREWELL: Duration = Duration::from_secs(1);

/// The state that the handles of a node share.
pub(crate) struct Node {
    pub(crate) shared: Arc<Shared>,
    pub(crate) heap: Heap,
    pub(crate) caps: Caps,
    pub(crate) config: TcpConfig,
    /// The cards of all nodes, in the order of the mesh's nodes.
    pub(crate) cards: Vec<Card>,
    /// The service thread.
    pub(crate) _service: Service,
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
        if self.shared.is_forked() {
            // The connections are those of the process from which this one was forked.
            return;
        }
        // Posted operations must still be sent.
        let until = Instant::now() + FAREWELL;
        while self.shared.is_busy() && Instant::now() < until {
            self.shared.look();
            std::thread::yield_now();
        }
    }
}

/// Shuts lost nodes out, on behalf of the mesh. The reference is weak because the node holds the mesh.
pub(crate) struct Revoker(pub(crate) Weak<Node>);

impl Revoke for Revoker {
    fn revoke(&self, peer: NodeId) -> Revoked {
        // Once the node is gone, nobody has access to anything here. Whoever has the link's lock ends the request that it
        // executes, so none is half done.
        if let Some(node) = self.0.upgrade()
            && let Ok(index) = node.index(peer)
        {
            node.shared.shut_out(index);
        }
        Revoked::Done
    }

    fn gone(&self) {
        if let Some(node) = self.0.upgrade() {
            node.shared.ring();
        }
    }
}

#[cfg(test)]
mod tests {
    use loco_fabric::{
        CompletionStatus, Fabric, Memory, MemoryKind, Peers, QueuePair, Target, Wait, Work, WorkRequestId,
    };
    use loco_host::HugePages;
    use loco_job::Mesh;

    use super::*;
    use crate::TcpFabric;

    /// A node may not know yet that it was declared lost. Nothing that it sends is executed any more, not even what is on its
    /// way.
    #[test]
    fn a_node_that_is_shut_out_reaches_nothing() {
        let config = TcpConfig::default()
            .memory_limit_bytes(1 << 20)
            .huge_pages(HugePages::Never);
        let meshes = Mesh::in_process(3).unwrap();
        let fabrics: Vec<TcpFabric> = std::thread::scope(|scope| {
            let up = |mesh| scope.spawn(|| TcpFabric::new(mesh, config.clone()).unwrap());
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
        let mut word = [0; 8];
        let put = |user: &TcpFabric, value: u8| {
            let remote = user.import(there, &key).unwrap();
            let mut qp = user.queue_pair(there).unwrap();
            let target = Target {
                remote: &remote,
                offset: 0,
            };
            let _pending = qp.put_inline(&[value; 8], target, Work::unsignaled()).unwrap();
            let _pending = qp.flush(Work::signaled(WorkRequestId(1))).unwrap();
            qp
        };
        let wait = |what| Wait {
            what,
            peers: Peers::None,
            deadline: None,
        };
        let _lost_qp = put(lost, 1);
        let _qp = put(c, 2);
        let mut completions = Vec::new();
        c.wait(wait("a completion"), || {
            (c.poll(&mut completions).unwrap() > 0).then_some(())
        })
        .unwrap();
        assert_eq!(completions[0].status, CompletionStatus::Success);
        memory.read(0, &mut word).unwrap();
        assert_eq!(word, [2; 8]);
        // The lost node's operation ends when it hears of its loss, and not before.
        assert_eq!(lost.poll(&mut completions), Ok(0));
        a.mesh().fail();
        let mut completions = Vec::new();
        lost.wait(wait("the end"), || {
            (lost.poll(&mut completions).unwrap() > 0).then_some(())
        })
        .unwrap();
        assert!(matches!(completions[0].status, CompletionStatus::Failed(_)));
        memory.read(0, &mut word).unwrap();
        assert_eq!(word, [2; 8], "nothing of the lost node came");
    }
}
