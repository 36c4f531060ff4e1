//! Tests that a device accepts nothing more from a node whose access was taken away.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_fabric::{
    CompletionStatus, Fabric, FabricError, Memory, MemoryKind, Peers, QueuePair, Target, Wait, Work,
    WorkRequestId,
};
use loco_job::Revoked;
use loco_test_networks::altered::{AlteredDevice, Limits};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// A node may not know yet that it was declared lost. The device accepts nothing from it any more.
#[test]
fn a_revoked_node_reaches_nothing() {
    let config = VerbsConfig::default()
        .provider(AlteredDevice::new(Limits::default()).provider())
        .arena_bytes(1 << 20)
        .link_timeout(Duration::from_millis(20));
    let fabrics = loco_conformance::bring_up(3, |mesh| VerbsFabric::new(mesh, config.clone()).unwrap());
    let [a, lost, c] = &fabrics[..] else {
        unreachable!()
    };
    let (here, there) = (lost.node(), a.node());
    let memory = a.allocate(64, MemoryKind::Host).unwrap();
    let key = a.export(&memory);
    let mut qps = [lost, c].map(|user| {
        let remote = user.import(there, &key).unwrap();
        (user, user.queue_pair(there).unwrap(), remote)
    });
    assert_eq!(a.revoker().revoke(here), Revoked::Done);
    for (user, qp, remote) in &mut qps {
        let target = Target { remote, offset: 0 };
        let _pending = qp
            .put_inline(&[1; 8], target, Work::signaled(WorkRequestId(1)))
            .unwrap();
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
    assert_eq!(lost.queue_pair(there).err(), Some(FabricError::DeclaredLost));
}
