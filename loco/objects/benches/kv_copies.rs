//! Measures what copies cost: lookups and updates of stores of one and of two copies of each value, in turns, over shared memory.
//!
//! Three nodes are threads of this process, on its fabric for tests. One of them calls; the keys are spread over all, and are drawn in an order
//! without a pattern. `docs/evidence/loss.md` has figures.
//!
//!     cargo bench -p loco-rdma --features testing --bench kv_copies

use std::hint::black_box;
use std::time::Instant;

use loco::{Inserted, KvConfig, KvStore, Manager, Result, Thread, testing};

const NODES: usize = 3;
/// The keys that each node inserts.
const KEYS: u64 = 10_000;
/// The calls of a round, and the number of rounds.
const CALLS: u64 = 50_000;
const ROUNDS: usize = 21;
/// An odd number without a pattern: multiples of it are in no order.
const SPREAD: u64 = 0xf135_7aea_2e62_a9c5;

/// The stores of one node, and its thread.
struct Node {
    thread: Thread,
    one: KvStore<u64, u64>,
    two: KvStore<u64, u64>,
}

fn nodes() -> Vec<Node> {
    testing::run(NODES, |fabric| {
        let manager = Manager::new(fabric)?;
        let config = KvConfig::default().slots_per_node(KEYS as u32);
        let one = KvStore::new(&manager, "one", config.clone())?;
        let two = KvStore::new(&manager, "two", config.copies(2))?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let first = u64::from(manager.node().0) * KEYS;
        for key in first..first + KEYS {
            for store in [&one, &two] {
                assert_eq!(store.insert(&thread, &key, &key)?, Inserted::Done);
            }
        }
        Ok(Node { thread, one, two })
    })
}

/// Returns the nanoseconds of a call.
fn time<T>(round: usize, call: impl Fn(u64) -> Result<T>) -> Result<f64> {
    let begin = Instant::now();
    for number in 0..CALLS {
        let key = (number + round as u64 * CALLS).wrapping_mul(SPREAD) % (NODES as u64 * KEYS);
        black_box(call(key)?);
    }
    Ok(begin.elapsed().as_nanos() as f64 / CALLS as f64)
}

fn median(times: &mut [f64]) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

fn main() -> Result<()> {
    let nodes = nodes();
    let Node { thread, one, two } = &nodes[0];
    let mut times: [Vec<f64>; 4] = Default::default();
    for round in 0..ROUNDS {
        // Each store comes first in every other round: what the call before has left in the caches must not favour one of them.
        let mut stores = [(0, one), (1, two)];
        stores.rotate_left(round % 2);
        for (which, store) in stores {
            times[which].push(time(round, |key| store.get(thread, &key))?);
        }
        for (which, store) in stores {
            times[2 + which].push(time(round, |key| store.update(thread, &key, &(round as u64)))?);
        }
    }
    let [gets_one, gets_two, updates_one, updates_two] = times.map(|mut times| median(&mut times));
    println!("call     one copy  two copies  ratio");
    for (call, one, two) in [
        ("lookup", gets_one, gets_two),
        ("update", updates_one, updates_two),
    ] {
        println!("{call}  {one:>8.0} ns  {two:>7.0} ns  {:>5.2}", two / one);
    }
    Ok(())
}
