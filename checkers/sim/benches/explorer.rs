//! Measures the speed of the explorer on the barrier of two nodes: moves a second of one explorer, executions
//! a second of random schedules, and the number of moves of a complete exploration.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use loco::{Barrier, Manager, SharedVar};
use loco_sim::{Config, ModelFabric, Report, Strategy, World, explore};

struct Site {
    manager: Manager<ModelFabric>,
    flags: Vec<SharedVar<u64, ModelFabric>>,
    barrier: Barrier<ModelFabric>,
}

/// Returns the value of a call that must not fail: in the model an error is a finding, and this world must
/// have none.
fn must<T>(result: loco::Result<T>) -> T {
    result.unwrap_or_else(|error| panic!("{error}"))
}

/// Adds `rounds` rounds of the barrier, with a put before each round and a read after it.
fn barrier(world: &mut World, rounds: u64) {
    for me in 0..2 {
        let node = world.node(|fabric| {
            let manager = must(Manager::new(fabric));
            let flags = (0..2)
                .map(|i| must(SharedVar::new(&manager, &format!("flag{i}"))))
                .collect();
            let barrier = must(Barrier::new(&manager, "bar"));
            must(manager.wait_for_ready());
            Site {
                manager,
                flags,
                barrier,
            }
        });
        world.thread(&node, &format!("node{me}"), move |site: &Site| {
            let thread = must(site.manager.thread());
            for round in 1..=rounds {
                site.flags[me].write(round);
                must(site.flags[me].broadcast(&thread)).forget();
                must(site.barrier.wait(&thread));
                assert!(site.flags[1 - me].read() >= round);
            }
        });
    }
}

fn run(strategy: Strategy, rounds: u64) -> Report {
    let config = Config {
        strategy,
        workers: 1,
        ..Config::default()
    };
    explore(&config, |world| barrier(world, rounds)).unwrap_or_else(|error| panic!("{error}"))
}

fn benches(criterion: &mut Criterion) {
    const EXECUTIONS: u64 = 2_000;
    let random = Strategy::Random {
        executions: EXECUTIONS,
        seed: 1,
    };
    let moves = run(random, 1).stats.transitions;
    let mut group = criterion.benchmark_group("barrier of two nodes");
    group.throughput(Throughput::Elements(moves));
    group.bench_function("moves of random executions", |b| {
        b.iter_batched(|| (), |()| run(random, 1), BatchSize::PerIteration);
    });
    group.throughput(Throughput::Elements(EXECUTIONS));
    group.bench_function("random executions", |b| {
        b.iter_batched(|| (), |()| run(random, 1), BatchSize::PerIteration);
    });
    let complete = run(Strategy::Exhaustive, 2).stats;
    group.throughput(Throughput::Elements(complete.transitions));
    group.bench_function("moves of a complete exploration, two rounds", |b| {
        b.iter_batched(|| (), |()| run(Strategy::Exhaustive, 2), BatchSize::PerIteration);
    });
    group.finish();
}

criterion_group! {
    name = explorer;
    config = Criterion::default().sample_size(10);
    targets = benches
}
criterion_main!(explorer);
