//! Measures how long it takes to make and drop channels, and what memory they take, on nodes that are threads of this
//! process, over shared memory. `docs/evidence/performance.md` has the figures.
//!
//! ```text
//! cargo bench -p loco-rdma --bench set_up -- barriers NODES COUNT
//! cargo bench -p loco-rdma --bench set_up -- regions NODES COUNT
//! cargo bench -p loco-rdma --bench set_up -- store NODES SLOTS
//! ```
//!
//! Each node makes COUNT objects (or one store with SLOTS slots a node), waits until they are ready, meets the others,
//! and drops them. Without arguments it measures 100 barriers on 2, 4 and 8 nodes.

use std::time::{Duration, Instant};

use loco::{Barrier, Config, KvConfig, KvStore, Manager, Result, SharedRegion, testing};

/// The time that the slowest node took.
#[derive(Default)]
struct Took {
    made: Duration,
    dropped: Duration,
    /// The growth of the process's memory from before the objects to when all were made.
    kib: u64,
}

fn main() {
    // Cargo adds `--bench`.
    let args: Vec<String> = std::env::args().skip(1).filter(|arg| arg != "--bench").collect();
    if args.is_empty() {
        [2, 4, 8]
            .into_iter()
            .for_each(|nodes| run("barriers", nodes, 100));
        return;
    }
    let number = |i: usize| args.get(i).and_then(|arg| arg.parse::<usize>().ok());
    let (Some(what @ ("barriers" | "regions" | "store")), Some(nodes), Some(count)) =
        (args.first().map(String::as_str), number(1), number(2))
    else {
        eprintln!("usage: set_up barriers|regions|store NODES COUNT");
        std::process::exit(2);
    };
    run(what, nodes, count);
}

/// Measures, and prints the figures.
fn run(what: &str, nodes: usize, count: usize) {
    let took = testing::run(nodes, |fabric| {
        let config = Config::default().deadline(Duration::from_secs(300));
        let manager = Manager::with_config(fabric, config)?;
        match what {
            "barriers" => measure(&manager, |i| Barrier::new(&manager, &format!("b{i}")), count),
            "regions" => measure(
                &manager,
                |i| SharedRegion::new(&manager, &format!("r{i}"), 8),
                count,
            ),
            _ => {
                let config = KvConfig::default().slots_per_node(u32::try_from(count).unwrap_or(u32::MAX));
                let store = |_| KvStore::<u64, u64>::new(&manager, "kv", config.clone());
                measure(&manager, store, 1)
            }
        }
    });
    let slowest = took.into_iter().fold(Took::default(), |one, other| Took {
        made: one.made.max(other.made),
        dropped: one.dropped.max(other.dropped),
        kib: one.kib.max(other.kib),
    });
    println!(
        "{what}, {nodes} nodes, {count}: made in {:.1} ms, dropped in {:.1} ms, {} KiB in all",
        slowest.made.as_secs_f64() * 1e3,
        slowest.dropped.as_secs_f64() * 1e3,
        slowest.kib
    );
}

/// Makes `count` objects on this node while the others do.
fn measure<T>(manager: &Manager, make: impl Fn(usize) -> Result<T>, count: usize) -> Result<Took> {
    let meeting = Barrier::new(manager, "meeting")?;
    manager.wait_for_ready()?;
    let thread = manager.thread()?;
    meeting.wait(&thread)?;
    let before = resident_kib();
    meeting.wait(&thread)?;
    let start = Instant::now();
    let objects = (0..count).map(make).collect::<Result<Vec<T>>>()?;
    manager.wait_for_ready()?;
    let made = start.elapsed();
    meeting.wait(&thread)?;
    let kib = resident_kib().saturating_sub(before);
    meeting.wait(&thread)?;
    let start = Instant::now();
    drop(objects);
    while manager.quarantined_channels() > 0 {
        std::thread::sleep(Duration::from_micros(100));
    }
    let dropped = start.elapsed();
    meeting.wait(&thread)?;
    Ok(Took { made, dropped, kib })
}

/// Returns the memory that this process has in use.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
