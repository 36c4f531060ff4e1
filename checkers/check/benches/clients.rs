//! Clients a second on shipped objects: every client of a small size, completely, by one worker.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use loco_check::Object;
use loco_check::clients::{Campaign, Clients, Form};

fn clients(c: &mut Criterion) {
    let mut group = c.benchmark_group("clients");
    group.sample_size(10);
    for (object, size) in [
        (Object::SharedVar, "threads<=2,calls<=1"),
        (Object::OwnedVar, "threads<=2,calls<=1"),
        (Object::Barrier, "threads<=2,calls<=2"),
        (Object::RingBuffer, "threads<=2,calls<=1"),
    ] {
        let campaign = Campaign {
            clients: Clients::new(object, &size.parse().expect("a size")),
            random: None,
            forms: Form::of(object),
            tier: None,
            time: Duration::from_secs(600),
            states_each: 300_000,
            otherwise: None,
            workers: 1,
            progress: Arc::new(AtomicU64::new(0)),
            cancel: Arc::new(AtomicBool::new(false)),
        };
        let summary = campaign.run().expect("the clients can be explored");
        assert_eq!(summary.clients, summary.complete, "{object} {size}");
        group.throughput(Throughput::Elements(summary.clients));
        group.bench_function(object.name(), |b| b.iter(|| campaign.run()));
    }
    group.finish();
}

criterion_group!(benches, clients);
criterion_main!(benches);
