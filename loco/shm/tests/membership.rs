//! Stops a node for longer than its peers wait, and lets it go on. It can no longer change their memory, and
//! learns that it is out. Each test runs its own binary again, once per node.
#![allow(clippy::unwrap_used)]

use std::os::fd::OwnedFd;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loco_conformance::processes::{Nodes, all_succeed_but, share, soon, target};
use loco_conformance::{local, word};
use loco_fabric::{
    Control, Fabric, FabricError, Memory, MemoryKind, NodeId, PeerState, Peers, QueuePair, Wait, Work,
};
use loco_job::{Mesh, var};
use loco_shm::{ShmConfig, ShmFabric, ShmMemory};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open, pidfd_send_signal};
use tracing::{Event, Metadata, Subscriber, span};

/// The node that is stopped.
const VICTIM: usize = 2;
/// The size of a put that takes longer than the survivors' patience with a thread in the middle of an
/// operation.
const BIG: usize = 64 << 20;

/// Runs three nodes that give up a silent peer after half a second.
fn run(test: &str, body: impl FnOnce(&ShmFabric)) -> Option<Nodes> {
    let impatient = |command: &mut Command, _| {
        command.env(var::SILENCE_SAME_HOST_MS, "500");
    };
    Nodes::run(test, 3, impatient, |mesh: Mesh| {
        body(&ShmFabric::new(mesh, ShmConfig::default()).unwrap());
    })
}

/// Returns a pidfd of the victim, for the other nodes.
fn victim(fabric: &ShmFabric) -> OwnedFd {
    let deadline = soon();
    let pids = fabric
        .mesh()
        .allgather("pids", &std::process::id().to_le_bytes(), deadline);
    let pid = <[u8; 4]>::try_from(&pids.unwrap()[VICTIM].1[..]).unwrap();
    let pid = Pid::from_raw(i32::from_le_bytes(pid)).unwrap();
    pidfd_open(pid, PidfdFlags::empty()).unwrap()
}

fn wait_until(fabric: &ShmFabric, what: &str, mut ready: impl FnMut() -> bool) {
    let wait = Wait {
        what,
        peers: Peers::None,
        deadline: Some(soon()),
    };
    fabric.wait(wait, || ready().then_some(())).unwrap();
}

fn wait_for_loss(fabric: &ShmFabric) {
    let lost = || fabric.mesh().peer_state(victim_id()) == PeerState::Lost;
    wait_until(fabric, "the loss", lost);
    let view = fabric.membership();
    assert_eq!(view.lost, [victim_id()]);
    // The other survivor may have left already.
    assert_eq!(view.epoch, 1 + view.left.len() as u64, "{view:?}");
    assert_eq!(view.members.len() + view.left.len(), 2, "{view:?}");
}

fn victim_id() -> NodeId {
    NodeId(2)
}

fn end_of(process: &OwnedFd) {
    poll(&mut [PollFd::new(process, PollFlags::IN)], None).unwrap();
}

fn contents(memory: &ShmMemory) -> Vec<u8> {
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    bytes
}

/// Checks, in the node that was stopped, that it is out and stays so.
fn is_out(fabric: &ShmFabric, error: FabricError) {
    let out = FabricError::DeclaredLost;
    assert_eq!(error, out);
    assert!(fabric.mesh().declared_lost());
    for _ in 0..3 {
        let wait = Wait {
            what: "anything",
            peers: Peers::None,
            deadline: None,
        };
        assert_eq!(fabric.wait(wait, || None::<()>), Err(out.clone()));
        assert_eq!(fabric.queue_pair(NodeId(0)).err(), Some(out.clone()));
    }
    let view = fabric.membership();
    assert!(
        view.lost.contains(&victim_id()) && !view.members.contains(&victim_id()),
        "{view:?}"
    );
}

/// The number of puts of the victim.
static PUTS: AtomicU64 = AtomicU64::new(1);
/// Set when a put of the victim was refused.
static REFUSED: AtomicBool = AtomicBool::new(false);

/// Delays the mesh's thread in the victim when it logs that the node was declared lost, before it acts on
/// that. It waits until the node was refused a put or has done many. Only the fabric can then refuse the put.
struct LateMesh;

impl Subscriber for LateMesh {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::ERROR
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, _: &Event<'_>) {
        let enough = PUTS.load(Ordering::SeqCst) + 1000;
        while !REFUSED.load(Ordering::SeqCst) && PUTS.load(Ordering::SeqCst) < enough {
            std::thread::yield_now();
        }
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

#[test]
fn a_node_that_was_stopped_and_goes_on_changes_nothing() {
    let nodes = run("a_node_that_was_stopped_and_goes_on_changes_nothing", |fabric| {
        let (memory, remotes) = share(fabric, fabric.mesh(), 64);
        let process = victim(fabric);
        if fabric.node() == victim_id() {
            let mut qp = fabric.queue_pair(NodeId(0)).unwrap();
            tracing::subscriber::set_global_default(LateMesh).unwrap();
            // The node is stopped somewhere here, most likely between two puts.
            let error = loop {
                let number = PUTS.fetch_add(1, Ordering::SeqCst);
                let put = qp.put_inline(&number.to_ne_bytes(), target(&remotes[0], 0), Work::unsignaled());
                if let Err(error) = put {
                    break error;
                }
                (0..500).for_each(|_| std::hint::spin_loop());
            };
            REFUSED.store(true, Ordering::SeqCst);
            is_out(fabric, error);
            let here = fabric.allocate(8, MemoryKind::Host).unwrap();
            let read = qp.get(local(&here, 0, 8), target(&remotes[0], 0), Work::unsignaled());
            assert_eq!(read.err(), Some(FabricError::DeclaredLost));
            return;
        }
        if fabric.node() == NodeId(0) {
            wait_until(fabric, "the victim's puts", || word(&memory, 0) > 1000);
            pidfd_send_signal(&process, Signal::STOP).unwrap();
        }
        wait_for_loss(fabric);
        let before = contents(&memory);
        // The victim is woken only after both have looked.
        let others = fabric.mesh();
        let deadline = soon();
        let (to, message) = (NodeId(1 - fabric.node().0), b"seen");
        others.send(to, message).unwrap();
        assert!(others.receive(Some(deadline)).unwrap().is_some());
        // If it was stopped inside an operation, it has been killed, and there is no process to wake.
        let _gone = pidfd_send_signal(&process, Signal::CONT);
        end_of(&process);
        assert_eq!(contents(&memory), before);
    });
    let Some(mut nodes) = nodes else { return };
    assert!(nodes.succeeded(0) && nodes.succeeded(1), "see above");
    // The victim ends with success, unless it had to be killed.
    assert!(nodes.succeeded(VICTIM) || nodes.was_killed(VICTIM), "see above");
}

#[test]
fn a_node_stopped_inside_an_operation_is_killed() {
    let nodes = run("a_node_stopped_inside_an_operation_is_killed", |fabric| {
        let (memory, remotes) = share(fabric, fabric.mesh(), BIG);
        let process = victim(fabric);
        if fabric.node() == victim_id() {
            let here = fabric.allocate(BIG, MemoryKind::Host).unwrap();
            let mut qp = fabric.queue_pair(NodeId(0)).unwrap();
            for number in 1_u64.. {
                here.write(0, &number.to_ne_bytes()).unwrap();
                // The put takes so long that the node is almost always stopped within it.
                let _done = qp.put(local(&here, 0, BIG), target(&remotes[0], 0), Work::unsignaled());
            }
        }
        if fabric.node() == NodeId(0) {
            wait_until(fabric, "the victim's puts", || word(&memory, 0) > 3);
            pidfd_send_signal(&process, Signal::STOP).unwrap();
        }
        wait_for_loss(fabric);
        // The victim has ended already, though it was never continued.
        end_of(&process);
        let before = contents(&memory);
        assert_eq!(contents(&memory), before);
    });
    let Some(mut nodes) = nodes else { return };
    assert!(nodes.succeeded(0) && nodes.succeeded(1), "see above");
    assert!(nodes.was_killed(VICTIM), "see above");
}

#[test]
fn a_loss_that_one_sees_is_a_loss_to_all() {
    let nodes = run("a_loss_that_one_sees_is_a_loss_to_all", |fabric| {
        let (_memory, _remotes) = share(fabric, fabric.mesh(), 64);
        let process = victim(fabric);
        let ready = soon();
        if fabric.node() == NodeId(1) {
            fabric.mesh().send(NodeId(0), b"ready").unwrap();
        }
        if fabric.node() == NodeId(0) {
            assert!(fabric.mesh().receive(Some(ready)).unwrap().is_some());
            pidfd_send_signal(&process, Signal::KILL).unwrap();
        }
        if fabric.node() == victim_id() {
            wait_until(fabric, "the end", || false);
        }
        wait_for_loss(fabric);
    });
    let Some(mut nodes) = nodes else { return };
    assert!(nodes.succeeded(0) && nodes.succeeded(1), "see above");
    assert!(nodes.was_killed(VICTIM));
}

/// A survivor that is stopped holds nobody up: the loss of another node is told although it cannot say anything.
#[test]
fn a_loss_is_told_while_another_survivor_is_stopped() {
    let test = "a_loss_is_told_while_another_survivor_is_stopped";
    let patient = |command: &mut Command, _| {
        // An hour: the silence of the stopped survivor ends nothing.
        command.env(var::SILENCE_SAME_HOST_MS, "3600000");
    };
    let nodes = Nodes::run(test, 3, patient, |mesh: Mesh| {
        let fabric = ShmFabric::new(mesh, ShmConfig::default()).unwrap();
        let mesh = fabric.mesh();
        let pids = mesh
            .allgather("pids", &std::process::id().to_le_bytes(), soon())
            .unwrap();
        let pid = |node: usize| {
            let bytes = <[u8; 4]>::try_from(&pids[node].1[..]).unwrap();
            Pid::from_raw(i32::from_le_bytes(bytes)).unwrap()
        };
        if mesh.node() == NodeId(1) {
            mesh.send(NodeId(0), b"I know all").unwrap();
        }
        if mesh.node() == NodeId(0) {
            assert!(mesh.receive(Some(soon())).unwrap().is_some());
            kill_process(pid(1), Signal::STOP).unwrap();
            let state =
                || std::fs::read_to_string(format!("/proc/{}/stat", pid(1).as_raw_nonzero())).unwrap();
            wait_until(&fabric, "the stop", || {
                state().rsplit(')').next().unwrap().starts_with(" T")
            });
            kill_process(pid(VICTIM), Signal::KILL).unwrap();
        }
        if mesh.node() == victim_id() {
            let _ = mesh.receive(None);
            unreachable!("killed");
        }
        // The victim does not give its contribution.
        let lost = mesh.allgather("never", &[], soon());
        if mesh.node() == NodeId(0) {
            assert_eq!(mesh.peer_state(NodeId(1)), PeerState::Alive);
            kill_process(pid(1), Signal::CONT).unwrap();
        }
        assert_eq!(lost, Err(FabricError::PeerLost(victim_id())));
        let other = NodeId(1 - mesh.node().0);
        mesh.send(other, b"seen").unwrap();
        assert!(mesh.receive(Some(soon())).unwrap().is_some());
    });
    all_succeed_but(nodes, &[VICTIM]);
}
