//! Objects that are made after a node has joined the job or left it: a manager of the new view, over a fabric of its own, beside that of the
//! view before.

#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Duration;

use loco::fabric::{
    Address, AnyConfig, Control, FabricChoice, Hosts, HugePages, Job, Join, Mesh, NodeId, PeerState,
    Platform, Secret, Std, TcpConfig, Time,
};
use loco::{AtomicVar, Barrier, ErrorKind, Manager, Result, Startup};
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
    fn settings(startup: Startup) -> Startup {
        let tcp = TcpConfig::default()
            .memory_limit_bytes(64 << 20)
            .huge_pages(HugePages::Never);
        let config = AnyConfig::default().choice(FabricChoice::Tcp).tcp(tcp);
        startup.fabric(config)
    }

    /// Begins with a job, or joins it.
    fn start(startup: Startup) -> Result<Kit> {
        Kit::new(Kit::settings(startup).connect()?)
    }

    /// Makes the objects of the next view.
    fn next(&self) -> Result<Kit> {
        let next = Kit::settings(Startup::new()).next_view(&self.manager, soon())?;
        Kit::new(next.unwrap())
    }

    fn new(manager: Manager) -> Result<Kit> {
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

/// Starts a job of two nodes with room for `max`. Returns where they listen, and their objects.
fn two_nodes(max: u16) -> (Vec<Address>, Vec<Kit>) {
    let addresses: Vec<_> = free_addresses(&["127.0.0.1"; 2])
        .into_iter()
        .map(Address::from)
        .collect();
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses.clone())).unwrap();
    let kits = all(vec![0, 1], |id| {
        let job = Job::builder(NodeId(id)).secret(secret()).nodes_max(max);
        Kit::start(Startup::new().job(job.hosts(hosts.clone())?))
    });
    (addresses, kits.into_iter().map(Result::unwrap).collect())
}

/// Lets a node join, and makes the objects of the view with it on the members and on that node, in this order.
fn next_with_newcomer(members: &[Kit], join: Join) -> Vec<Kit> {
    thread::scope(|scope| {
        let newcomer = scope.spawn(|| Kit::start(Startup::new().join(join)));
        let members = all(members.iter().collect(), Kit::next);
        let kits = members.into_iter().chain([newcomer.join().unwrap()]);
        kits.map(Result::unwrap).collect()
    })
}

/// Makes the objects of the next view on these members of it.
fn next<'a>(members: impl IntoIterator<Item = &'a Kit>) -> Vec<Kit> {
    let kits = all(members.into_iter().collect(), Kit::next);
    kits.into_iter().map(Result::unwrap).collect()
}

#[test]
fn a_node_that_leaves_hands_over_what_it_has_before_it_goes() {
    let (addresses, first) = two_nodes(3);
    let join = Join::by(addresses).unwrap().secret(secret());
    let mut second = next_with_newcomer(&first, join);
    drop(first);
    assert_eq!(all(second.iter().collect(), Kit::count), [Ok(3), Ok(3), Ok(3)]);

    // The home of the count leaves.
    let leaver = second.remove(0);
    let without = leaver.manager.announce_leave(soon()).unwrap().unwrap();
    assert_eq!(without.members(), [1, 2].map(NodeId));
    assert!(leaver.manager.has_next_view());
    assert!(leaver.manager.next_view(Time::NEVER).unwrap().is_none());
    let third = next(&second);
    assert_eq!(third[0].manager.nodes(), without.members());
    // The count is there as long as the leaver has its manager.
    let thread = second[0].manager.thread().unwrap();
    assert_eq!(second[0].total.read(&thread), Ok(3));
    assert_eq!(all(third.iter().collect(), Kit::count), [Ok(2), Ok(2)]);
    drop(leaver);
    let left = second[0].manager.fabric().mesh();
    left.wait_for_departures(0, soon());
    assert_eq!(left.peer_state(NodeId(0)), PeerState::Left);
    let lost = second[0].total.read(&thread).unwrap_err();
    assert_eq!(lost.lost_peer(), Some(NodeId(0)), "{lost}");
    assert_eq!(all(third.iter().collect(), Kit::count), [Ok(4), Ok(4)]);
    assert!(!third[0].manager.has_next_view(), "it was no member any more");
}

#[test]
fn survivors_get_a_view_among_themselves() {
    let (addresses, first) = two_nodes(3);
    let join = Join::by(addresses).unwrap().secret(secret());
    let mut second = next_with_newcomer(&first, join);
    drop(first);
    let lost = second.remove(0);
    lost.manager.fabric().mesh().fail();
    let third = next(&second);
    assert_eq!(third[0].manager.nodes(), [1, 2].map(NodeId));
    assert_eq!(all(third.iter().collect(), Kit::count), [Ok(2), Ok(2)]);
}

#[test]
fn objects_that_are_made_after_a_view_have_its_members() {
    let (addresses, mut first) = two_nodes(3);
    assert_eq!(all(first.iter().collect(), Kit::count), [Ok(2), Ok(2)]);

    assert!(!first[0].manager.has_next_view());
    let join = || Join::by(addresses.clone()).unwrap().secret(secret());
    let mut second = next_with_newcomer(&first, join());
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

/// Drops the objects as a panic of the node's program does.
fn panic_with(kit: Kit) {
    let panicked = thread::spawn(move || {
        let _kit = kit;
        std::panic::panic_any("a program that fails");
    });
    panicked.join().unwrap_err();
}

#[test]
fn a_node_whose_program_panics_is_lost_and_has_not_left() {
    let (_, mut kits) = two_nodes(2);
    panic_with(kits.pop().unwrap());
    let mesh = kits[0].manager.fabric().mesh();
    mesh.wait_for_departures(0, soon());
    assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Lost);
}

#[test]
fn a_manager_that_a_panic_drops_is_lost_in_its_view() {
    let (addresses, mut first) = two_nodes(3);
    let join = Join::by(addresses).unwrap().secret(secret());
    let second = next_with_newcomer(&first, join);
    panic_with(first.pop().unwrap());
    let mesh = first[0].manager.fabric().mesh();
    mesh.wait_for_departures(0, soon());
    assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Lost);
    let later = second[0].manager.fabric().mesh();
    assert_eq!(later.peer_state(NodeId(1)), PeerState::Alive);
}

/// Members whose newcomer goes before it has made its part leave that view, go on with what they have, and take the next one.
#[test]
fn a_view_whose_newcomer_is_gone_is_left_for_the_next() {
    let (addresses, first) = two_nodes(4);
    let join = || Join::by(addresses.clone()).unwrap().secret(secret());
    Mesh::join(&join()).unwrap().fail();
    for lost in all(first.iter().collect(), Kit::next) {
        assert_eq!(lost.err().unwrap().kind(), ErrorKind::PeerLost);
    }
    assert_eq!(all(first.iter().collect(), Kit::count), [Ok(2), Ok(2)]);
    // Its loss makes a view without it.
    let first = next(&first);
    assert_eq!(first[0].manager.nodes(), [0, 1].map(NodeId));
    assert!(first.iter().all(|kit| !kit.manager.has_next_view()));
    let second = next_with_newcomer(&first, join());
    assert_eq!(second[0].manager.nodes(), [0, 1, 3].map(NodeId));
    assert_eq!(all(second.iter().collect(), Kit::count), [Ok(3), Ok(3), Ok(3)]);
}
