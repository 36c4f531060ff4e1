//! Tests of the views of a job, with nodes that join in one process: messages and contributions of a view, and nodes that leave one.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::thread;
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, PeerState, Platform, Std, Time};
use loco_job::{Address, Hosts, Job, Join, Mesh, Secret, Timeouts, View};
use loco_testing::free_addresses;

const SECRET: &str = "a shared secret";

/// Only a hang reaches it.
fn soon() -> Time {
    Std.now().after(Duration::from_secs(120))
}

/// Brings up a job of one node of this process that has room for others, and returns it with its address.
fn alone(max: u16) -> (Mesh, Join) {
    let address = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let hosts = Hosts::from_pairs([(NodeId(0), address.clone())]).unwrap();
    let secret = || Secret::new(SECRET.as_bytes()).unwrap();
    let job = Job::builder(NodeId(0)).secret(secret()).nodes_max(max);
    let mesh = Mesh::connect(&job.hosts(hosts).unwrap()).unwrap();
    assert_eq!(mesh.joined_at(), Some(address.clone()));
    (mesh, Join::by([address]).unwrap().secret(secret()))
}

#[test]
fn messages_are_of_one_view_and_wait_for_it() {
    let (zero, join) = alone(2);
    let one = Mesh::join(&join).unwrap();
    one.send(NodeId(0), b"in the second view").unwrap();
    let view = zero.next_view(1, soon()).unwrap();
    assert_eq!((view.number(), view.members()), (2, &[NodeId(0), NodeId(1)][..]));
    zero.send(NodeId(0), b"in the first view").unwrap();
    let refused = zero.send(NodeId(1), b"not a member of it");
    assert_eq!(refused, Err(FabricError::UnknownPeer(NodeId(1))));
    let later = zero.of_view(&view).unwrap();
    let received = |mesh: &Mesh| mesh.receive(Some(soon())).unwrap().unwrap();
    assert_eq!(received(&zero), (NodeId(0), b"in the first view".to_vec()));
    assert_eq!(received(&later), (NodeId(1), b"in the second view".to_vec()));
}

#[test]
fn a_node_leaves_when_its_last_view_is_closed() {
    let (zero, join) = alone(2);
    let one = Mesh::join(&join).unwrap();
    let view = zero.next_view(1, soon()).unwrap();
    let later = zero.of_view(&view).unwrap();
    zero.close();
    assert_eq!(zero.receive(Some(soon())), Ok(None));
    assert!(
        zero.of_view(&first_of(&zero))
            .is_err_and(|error| error.to_string().contains("has closed view 1"))
    );
    later.send(NodeId(1), b"still here").unwrap();
    assert_eq!(
        one.receive(Some(soon())),
        Ok(Some((NodeId(0), b"still here".to_vec())))
    );
    later.close();
    assert_eq!(one.wait_for_departures(0, soon()), 1);
    assert_eq!(one.peer_state(NodeId(0)), PeerState::Left);
    // Nobody is left that could be asked.
    assert_eq!(zero.joined_at(), None);
    let error = Mesh::join(&join).unwrap_err().to_string();
    assert!(error.contains("nobody listens at"), "{error}");
}

/// Who waits for a node in a view hears that it takes no part there any more, behind what it has sent there.
#[test]
fn a_node_that_closes_one_of_its_views_is_missing_there_and_nowhere_else() {
    type Closing = fn(Mesh);
    let closes: Closing = |mesh| mesh.close();
    // What it was at may be half done, as at one that was lost.
    let panics: Closing = |mesh| {
        let panicking = thread::spawn(move || {
            let _dropped = mesh;
            std::panic::resume_unwind(Box::new("of the test"));
        });
        assert!(panicking.join().is_err());
    };
    let ways = [
        (closes, PeerState::Left),
        (drop, PeerState::Left),
        (panics, PeerState::Lost),
    ];
    for (close, state) in ways {
        let (zero, join) = alone(3);
        let one = Mesh::join(&join).unwrap();
        let two = Mesh::join(&join).unwrap();
        let view = |mesh: &Mesh, number| {
            let view = mesh.next_view(number - 1, soon()).unwrap();
            assert_eq!(view.number(), number);
            mesh.of_view(&view).unwrap()
        };
        let [second, third] = [2, 3].map(|number| view(&zero, number));
        let one_of_three = view(&one, 3);
        // It waits for nobody, and is heard all the same.
        let late = second.allgather("said", b"zero", Std.now());
        assert!(matches!(late, Err(FabricError::Timeout { .. })), "{late:?}");
        let waiting = one.clone();
        let waiting = thread::spawn(move || waiting.allgather("not said", b"one", Time::NEVER));
        close(second);
        assert_eq!(waiting.join().unwrap(), Err(FabricError::PeerLost(NodeId(0))));
        let said = one.allgather("said", b"one", Time::NEVER).unwrap();
        assert_eq!(said[0], (NodeId(0), b"zero".to_vec()));
        assert_eq!(
            one.send(NodeId(0), b"too late"),
            Err(FabricError::PeerLost(NodeId(0)))
        );
        assert_eq!(one.peer_state(NodeId(0)), state);
        assert_eq!((one.departures(), one_of_three.departures()), (1, 0));
        assert_eq!(one_of_three.peer_state(NodeId(0)), PeerState::Alive);
        thread::scope(|scope| {
            for mesh in [&third, &one_of_three, &two] {
                scope.spawn(|| mesh.allgather("third", &[], soon()).unwrap());
            }
        });
        // It leaves the job, and was missing from the second view before.
        zero.close();
        third.close();
        assert_eq!(one_of_three.wait_for_departures(0, soon()), 1);
        assert_eq!(one.departures(), 1);
    }
}

/// The other job has room for these ids as well.
#[test]
fn a_view_of_another_job_is_refused() {
    let [(zero, join), (other, _)] = [alone(3), alone(3)];
    let _one = Mesh::join(&join).unwrap();
    let view = zero.next_view(1, soon()).unwrap();
    let error = other.of_view(&view).unwrap_err().to_string();
    assert!(
        error.contains("node 0 has had no view 2 of nodes 0, 1"),
        "{error}"
    );
}

/// Returns the view that a job began with.
fn first_of(mesh: &Mesh) -> View {
    mesh.next_view(0, soon()).unwrap()
}

#[test]
fn a_newcomer_whose_timeouts_do_not_fit_is_told_which() {
    let (zero, join) = alone(3);
    let slow = Timeouts::default()
        .heartbeat_interval(Duration::from_secs(60))
        .silence(Duration::from_secs(3600))
        .silence_same_host(Duration::from_secs(3600));
    let error = Mesh::join(&join.clone().timeouts(slow)).unwrap_err().to_string();
    assert!(
        error.starts_with("node 1 sends a sign of life every 60s, but node 0"),
        "{error}"
    );
    // The next one has its turn at once.
    assert_eq!(Mesh::join(&join).unwrap().node(), NodeId(2));
    assert_eq!(
        zero.next_view(1, soon()).unwrap().members(),
        [NodeId(0), NodeId(2)]
    );
}
