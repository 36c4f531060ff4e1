//! Tests the verbs fabric between real processes on this host's RDMA devices. Each test runs its own binary
//! again, once per node. With two devices, odd nodes use the second, so that traffic crosses the link between
//! them.
//!
//! They run on the device of `loco nic`, too, on every host. Without another device each test says *skipped*;
//! `LOCO_REQUIRE_RDMA` makes that a failure. `ci/verbs-suite` runs them in a virtual machine, on one device, on two, and with lost
//! and delayed packets.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::Command;
use std::time::Instant;

use loco_conformance::processes::{Nodes, PATIENCE, all_succeed_but, barrier, is_node, share, soon, target};
use loco_fabric::{
    Completion, CompletionStatus, Control, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, PeerState,
    Peers, QueuePair, Wait, WordCell, Work, WorkRequestId,
};
use loco_host::HugePages;
use loco_job::Mesh;
use loco_testing::{on_nic, skipped};
use loco_verbs::{VerbsConfig, VerbsFabric, choose, devices};

fn config() -> VerbsConfig {
    VerbsConfig::from_env()
        .unwrap()
        .arena_bytes(1 << 20)
        .huge_pages(HugePages::Never)
        .queue_depth(64)
        .connect_timeout(PATIENCE)
        .set_up_timeout(PATIENCE)
}

/// Returns true if there is a device. In a node there always is. Otherwise reports that the test is skipped.
fn device() -> bool {
    if is_node() {
        return true;
    }
    match choose(&config()) {
        Ok(_) => true,
        Err(error) => {
            skipped("RDMA", error);
            false
        }
    }
}

/// Runs the test as [`Nodes::run`] does, with the devices dealt out in turn.
fn run(test: &str, n: u16, body: impl FnOnce(Mesh)) -> Option<Nodes> {
    let devices = devices();
    let device = |command: &mut Command, node| {
        let device = &devices[usize::from(node) % devices.len()];
        command.env("LOCO_VERBS_DEVICE", &device.name);
    };
    Nodes::run(test, n, device, body)
}

/// Polls until `n` completions have come.
fn completions(fabric: &VerbsFabric, n: usize) -> Vec<Completion> {
    let mut completions = Vec::new();
    let wait = Wait {
        what: "completions",
        peers: Peers::None,
        deadline: Some(soon()),
    };
    fabric
        .wait(wait, || {
            fabric.poll(&mut completions).unwrap();
            (completions.len() >= n).then_some(())
        })
        .unwrap();
    completions
}

/// Lets every node put to all, get from all, and add to a word of node 0, several hundred times.
fn exchange(mesh: Mesh) {
    const ROUNDS: u64 = 100;
    const LEN: usize = 2000;
    let fabric = VerbsFabric::new(mesh, config()).unwrap();
    let own = usize::from(fabric.node().0);
    let all = fabric.nodes().len();
    let (memory, remotes) = share(&fabric, fabric.mesh(), (all + 1) * LEN);
    let here = fabric.allocate(2 * LEN, MemoryKind::Host).unwrap();
    let local = |offset, len| Local {
        memory: &here,
        offset,
        len,
    };
    let mut queue_pairs: Vec<_> = fabric
        .nodes()
        .iter()
        .map(|&n| fabric.queue_pair(n).unwrap())
        .collect();
    let work = |id| Work::signaled(WorkRequestId(id));
    let succeed = |n| {
        for completion in completions(&fabric, n) {
            assert_eq!(completion.status, CompletionStatus::Success);
        }
    };
    for round in 0..ROUNDS {
        here.write(0, &vec![(own as u64 + round).to_ne_bytes()[0]; LEN])
            .unwrap();
        for (qp, remote) in queue_pairs.iter_mut().zip(&remotes) {
            let _ = qp
                .put(
                    local(0, LEN),
                    target(remote, (own + 1) * LEN),
                    Work::unsignaled().more(),
                )
                .unwrap();
            let _ = qp.flush(work(round)).unwrap();
        }
        succeed(all);
        let peer = (own + 1) % all;
        // The get uses the same queue pair, so it reads the put as it is placed.
        let back = target(&remotes[peer], (own + 1) * LEN);
        let _ = queue_pairs[peer].get(local(LEN, LEN), back, work(round)).unwrap();
        let _ = queue_pairs[0]
            .fetch_add(target(&remotes[0], 0), 1, local(0, 8), work(round))
            .unwrap();
        succeed(2);
        let mut bytes = [0; LEN];
        here.read(LEN, &mut bytes).unwrap();
        assert_eq!(bytes, [(own as u64 + round).to_ne_bytes()[0]; LEN]);
    }
    barrier(fabric.mesh(), "done");
    for node in 0..all {
        let mut bytes = [0; LEN];
        memory.read((node + 1) * LEN, &mut bytes).unwrap();
        assert_eq!(
            bytes,
            [(node as u64 + ROUNDS - 1).to_ne_bytes()[0]; LEN],
            "from node {node}"
        );
    }
    if own == 0 {
        let sum = memory.cell::<u64>(0).unwrap().load();
        assert_eq!(sum, ROUNDS * all as u64);
    }
    barrier(fabric.mesh(), "checked");
}

#[test]
fn two_nodes_exchange() {
    if device() {
        all_succeed_but(run("two_nodes_exchange", 2, exchange), &[]);
    }
}

#[test]
fn four_nodes_exchange() {
    if device() {
        all_succeed_but(run("four_nodes_exchange", 4, exchange), &[]);
    }
}

#[test]
fn a_node_killed_at_set_up_is_lost() {
    let body = |mesh: Mesh| {
        if mesh.node() == NodeId(1) {
            std::process::abort();
        }
        let start = Instant::now();
        let error = VerbsFabric::new(mesh, config()).unwrap_err();
        assert_eq!(error, FabricError::PeerLost(NodeId(1)));
        assert!(start.elapsed() < PATIENCE);
    };
    if device() {
        all_succeed_but(run("a_node_killed_at_set_up_is_lost", 2, body), &[1]);
    }
}

#[test]
fn a_node_killed_while_others_post_is_lost() {
    let body = |mesh: Mesh| {
        let fabric = VerbsFabric::new(mesh, config()).unwrap();
        let (memory, remotes) = share(&fabric, fabric.mesh(), 4096);
        if fabric.node() == NodeId(1) {
            // The node dies when it has seen a put arrive from both peers.
            for node in [0, 2] {
                let seen = memory.cell::<u64>(8 * node).unwrap();
                while seen.load() == 0 {
                    std::thread::yield_now();
                }
            }
            std::process::abort();
        }
        let mut to_dead = fabric.queue_pair(NodeId(1)).unwrap();
        let mine = 8 * usize::from(fabric.node().0);
        let other = NodeId(2 - fabric.node().0); // Node 0 and node 2 are each other's peer.
        let mut to_living = fabric.queue_pair(other).unwrap();
        let start = Instant::now();
        let (mut posted, mut ended) = (0, Vec::new());
        let refused = loop {
            let work = Work::signaled(WorkRequestId(posted as u64));
            match to_dead.put_inline(&1u64.to_ne_bytes(), target(&remotes[1], mine), work) {
                Ok(_) => posted += 1,
                Err(FabricError::QueueFull(_)) => {
                    fabric.poll(&mut ended).unwrap();
                }
                Err(error) => break error,
            }
            assert!(start.elapsed() < PATIENCE, "posting goes on for ever");
        };
        assert_eq!(refused, FabricError::PeerLost(NodeId(1)));
        let missing = posted - ended.len();
        ended.extend(completions(&fabric, missing));
        assert_eq!(ended.len(), posted);
        for completion in ended {
            match completion.status {
                CompletionStatus::Success => {}
                CompletionStatus::Failed(error) => assert_eq!(*error, FabricError::PeerLost(NodeId(1))),
            }
        }
        assert_eq!(fabric.mesh().peer_state(NodeId(1)), PeerState::Lost);
        // Operations towards the living node go on.
        let remote = &remotes[usize::from(other.0)];
        let _ = to_living
            .put_inline(
                &7u64.to_ne_bytes(),
                target(remote, 8),
                Work::signaled(WorkRequestId(0)),
            )
            .unwrap();
        let _ = to_living.flush(Work::signaled(WorkRequestId(1))).unwrap();
        for completion in completions(&fabric, 2) {
            assert_eq!(completion.status, CompletionStatus::Success);
        }
        let word = memory.cell::<u64>(8).unwrap();
        let wait = Wait {
            what: "the survivor's put",
            peers: Peers::One(other),
            deadline: Some(soon()),
        };
        fabric.wait(wait, || (word.load() == 7).then_some(())).unwrap();
        drop(to_dead);
        fabric
            .wait(wait, || {
                fabric.poll(&mut Vec::new()).unwrap();
                (fabric.queue_pairs() <= 1).then_some(())
            })
            .unwrap();
        // Neither node leaves before the other says that it needs it no more: what is posted towards a node that has left
        // fails. The completion of the last word alone may fail, when the other has read it and left.
        let _ = to_living
            .put_inline(
                &9u64.to_ne_bytes(),
                target(remote, 24),
                Work::signaled(WorkRequestId(2)),
            )
            .unwrap();
        completions(&fabric, 1);
        let last = memory.cell::<u64>(24).unwrap();
        fabric.wait(wait, || (last.load() == 9).then_some(())).unwrap();
    };
    if device() {
        all_succeed_but(run("a_node_killed_while_others_post_is_lost", 3, body), &[1]);
    }
}

/// Takes the link between two devices down in the middle of a stream of puts. Needs root in the virtual
/// machine.
#[test]
fn a_link_that_goes_down_ends_operations_in_time() {
    if !device() || devices().len() < 2 || env::var_os("LOCO_TEST_LINK").is_none() {
        return skipped(
            "LINK",
            "LOCO_TEST_LINK names no link between two devices to be taken down",
        );
    }
    let set_link = |state: &str| {
        let link = env::var("LOCO_TEST_LINK").unwrap();
        let status = Command::new("ip")
            .args(["link", "set", &link, state])
            .status()
            .unwrap();
        assert!(status.success());
    };
    let body = |mesh: Mesh| {
        let fabric = VerbsFabric::new(mesh, config()).unwrap();
        let (_memory, remotes) = share(&fabric, fabric.mesh(), 4096);
        if fabric.node() == NodeId(1) {
            barrier(fabric.mesh(), "link down");
            return;
        }
        let mut qp = fabric.queue_pair(NodeId(1)).unwrap();
        let start = Instant::now();
        let mut posted = 0;
        while posted < 60 {
            if posted == 20 {
                set_link("down");
            }
            let work = Work::signaled(WorkRequestId(posted));
            let _ = qp
                .put_inline(&posted.to_ne_bytes(), target(&remotes[1], 0), work)
                .unwrap();
            posted += 1;
        }
        let ended = completions(&fabric, 60);
        set_link("up");
        let first = ended.iter().find_map(|c| match &c.status {
            CompletionStatus::Failed(error) => Some(error.to_string()),
            CompletionStatus::Success => None,
        });
        let first = first.expect("something was under way when the link went down");
        assert!(first.contains("put towards node 1 failed"), "{first}");
        println!("after {:?}: {first}", start.elapsed());
        barrier(fabric.mesh(), "link down");
    };
    all_succeed_but(run("a_link_that_goes_down_ends_operations_in_time", 2, body), &[]);
}

#[test]
fn on_nic() {
    for (tier, stress) in [("ibta", "none"), ("ooo-all", "default")] {
        on_nic::again("on_nic", tier, stress, &[]);
    }
}
