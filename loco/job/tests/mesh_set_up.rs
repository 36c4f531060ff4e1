//! Tests of nodes that end while the mesh is brought up: the others hear of it at once, however far each of them has come.
//!
//! The time in which all nodes must be connected is an hour here, and so is the silence after which a peer is lost. A node
//! that only they could tell of a loss would hang, and be found by the patience of the test.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::collections::BTreeMap;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, NodeId, Platform, Std, Time};
use loco_job::{Address, Hosts, Job, Mesh, Rendezvous, Secret, Timeouts};
use loco_testing::free_addresses;
use loco_testing::skipped;

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(120);
const NODES: u16 = 8;
const SECRET: &str = "a shared secret";

fn soon() -> Time {
    Std.now().after(PATIENCE)
}

fn secret() -> Secret {
    Secret::new(SECRET.as_bytes()).unwrap()
}

/// Plays a node; not a test by itself. It connects, and then waits for ever.
#[test]
fn node_process() {
    if std::env::var("TEST_ROLE").as_deref() != Ok("node") {
        return;
    }
    // Where the mesh came up first, the loss ends a wait for a contribution that no other node makes.
    let connected = Mesh::connect(&Job::from_env().unwrap());
    let outcome =
        connected.and_then(|mesh| mesh.allgather(&format!("{} alone", mesh.node()), b"", Time::NEVER));
    match outcome {
        Err(FabricError::PeerLost(node)) => println!("lost {}.", node.0),
        other => println!("{other:?}."),
    }
}

fn start(node: u16, launcher: &str) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node_process", "--nocapture"])
        .env("TEST_ROLE", "node")
        .env("LOCO_NODE", node.to_string())
        .env("LOCO_NODES", NODES.to_string())
        .env("LOCO_SECRET", SECRET)
        .env("LOCO_CONNECT_TIMEOUT_MS", "3600000")
        .env("LOCO_SILENCE_MS", "3600000")
        .env("LOCO_SILENCE_SAME_HOST_MS", "3600000")
        .env("LOCO_LAUNCHER", launcher)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for the end of a process, for the test's patience at most. Returns its output.
fn end_of(mut child: Child, node: u16) -> Result<String, String> {
    let mut stdout = child.stdout.take().unwrap();
    let (sender, output) = mpsc::channel();
    thread::spawn(move || {
        let mut output = String::new();
        // The output ends with the process.
        stdout.read_to_string(&mut output).unwrap();
        // Fails if the patience is over.
        let _ = sender.send(output);
    });
    let output = output.recv_timeout(PATIENCE);
    if output.is_err() {
        child.kill().unwrap();
    }
    child.wait().unwrap();
    output.map_err(|_| format!("node {node} still waits after {PATIENCE:?}"))
}

/// Starts eight nodes, kills one of them after some time, and checks that all others say at once that this node is lost:
/// none names another one that has ended because of the loss.
fn kill_one(victim: u16, after: Duration) {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = rendezvous.address().to_string();
    let departures = rendezvous.departures();
    let nodes: Vec<_> = (0..NODES).map(NodeId).collect();
    let server = thread::spawn(move || rendezvous.serve("loco", &secret(), &nodes, soon()));
    let mut children: BTreeMap<u16, Child> = (0..NODES).map(|node| (node, start(node, &at))).collect();
    thread::sleep(after);
    let mut killed = children.remove(&victim).unwrap();
    killed.kill().unwrap();
    killed.wait().unwrap();
    // A launcher sees that a process of its own has ended.
    departures.tell(NodeId(victim));
    let ends: Vec<_> = children
        .into_iter()
        .map(|(node, child)| (node, end_of(child, node)))
        .collect();
    for (node, output) in ends {
        let output = output.unwrap_or_else(|why| panic!("{victim} killed after {after:?}: {why}"));
        assert!(
            output.contains(&format!("lost {victim}.")),
            "{victim} killed after {after:?}; node {node} says: {output}"
        );
    }
    let _outcome = server.join().unwrap();
}

/// The moments are spread over the time that the set-up takes, by a sequence that fills an interval evenly. `TEST_KILLS` asks for
/// more of them.
#[test]
fn the_others_hear_at_once_of_a_node_that_is_killed_during_set_up() {
    let kills = std::env::var("TEST_KILLS").map_or(16, |kills| kills.parse().unwrap());
    for kill in 0..kills {
        let part = f64::from(kill) * 0.618_033_988_75 % 1.0;
        let victim = u16::try_from(kill * 5 % u32::from(NODES)).unwrap();
        kill_one(victim, Duration::from_millis(100).mul_f64(part));
    }
}

#[test]
fn a_name_without_an_address_is_named_at_once_on_every_node() {
    let addresses = free_addresses(&["127.0.0.1"; 2]);
    let text = format!(
        "0 {}\n1 {}\n2 no-such-host.invalid:7\n",
        addresses[0], addresses[1]
    );
    let hosts = Hosts::parse("h", &text).unwrap();
    let timeouts = Timeouts::default().connect(Duration::from_secs(3600));
    for node in [0, 1] {
        let job = Job::builder(NodeId(node)).secret(secret()).timeouts(timeouts);
        let error = Mesh::connect(&job.hosts(hosts.clone()).unwrap())
            .unwrap_err()
            .to_string();
        assert!(error.contains("resolving host `no-such-host.invalid`"), "{error}");
        assert!(error.contains("the host of node 2"), "{error}");
        assert!(error.contains("getent hosts no-such-host.invalid"), "{error}");
    }
    let at = Address::parse("no-such-host.invalid:7", None).unwrap();
    let job = Job::builder(NodeId(1)).secret(secret()).timeouts(timeouts);
    let error = Mesh::connect(&job.rendezvous(2, at).unwrap())
        .unwrap_err()
        .to_string();
    assert!(error.contains("resolving host `no-such-host.invalid`"), "{error}");
}

/// The node whose time is over first leaves, and the other is told of the node that both have waited for.
#[test]
fn a_node_that_gives_up_names_the_missing_one_to_the_others() {
    let at = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let there = free_addresses(&["127.0.0.1"; 3]).into_iter().map(Address::from);
    let hosts = Hosts::from_pairs((0..).map(NodeId).zip(there)).unwrap();
    for by_hosts in [true, false] {
        let ends = thread::scope(|scope| {
            let ends = [(0, 500), (1, 3_600_000)].map(|(node, connect_ms)| {
                let timeouts = Timeouts::default().connect(Duration::from_millis(connect_ms));
                let job = Job::builder(NodeId(node)).secret(secret()).timeouts(timeouts);
                let job = match by_hosts {
                    true => job.hosts(hosts.clone()),
                    false => job.rendezvous(3, at.clone()),
                };
                scope.spawn(move || Mesh::connect(&job.unwrap()).unwrap_err())
            });
            ends.map(|end| end.join().unwrap())
        });
        assert!(matches!(&ends[0], FabricError::Timeout { .. }), "{:?}", ends[0]);
        for end in ends {
            assert!(end.to_string().contains("node 2"), "{by_hosts}: {end}");
        }
    }
}

#[test]
fn timeouts_that_do_not_fit_are_found_when_the_nodes_meet() {
    let at = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let errors: Vec<_> = thread::scope(|scope| {
        let ends = [(0, 1_000), (1, 4_000)].map(|(node, silence_ms)| {
            let timeouts = Timeouts::default()
                .heartbeat_interval(Duration::from_millis(silence_ms / 4))
                .silence(Duration::from_millis(silence_ms));
            let job = Job::builder(NodeId(node)).secret(secret()).timeouts(timeouts);
            let job = job.rendezvous(2, at.clone()).unwrap();
            scope.spawn(move || Mesh::connect(&job).unwrap_err().to_string())
        });
        ends.into_iter().map(|end| end.join().unwrap()).collect()
    });
    for error in errors {
        assert!(
            error.starts_with("node 1 sends a sign of life every 1s, but node 0 takes a peer for lost"),
            "{error}"
        );
    }
}

#[test]
fn a_node_with_other_ids_is_refused_and_the_job_comes_up_without_it() {
    // A loopback address of this process alone: connections of other tests take ports of 127.0.0.1.
    let [.., high, low] = std::process::id().to_be_bytes();
    let host = format!("127.77.{high}.{low}");
    let addresses = free_addresses(&[host.as_str(); 2]).into_iter().map(Address::from);
    let addresses: Vec<_> = addresses.collect();
    let job = |node, ids: [u16; 2]| {
        let hosts = ids.map(NodeId).into_iter().zip(addresses.iter().cloned());
        let job = Job::builder(NodeId(node)).secret(secret());
        job.hosts(Hosts::from_pairs(hosts).unwrap()).unwrap()
    };
    let (zero, one, two) = (job(0, [0, 2]), job(1, [0, 1]), job(2, [0, 2]));
    thread::scope(|scope| {
        let zero = scope.spawn(|| Mesh::connect(&zero));
        let error = Mesh::connect(&one).unwrap_err().to_string();
        assert!(
            error.contains("other ids; give all nodes the same hosts file"),
            "{error}"
        );
        let two = Mesh::connect(&two).unwrap();
        assert_eq!(two.nodes(), zero.join().unwrap().unwrap().nodes());
    });
}

/// Brings a job of two nodes up in this process, by way of a launcher and by way of node 0.
fn come_up_in_this_process() {
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    let free = Rendezvous::on_loopback().unwrap().address().port();
    let node_0 = Address::parse("localhost", Some(free)).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            rendezvous
                .serve("loco", &secret(), &[NodeId(0), NodeId(1)], soon())
                .unwrap()
        });
        for is_launched in [true, false] {
            let ends = [0, 1].map(|node| {
                let job = Job::builder(NodeId(node)).secret(secret());
                let job = match is_launched {
                    true => job.launcher(2, at.clone()),
                    false => job.rendezvous(2, node_0.clone()),
                };
                scope.spawn(move || Mesh::connect(&job.unwrap()).unwrap())
            });
            for end in ends.map(|end| end.join().unwrap()) {
                assert_eq!(end.nodes(), [NodeId(0), NodeId(1)]);
            }
        }
    });
}

#[test]
fn nodes_meet_where_the_loopback_interface_has_only_ipv6() {
    if std::env::var("TEST_ROLE").is_ok_and(|role| role == "only IPv6") {
        assert!(TcpListener::bind("127.0.0.1:0").is_err());
        return come_up_in_this_process();
    }
    let in_namespace = |command: &[&str]| {
        let mut unshare = Command::new("unshare");
        let set_up = "ip link set lo up && { ip address del 127.0.0.1/8 dev lo || true; } && exec \"$@\"";
        unshare.args(["--net", "sh", "-c", set_up, "sh"]).args(command);
        unshare
    };
    let mut probe = in_namespace(&["ip", "-6", "address", "show", "dev", "lo"]);
    let probed = probe
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains("::1"));
    if !probed {
        return skipped(
            "NETWORK_NAMESPACE",
            "this process may not make a network namespace with IPv6",
        );
    }
    let exe = std::env::current_exe().unwrap();
    let test = "nodes_meet_where_the_loopback_interface_has_only_ipv6";
    let mut command = in_namespace(&[exe.to_str().unwrap(), "--exact", test, "--nocapture"]);
    let output = command.env("TEST_ROLE", "only IPv6").output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A rendezvous for which the system has no descriptor waits without using the processor, and serves once there are some.
#[test]
fn an_acceptor_without_descriptors_does_not_spin() {
    use rustix::net::{AddressFamily, SocketType};
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let test = "an_acceptor_without_descriptors_does_not_spin";
    if !std::env::var("TEST_ROLE").is_ok_and(|role| role == "starved") {
        let exe = std::env::current_exe().unwrap();
        let mut command = Command::new(exe);
        let output = command
            .args(["--exact", test, "--nocapture"])
            .env("TEST_ROLE", "starved")
            .output();
        let output = output.unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    let rendezvous = Rendezvous::on_loopback().unwrap();
    let at = Address::from(rendezvous.address());
    let to = at.resolve().unwrap()[0];
    // A socket that is made before descriptors run out, and connected afterwards.
    let socket = rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    let server = thread::spawn(move || rendezvous.serve("loco", &secret(), &[NodeId(0)], soon()));
    // It accepts: the hello of the server comes back.
    let mut accepted = TcpStream::connect(to).unwrap();
    accepted.read_exact(&mut [0; 4]).unwrap();
    let before = getrlimit(Resource::Nofile);
    let none = Rlimit {
        // All below it are in use. With less, the system would not let a thread wait for two descriptors.
        current: Some(4),
        ..before
    };
    setrlimit(Resource::Nofile, none).unwrap();
    rustix::net::connect(&socket, &to).unwrap();
    let spent = || {
        let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
        Duration::new(
            spent.tv_sec.try_into().unwrap(),
            spent.tv_nsec.try_into().unwrap(),
        )
    };
    let start = spent();
    thread::sleep(Duration::from_secs(1));
    let spent = spent() - start;
    setrlimit(Resource::Nofile, before).unwrap();
    assert!(
        spent < Duration::from_millis(500),
        "{spent:?} of the processor while there was nothing to do"
    );
    let job = Job::builder(NodeId(0)).secret(secret()).launcher(1, at).unwrap();
    Mesh::connect(&job).unwrap();
    server.join().unwrap().unwrap();
}
