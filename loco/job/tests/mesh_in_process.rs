//! Tests of the mesh between nodes of one process: what `Control` and `allgather` promise.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::thread;
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, PeerState, Platform, Std, Time};
use loco_job::{Mesh, PAYLOAD_BYTES_MAX};

/// Returns a time at which a wait that has not ended hangs.
fn late() -> Time {
    Std.now().after(Duration::from_secs(120))
}

/// The rounds of a race between a wait and its end: in the first ones the end comes before the wait, in the last ones
/// hardly ever.
const ROUNDS: std::ops::Range<u32> = 0..200;

fn yield_for(times: u32) {
    (0..times).for_each(|_| thread::yield_now());
}

fn pair() -> (Mesh, Mesh) {
    let mut ends = Mesh::in_process(2).unwrap().into_iter();
    (ends.next().unwrap(), ends.next().unwrap())
}

#[test]
fn a_job_without_nodes_is_refused() {
    assert!(matches!(Mesh::in_process(0), Err(FabricError::Config(_))));
}

#[test]
fn messages_arrive_in_order_and_say_from_whom() {
    let (a, b) = pair();
    for i in 0..100u8 {
        a.send(NodeId(1), &[i]).unwrap();
    }
    for i in 0..100u8 {
        assert_eq!(b.receive(Some(late())).unwrap(), Some((NodeId(0), vec![i])));
    }
    assert_eq!(b.receive(Some(Std.now())).unwrap(), None);
}

#[test]
fn a_node_can_send_to_itself() {
    let (a, _b) = pair();
    a.send(NodeId(0), b"me").unwrap();
    assert_eq!(
        a.receive(Some(late())).unwrap(),
        Some((NodeId(0), b"me".to_vec()))
    );
}

#[test]
fn an_unknown_node_is_named() {
    let (a, _b) = pair();
    assert_eq!(a.send(NodeId(7), b""), Err(FabricError::UnknownPeer(NodeId(7))));
    assert_eq!(a.peer_state(NodeId(7)), PeerState::Lost);
}

#[test]
fn an_overlong_message_is_refused() {
    let (a, _b) = pair();
    let long = vec![0; PAYLOAD_BYTES_MAX + 1];
    assert!(matches!(a.send(NodeId(1), &long), Err(FabricError::Config(_))));
    assert!(matches!(
        a.allgather("x", &long, late()),
        Err(FabricError::Config(_))
    ));
}

#[test]
fn allgather_gives_everybody_everything() {
    let ends = Mesh::in_process(4).unwrap();
    thread::scope(|scope| {
        for end in &ends {
            scope.spawn(move || {
                for round in 0..20u8 {
                    let own = [end.node().0 as u8, round];
                    let all = end.allgather("addresses", &own, late()).unwrap();
                    let expected: Vec<_> = (0..4).map(|n| (NodeId(n), vec![n as u8, round])).collect();
                    assert_eq!(all, expected);
                }
            });
        }
    });
}

#[test]
fn allgather_does_not_disturb_messages() {
    let (a, b) = pair();
    a.send(NodeId(1), b"message").unwrap();
    thread::scope(|scope| {
        scope.spawn(|| a.allgather("x", b"a", late()).unwrap());
        scope.spawn(|| b.allgather("x", b"b", late()).unwrap());
    });
    assert_eq!(
        b.receive(Some(late())).unwrap(),
        Some((NodeId(0), b"message".to_vec()))
    );
}

#[test]
fn allgather_names_who_is_missing_at_its_deadline() {
    let ends = Mesh::in_process(3).unwrap();
    let deadline = Std.now().after(Duration::from_millis(30));
    let error = ends[1].allgather("keys", b"", deadline).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("`keys` of nodes 0, 2"), "{text}");
}

#[test]
fn allgather_ends_when_a_peer_is_lost_on_the_way() {
    for round in ROUNDS {
        let (a, b) = pair();
        thread::scope(|scope| {
            let waiting = scope.spawn(|| a.allgather("x", b"", late()));
            yield_for(round);
            b.fail();
            assert_eq!(waiting.join().unwrap(), Err(FabricError::PeerLost(NodeId(1))));
        });
    }
}

#[test]
fn close_is_a_goodbye_and_fail_is_a_loss() {
    let ends = Mesh::in_process(3).unwrap();
    ends[2].send(NodeId(0), b"last words").unwrap();
    ends[1].close();
    ends[1].close();
    ends[2].fail();
    ends[2].close();
    assert_eq!(ends[0].peer_state(NodeId(1)), PeerState::Left);
    assert_eq!(ends[0].peer_state(NodeId(2)), PeerState::Lost);
    assert_eq!(ends[0].departures(), 2);
    assert_eq!(
        ends[0].send(NodeId(1), b"x"),
        Err(FabricError::PeerLost(NodeId(1)))
    );
    // What was sent before the end still arrives.
    assert_eq!(
        ends[0].receive(Some(late())).unwrap(),
        Some((NodeId(2), b"last words".to_vec()))
    );
    // The one that was cut off sees the others gone.
    assert_eq!(ends[2].peer_state(NodeId(0)), PeerState::Lost);
    assert_eq!(ends[2].peer_state(NodeId(2)), PeerState::Alive);
}

#[test]
fn dropping_the_last_handle_is_a_goodbye_unless_panicking() {
    let mut ends = Mesh::in_process(3).unwrap();
    let doomed = ends.pop().unwrap();
    let clone = ends[1].clone();
    ends.pop();
    assert_eq!(ends[0].peer_state(NodeId(1)), PeerState::Alive);
    drop(clone);
    assert_eq!(ends[0].peer_state(NodeId(1)), PeerState::Left);
    let panicked = thread::spawn(move || {
        let _doomed = doomed;
        std::panic::resume_unwind(Box::new(()));
    })
    .join();
    assert!(panicked.is_err());
    assert_eq!(ends[0].peer_state(NodeId(2)), PeerState::Lost);
}

#[test]
fn close_wakes_the_receiver() {
    for round in ROUNDS {
        let (a, _b) = pair();
        thread::scope(|scope| {
            let receiver = scope.spawn(|| a.receive(None));
            yield_for(round);
            a.close();
            assert_eq!(receiver.join().unwrap(), Ok(None));
        });
    }
}
