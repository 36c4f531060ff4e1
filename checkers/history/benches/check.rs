//! Measures the events (invocations and responses) that the checker checks in a second, with 10,000 operations of 8 threads on a
//! register and on a map of 1,000 keys that is partitioned by key. Measures also how long a violation takes to be found in a map
//! with 50 keys whose searches would take hours.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use loco_history::spec::*;
use loco_history::{History, Limits, Operation, Spec, ThreadId, Verdict, check};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const OPERATIONS: u64 = 10_000;
const THREADS: u64 = 8;
const KEYS: u16 = 1_000;

/// Thread `n % 8` makes call `n`, which takes effect at `16 n` and overlaps up to seven neighbours on each side.
fn history<C, R>(mut run: impl FnMut(&mut StdRng) -> (C, R)) -> History<C, R> {
    let mut rng = StdRng::seed_from_u64(1);
    let mut operation = |n: u64| {
        let (call, result) = run(&mut rng);
        let point = (n + THREADS) * 16;
        let (before, after) = (rng.random_range(1..THREADS * 8), rng.random_range(1..THREADS * 8));
        let thread = ThreadId {
            node: 0,
            thread: (n % THREADS) as u16,
        };
        Operation::new(thread, call, point - before, result, point + after)
    };
    History::from((0..OPERATIONS).map(&mut operation).collect::<Vec<_>>())
}

fn register() -> History<RegisterCall<u64>, RegisterRet<u64>> {
    let mut value = 0;
    history(move |rng| {
        if rng.random() {
            return (RegisterCall::Read, RegisterRet::Value(value));
        }
        value = rng.random();
        (RegisterCall::Write(value), RegisterRet::Written)
    })
}

fn map() -> History<KeyValueCall<u16, u64>, KeyValueRet<u64>> {
    let mut map = std::collections::HashMap::new();
    history(move |rng| {
        let (key, value) = (rng.random_range(0..KEYS), rng.random());
        let done = |changed| {
            if changed {
                KeyValueRet::Done
            } else {
                KeyValueRet::Missing
            }
        };
        match rng.random_range(0..5) {
            0 if map.contains_key(&key) => (KeyValueCall::Insert(key, value), KeyValueRet::Duplicate),
            0 => {
                map.insert(key, value);
                (KeyValueCall::Insert(key, value), KeyValueRet::Done)
            }
            1 => (
                KeyValueCall::Update(key, value),
                done(map.get_mut(&key).map(|slot| *slot = value).is_some()),
            ),
            2 => (KeyValueCall::Delete(key), done(map.remove(&key).is_some())),
            _ => (
                KeyValueCall::Get(key),
                map.get(&key)
                    .map_or(KeyValueRet::Missing, |&v| KeyValueRet::Found(v)),
            ),
        }
    })
}

/// Adds keys with forty concurrent updates and a get of a value that nobody wrote, and to one key of `map` a get of such a
/// value.
fn violated() -> History<KeyValueCall<u16, u64>, KeyValueRet<u64>> {
    let mut operations = map().operations;
    let thread = |thread| ThreadId { node: 1, thread };
    for key in KEYS..KEYS + 50 {
        let insert = KeyValueCall::Insert(key, 1);
        operations.push(Operation::new(thread(41), insert, 10, KeyValueRet::Done, 20));
        for value in 0..40 {
            let update = KeyValueCall::Update(key, value);
            operations.push(Operation::new(
                thread(value as u16),
                update,
                50,
                KeyValueRet::Done,
                100,
            ));
        }
        let get = KeyValueCall::Get(key);
        operations.push(Operation::new(thread(41), get, 50, KeyValueRet::Found(50), 100));
    }
    let late = 16 * (OPERATIONS + 4 * THREADS);
    let get = KeyValueCall::Get(0);
    operations.push(Operation::new(
        thread(41),
        get,
        late,
        KeyValueRet::Found(u64::MAX),
        late + 1,
    ));
    History::from(operations)
}

fn bench<S: Spec>(c: &mut Criterion, name: &str, spec: &S, history: &History<S::Call, S::Ret>) {
    let mut group = c.benchmark_group("check");
    group.throughput(Throughput::Elements(2 * OPERATIONS));
    group.bench_function(name, |b| {
        b.iter_batched(
            Limits::default,
            |limits| assert!(check(spec, history, &limits).is_ok()),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn benches(c: &mut Criterion) {
    bench(c, "register_10k", &Register::new(0), &register());
    bench(c, "map_10k_by_key", &KeyValue::new(), &map());
    let history = violated();
    c.bench_function("check/violation_among_hard_keys", |b| {
        b.iter(|| {
            let spec = KeyValue::new();
            let verdict = check(&spec, &history, &Limits::default()).verdict();
            assert_eq!(verdict, Verdict::Violation);
        });
    });
}

criterion_group!(all, benches);
criterion_main!(all);
