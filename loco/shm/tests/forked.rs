//! A node forks a child that executes no other program, and is killed. The child holds the node's connections open; the
//! others hear of the loss all the same, at once. The child has no part in the job.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::process::Command;

use loco_conformance::processes::{Nodes, all_succeed_but, barrier, soon};
use loco_fabric::{Control, Fabric, FabricError, MemoryKind, NodeId, PeerState};
use loco_job::var;
use loco_shm::{ShmConfig, ShmFabric};

/// The node that forks and is killed.
const VICTIM: NodeId = NodeId(2);

/// Forks. Returns the child's process id, or none in the child.
fn fork() -> Option<u32> {
    // SAFETY: the child of this test calls what a child may call: it makes system calls, and allocates, which the C library
    // allows. It touches no lock of another thread.
    match unsafe { libc::fork() } {
        -1 => panic!("{}", std::io::Error::last_os_error()),
        0 => None,
        pid => Some(u32::try_from(pid).unwrap()),
    }
}

/// Returns true if this process has mapped memory of a node. The page on which a node shows its waits is none: no other node
/// reads it, and a child shares it.
fn maps_memory_of_a_node() -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let mut lines = maps.lines();
    lines.any(|line| line.contains("/memfd:loco-") && !line.contains("/memfd:loco-waits"))
}

#[test]
fn a_node_that_has_forked_is_lost_when_it_ends_and_its_child_cannot_speak_for_it() {
    let test = "a_node_that_has_forked_is_lost_when_it_ends_and_its_child_cannot_speak_for_it";
    let patient = |command: &mut Command, _| {
        // An hour: only the end of the process can tell.
        command.env(var::SILENCE_SAME_HOST_MS, "3600000");
    };
    let nodes = Nodes::run(test, 3, patient, |mesh| {
        let fabric = ShmFabric::new(mesh, ShmConfig::default()).unwrap();
        let _memory = fabric.allocate(4096, MemoryKind::Host).unwrap();
        let mesh = fabric.mesh();
        barrier(mesh, "up");
        if mesh.node() == VICTIM {
            assert!(maps_memory_of_a_node());
            let (mut reader, mut writer) = std::io::pipe().unwrap();
            let Some(child) = fork() else {
                let sent = mesh.send(NodeId(0), b"I am not node 2");
                let is_mute = matches!(sent, Err(FabricError::Unsupported(_)));
                // It says nothing when it lets go of the mesh either, and does not wait for threads that it does not have.
                drop(mesh.clone());
                writer
                    .write_all(&[u8::from(is_mute), u8::from(maps_memory_of_a_node())])
                    .unwrap();
                // SAFETY: ends the process, without what other threads have registered to be done at its end.
                unsafe {
                    libc::alarm(120);
                    libc::pause();
                    libc::_exit(0)
                }
            };
            let mut report = [9; 2];
            reader.read_exact(&mut report).unwrap();
            assert_eq!(
                report,
                [1, 0],
                "the child may not send, and has no memory of the job"
            );
            mesh.allgather("child", &child.to_le_bytes(), soon()).unwrap();
            // SAFETY: kills this process.
            unsafe { libc::kill(libc::getpid(), libc::SIGKILL) };
            unreachable!("killed");
        }
        let children = mesh.allgather("child", &[], soon()).unwrap();
        let child = <[u8; 4]>::try_from(&children[2].1[..]).unwrap();
        let lost = mesh.allgather("never", &[], soon());
        // SAFETY: kills the child, whose parent is this test's, so that its id is not another's before it is reaped.
        let _ = unsafe { libc::kill(i32::from_le_bytes(child), libc::SIGKILL) };
        assert_eq!(lost, Err(FabricError::PeerLost(VICTIM)));
        assert_eq!(mesh.peer_state(VICTIM), PeerState::Lost);
        assert_eq!(mesh.peer_state(NodeId(1 - mesh.node().0)), PeerState::Alive);
        survivors_barrier(mesh);
    });
    all_succeed_but(nodes, &[2]);
}

/// Waits until the other survivor has seen the loss, too, by a message.
fn survivors_barrier(mesh: &loco_job::Mesh) {
    mesh.send(NodeId(1 - mesh.node().0), b"seen").unwrap();
    assert!(mesh.receive(Some(soon())).unwrap().is_some());
}
