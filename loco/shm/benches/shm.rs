//! Measures the synchronous shared-memory fabric: the cost of each operation, of copies against `memcpy`, and
//! the one-way latency of an 8-byte put against a plain store and load. Each measurement is between two
//! threads. (Two processes have the same memory and instructions; `tests/shm_processes.rs` has this ping-pong
//! between processes.)
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::{black_box, spin_loop};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use loco_fabric::{
    Fabric, Local, Memory, MemoryKind, Peers, Posted, QueuePair, Target, Wait, WordCell, Work,
};
use loco_job::Mesh;
use loco_shm::{ShmConfig, ShmFabric, ShmMemory, ShmRemote};

/// A word on cache lines of its own. Processors fetch lines in pairs.
#[repr(align(128))]
struct Apart(AtomicU64);

struct Pair {
    a: ShmFabric,
    b: ShmFabric,
}

fn pair(config: &ShmConfig) -> Pair {
    let mut meshes = Mesh::in_process(2).unwrap();
    let (for_b, for_a) = (meshes.pop().unwrap(), meshes.pop().unwrap());
    let other = config.clone();
    let b = std::thread::spawn(move || ShmFabric::new(for_b, other).unwrap());
    let a = ShmFabric::new(for_a, config.clone()).unwrap();
    Pair {
        a,
        b: b.join().unwrap(),
    }
}

fn share(owner: &ShmFabric, user: &ShmFabric, len: usize) -> (ShmMemory, ShmRemote) {
    let memory = owner.allocate(len, MemoryKind::Host).unwrap();
    let remote = user.import(owner.node(), &owner.export(&memory)).unwrap();
    (memory, remote)
}

fn local(memory: &ShmMemory, len: usize) -> Local<'_, ShmMemory> {
    Local {
        memory,
        offset: 0,
        len,
    }
}

fn target(remote: &ShmRemote, offset: usize) -> Target<'_, ShmRemote> {
    Target { remote, offset }
}

fn operations(c: &mut Criterion) {
    let Pair { a, b } = pair(&ShmConfig::default());
    let (_there, remote) = share(&b, &a, 4096);
    let here = a.allocate(4096, MemoryKind::Host).unwrap();
    let mut qp = a.queue_pair(b.node()).unwrap();
    let work = Work::unsignaled();
    let mut group = c.benchmark_group("operation");
    let cell = here.cell::<u64>(64).unwrap();
    group.bench_function("store", |bench| bench.iter(|| cell.store(black_box(1))));
    group.bench_function("put_inline 8", |bench| {
        bench.iter(|| {
            qp.put_inline(&black_box(1_u64).to_ne_bytes(), target(&remote, 0), work)
                .unwrap()
        })
    });
    group.bench_function("put 8", |bench| {
        bench.iter(|| qp.put(local(&here, 8), target(&remote, 0), work).unwrap())
    });
    group.bench_function("get 8", |bench| {
        bench.iter(|| qp.get(local(&here, 8), target(&remote, 0), work).unwrap())
    });
    group.bench_function("fetch_add", |bench| {
        bench.iter(|| {
            qp.fetch_add(target(&remote, 0), 1, local(&here, 8), work)
                .unwrap()
        })
    });
    group.bench_function("flush", |bench| bench.iter(|| qp.flush(work).unwrap()));
    group.bench_function("fence", |bench| bench.iter(|| a.cpu_fence()));
    group.finish();
}

fn copies(c: &mut Criterion) {
    let Pair { a, b } = pair(&ShmConfig::default());
    let mut group = c.benchmark_group("copy");
    for len in [64, 1024, 16 << 10, 1 << 20] {
        let (_there, remote) = share(&b, &a, len);
        let here = a.allocate(len, MemoryKind::Host).unwrap();
        let mut qp = a.queue_pair(b.node()).unwrap();
        let (from, mut to) = (vec![1_u8; len], vec![0_u8; len]);
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::new("put", len), |bench| {
            bench.iter(|| {
                qp.put(local(&here, len), target(&remote, 0), Work::unsignaled())
                    .unwrap()
            })
        });
        group.bench_function(BenchmarkId::new("memcpy", len), |bench| {
            bench.iter(|| black_box(&mut to).copy_from_slice(black_box(&from)))
        });
    }
    group.finish();
}

/// Answers each number with the number itself until told to stop. The caller measures round trips.
fn ping_pong(rounds: u64, send: &mut dyn FnMut(u64), receive: &dyn Fn() -> u64) -> std::time::Duration {
    let start = Instant::now();
    for round in 1..=rounds {
        send(round);
        while receive() != round {
            spin_loop();
        }
    }
    start.elapsed()
}

fn latency(c: &mut Criterion) {
    let mut group = c.benchmark_group("round trip");
    group.bench_function("plain store", |bench| {
        bench.iter_custom(|rounds| {
            let words = Arc::new([const { Apart(AtomicU64::new(0)) }; 2]);
            let stop = Arc::new(AtomicBool::new(false));
            let (its, its_stop) = (Arc::clone(&words), Arc::clone(&stop));
            let echo = std::thread::spawn(move || {
                while !its_stop.load(Ordering::Relaxed) {
                    its[1]
                        .0
                        .store(its[0].0.load(Ordering::Acquire), Ordering::Release);
                    spin_loop();
                }
            });
            let took = ping_pong(rounds, &mut |n| words[0].0.store(n, Ordering::Release), &|| {
                words[1].0.load(Ordering::Acquire)
            });
            stop.store(true, Ordering::Relaxed);
            echo.join().unwrap();
            took
        })
    });
    for inline in [true, false] {
        let name = if inline { "put_inline 8" } else { "put 8" };
        group.bench_function(name, |bench| {
            bench.iter_custom(|rounds| put_ping_pong(rounds, inline))
        });
    }
    group.bench_function("put_inline 8, wait", |bench| bench.iter_custom(waiting_ping_pong));
    group.finish();
}

fn put_ping_pong(rounds: u64, inline: bool) -> std::time::Duration {
    let Pair { a, b } = pair(&ShmConfig::default());
    let (at_a, of_a) = share(&a, &b, 64);
    let (at_b, of_b) = share(&b, &a, 64);
    let stop = Arc::new(AtomicBool::new(false));
    let sender = |fabric: &ShmFabric, remote: ShmRemote, peer| {
        let mut qp = fabric.queue_pair(peer).unwrap();
        let source = fabric.allocate(64, MemoryKind::Host).unwrap();
        let cell = source.cell::<u64>(0).unwrap();
        move |n: u64| {
            let to = target(&remote, 0);
            let posted = if inline {
                qp.put_inline(&n.to_ne_bytes(), to, Work::unsignaled())
            } else {
                cell.store(n);
                qp.put(local(&source, 8), to, Work::unsignaled())
            };
            assert_eq!(posted, Ok(Posted::Done));
        }
    };
    let mut answer = sender(&b, of_a, a.node());
    let mut ask = sender(&a, of_b, b.node());
    let its_stop = Arc::clone(&stop);
    let echo = std::thread::spawn(move || {
        let asked = at_b.cell::<u64>(0).unwrap();
        let mut last = 0;
        while !its_stop.load(Ordering::Relaxed) {
            let next = asked.load();
            if next != last {
                answer(next);
                last = next;
            }
            spin_loop();
        }
    });
    let answered = at_a.cell::<u64>(0).unwrap();
    let took = ping_pong(rounds, &mut ask, &|| answered.load());
    stop.store(true, Ordering::Relaxed);
    echo.join().unwrap();
    took
}

/// Measures a ping-pong whose sides wait by [`Fabric::wait`], as objects do.
fn waiting_ping_pong(rounds: u64) -> std::time::Duration {
    let Pair { a, b } = pair(&ShmConfig::default());
    let (at_a, of_a) = share(&a, &b, 64);
    let (at_b, of_b) = share(&b, &a, 64);
    let play = move |own: &ShmFabric, other: &ShmFabric, at: &ShmMemory, to: &ShmRemote, starts: bool| {
        let cell = at.cell::<u64>(0).unwrap();
        let mut qp = own.queue_pair(other.node()).unwrap();
        let peers = Peers::One(other.node());
        for round in 1..=rounds {
            let mut put = || {
                qp.put_inline(&round.to_ne_bytes(), target(to, 0), Work::unsignaled())
                    .unwrap()
            };
            if starts {
                let _done = put();
            }
            let wait = Wait {
                what: "ping-pong",
                peers,
                deadline: None,
            };
            own.wait(wait, || (cell.load() == round).then_some(())).unwrap();
            if !starts {
                let _done = put();
            }
        }
    };
    std::thread::scope(|scope| {
        scope.spawn(|| play(&b, &a, &at_b, &of_a, false));
        let start = Instant::now();
        play(&a, &b, &at_a, &of_b, true);
        start.elapsed()
    })
}

criterion_group!(benches, operations, copies, latency);
criterion_main!(benches);
