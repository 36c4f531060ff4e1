//! Clients a second: outcomes under specifications, refinement and local soundness of the papers' implementations.

use std::sync::atomic::AtomicU64;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use mowgli::outcome::Budget;
use mowgli_libraries::client::{Setting, parse};
use mowgli_libraries::enumerate::count;
use mowgli_libraries::implementations::list;
use mowgli_libraries::judge::{ITERATIONS_MAX, outcomes_under};
use mowgli_libraries::local::LocalSoundness;
use mowgli_libraries::over_clients::over_clients;
use mowgli_libraries::refine::Refinement;

fn outcomes(c: &mut Criterion) {
    let mut group = c.benchmark_group("outcomes");
    for name in ["LOCO-4-right", "LOCO-9c", "LOCO-23"] {
        let text = mowgli_libraries::catalogue::find(name).expect("it is built in");
        let client = parse(text).expect("it is a client").client;
        group.bench_function(name, |b| {
            b.iter(|| outcomes_under(&client, Setting::Spec, Budget::default()));
        });
    }
    group.finish();
}

fn refinement(c: &mut Criterion) {
    let mut group = c.benchmark_group("refine");
    group.sample_size(10);
    for name in ["I_W", "I_SV", "I_BAL", "I_RBL", "I_MSW"] {
        let named = list::by_name(name).expect("it is listed");
        let (implementation, specification) =
            (named.implemented(ITERATIONS_MAX), named.specified(ITERATIONS_MAX));
        let refinement = Refinement {
            implementation: &implementation,
            specification: &specification,
        };
        let bounds = named.bounds(3);
        group.throughput(Throughput::Elements(count(&bounds)));
        group.bench_function(name, |b| {
            b.iter(|| over_clients(&refinement, &bounds, Budget::default(), &AtomicU64::new(0)));
        });
    }
    group.finish();
}

fn local_soundness(c: &mut Criterion) {
    let mut group = c.benchmark_group("local");
    group.sample_size(10);
    for name in ["I_SV", "I_BAL", "I_RBL"] {
        let named = list::by_name(name).expect("it is listed");
        let rules = named.implemented(ITERATIONS_MAX);
        let local = LocalSoundness {
            implementation: named.implementation,
            specification: rules
                .libraries
                .get(named.implementation.library())
                .expect("it is specified"),
            rules: &rules,
            executions_max: 20_000,
        };
        let bounds = named.local_bounds(2);
        group.throughput(Throughput::Elements(count(&bounds)));
        group.bench_function(name, |b| {
            b.iter(|| over_clients(&local, &bounds, Budget::default(), &AtomicU64::new(0)));
        });
    }
    group.finish();
}

criterion_group!(benches, outcomes, refinement, local_soundness);
criterion_main!(benches);
