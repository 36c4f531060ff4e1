//! Measures the time per operation in the verbs fabric's own code, over a device that completes everything at
//! once and moves nothing. `device` is the cost of that device itself, called by hand as `ibv_post_send` and
//! `ibv_poll_cq` would be. The difference is the cost of the fabric.
#![allow(clippy::unwrap_used, missing_docs)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use loco_fabric::{Fabric, Local, MemoryKind, QueuePair, Target, Work, WorkRequestId};
use loco_job::Mesh;
use loco_test_networks::altered::{AlteredDevice, Limits, NullLoop};
use loco_verbs::{VerbsConfig, VerbsFabric};

/// The number of operations between two polls.
const WINDOW: u64 = 64;

fn null(c: &mut Criterion) {
    let device = AlteredDevice::new(Limits {
        null: true,
        ..Limits::default()
    });
    let config = VerbsConfig::default()
        .provider(device.provider())
        .arena_bytes(1 << 20);
    let fabric = VerbsFabric::new(Mesh::in_process(1).unwrap().remove(0), config).unwrap();
    let memory = fabric.allocate(4096, MemoryKind::Host).unwrap();
    let remote = fabric.import(fabric.node(), &fabric.export(&memory)).unwrap();
    let mut qp = fabric.queue_pair(fabric.node()).unwrap();
    let mut completions = Vec::with_capacity(WINDOW as usize);
    let local = |len| Local {
        memory: &memory,
        offset: 0,
        len,
    };
    let target = || Target {
        remote: &remote,
        offset: 1024,
    };

    let mut group = c.benchmark_group("verbs null");
    group.throughput(Throughput::Elements(WINDOW));
    let mut by_hand = NullLoop::new();
    group.bench_function("device", |b| b.iter(|| by_hand.post_and_poll(WINDOW)));
    macro_rules! operation {
        ($name:expr, $work:expr, |$qp:ident, $w:ident| $post:expr) => {
            group.bench_function($name, |b| {
                b.iter(|| {
                    let mut awaited = 0;
                    for id in 0..WINDOW {
                        let $qp = &mut qp;
                        let make: fn(u64) -> Work = $work;
                        let $w = make(id);
                        awaited += usize::from($w.signaled);
                        let _ = $post.unwrap();
                    }
                    while completions.len() < awaited {
                        fabric.poll(&mut completions).unwrap();
                    }
                    completions.clear();
                });
            });
        };
    }
    fn signaled(id: u64) -> Work {
        Work::signaled(WorkRequestId(id))
    }
    /// Signals only the last operation of each window.
    fn selective(id: u64) -> Work {
        Work {
            signaled: id + 1 == WINDOW,
            ..signaled(id)
        }
    }
    /// Rings one doorbell for the window.
    fn chained(id: u64) -> Work {
        Work {
            more: id + 1 < WINDOW,
            ..selective(id)
        }
    }
    operation!("put", signaled, |qp, work| qp.put(local(8), target(), work));
    operation!("put, selective signals", selective, |qp, work| qp.put(
        local(8),
        target(),
        work
    ));
    operation!("put, one doorbell", chained, |qp, work| qp.put(
        local(8),
        target(),
        work
    ));
    operation!("put inline", signaled, |qp, work| qp.put_inline(
        &[1; 8],
        target(),
        work
    ));
    operation!("get", signaled, |qp, work| qp.get(local(8), target(), work));
    operation!("fetch and add", signaled, |qp, work| qp.fetch_add(
        target(),
        1,
        local(8),
        work
    ));
    operation!("flush", signaled, |qp, work| qp.flush(work));
    group.finish();
}

criterion_group!(benches, null);
criterion_main!(benches);
