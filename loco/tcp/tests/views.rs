//! Tests the TCP fabric in a job that a node joins: each view has a fabric of its own, beside those of earlier views.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::thread;
use std::time::Duration;

use loco_conformance::{Poster, allocate, local, set_word, share, target, word};
use loco_fabric::{
    Control, Fabric, FabricError, NodeId, PeerState, Peers, Platform, QueuePair, Std, Time, Wait,
};
use loco_host::HugePages;
use loco_job::{Address, Hosts, Job, Join, Mesh, Secret, View};
use loco_tcp::{TcpConfig, TcpFabric};
use loco_testing::free_addresses;

/// Only a hang reaches it.
fn soon() -> Time {
    Std.now().after(Duration::from_secs(120))
}

fn secret() -> Secret {
    Secret::new(*b"a shared secret").unwrap()
}

/// Brings the fabric up on all of these, which are the nodes of one view.
fn bring_up(meshes: Vec<Mesh>) -> Vec<TcpFabric> {
    let config = TcpConfig::default()
        .memory_limit_bytes(16 << 20)
        .huge_pages(HugePages::Never);
    thread::scope(|scope| {
        let up = |mesh| scope.spawn(|| TcpFabric::new(mesh, config.clone()).unwrap());
        let nodes: Vec<_> = meshes.into_iter().map(up).collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

/// Brings up a job of two nodes with room for more. Returns them, and how others join.
fn job() -> (Vec<Mesh>, Join) {
    let addresses: Vec<_> = free_addresses(&["127.0.0.1"; 2])
        .into_iter()
        .map(Address::from)
        .collect();
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses.clone())).unwrap();
    let meshes = thread::scope(|scope| {
        let node = |id| {
            let job = Job::builder(NodeId(id)).secret(secret()).nodes_max(4);
            let job = job.hosts(hosts.clone()).unwrap();
            scope.spawn(move || Mesh::connect(&job).unwrap())
        };
        let nodes = [node(0), node(1)];
        nodes.map(|node| node.join().unwrap()).into()
    });
    (meshes, Join::by(addresses).unwrap().secret(secret()))
}

/// Puts a word from `a` to `b`, and reads it back.
fn assert_reaches(a: &TcpFabric, b: &TcpFabric, value: u64) {
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    set_word(&here, 0, value);
    let mut poster = Poster::new(a, b.node());
    poster.complete(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 0), work));
    poster.complete(|qp, work| qp.get(local(&here, 8, 8), target(&remote, 0), work.strong()));
    assert_eq!([word(&there, 0), word(&here, 8)], [value; 2]);
}

/// The fabric of the first view goes on beside that of the second, also after the newcomer is lost.
#[test]
fn a_fabric_of_a_view_reaches_the_node_that_joined() {
    let (meshes, join) = job();
    let first = bring_up(meshes.clone());
    assert_reaches(&first[0], &first[1], 1);

    let newcomer = Mesh::join(&join).unwrap();
    let views: Vec<View> = meshes
        .iter()
        .map(|mesh| mesh.next_view(mesh.view_number(), soon()).unwrap())
        .collect();
    assert_eq!(views[0].members(), [0, 1, 2].map(NodeId));
    let later = meshes
        .iter()
        .zip(&views)
        .map(|(mesh, view)| mesh.of_view(view).unwrap());
    let second = bring_up(later.chain([newcomer.clone()]).collect());
    for (a, b) in [(2, 0), (1, 2), (0, 1)] {
        assert_reaches(&second[a], &second[b], 2);
    }
    assert!(
        first[0]
            .import(NodeId(2), &second[2].export(&allocate(&second[2], 64)))
            .is_err()
    );

    newcomer.fail();
    let wait = Wait {
        what: "a node that is lost",
        peers: Peers::All,
        deadline: Some(soon()),
    };
    for mesh in &meshes {
        assert_eq!(mesh.wait_for_departures(0, soon()), 1);
        assert_eq!(mesh.peer_state(NodeId(2)), PeerState::Lost);
    }
    let lost = second[0].wait(wait, || None::<()>);
    assert_eq!(lost, Err(FabricError::PeerLost(NodeId(2))));
    assert_reaches(&second[0], &second[1], 3);
    assert_reaches(&first[1], &first[0], 3);

    // The loss makes a view of those that are left. The node comes back as another one, and they get a fabric with it.
    let again = Mesh::join(&join).unwrap();
    let next = |mesh: &Mesh, known: &View| mesh.next_view(known.number(), soon()).unwrap();
    let later: Vec<Mesh> = meshes
        .iter()
        .map(|mesh| {
            let without = next(mesh, &views[0]);
            assert_eq!(without.members(), [0, 1].map(NodeId));
            let with = next(mesh, &without);
            assert_eq!(with.members(), [0, 1, 3].map(NodeId));
            mesh.of_view(&with).unwrap()
        })
        .collect();
    let third = bring_up(later.into_iter().chain([again]).collect());
    assert_reaches(&third[2], &third[0], 4);
}
