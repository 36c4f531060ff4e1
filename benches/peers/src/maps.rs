//! Concurrent maps inside one process: what a store could do if its clients shared an address space.

use std::sync::Barrier;
use std::time::Instant;

use clap::ValueEnum;

/// A crate with a concurrent map.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Map {
    /// `dashmap`, which locks a shard.
    Dashmap,
    /// `papaya`, whose lookups lock nothing.
    Papaya,
}

/// Keys in the map: as many as `loco bench kv` fills by default.
pub const KEYS: u64 = 500_000;
const THREADS: u64 = 2;

/// Returns operations a second of two threads together. Half of them are updates if `mixed`.
///
/// # Panics
/// If a lookup finds another value than was put there.
pub fn rate(map: Map, iterations: u64, mixed: bool) -> f64 {
    match map {
        Map::Dashmap => {
            let map = dashmap::DashMap::new();
            for key in 0..KEYS {
                map.insert(key, key * 3);
            }
            let get = |key: u64| map.get(&key).map(|value| *value);
            run(iterations, mixed, get, |key| {
                let _ = map.insert(key, key * 3);
            })
        }
        Map::Papaya => {
            let map = papaya::HashMap::new();
            for key in 0..KEYS {
                map.pin().insert(key, key * 3);
            }
            let get = |key: u64| map.pin().get(&key).copied();
            run(iterations, mixed, get, |key| {
                let _ = map.pin().insert(key, key * 3);
            })
        }
    }
}

fn run(
    iterations: u64,
    mixed: bool,
    get: impl Fn(u64) -> Option<u64> + Sync,
    put: impl Fn(u64) + Sync,
) -> f64 {
    let (line, each) = (Barrier::new(THREADS as usize), iterations / THREADS);
    let work = |seed: u64| {
        let mut random = seed;
        line.wait();
        let begin = Instant::now();
        for i in 0..each {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let key = random % KEYS;
            if mixed && i % 2 == 0 {
                put(key);
            } else {
                assert_eq!(get(key), Some(key * 3));
            }
        }
        each as f64 / begin.elapsed().as_secs_f64()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| work(88_172_645_463_325_252));
        work(1_442_695_040_888_963_407) + other.join().expect("the other thread")
    })
}
