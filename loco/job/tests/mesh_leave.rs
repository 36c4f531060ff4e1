//! Tests of nodes that announce that they leave, and of the views that they and losses make. All nodes are in one process.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::thread;
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, PeerState, Platform, Std, Time};
use loco_job::{Address, Hosts, Job, Join, Mesh, Secret, Timeouts, View};
use loco_testing::free_addresses;

const SECRET: &str = "a shared secret";
/// Nobody is lost because it is silent.
const HOUR: Duration = Duration::from_secs(3600);

/// Only a hang reaches it.
fn soon() -> Time {
    Std.now().after(Duration::from_secs(120))
}

fn secret() -> Secret {
    Secret::new(SECRET.as_bytes()).unwrap()
}

fn timeouts() -> Timeouts {
    Timeouts::default()
        .connect(HOUR)
        .silence(HOUR)
        .silence_same_host(HOUR)
}

/// Brings up a job of `count` nodes with room for `max`, and returns them with the way to join them.
fn job(count: usize, max: u16) -> (Vec<Mesh>, Join) {
    let addresses = free_addresses(&vec!["127.0.0.1"; count]);
    let addresses: Vec<_> = addresses.into_iter().map(Address::from).collect();
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(addresses.clone())).unwrap();
    let nodes: Vec<_> = (0..)
        .take(count)
        .map(|id| {
            let job = Job::builder(NodeId(id)).secret(secret()).timeouts(timeouts());
            let job = job.nodes_max(max).hosts(hosts.clone()).unwrap();
            thread::spawn(move || Mesh::connect(&job).unwrap())
        })
        .collect();
    let nodes = nodes.into_iter().map(|node| node.join().unwrap()).collect();
    let join = Join::by(addresses).unwrap().secret(secret());
    (nodes, join.timeouts(timeouts()))
}

/// Waits for a view with these members, and returns the views until then, in their order.
fn views_until(node: &Mesh, members: &[u16]) -> Vec<View> {
    let mut views = Vec::new();
    let mut known = node.view_number();
    loop {
        let view = node.next_view(known, soon()).unwrap();
        known = view.number();
        let is_last = view
            .members()
            .iter()
            .map(|node| node.0)
            .eq(members.iter().copied());
        views.push(view);
        if is_last {
            return views;
        }
    }
}

fn announce(node: &Mesh) -> View {
    node.announce_leave(soon()).unwrap().unwrap()
}

#[test]
fn a_node_that_leaves_learns_of_the_view_without_it_and_keeps_the_one_before() {
    // Also the one that proposes views.
    for leaver in [2, 0] {
        let (mut nodes, _) = job(3, 4);
        let leaving = nodes.remove(leaver);
        assert!(!leaving.is_let_go());
        let view = announce(&leaving);
        assert!(leaving.is_let_go());
        let staying = |node: &Mesh| node.next_view(3, soon()).unwrap();
        assert!(nodes.iter().map(staying).all(|its| its == view), "{view:?}");
        assert_eq!(view.members(), nodes.iter().map(Mesh::node).collect::<Vec<_>>());
        assert_eq!(announce(&leaving), view, "a further call finds the same");
        assert_eq!(leaving.next_view(3, Time::NEVER), None);

        // The leaver stays in the view before, so that others can take over what it holds.
        let (first, later) = (&nodes[0], nodes[0].of_view(&view).unwrap());
        leaving.send(first.node(), b"yours now").unwrap();
        assert_eq!(
            first.receive(Some(soon())).unwrap().unwrap(),
            (leaving.node(), b"yours now".to_vec())
        );
        assert_eq!(
            later.send(leaving.node(), b"no member"),
            Err(FabricError::UnknownPeer(leaving.node()))
        );
        let left = leaving.node();
        drop(leaving);
        assert_eq!(first.wait_for_departures(0, soon()), 1);
        assert_eq!(first.peer_state(left), PeerState::Left);
        assert_eq!(
            first.next_view(view.number(), Std.now()),
            None,
            "it was no member any more"
        );
    }
}

#[test]
fn a_loss_and_a_node_that_leaves_without_a_word_make_views() {
    let (mut nodes, _) = job(3, 4);
    let lost = nodes.pop().unwrap();
    lost.fail();
    for node in &nodes {
        assert_eq!(node.next_view(3, soon()).unwrap().members(), [0, 1].map(NodeId));
        assert_eq!(node.peer_state(lost.node()), PeerState::Lost);
    }
    nodes.remove(0).close();
    assert_eq!(views_until(&nodes[0], &[1]).len(), 2);
    assert_eq!(lost.next_view(3, Time::NEVER), None);
}

/// The members have the same views, in one order.
#[test]
fn two_that_leave_at_once_are_both_let_go() {
    let (nodes, _) = job(4, 5);
    let views = thread::scope(|scope| {
        let leaving = [0, 3].map(|leaver: usize| {
            let leaver = &nodes[leaver];
            scope.spawn(|| announce(leaver))
        });
        let staying = [1, 2].map(|node: usize| views_until(&nodes[node], &[1, 2]));
        let without = leaving.map(|leaving| leaving.join().unwrap());
        assert!(
            without.iter().all(|view| staying[0].contains(view)),
            "{without:?}"
        );
        staying
    });
    assert_eq!(views[0], views[1]);
}

#[test]
fn one_joins_while_another_leaves() {
    let (mut nodes, join) = job(3, 4);
    let leaving = nodes.remove(0);
    let (left, newcomer) = thread::scope(|scope| {
        let left = scope.spawn(|| announce(&leaving));
        let newcomer = Mesh::join(&join).unwrap();
        (left.join().unwrap(), newcomer)
    });
    assert_eq!(newcomer.node(), NodeId(3));
    let views = [0, 1].map(|node: usize| views_until(&nodes[node], &[1, 2, 3]));
    assert!(views[0] == views[1] && views[0].contains(&left), "{views:?}");
    // Its messages go beside those of the view that the leaver has still.
    let last = nodes[0].of_view(views[0].last().unwrap()).unwrap();
    last.send(newcomer.node(), b"welcome").unwrap();
    let its = match newcomer.nodes().contains(&leaving.node()) {
        true => newcomer.of_view(views[0].last().unwrap()).unwrap(),
        false => newcomer.clone(),
    };
    let welcome = Ok(Some((NodeId(1), b"welcome".to_vec())));
    assert_eq!(its.receive(Some(soon())), welcome);
}

/// Its announcement makes a view, or its loss does. Either way there is one without it, and one without the other that is lost.
#[test]
fn a_leaver_that_is_lost_on_the_way_is_a_loss() {
    let (nodes, _) = job(4, 5);
    let [one, two, leaver, lost] = &nodes[..] else {
        panic!("four nodes")
    };
    assert!(matches!(leaver.announce_leave(Std.now()), Ok(None | Some(_))));
    leaver.fail();
    lost.fail();
    // It waits for no view that does not come.
    assert!(leaver.announce_leave(Time::NEVER).is_ok());
    let views = [one, two].map(|node| views_until(node, &[0, 1]));
    assert_eq!(views[0], views[1]);
    one.wait_for_departures(1, soon());
    assert_eq!(one.peer_state(leaver.node()), PeerState::Lost);
}

/// A loss is agreed on with the word of a node that was let go and has not gone.
#[test]
fn a_node_that_was_let_go_takes_part_in_losses_and_not_in_joins() {
    let (nodes, join) = job(3, 5);
    let leaver = &nodes[1];
    announce(leaver);
    // Asked, it names a member.
    let at = leaver.joined_at().unwrap();
    let newcomer = Mesh::join(&Join::by([at]).unwrap().secret(secret()).timeouts(timeouts())).unwrap();
    assert_eq!(newcomer.nodes(), [0, 2, 3].map(NodeId));
    nodes[2].fail();
    let last = [&nodes[0], &newcomer].map(|node| views_until(node, &[0, 3]).pop());
    assert_eq!(last[0], last[1]);
    assert_eq!(leaver.wait_for_departures(0, soon()), 1);
    newcomer.fail();
    views_until(&nodes[0], &[0]);
    assert_eq!(leaver.departures(), 1, "it has not heard of the newcomer");
    drop(join);
}

#[test]
fn all_may_leave_and_then_nobody_can_join() {
    let (nodes, join) = job(2, 3);
    thread::scope(|scope| {
        let announcing: Vec<_> = nodes.iter().map(|node| scope.spawn(|| announce(node))).collect();
        let last = announcing.into_iter().map(|node| node.join().unwrap()).last();
        assert!(last.unwrap().members().len() < 2);
    });
    let error = Mesh::join(&join).unwrap_err().to_string();
    assert!(
        error.contains("leaves") && error.contains("the job is over"),
        "{error}"
    );
}

#[test]
fn a_job_of_a_fixed_number_of_nodes_has_no_announcements() {
    let (nodes, _) = job(1, 1);
    let error = nodes[0].announce_leave(Std.now()).unwrap_err().to_string();
    assert!(error.contains("--nodes-max"), "{error}");
}
