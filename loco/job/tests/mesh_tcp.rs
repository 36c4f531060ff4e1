//! Tests of the mesh over TCP: how nodes meet, who is refused, and how a loss is seen. Nodes are threads of
//! this process where that shows the same, and processes of their own where it does not.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use loco_fabric::{Control, FabricError, NodeId, PeerState, Platform, Std, Time};
use loco_job::{
    Address, Environment, Hosts, Job, JobBuilder, Mesh, PAYLOAD_BYTES_MAX, Rendezvous, Revoke, Revoked,
    Secret, Timeouts,
};
use loco_testing::free_addresses;
use loco_testing::skipped;

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);

fn soon() -> Time {
    Std.now().after(PATIENCE)
}

fn builder(node: u16) -> JobBuilder {
    Job::builder(NodeId(node)).secret(Secret::new(*b"a shared secret").unwrap())
}

/// Returns timeouts with which connecting fails after this long.
fn hasty(connect_ms: u64) -> Timeouts {
    Timeouts::default().connect(Duration::from_millis(connect_ms))
}

fn free_address(ip: &str) -> Address {
    Address::from(free_addresses(&[ip])[0])
}

fn hosts(ids: &[u16]) -> Hosts {
    let addresses = free_addresses(&vec!["127.0.0.1"; ids.len()]);
    let addresses = addresses.into_iter().map(Address::from);
    Hosts::from_pairs(ids.iter().map(|&id| NodeId(id)).zip(addresses)).unwrap()
}

fn connect_all(jobs: &[Job]) -> Vec<Mesh> {
    thread::scope(|scope| {
        let nodes: Vec<_> = jobs
            .iter()
            .map(|job| scope.spawn(|| Mesh::connect(job)))
            .collect();
        nodes
            .into_iter()
            .map(|node| node.join().unwrap().unwrap())
            .collect()
    })
}

/// Waits until `peer` is in `state`, which it does not leave.
fn wait_for(mesh: &Mesh, peer: u16, state: PeerState) {
    let deadline = soon();
    let mut known = mesh.departures();
    while mesh.peer_state(NodeId(peer)) != state {
        assert!(
            Std.now() < deadline,
            "{:?} {mesh:?}",
            mesh.peer_state(NodeId(peer))
        );
        known = mesh.wait_for_departures(known, deadline);
    }
}

/// Checks that every node hears every node, in both ways of speaking.
fn assert_meshed(ends: &[Mesh]) {
    thread::scope(|scope| {
        for end in ends {
            scope.spawn(move || {
                let own = end.node().0.to_le_bytes();
                let all = end.allgather("hello", &own, soon()).unwrap();
                let expected: Vec<_> = end
                    .nodes()
                    .iter()
                    .map(|&n| (n, n.0.to_le_bytes().to_vec()))
                    .collect();
                assert_eq!(all, expected);
                for &peer in end.nodes() {
                    end.send(peer, &own).unwrap();
                }
                let mut heard: Vec<_> = (0..ends.len())
                    .map(|_| end.receive(Some(soon())).unwrap().unwrap())
                    .collect();
                heard.sort();
                assert_eq!(heard, expected);
            });
        }
    });
}

#[test]
fn nodes_of_a_hosts_file_meet_whatever_their_ids() {
    let hosts = hosts(&[3, 40, 41, 500]);
    let jobs: Vec<_> = [40, 3, 500, 41]
        .map(|id| builder(id).hosts(hosts.clone()).unwrap())
        .into();
    let ends = connect_all(&jobs);
    assert_meshed(&ends);
}

#[test]
fn nodes_meet_at_the_rendezvous_of_node_0() {
    let at = free_address("127.0.0.1");
    let jobs: Vec<_> = (0..3)
        .map(|id| builder(id).rendezvous(3, at.clone()).unwrap())
        .collect();
    assert_meshed(&connect_all(&jobs));
}

#[test]
fn nodes_meet_by_name_through_all_interfaces() {
    // A name that is not spelled like the loopback interface: nodes listen everywhere, and those that register over
    // the loopback interface are found at the host of the rendezvous.
    let Ok(name) = std::fs::read_to_string("/proc/sys/kernel/hostname") else {
        return skipped("HOSTNAME", "the kernel does not tell this host's name");
    };
    let at = Address::parse(name.trim(), Some(free_address("127.0.0.1").port())).unwrap();
    if at.resolve().is_err() {
        return skipped("HOSTNAME", "this host does not know its own name");
    }
    let jobs: Vec<_> = (0..3)
        .map(|id| builder(id).rendezvous(3, at.clone()).unwrap())
        .collect();
    assert_meshed(&connect_all(&jobs));
}

#[test]
fn nodes_meet_over_ipv6() {
    if TcpListener::bind("[::1]:0").is_err() {
        return skipped("IPV6", "there is no IPv6 here");
    }
    let at = free_address("::1");
    let jobs: Vec<_> = (0..2)
        .map(|id| builder(id).rendezvous(2, at.clone()).unwrap())
        .collect();
    assert_meshed(&connect_all(&jobs));
}

#[test]
fn nodes_meet_at_their_launcher() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = rendezvous.address().to_string();
    thread::scope(|scope| {
        scope.spawn(move || {
            let secret = Secret::new(*b"a shared secret").unwrap();
            let nodes: Vec<_> = (0..3).map(NodeId).collect();
            rendezvous.serve("j", &secret, &nodes, soon()).unwrap();
        });
        let jobs: Vec<_> = ["0", "1", "2"]
            .map(|id| {
                Job::from_environment(&Environment::of([
                    ("LOCO_NODE", id),
                    ("LOCO_NODES", "3"),
                    ("LOCO_LAUNCHER", &at),
                    ("LOCO_JOB", "j"),
                    ("LOCO_SECRET", "a shared secret"),
                ]))
                .unwrap()
            })
            .into();
        assert_meshed(&connect_all(&jobs));
    });
}

#[test]
fn a_job_of_one_node_needs_nobody() {
    let mesh = Mesh::connect(&builder(0).rendezvous(1, free_address("127.0.0.1")).unwrap()).unwrap();
    assert_meshed(&[mesh]);
}

#[test]
fn a_wrong_secret_is_refused_and_the_job_comes_up_without_it() {
    let hosts = hosts(&[0, 1]);
    let right = builder(0).hosts(hosts.clone()).unwrap();
    let wrong = Job::builder(NodeId(1))
        .secret(Secret::new(*b"something else").unwrap())
        .hosts(hosts.clone())
        .unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&right));
        let error = Mesh::connect(&wrong).unwrap_err();
        assert!(matches!(error, FabricError::Refused(_)), "{error}");
        let text = error.to_string();
        assert!(text.contains("node 0 at 127.0.0.1:"), "{text}");
        assert!(
            text.contains("the secrets differ; give all nodes the same one"),
            "{text}"
        );
        let second = Mesh::connect(&builder(1).hosts(hosts).unwrap()).unwrap();
        assert_meshed(&[first.join().unwrap().unwrap(), second]);
    });
}

#[test]
fn a_wrong_secret_is_refused_at_the_rendezvous_too() {
    let at = free_address("127.0.0.1");
    let right = builder(0)
        .timeouts(hasty(1500))
        .rendezvous(2, at.clone())
        .unwrap();
    let wrong = Job::builder(NodeId(1)).secret(Secret::new(*b"something else").unwrap());
    let wrong = wrong.rendezvous(2, at).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&right));
        let error = Mesh::connect(&wrong).unwrap_err().to_string();
        assert!(
            error.starts_with("refused: by the rendezvous at 127.0.0.1:"),
            "{error}"
        );
        // A node that waits learns which nodes are missing.
        let error = first.join().unwrap().unwrap_err().to_string();
        assert!(
            error.contains("waiting for node 1 to come to the rendezvous"),
            "{error}"
        );
    });
}

#[test]
fn a_node_of_another_job_is_refused_and_may_try_again() {
    let hosts = hosts(&[0, 1]);
    let ours = builder(0).id("ours").hosts(hosts.clone()).unwrap();
    let other = builder(1)
        .id("other")
        .timeouts(hasty(1500))
        .hosts(hosts.clone())
        .unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&ours));
        let error = Mesh::connect(&other).unwrap_err();
        assert!(matches!(error, FabricError::Timeout { .. }), "{error}");
        assert!(error.to_string().contains("it belongs to another job"), "{error}");
        let second = Mesh::connect(&builder(1).id("ours").hosts(hosts).unwrap()).unwrap();
        assert_meshed(&[first.join().unwrap().unwrap(), second]);
    });
}

#[test]
fn nodes_that_disagree_on_their_number_are_refused() {
    let at = free_address("127.0.0.1");
    let first = builder(0)
        .timeouts(hasty(1000))
        .rendezvous(2, at.clone())
        .unwrap();
    let second = builder(1).rendezvous(3, at).unwrap();
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&first));
        let error = Mesh::connect(&second).unwrap_err().to_string();
        assert!(
            error.contains("its job has another number of nodes, 2"),
            "{error}"
        );
        assert!(first.join().unwrap().is_err());
    });
}

#[test]
fn a_second_process_with_the_same_id_is_refused() {
    let at = free_address("127.0.0.1");
    let job = |id| {
        builder(id)
            .timeouts(hasty(PATIENCE.as_millis() as u64))
            .rendezvous(3, at.clone())
            .unwrap()
    };
    let (first, second, twin, third) = (job(0), job(1), job(1), job(2));
    thread::scope(|scope| {
        let first = scope.spawn(|| Mesh::connect(&first));
        let (sender, results) = mpsc::channel();
        for job in [&second, &twin] {
            let sender = sender.clone();
            scope.spawn(move || sender.send(Mesh::connect(job)).unwrap());
        }
        // The one that comes second is refused before all are there.
        let refused = results.recv().unwrap();
        let third = Mesh::connect(&third).unwrap();
        let second = results.recv().unwrap();
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("node 1 is connected already; ids must be unique"),
            "{text}"
        );
        assert_meshed(&[first.join().unwrap().unwrap(), second.unwrap(), third]);
    });
}

#[test]
fn an_unreachable_peer_is_named_by_the_deadline() {
    let hosts = hosts(&[0, 1, 2]);
    let job = builder(1).timeouts(hasty(1500)).hosts(hosts).unwrap();
    let error = Mesh::connect(&job).unwrap_err().to_string();
    assert!(error.contains("node 0 at 127.0.0.1:"), "{error}");
    assert!(error.contains("Connection refused"), "{error}");
    assert!(error.contains("node 2 (it has not connected)"), "{error}");
}

#[test]
fn an_address_of_another_machine_is_named() {
    // TEST-NET-1 is nobody's.
    let elsewhere = Hosts::parse("h", "0 192.0.2.1").unwrap();
    let job = Hosts::from_pairs(
        elsewhere
            .iter()
            .map(|(node, at)| (node, at.clone()))
            .chain([(NodeId(1), free_address("127.0.0.1"))]),
    );
    let error = Mesh::connect(&builder(0).hosts(job.unwrap()).unwrap())
        .unwrap_err()
        .to_string();
    assert!(
        error.starts_with("192.0.2.1:7700, the address of node 0, is not of this machine"),
        "{error}"
    );
}

#[test]
fn close_and_drop_are_goodbyes_and_fail_is_a_loss() {
    let at = free_address("127.0.0.1");
    let jobs: Vec<_> = (0..4)
        .map(|id| builder(id).rendezvous(4, at.clone()).unwrap())
        .collect();
    let mut ends = connect_all(&jobs);
    let (third, second) = (ends.pop().unwrap(), ends.pop().unwrap());
    second.send(NodeId(0), b"last words").unwrap();
    second.close();
    second.close();
    third.fail();
    drop(ends.pop());
    wait_for(&ends[0], 1, PeerState::Left);
    wait_for(&ends[0], 2, PeerState::Left);
    wait_for(&ends[0], 3, PeerState::Lost);
    assert_eq!(ends[0].departures(), 3);
    for peer in [1, 2, 3] {
        assert_eq!(
            ends[0].send(NodeId(peer), b"x"),
            Err(FabricError::PeerLost(NodeId(peer)))
        );
    }
    assert_eq!(
        ends[0].receive(Some(soon())).unwrap(),
        Some((NodeId(2), b"last words".to_vec()))
    );
    assert_eq!(third.peer_state(NodeId(0)), PeerState::Lost);
    assert_eq!(second.receive(None).unwrap(), None);
}

#[test]
fn a_goodbye_arrives_although_much_was_never_read() {
    let at = free_address("127.0.0.1");
    let jobs: Vec<_> = (0..2)
        .map(|id| builder(id).rendezvous(2, at.clone()).unwrap())
        .collect();
    let ends = connect_all(&jobs);
    // Both sides have bytes under way that the other's thread has not taken.
    for _ in 0..8 {
        ends[0].send(NodeId(1), &vec![1; 1 << 20]).unwrap();
        ends[1].send(NodeId(0), &vec![1; 1 << 20]).unwrap();
    }
    ends[1].close();
    wait_for(&ends[0], 1, PeerState::Left);
    for _ in 0..8 {
        assert_eq!(ends[0].receive(Some(soon())).unwrap().unwrap().1.len(), 1 << 20);
    }
}

#[test]
fn a_receiver_that_takes_nothing_holds_the_sender_back() {
    let at = free_address("127.0.0.1");
    let jobs: Vec<_> = (0..2)
        .map(|id| builder(id).rendezvous(2, at.clone()).unwrap())
        .collect();
    let ends = connect_all(&jobs);
    // Contributions to what node 1 takes no part in. Those that are sent are waited for; one that is not is an error.
    let contribution = vec![0; PAYLOAD_BYTES_MAX - 2];
    let held_back = (0..16).position(|round| {
        let deadline = Std.now().after(Duration::from_millis(300));
        let error = ends[0]
            .allgather(&format!("{round:02}"), &contribution, deadline)
            .unwrap_err();
        assert!(matches!(error, FabricError::Timeout { .. }), "{error}");
        error.to_string().contains("node 1 to take what is sent to it")
    });
    assert!(held_back.is_some(), "256 MiB were buffered");
    assert_eq!(ends[1].departures(), 0);
}

#[test]
fn nothing_is_lost_where_the_sender_is_faster() {
    let at = free_address("127.0.0.1");
    let jobs: Vec<_> = (0..2)
        .map(|id| builder(id).rendezvous(2, at.clone()).unwrap())
        .collect();
    let ends = connect_all(&jobs);
    const MESSAGES: usize = 16;
    thread::scope(|scope| {
        scope.spawn(|| {
            for i in 0..MESSAGES {
                let mut message = vec![0; PAYLOAD_BYTES_MAX];
                message[0] = i as u8;
                ends[0].send(NodeId(1), &message).unwrap();
            }
        });
        for i in 0..MESSAGES {
            let (_, message) = ends[1].receive(Some(soon())).unwrap().unwrap();
            assert_eq!((message[0], message.len()), (i as u8, PAYLOAD_BYTES_MAX));
        }
    });
    assert_eq!(ends[1].departures(), 0);
}

// Processes of their own: this test binary runs itself, as node 1 of a job described in the environment.

/// Plays node 1; not a test by itself.
#[test]
fn node_process() {
    let Ok(role) = std::env::var("TEST_ROLE") else {
        return;
    };
    let mesh = Mesh::connect(&Job::from_env().unwrap()).unwrap();
    println!("connected");
    match role.as_str() {
        "stay" => {
            let _ = mesh.receive(None);
        }
        "leave" => {}
        "exit" => std::process::exit(0),
        "panic" => panic!("as told"),
        other => panic!("no role `{other}`"),
    }
}

/// Starts node 1 in the given role, and connects this process to it as node 0. Returns the mesh and the
/// process.
fn with_process(role: &str, silence_ms: u64) -> (Mesh, Child) {
    let at = free_address("127.0.0.1");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node_process", "--nocapture"])
        .env("TEST_ROLE", role)
        .env("LOCO_NODE", "1")
        .env("LOCO_NODES", "2")
        .env("LOCO_RENDEZVOUS", at.to_string())
        .env("LOCO_SECRET", "a shared secret")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let timeouts = Timeouts::default().silence_same_host(Duration::from_millis(silence_ms));
    let mesh = Mesh::connect(&builder(0).timeouts(timeouts).rendezvous(2, at).unwrap()).unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("connected")));
    (mesh, child)
}

/// Node 1 has sent node 0 more than may wait there. Node 0 takes none of it: it waits for the loss of node 2, and for the word of
/// node 1 about it, which comes behind all that.
#[test]
fn a_loss_is_agreed_although_nobody_takes_the_messages_before_the_words() {
    struct AtOnce;
    impl Revoke for AtOnce {
        fn revoke(&self, _: NodeId) -> Revoked {
            Revoked::Done
        }
    }
    let hosts = hosts(&[0, 1, 2]);
    let patient = Timeouts::default().silence_same_host(Duration::from_secs(3600));
    let jobs = [0, 1, 2].map(|node| builder(node).timeouts(patient).hosts(hosts.clone()).unwrap());
    let ends = connect_all(&jobs);
    ends.iter().for_each(|end| end.add_revoker(Arc::new(AtOnce)));
    let [zero, one, two] = <[Mesh; 3]>::try_from(ends).unwrap();
    let message = vec![0; PAYLOAD_BYTES_MAX];
    for _ in 0..6 {
        one.send(NodeId(0), &message).unwrap();
    }
    two.fail();
    wait_for(&zero, 2, PeerState::Lost);
    wait_for(&one, 2, PeerState::Lost);
    for _ in 0..6 {
        let (from, bytes) = zero.receive(Some(soon())).unwrap().unwrap();
        assert_eq!((from, bytes.len()), (NodeId(1), PAYLOAD_BYTES_MAX));
    }
}

#[test]
fn a_killed_process_is_lost_without_waiting_for_its_silence() {
    // An hour: only the end of the connection can tell.
    let (mesh, mut child) = with_process("stay", 3_600_000);
    assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Alive);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| mesh.allgather("never", b"", soon()));
        child.kill().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(FabricError::PeerLost(NodeId(1))));
    });
    assert_eq!(
        (mesh.peer_state(NodeId(1)), mesh.departures()),
        (PeerState::Lost, 1)
    );
    child.wait().unwrap();
}

#[test]
fn a_stopped_process_is_lost_although_its_connection_stays() {
    let (mesh, mut child) = with_process("stay", 1_000);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    wait_for(&mesh, 1, PeerState::Lost);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_process_that_ends_without_a_goodbye_is_lost() {
    for (role, state) in [
        ("leave", PeerState::Left),
        ("exit", PeerState::Lost),
        ("panic", PeerState::Lost),
    ] {
        let (mesh, mut child) = with_process(role, 10_000);
        wait_for(&mesh, 1, state);
        child.wait().unwrap();
    }
}
