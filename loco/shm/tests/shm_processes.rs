//! Tests the shared-memory fabric between real processes. Each test runs its own binary again, once per node.
//!
//! With `--nocapture` the ping-pongs print their measurements, which are meaningful in a release build.
#![allow(clippy::unwrap_used)]

use std::time::{Duration, Instant};

use loco_conformance::processes::{Nodes, all_succeed_but, barrier, share, soon, target};
use loco_fabric::{
    Control, Fabric, FabricError, Local, Memory, MemoryKind, NodeId, PeerState, Peers, Posted, QueuePair,
    Wait, WordCell, Work,
};
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric};

fn run(test: &str, n: u16, body: impl FnOnce(&ShmFabric)) -> Option<Nodes> {
    let body = |mesh: Mesh| body(&ShmFabric::new(mesh, ShmConfig::default()).unwrap());
    Nodes::run(test, n, |_, _| {}, body)
}

fn wait<T>(fabric: &ShmFabric, peers: Peers<'_>, ready: impl FnMut() -> Option<T>) -> Result<T, FabricError> {
    let deadline = Some(soon());
    let what = "another process";
    fabric.wait(
        Wait {
            what,
            peers,
            deadline,
        },
        ready,
    )
}

#[test]
fn processes_access_one_another() {
    const LEN: usize = 100_000;
    let nodes = run("processes_access_one_another", 3, |fabric| {
        let own = usize::from(fabric.node().0);
        let (memory, remotes) = share(fabric, fabric.mesh(), 4 * LEN);
        let scratch = fabric.allocate(LEN, MemoryKind::Host).unwrap();
        let all = |memory| Local {
            memory,
            offset: 0,
            len: LEN,
        };
        scratch
            .write(0, &vec![fabric.node().0.to_ne_bytes()[0] + 1; LEN])
            .unwrap();
        let mut queue_pairs: Vec<_> = fabric
            .nodes()
            .iter()
            .map(|&n| fabric.queue_pair(n).unwrap())
            .collect();
        for (qp, remote) in queue_pairs.iter_mut().zip(&remotes) {
            let posted = qp.put(all(&scratch), target(remote, own * LEN), Work::unsignaled());
            assert_eq!(posted, Ok(Posted::Done));
            let _done = qp.flush(Work::unsignaled()).unwrap();
        }
        barrier(fabric.mesh(), "put");
        let mut bytes = vec![0; 3 * LEN];
        memory.read(0, &mut bytes).unwrap();
        for (node, part) in bytes.chunks(LEN).enumerate() {
            assert!(
                part.iter().all(|&byte| usize::from(byte) == node + 1),
                "node {node}'s part"
            );
        }
        for _ in 0..10_000 {
            let result = Local {
                len: 8,
                ..all(&scratch)
            };
            let _done = queue_pairs[0]
                .fetch_add(target(&remotes[0], 3 * LEN), 1, result, Work::unsignaled())
                .unwrap();
        }
        barrier(fabric.mesh(), "added");
        let sum = Local {
            len: 8,
            ..all(&scratch)
        };
        let _done = queue_pairs[0]
            .get(sum, target(&remotes[0], 3 * LEN), Work::unsignaled())
            .unwrap();
        assert_eq!(scratch.cell::<u64>(0).unwrap().load(), 30_000);
        barrier(fabric.mesh(), "done");
    });
    all_succeed_but(nodes, &[]);
}

#[test]
fn words_do_not_tear_between_processes() {
    let nodes = run("words_do_not_tear_between_processes", 2, |fabric| {
        const LEN: usize = 512;
        const ROUNDS: u64 = 100_000;
        let (memory, remotes) = share(fabric, fabric.mesh(), LEN + 64);
        if fabric.node() == NodeId(0) {
            let source = fabric.allocate(LEN, MemoryKind::Host).unwrap();
            let mut qp = fabric.queue_pair(NodeId(1)).unwrap();
            let whole = || Local {
                memory: &source,
                offset: 0,
                len: LEN,
            };
            for round in 1..=ROUNDS {
                source.write(0, &[round.to_ne_bytes()[0]; LEN]).unwrap();
                let _done = qp
                    .put(whole(), target(&remotes[1], 0), Work::unsignaled())
                    .unwrap();
                let _done = qp
                    .put_inline(&round.to_ne_bytes(), target(&remotes[1], LEN), Work::unsignaled())
                    .unwrap();
            }
        } else {
            let progress = memory.cell::<u64>(LEN).unwrap();
            let mut bytes = [0; LEN];
            wait(fabric, Peers::None, || {
                let over = progress.load() == ROUNDS;
                memory.read(0, &mut bytes).unwrap();
                let (words, _) = bytes.as_chunks::<8>();
                assert!(words.iter().all(|word| *word == [word[0]; 8]), "{words:x?}");
                over.then_some(())
            })
            .unwrap();
            assert_eq!(
                bytes,
                [ROUNDS.to_ne_bytes()[0]; LEN],
                "the last put came before the last word"
            );
        }
        barrier(fabric.mesh(), "done");
    });
    all_succeed_but(nodes, &[]);
}

/// Every node but the one that dies sees the loss in bounded time, in waits and at posts, and nothing faults.
#[test]
fn a_killed_process_is_lost_to_all_others() {
    let nodes = run("a_killed_process_is_lost_to_all_others", 3, |fabric| {
        let victim = NodeId(2);
        let (_memory, remotes) = share(fabric, fabric.mesh(), 64);
        let mut qp = fabric.queue_pair(victim).unwrap();
        barrier(fabric.mesh(), "ready");
        // A lost node's last messages may be lost with it: the victim goes when it has heard that the others have met.
        let heard = fabric.mesh().allgather("met", &[], soon());
        if fabric.node() == victim {
            heard.unwrap();
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
        }
        let lost = FabricError::PeerLost(victim);
        assert_eq!(wait(fabric, Peers::One(victim), || None::<()>), Err(lost.clone()));
        assert_eq!(fabric.control().peer_state(victim), PeerState::Lost);
        let posted = qp.put_inline(&[1; 8], target(&remotes[2], 0), Work::unsignaled());
        assert_eq!(posted, Err(lost.clone()));
        assert_eq!(fabric.queue_pair(victim).err(), Some(lost));
    });
    all_succeed_but(nodes, &[2]);
    let named = std::fs::read_dir("/dev/shm").into_iter().flatten().flatten();
    let left: Vec<_> = named
        .map(|entry| entry.file_name())
        .filter(|name| name.to_string_lossy().contains("loco"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

/// Passes a number round; each node waits for its left neighbour. Returns the time of one hop.
fn ring(fabric: &ShmFabric, rounds: u64) -> Duration {
    let n = fabric.nodes().len();
    let own = usize::from(fabric.node().0);
    let right = (own + 1) % n;
    let (memory, remotes) = share(fabric, fabric.mesh(), 64);
    let cell = memory.cell::<u64>(0).unwrap();
    let mut qp = fabric.queue_pair(fabric.nodes()[right]).unwrap();
    barrier(fabric.mesh(), "start");
    let start = Instant::now();
    for round in 1..=rounds {
        let mut pass = || {
            qp.put_inline(
                &round.to_ne_bytes(),
                target(&remotes[right], 0),
                Work::unsignaled(),
            )
            .unwrap()
        };
        if own == 0 {
            let _done = pass();
        }
        wait(fabric, Peers::All, || (cell.load() == round).then_some(())).unwrap();
        if own != 0 {
            let _done = pass();
        }
    }
    let hops = u32::try_from(rounds).unwrap() * u32::try_from(n).unwrap();
    let hop = start.elapsed() / hops;
    barrier(fabric.mesh(), "done");
    hop
}

#[test]
fn two_processes_play_ping_pong() {
    let nodes = run("two_processes_play_ping_pong", 2, |fabric| {
        let hop = ring(fabric, 20_000);
        if fabric.node() == NodeId(0) {
            println!("one way between 2 processes: {hop:?}");
        }
    });
    all_succeed_but(nodes, &[]);
}

/// A waiting node does not keep the node that it waits for from its core. The test is bounded by `PATIENCE`,
/// which spinning for whole time slices would exceed.
#[test]
fn more_processes_than_cores_make_progress() {
    let nodes = run("more_processes_than_cores_make_progress", 5, |fabric| {
        let hop = ring(fabric, 2_000);
        if fabric.node() == NodeId(0) {
            println!("one hop in a ring of 5 processes: {hop:?}");
        }
    });
    all_succeed_but(nodes, &[]);
}
