//! Tests that nodes which join and go again leave nothing open at a member. It counts the descriptors of its process, so that it is
//! alone in it.

#![allow(clippy::unwrap_used)] // Helpers of tests, too.

use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use loco_fabric::{Control, NodeId, PeerState, Platform, Std, Time};
use loco_job::{Address, Hosts, Job, Join, Mesh, Secret, Timeouts};
use loco_testing::free_addresses;

const SECRET: &str = "a shared secret";
/// The nodes that come and go, in the member's process and as processes of their own.
const NEIGHBOURS: u16 = 60;
const PROCESSES: u16 = 8;

/// Only a hang reaches it.
fn soon() -> Time {
    Std.now().after(Duration::from_secs(120))
}

/// No node is lost because it is silent.
fn timeouts() -> Timeouts {
    let hour = Duration::from_secs(3600);
    Timeouts::default()
        .connect(hour)
        .silence(hour)
        .silence_same_host(hour)
}

fn secret() -> Secret {
    Secret::new(SECRET.as_bytes()).unwrap()
}

/// Plays a node that joins and is killed; not a test by itself.
#[test]
fn node_process() {
    if std::env::var("TEST_ROLE").as_deref() != Ok("node") {
        return;
    }
    let join = Join::from_env().unwrap().unwrap();
    let _mesh = Mesh::join(&join.timeouts(timeouts())).unwrap();
    // Ends with the test, at the latest.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

fn start(member: &Address) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "node_process"])
        .env("TEST_ROLE", "node")
        .env("LOCO_SECRET", SECRET)
        .env("LOCO_JOIN", member.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// A member that waits for nodes which come, one after the other, and go.
struct Member {
    mesh: Mesh,
    known: u32,
    gone: u64,
}

impl Member {
    /// Waits for the next node, and returns it.
    fn meet(&mut self) -> NodeId {
        // Whoever goes makes a view, too.
        loop {
            let view = self.mesh.next_view(self.known, soon()).unwrap();
            self.known = view.number();
            if let [_, newcomer] = view.members() {
                return *newcomer;
            }
        }
    }

    /// Waits until the node is gone.
    fn miss(&mut self, node: NodeId, how: PeerState) {
        self.gone = self.mesh.wait_for_departures(self.gone, soon());
        assert_eq!(self.mesh.peer_state(node), how);
    }
}

/// Waits until no more descriptors are open than there were before.
fn assert_closed(before: usize, what: &str) {
    let deadline = soon();
    while descriptors() > before {
        assert!(
            Std.now() < deadline,
            "{what}: {} descriptors, {before} before",
            descriptors()
        );
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn nodes_that_go_leave_no_descriptors_open() {
    let address = Address::from(free_addresses(&["127.0.0.1"])[0]);
    let hosts = Hosts::from_pairs([(NodeId(0), address.clone())]).unwrap();
    let job = Job::builder(NodeId(0)).secret(secret()).timeouts(timeouts());
    let job = job.nodes_max(2 + NEIGHBOURS + PROCESSES).hosts(hosts).unwrap();
    let mesh = Mesh::connect(&job).unwrap();
    let known = mesh.view_number();
    let mut member = Member { mesh, known, gone: 0 };
    let before = descriptors();
    let join = Join::by([address.clone()]).unwrap().secret(secret());
    let join = join.timeouts(timeouts());
    for round in 0..NEIGHBOURS {
        let mesh = Mesh::join(&join).unwrap();
        let node = member.meet();
        assert_eq!(node, mesh.node());
        let how = match round % 2 {
            0 => PeerState::Left,
            _ => {
                mesh.fail();
                PeerState::Lost
            }
        };
        drop(mesh);
        member.miss(node, how);
    }
    assert_closed(before, "nodes of this process");
    for _ in 0..PROCESSES {
        let mut process = start(&address);
        let node = member.meet();
        process.kill().unwrap();
        process.wait().unwrap();
        member.miss(node, PeerState::Lost);
    }
    assert_closed(before, "processes");
}
