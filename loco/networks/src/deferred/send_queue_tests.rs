//! Tests of the steps that may come next on a queue pair.

#![allow(clippy::unwrap_used)]

use std::time::Instant;

use loco_fabric::Tier;
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric};

use super::*;

type SendQueue = super::SendQueue<ShmFabric>;

fn queue(works: &[(OperationKind, Work)]) -> SendQueue {
    let mut queue = SendQueue::new(NodeId(1), 64, Discipline::ibta());
    for &(kind, work) in works {
        queue.post(PostedOperation::new(kind, work), at_once()).unwrap();
    }
    queue
}

fn at_once() -> Rest {
    Rest {
        until: Instant::now(),
        calls: 0,
    }
}

fn free(queue: &mut SendQueue) -> Vec<usize> {
    let mut free = Vec::new();
    queue.candidates(|index, _| free.push(index));
    free
}

fn step(queue: &mut SendQueue, index: usize) {
    let moment = Moment {
        now: Instant::now(),
        calls: 0,
    };
    // These operations move no bytes, so any queue pair will do.
    let mesh = Mesh::in_process(1).unwrap().remove(0);
    let fabric = ShmFabric::new(mesh, ShmConfig::default()).unwrap();
    let mut qp = fabric.queue_pair(fabric.node()).unwrap();
    queue
        .step(index, &mut qp, &mut Dice::new(0), Duration::ZERO, moment)
        .unwrap();
}

impl SendQueue {
    fn take_on(&mut self, discipline: Discipline) {
        self.awaited = discipline.awaited();
        self.discipline = discipline;
    }
}

const PLAIN: (OperationKind, Work) = (
    OperationKind::Get,
    Work {
        id: loco_fabric::WorkRequestId(1),
        signaled: true,
        fenced: false,
        strong: false,
        more: false,
        lazy: false,
    },
);

#[test]
fn gets_may_read_in_any_order_but_land_in_order() {
    let mut queue = queue(&[PLAIN, PLAIN]);
    assert_eq!(free(&mut queue), [0, 1]);
    step(&mut queue, 1);
    assert_eq!(free(&mut queue), [0], "the second result waits for the first");
}

#[test]
fn a_put_may_overtake_a_get_unless_fenced() {
    let put = (OperationKind::Put, PLAIN.1);
    assert_eq!(free(&mut queue(&[PLAIN, put])), [0, 1]);
    let mut fenced = queue(&[PLAIN, (OperationKind::Put, PLAIN.1.fenced()), put]);
    assert_eq!(free(&mut fenced), [0], "nothing passes a fence");
    step(&mut fenced, 0);
    assert_eq!(free(&mut fenced), [0], "the result is not back");
    step(&mut fenced, 0);
    assert_eq!(
        free(&mut fenced),
        [0],
        "the fence is passed, but the source is read when the result has landed"
    );
    step(&mut fenced, 0);
    assert_eq!(free(&mut fenced), [1]);
    let mut sent = queue(&[put, (OperationKind::Put, PLAIN.1.fenced())]);
    step(&mut sent, 0);
    assert_eq!(free(&mut sent), [0], "a fence waits for the sending of a put");
    step(&mut sent, 0);
    assert_eq!(free(&mut sent), [0, 1], "and not for its placement");
}

/// RDMA-TSO'24 Fig. 17 (GFP2): the data of an inlined put are not read, so nothing flushes the result.
#[test]
fn a_fenced_put_with_inlined_data_may_overtake_the_landing_of_a_result() {
    let mut fenced = queue(&[PLAIN]);
    let put = PostedOperation::new(OperationKind::Put, PLAIN.1.fenced()).inline(&[1; 8]);
    fenced.post(put, at_once()).unwrap();
    step(&mut fenced, 0);
    assert_eq!(free(&mut fenced), [0]);
    step(&mut fenced, 0);
    assert_eq!(free(&mut fenced), [0, 1]);
}

#[test]
fn a_put_completes_when_it_is_sent_off_and_before_it_is_placed() {
    let mut queue = queue(&[(OperationKind::Put, PLAIN.1), (OperationKind::Flush, PLAIN.1)]);
    let mut completions = Vec::new();
    step(&mut queue, 0);
    queue.complete(&mut completions);
    assert_eq!(completions.len(), 0, "its source was read, no more");
    step(&mut queue, 0);
    queue.complete(&mut completions);
    assert_eq!(completions.len(), 1);
    assert_eq!(free(&mut queue), [0], "a flush waits for the placement");
}

#[test]
fn completions_come_in_order() {
    let mut queue = queue(&[PLAIN, (OperationKind::Put, PLAIN.1)]);
    for _ in 0..3 {
        step(&mut queue, 1);
    }
    let mut completions = Vec::new();
    queue.complete(&mut completions);
    assert!(
        completions.is_empty(),
        "the put is done, the get before it is not"
    );
}

#[test]
fn a_discipline_without_a_cell_frees_that_stage_alone() {
    let mut loose = queue(&[
        (OperationKind::Put, PLAIN.1),
        PLAIN,
        (OperationKind::Flush, PLAIN.1),
    ]);
    step(&mut loose, 0);
    assert_eq!(free(&mut loose), [0], "the get waits for the placement (G8)");
    loose.take_on(Discipline::ibta().with(Stage::RemoteWrite, Stage::RemoteRead, false));
    assert_eq!(free(&mut loose), [0, 1], "the flush still waits");
    step(&mut loose, 1);
    assert_eq!(free(&mut loose), [0], "the result waits for the placement (G9)");
    step(&mut loose, 0);
    let mut sent = queue(&[(OperationKind::Put, PLAIN.1), PLAIN]);
    sent.take_on(Discipline::ibta().with(Stage::RemoteWrite, Stage::RemoteRead, false));
    step(&mut sent, 0);
    step(&mut sent, 0);
    assert_eq!(
        free(&mut sent),
        [0],
        "a read places what was sent off (the PCIe flush)"
    );
    sent.take_on(Discipline::without_pcie());
    assert_eq!(free(&mut sent), [0, 1], "without the guarantee it does not");
}

const PUT: (OperationKind, Work) = (OperationKind::Put, PLAIN.1);

fn on(tier: Tier, works: &[(OperationKind, Work)]) -> SendQueue {
    let mut queue = queue(works);
    queue.take_on(Discipline::of(tier));
    queue
}

#[test]
fn puts_are_sent_in_any_order_and_the_bus_keeps_theirs() {
    let mut queue = on(Tier::OooRw, &[PUT, PUT]);
    assert_eq!(free(&mut queue), [0], "sources are read in order");
    step(&mut queue, 0);
    step(&mut queue, 1);
    assert_eq!(free(&mut queue), [0, 1]);
    step(&mut queue, 1);
    step(&mut queue, 0);
    assert_eq!(free(&mut queue), [1], "what was sent first is placed first");
}

#[test]
fn a_strong_put_waits_for_the_placement_of_earlier_ones_and_others_do_not_wait_for_it() {
    for tier in [Tier::OooRw, Tier::OooAll, Tier::PcieRelaxed, Tier::Unordered] {
        let mut queue = on(tier, &[PUT, (OperationKind::Put, PLAIN.1.strong()), PUT]);
        // Their sources are read.
        (0..3).for_each(|index| step(&mut queue, index));
        let may = free(&mut queue);
        assert!(may.contains(&0) && !may.contains(&1), "{tier}: {may:?}");
        step(&mut queue, 0); // It is sent.
        step(&mut queue, 1);
        assert!(
            !free(&mut queue).contains(&1),
            "{tier}: the first put is not placed"
        );
        step(&mut queue, 0);
        assert!(free(&mut queue).contains(&1), "{tier}");
    }
}

#[test]
fn atomics_wait_for_earlier_puts_on_one_tier_and_where_the_network_keeps_its_order() {
    let atomic = (OperationKind::FetchAdd { add: 1 }, PLAIN.1);
    for (tier, waits) in [
        (Tier::Ibta, true),
        (Tier::OooRw, true),
        (Tier::OooAll, false),
        (Tier::PcieRelaxed, true),
        (Tier::Unordered, false),
    ] {
        let mut queue = on(tier, &[PUT, atomic]);
        step(&mut queue, 0); // Its source is read.
        assert_eq!(free(&mut queue).contains(&1), !waits, "{tier}");
    }
}

#[test]
fn a_fence_waits_for_results_on_every_tier_and_for_puts_on_few() {
    for tier in Tier::ALL {
        let fenced = (OperationKind::Put, PLAIN.1.fenced());
        assert!(!free(&mut on(tier, &[PLAIN, fenced])).contains(&1), "{tier}");
        let mut queue = on(tier, &[PUT, fenced]);
        step(&mut queue, 0); // Its source is read.
        let waits = matches!(tier, Tier::Ibta | Tier::PcieRelaxed);
        assert_eq!(free(&mut queue).contains(&1), !waits, "{tier}");
    }
}
