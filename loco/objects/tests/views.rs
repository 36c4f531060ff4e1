//! Objects that are made after a node has joined the job: a manager of the new view, over a fabric of its own, beside that of the
//! view before.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Duration;

use loco::fabric::{
    Address, AnyConfig, AnyFabric, Control, FabricChoice, Hosts, HugePages, Job, Join, Mesh, NodeId,
    Platform, Secret, Std, TcpConfig, Time, View,
};
use loco::{AtomicVar, Barrier, ErrorKind, Manager, Result};
use loco_testing::free_addresses;

/// Only a hang reaches it.
fn soon() -> Time {
    Std.now().after(Duration::from_secs(120))
}

fn secret() -> Secret {
    Secret::new(*b"a shared secret").unwrap()
}

/// The objects of a node, all of one view.
struct Kit {
    manager: Manager,
    barrier: Barrier,
    total: AtomicVar<u64>,
}

impl Kit {
    fn new(mesh: Mesh) -> Result<Kit> {
        let tcp = TcpConfig::default()
            .memory_limit_bytes(64 << 20)
            .huge_pages(HugePages::Never);
        let config = AnyConfig::default().choice(FabricChoice::Tcp).tcp(tcp);
        let manager = Manager::new(AnyFabric::new(mesh, config)?)?;
        let barrier = Barrier::new(&manager, "barrier")?;
        let total = AtomicVar::new(&manager, "total", manager.nodes()[0])?;
        manager.wait_for_ready()?;
        Ok(Kit {
            manager,
            barrier,
            total,
        })
    }

    /// Adds one for each node, and returns what that came to.
    fn count(&self) -> Result<u64> {
        let thread = self.manager.thread()?;
        self.total.fetch_add(&thread, 1)?;
        self.barrier.wait(&thread)?;
        let total = self.total.fetch_add(&thread, 0)?;
        self.barrier.wait(&thread)?;
        Ok(total)
    }
}

/// Does the same on all nodes at once.
fn all<A: Send, T: Send>(nodes: Vec<A>, what: impl Fn(A) -> Result<T> + Sync) -> Vec<Result<T>> {
    let what = &what;
    thread::scope(|scope| {
        let nodes: Vec<_> = nodes
            .into_iter()
            .map(|node| scope.spawn(move || what(node)))
            .collect();
        nodes.into_iter().map(|node| node.join().unwrap()).collect()
    })
}

#[test]
fn objects_that_are_made_after_a_view_have_its_members() {
    let addresses: Vec<_> = free_addresses(&["127.0.0.1"; 2])
        .into_iter()
        .map(Address::from)
        .collect();
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses.clone())).unwrap();
    let first = all(vec![0, 1], |id| {
        let job = Job::builder(NodeId(id)).secret(secret()).nodes_max(3);
        Kit::new(Mesh::connect(&job.hosts(hosts.clone())?)?)
    });
    let mut first: Vec<Kit> = first.into_iter().map(Result::unwrap).collect();
    assert_eq!(all(first.iter().collect(), Kit::count), [Ok(2), Ok(2)]);

    let newcomer = Mesh::join(&Join::by(addresses).unwrap().secret(secret())).unwrap();
    let later = |kit: &Kit| {
        let mesh = kit.manager.fabric().mesh();
        let view: View = mesh.next_view(mesh.view_number(), soon()).unwrap();
        mesh.of_view(&view).unwrap()
    };
    let meshes = first.iter().map(later).chain([newcomer]).collect();
    let mut second: Vec<Kit> = all(meshes, Kit::new).into_iter().map(Result::unwrap).collect();
    assert_eq!(second[0].manager.nodes(), [0, 1, 2].map(NodeId));
    assert_eq!(all(second.iter().collect(), Kit::count), [Ok(3), Ok(3), Ok(3)]);
    // The objects of the first view are there still.
    assert_eq!(all(first.iter().collect(), Kit::count), [Ok(4), Ok(4)]);

    // It leaves, and is missed by the objects that it has a part in, and by no others.
    drop(second.pop());
    for kit in &second {
        kit.manager.fabric().mesh().wait_for_departures(0, soon());
        assert!(kit.manager.fabric().mesh().is_gone(NodeId(2)));
    }
    for lost in all(second.iter().collect(), Kit::count) {
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::PeerLost);
    }
    assert_eq!(all(first.iter().collect(), Kit::count), [Ok(6), Ok(6)]);

    // A node that drops one manager is missed by the objects of that manager, and goes on with others.
    drop(first.pop());
    let [of_first, of_second] = [&first[0], &second[0]].map(|kit| kit.manager.fabric().mesh());
    assert_eq!(of_first.wait_for_departures(1, soon()), 2);
    let lost = first[0].count().unwrap_err();
    assert_eq!(lost.lost_peer(), Some(NodeId(1)), "{lost}");
    assert!(of_first.is_gone(NodeId(1)) && !of_second.is_gone(NodeId(1)));
}
