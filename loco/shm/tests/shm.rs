//! Tests the shared-memory fabric between nodes of one process: the conformance suite with either NIC, and
//! its own properties.

#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loco_conformance::{Poster, World, allocate, local, set_word, share, target, wait_for, wait_word, word};
use loco_fabric::{
    CompletionStatus, Fabric, FabricError, Memory, MemoryKind, Posted, QueuePair, Tier, WordCell, Work,
    WorkRequestId,
};
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric};
use loco_test_networks::deferred::{Deferred, Nic};

/// Nodes that execute operations as they post them.
struct Synchronous;

/// Nodes whose NIC executes operations late.
struct Late;

/// Nodes whose NIC keeps no order that it is not asked for.
struct Unordered;

/// Nodes whose NIC places in any order what it sent in order.
struct Relaxed;

fn bring_up(n: usize) -> Vec<ShmFabric> {
    let config = small();
    loco_conformance::bring_up(n, |mesh| ShmFabric::new(mesh, config.clone()).unwrap())
}

/// Returns nodes with this NIC.
fn with_nic(n: usize, nic: &Nic) -> Vec<Deferred<ShmFabric>> {
    let nodes = bring_up(n).into_iter();
    nodes
        .map(|fabric| Deferred::new(fabric, Some(nic)).unwrap())
        .collect()
}

fn small() -> ShmConfig {
    ShmConfig::default()
        .arena_bytes(1 << 20)
        .memory_limit_bytes(16 << 20)
}

/// Returns a seed for the next job. Seeds differ between jobs, and are the same on every run.
fn next_seed() -> u64 {
    static SEED: AtomicU64 = AtomicU64::new(1);
    SEED.fetch_add(1, Ordering::Relaxed)
}

impl World for Synchronous {
    type Fabric = ShmFabric;
    fn nodes(n: usize) -> Vec<ShmFabric> {
        bring_up(n)
    }
    fn kill(node: &ShmFabric) {
        node.mesh().fail();
    }
}

impl World for Late {
    type Fabric = Deferred<ShmFabric>;
    fn nodes(n: usize) -> Vec<Deferred<ShmFabric>> {
        with_nic(n, &Nic::deferred(next_seed()))
    }
    fn kill(node: &Deferred<ShmFabric>) {
        node.mesh().fail();
    }
}

impl World for Unordered {
    type Fabric = Deferred<ShmFabric>;
    fn nodes(n: usize) -> Vec<Deferred<ShmFabric>> {
        with_nic(n, &Nic::deferred(next_seed()).tier(Tier::Unordered))
    }
    fn kill(node: &Deferred<ShmFabric>) {
        node.mesh().fail();
    }
}

impl World for Relaxed {
    type Fabric = Deferred<ShmFabric>;
    fn nodes(n: usize) -> Vec<Deferred<ShmFabric>> {
        with_nic(n, &Nic::deferred(next_seed()).tier(Tier::PcieRelaxed))
    }
    fn kill(node: &Deferred<ShmFabric>) {
        node.mesh().fail();
    }
}

mod synchronous {
    use super::Synchronous;
    loco_conformance::suite!(Synchronous);
}

mod deferred {
    use super::Late;
    loco_conformance::suite!(Late);
}

mod unordered {
    use super::Unordered;
    loco_conformance::suite!(Unordered);
}

mod relaxed {
    use super::Relaxed;
    loco_conformance::suite!(Relaxed);
}

/// Returns a NIC that takes its time.
fn slow(seed: u64) -> Nic {
    delaying(seed, Duration::from_millis(20))
}

/// Returns a NIC that takes up to `delay_max` for each step.
fn delaying(seed: u64, delay_max: Duration) -> Nic {
    Nic {
        delay_max,
        queue_depth: 8,
        ..Nic::deferred(seed)
    }
}

fn poll_one(fabric: &Deferred<ShmFabric>) -> CompletionStatus {
    let mut completions = Vec::new();
    wait_for(fabric, || {
        (fabric.poll(&mut completions).unwrap() > 0).then_some(())
    });
    assert_eq!(completions.len(), 1);
    completions.remove(0).status
}

#[test]
fn the_deferred_nic_completes_puts_before_they_are_placed() {
    let seen = (0..50).any(|seed| {
        let [a, b] = &with_nic(2, &slow(seed))[..] else {
            unreachable!()
        };
        let (there, remote) = share(b, a, 64);
        let here = allocate(a, 64);
        set_word(&here, 0, 1);
        let mut poster = Poster::new(a, b.node());
        poster.complete(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 0), work));
        let unplaced = word(&there, 0) == 0;
        poster.complete(|qp, work| qp.flush(work));
        assert_eq!(word(&there, 0), 1);
        unplaced
    });
    assert!(seen, "a polled put was always placed already");
}

#[test]
fn the_deferred_nic_reads_the_source_late() {
    let seen = (0..50).any(|seed| {
        let [a, b] = &with_nic(2, &slow(seed))[..] else {
            unreachable!()
        };
        let (there, remote) = share(b, a, 64);
        let here = allocate(a, 64);
        let mut poster = Poster::new(a, b.node());
        let posted = poster.post(|qp, work| qp.put(local(&here, 0, 8), target(&remote, 0), work));
        assert!(posted.is_some());
        set_word(&here, 0, 1);
        assert_eq!(poll_one(a), CompletionStatus::Success);
        poster.complete(|qp, work| qp.flush(work));
        word(&there, 0) == 1
    });
    assert!(seen, "a source was always read before the next instruction");
}

#[test]
fn the_deferred_nic_does_not_order_queue_pairs() {
    // There is a put on each of two queue pairs; the second is posted after the first has completed.
    let seen = (0..100).any(|seed| {
        let [a, b] = &with_nic(2, &slow(seed))[..] else {
            unreachable!()
        };
        let (there, remote) = share(b, a, 64);
        let (mut first, mut second) = (Poster::new(a, b.node()), Poster::new(a, b.node()));
        first.complete(|qp, work| qp.put_inline(&1_u64.to_ne_bytes(), target(&remote, 0), work));
        second.complete(|qp, work| qp.put_inline(&1_u64.to_ne_bytes(), target(&remote, 8), work));
        wait_word(b, &there, 8, |word| word == 1);
        word(&there, 0) == 0
    });
    assert!(
        seen,
        "two queue pairs always kept the order in which they were used"
    );
}

#[test]
fn the_deferred_nic_lets_a_put_overtake_a_get() {
    let seen = (0..100).any(|seed| {
        let [a, b] = &with_nic(2, &slow(seed))[..] else {
            unreachable!()
        };
        let (there, remote) = share(b, a, 64);
        let here = allocate(a, 64);
        let mut poster = Poster::new(a, b.node());
        let _id = poster.post(|qp, work| qp.get(local(&here, 0, 8), target(&remote, 0), work));
        let bytes = 1_u64.to_ne_bytes();
        let _posted = poster
            .qp
            .put_inline(&bytes, target(&remote, 8), Work::unsignaled())
            .unwrap();
        wait_word(b, &there, 8, |word| word == 1);
        set_word(&there, 0, 1);
        assert_eq!(poll_one(a), CompletionStatus::Success);
        word(&here, 0) == 1
    });
    assert!(seen, "a get always read before a later put was placed");
}

#[test]
fn long_puts_tear_under_the_deferred_nic() {
    let [a, b] = &with_nic(2, &slow(1))[..] else {
        unreachable!()
    };
    let (there, remote) = share(b, a, 512);
    let here = allocate(a, 512);
    let mut poster = Poster::new(a, b.node());
    let mut torn = false;
    for round in 1..50_u8 {
        here.write(0, &[round; 512]).unwrap();
        poster.complete(|qp, work| qp.put(local(&here, 0, 512), target(&remote, 0), work));
        let mut seen = [0; 512];
        wait_for(b, || {
            there.read(0, &mut seen).unwrap();
            torn |= seen.iter().any(|&byte| byte != seen[0]);
            (seen == [round; 512]).then_some(())
        });
    }
    assert!(torn, "no long put was ever seen in part");
}

#[test]
fn operations_of_a_dead_peer_fail_under_the_deferred_nic() {
    // No operation is over before the peer is lost.
    let [a, b] = &with_nic(2, &delaying(3, Duration::from_secs(1 << 20)))[..] else {
        unreachable!()
    };
    let (_there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    for number in 0..8 {
        let work = Work::signaled(WorkRequestId(number)).fenced();
        assert_eq!(
            qp.get(local(&here, 0, 8), target(&remote, 0), work),
            Ok(Posted::Pending)
        );
    }
    assert_eq!(
        qp.flush(Work::unsignaled()),
        Err(FabricError::QueueFull(b.node()))
    );
    b.mesh().fail();
    let mut completions = Vec::new();
    wait_for(a, || {
        a.poll(&mut completions).unwrap();
        (completions.len() == 8).then_some(())
    });
    let lost = CompletionStatus::Failed(Box::new(FabricError::PeerLost(b.node())));
    assert_eq!(completions.last().unwrap().status, lost);
    assert_eq!(qp.flush(Work::unsignaled()), Err(FabricError::PeerLost(b.node())));
}

/// Posted operations happen even if the queue pair and the local memory are gone.
#[test]
fn a_dropped_queue_pair_still_delivers() {
    let [a, b] = &with_nic(2, &slow(4))[..] else {
        unreachable!()
    };
    let (there, remote) = share(b, a, 64);
    let here = allocate(a, 64);
    set_word(&here, 0, 77);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let posted = qp.put(local(&here, 0, 8), target(&remote, 0), Work::unsignaled());
    assert_eq!(posted, Ok(Posted::Pending));
    drop((qp, remote, here));
    wait_word(b, &there, 0, |word| word == 77);
}

/// A fabric that is dropped places its posted operations, and its thread ends.
#[test]
fn the_deferred_nic_finishes_before_it_stops() {
    let mut nodes = with_nic(2, &slow(5));
    let (b, a) = (nodes.pop().unwrap(), nodes.pop().unwrap());
    let (there, remote) = share(&b, &a, 64);
    let mut qp = a.queue_pair(b.node()).unwrap();
    let _posted = qp
        .put_inline(&9_u64.to_ne_bytes(), target(&remote, 0), Work::unsignaled())
        .unwrap();
    drop((qp, a, remote));
    assert_eq!(word(&there, 0), 9);
}

#[test]
fn a_key_of_another_run_is_refused() {
    let (run, other) = (Synchronous::nodes(2), Synchronous::nodes(2));
    let memory = allocate(&other[1], 64);
    let key = other[1].export(&memory);
    let refused = run[0].import(run[1].node(), &key);
    assert!(matches!(refused, Err(FabricError::Refused(_))), "{refused:?}");
    let mut beyond = run[1].export(&allocate(&run[1], 64));
    beyond.address = 1 << 40;
    let refused = run[0].import(run[1].node(), &beyond);
    assert!(
        matches!(refused, Err(FabricError::OutOfRange { .. })),
        "{refused:?}"
    );
    beyond.arena = u64::MAX;
    assert!(run[0].import(run[1].node(), &beyond).is_err());
    assert!(run[1].import(run[1].node(), &beyond).is_err());
}

#[test]
fn memory_is_limited_and_comes_back() {
    let [a] = &bring_up(1)[..] else { unreachable!() };
    // This is more than an arena and less than the limit, so it gets an arena of its own.
    let long = a.allocate(10 << 20, MemoryKind::Host).unwrap();
    long.write((10 << 20) - 1, &[1]).unwrap();
    let Err(FabricError::OutOfMemory {
        requested,
        available,
        remedy,
    }) = a.allocate(10 << 20, MemoryKind::Host)
    else {
        panic!("twice 10 MiB of 16");
    };
    assert_eq!((requested, available), (10 << 20, 6 << 20));
    assert!(remedy.contains("memory_limit_bytes"), "{remedy}");
    let mut parts = Vec::new();
    while let Ok(part) = a.allocate(64 << 10, MemoryKind::Host) {
        parts.push(part);
    }
    assert_eq!(parts.len(), 6 << 4, "all 6 MiB that are left");
    drop(long);
    let again = a.allocate(10 << 20, MemoryKind::Host).unwrap();
    let last = again.cell::<u8>((10 << 20) - 1).unwrap();
    assert_eq!(last.load(), 0, "zeroed again");
}

#[test]
fn configurations_that_cannot_work_are_refused() {
    let refused = |config: ShmConfig| {
        let mesh = Mesh::in_process(1).unwrap().remove(0);
        let refused = ShmFabric::new(mesh, config);
        assert!(matches!(refused, Err(FabricError::Config(_))), "{refused:?}");
    };
    refused(ShmConfig::default().arena_bytes(0));
    let full = Nic {
        queue_depth: 0,
        ..Nic::deferred(0)
    };
    let refused = Deferred::new(bring_up(1).remove(0), Some(&full));
    assert!(matches!(refused, Err(FabricError::Config(_))), "{refused:?}");
    let late = with_nic(1, &Nic::deferred(0)).remove(0);
    let refused = Deferred::new(late, Some(&Nic::deferred(0)));
    assert!(matches!(refused, Err(FabricError::Config(_))), "{refused:?}");
}

#[test]
fn a_node_that_does_not_come_up_is_named() {
    let mesh = Mesh::in_process(2).unwrap().remove(0);
    let config = ShmConfig::default().set_up_timeout(Duration::from_millis(20));
    let timeout = ShmFabric::new(mesh, config).unwrap_err();
    assert!(
        matches!(timeout, FabricError::Timeout { .. } | FabricError::PeerLost(_)),
        "{timeout}"
    );
    assert!(timeout.to_string().contains("node 1"), "{timeout}");
}
