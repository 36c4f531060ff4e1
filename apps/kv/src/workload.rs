//! Puts a store under load: every node's threads look up and update keys, and check the values. Relies on the store;
//! used by the `kv` command.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use loco::fabric::{Fabric, Lock as _, Platform, Task as _, ThreadKind};
use loco::{Inserted, KvConfig, KvStore, Manager, Thread};
use loco_app::{Latencies, Phase, Share, Stop, Tally, Team, counted};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde::Serialize;

use crate::pick::{Distribution, Mix, draw, key};
use crate::window::{Window, check};
use crate::{KvError, Result};

/// The number of keys that are drawn before the time starts and then used over and over.
const PICKS: usize = 1 << 18;
/// The number of keys that a thread inserts at a time.
const PIECE: usize = 4096;
/// The number of batches between two looks at the clock.
const BATCHES_AT_ONCE: usize = 16;
/// The number of waits for an operation between two looks at the clock.
const WAITS_AT_ONCE: usize = 16;
/// The most lookups of each thread that are timed one by one.
const TIMED: u64 = 10_000;

/// The workload to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Threads of each node.
    pub threads: u16,
    /// Operations of a thread under way at a time.
    pub window: usize,
    /// Keys in the store.
    pub keys: u32,
    /// The probabilities of the keys.
    pub distribution: Distribution,
    /// The mix of lookups and updates.
    pub mix: Mix,
    /// The duration of the run.
    pub duration: Duration,
    /// The number of operations of each thread after which the run ends, if that comes first.
    pub ops: Option<u64>,
    /// Locks of the store.
    pub locks: u32,
    /// Seed of all choices.
    pub seed: u64,
    /// The snapshot from which the keys come, instead of being inserted one by one.
    pub restore: Option<PathBuf>,
    /// The file for a snapshot, which the lowest node takes while the load runs.
    pub snapshot: Option<PathBuf>,
}

/// The result of all nodes together. Latencies are those of single lookups on the lowest node.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Nodes.
    pub nodes: usize,
    /// Threads of each node.
    pub threads: u16,
    /// Operations of a thread under way at a time.
    pub window: usize,
    /// Keys in the store.
    pub keys: u32,
    /// The probabilities of the keys.
    pub distribution: Distribution,
    /// The mix of lookups and updates.
    pub mix: Mix,
    /// Lookups done.
    pub reads: u64,
    /// Updates done.
    pub writes: u64,
    /// Lookups and updates, a second.
    pub operations_per_second: f64,
    /// The latency that half of the lookups did not exceed.
    pub latency_ns_p50: u64,
    /// The latency that 99 of 100 lookups did not exceed.
    pub latency_ns_p99: u64,
    /// The snapshot that was taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Taken>,
}

/// A snapshot that was taken under load.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Taken {
    /// Keys in it.
    pub keys: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// The time from the call to the file on the disk, in seconds.
    pub seconds: f64,
}

/// The work of one thread.
#[derive(Default)]
struct Count {
    tally: Tally,
    latencies: Latencies,
    snapshot: Option<Taken>,
}

/// Runs the plan on this node, together with all others. Ends early once any node is asked to `stop`. Only
/// the lowest node gets the outcome.
///
/// # Errors
/// Returns `Usage`, `Wrong` if a lookup finds a value that nobody wrote, and the errors of the store.
pub fn run<F: Fabric>(fabric: F, plan: &Plan, stop: &Stop) -> Result<Option<Outcome>> {
    if plan.keys == 0 || plan.window == 0 {
        return Err(KvError::Usage(
            "keys and window: give one at least of each".to_owned(),
        ));
    }
    let manager = Manager::new(fabric)?;
    let nodes = manager.nodes().len();
    let options = format!(
        "--keys {} --window {} --locks {}",
        plan.keys, plan.window, plan.locks
    );
    let team = Team::new(&manager, plan.threads, options)?;
    // The room is every node's share, and a quarter more.
    let config = KvConfig::default()
        .slots_per_node(plan.keys.div_ceil(nodes as u32).saturating_mul(5) / 4 + 1)
        .key_bytes_max(8)
        .locks(plan.locks);
    let store = Arc::new(KvStore::<u64, u64, F>::new(&manager, "kv", config)?);
    loco_app::wait_for_ready(&manager)?;
    let own_keys = u64::from(plan.keys).div_ceil(nodes as u64);
    let filling = match plan.restore {
        None => Phase::new("kv: inserting the keys", own_keys, team.leads()),
        Some(_) => Phase::new("kv: restoring the keys", own_keys, team.leads()),
    };
    let timed = u64::from(plan.threads) * TIMED.min(plan.ops.unwrap_or(u64::MAX));
    let timing = Phase::new("kv: timing single lookups", timed, team.leads());
    let (filled, served, snapped) = (store.clone(), store, manager.clone());
    let (first, of) = (plan.clone(), plan.clone());
    let mine = team.run(
        stop,
        move |thread, share| match &first.restore {
            None => fill(thread, &filled, first.keys, share, &filling),
            Some(path) => restore(thread, &filled, path, first.keys, share, &filling),
        },
        move |thread, share, stopped| {
            let taking = match &of.snapshot {
                Some(path) if share.index == 0 => Some(Taking::start(&snapped, &served, path)?),
                _ => None,
            };
            let count = serve(thread, &served, &of, share, stopped, &timing);
            let snapshot = taking.map(Taking::end).transpose()?;
            Ok(Count { snapshot, ..count? })
        },
    )?;
    let thread = manager.thread()?;
    // Every node keeps its store until here.
    let Some(all) = team.add_up(&thread, mine.iter().map(|count: &Count| count.tally))? else {
        return Ok(None);
    };
    let mut latencies = Latencies::new();
    for count in &mine {
        latencies.add(&count.latencies);
    }
    Ok(Some(Outcome {
        nodes,
        threads: plan.threads,
        window: plan.window,
        keys: plan.keys,
        distribution: plan.distribution,
        mix: plan.mix,
        reads: all.counts[0],
        writes: all.counts[1],
        operations_per_second: all.per_second,
        latency_ns_p50: latencies.at(0.5),
        latency_ns_p99: latencies.at(0.99),
        snapshot: mine.iter().find_map(|count| count.snapshot),
    }))
}

/// Restores the part of `share` of a snapshot, which has to have this number of `keys`.
fn restore<F: Fabric>(
    thread: &Thread<F>,
    store: &KvStore<u64, u64, F>,
    path: &Path,
    keys: u32,
    share: Share,
    phase: &Phase,
) -> Result<()> {
    let restored = store.restore_part(thread, path, share.index, share.of)?;
    if restored.keys != u64::from(keys) {
        return Err(KvError::Usage(format!(
            "`{}` has {}: give --keys {}, so that the load uses them",
            path.display(),
            counted(restored.keys, "key"),
            restored.keys
        )));
    }
    phase.add(restored.inserted + restored.updated);
    Ok(())
}

/// A snapshot that another thread takes.
struct Taking<F: Fabric> {
    task: <F::Platform as Platform>::Task,
    taken: Arc<<F::Platform as Platform>::Mutex<Option<Result<Taken>>>>,
}

impl<F: Fabric> Taking<F> {
    fn start(manager: &Manager<F>, store: &Arc<KvStore<u64, u64, F>>, path: &Path) -> Result<Taking<F>> {
        let taken = Arc::new(<F::Platform as Platform>::Mutex::new(None));
        let (manager, store, path, filled) = (manager.clone(), store.clone(), path.to_owned(), taken.clone());
        let platform = manager.fabric().platform().clone();
        let task = platform.spawn("snapshot", ThreadKind::Worker, move || {
            let outcome = take(&manager, &store, &path);
            *filled.lock() = Some(outcome);
        })?;
        Ok(Taking { task, taken })
    }

    /// Waits for its end.
    fn end(self) -> Result<Taken> {
        self.task.join()?;
        let taken = self.taken.lock().take();
        taken.unwrap_or_else(|| {
            Err(KvError::Usage(
                "the snapshot's thread has left no result".to_owned(),
            ))
        })
    }
}

/// Takes a snapshot, and the time.
fn take<F: Fabric>(manager: &Manager<F>, store: &KvStore<u64, u64, F>, path: &Path) -> Result<Taken> {
    let thread = manager.thread()?;
    let begin = thread.now();
    let snapshot = store.snapshot(&thread, path)?;
    Ok(Taken {
        keys: snapshot.keys,
        bytes: snapshot.bytes,
        seconds: thread.now().since(begin).as_secs_f64(),
    })
}

/// Inserts the keys of `share`, and notes in `phase` how many are there. A value contains the low half of its key, so that
/// lookups can recognize it.
///
/// # Errors
/// Returns the errors of the store, and `Usage` if there is no room.
pub fn fill<F: Fabric>(
    thread: &Thread<F>,
    store: &KvStore<u64, u64, F>,
    keys: u32,
    share: Share,
    phase: &Phase,
) -> Result<()> {
    let mut keys = (0..keys).skip(share.index).step_by(share.of).map(key);
    loop {
        // Each piece has a deadline of its own.
        let piece: Vec<(u64, u64)> = keys
            .by_ref()
            .take(PIECE)
            .map(|key| (key, value(key, 0)))
            .collect();
        if piece.is_empty() {
            return Ok(());
        }
        for outcome in store.insert_many(thread, &piece)? {
            if outcome != Inserted::Done {
                return Err(KvError::Usage(format!("filling the store: {outcome:?}")));
            }
        }
        phase.add(piece.len() as u64);
    }
}

/// Returns a value of `key`: the low half of the key, below a version.
#[inline]
pub fn value(key: u64, version: u32) -> u64 {
    (u64::from(version) << 32) | (key & 0xffff_ffff)
}

/// Says whether the run is over.
type Over<'a> = dyn FnMut() -> Result<bool> + 'a;

/// Looks up and updates the keys of `picks`, a window at a time by calls on many keys: an operation is done when it is started. Returns the
/// numbers of lookups and updates.
fn in_batches<F: Fabric>(
    thread: &Thread<F>,
    store: &KvStore<u64, u64, F>,
    plan: &Plan,
    picks: &[u32],
    random: &mut SmallRng,
    over: &mut Over<'_>,
) -> Result<[u64; 2]> {
    let most = plan.ops.unwrap_or(u64::MAX);
    let mut batches = picks.chunks_exact(plan.window).cycle();
    let (mut done, mut version) = ([0, 0], 0_u32);
    let (mut reads, mut writes, mut values) = (Vec::new(), Vec::new(), Vec::new());
    while !over()? {
        for batch in batches.by_ref().take(BATCHES_AT_ONCE) {
            if done[0] + done[1] >= most {
                return Ok(done);
            }
            reads.clear();
            writes.clear();
            for &pick in batch {
                let key = key(pick);
                if plan.mix.write(random) {
                    version = version.wrapping_add(1);
                    writes.push((key, value(key, version)));
                } else {
                    reads.push(key);
                }
            }
            store.get_many_into(thread, &reads, &mut values)?;
            for (&key, &found) in reads.iter().zip(&values) {
                check(key, found)?;
            }
            if store.update_many(thread, &writes)? != writes.len() {
                return Err(KvError::Wrong {
                    key: writes[0].0,
                    found: None,
                });
            }
            done[0] += reads.len() as u64;
            done[1] += writes.len() as u64;
        }
    }
    Ok(done)
}

/// Looks up and updates the keys of `picks`, each operation started and completed by itself, with a window of them under way. Returns the
/// numbers of lookups and updates.
fn under_way<F: Fabric>(
    thread: &Thread<F>,
    store: &KvStore<u64, u64, F>,
    plan: &Plan,
    picks: &[u32],
    random: &mut SmallRng,
    over: &mut Over<'_>,
) -> Result<[u64; 2]> {
    let most = plan.ops.unwrap_or(u64::MAX);
    let mut keys = picks.iter().cycle().map(|&pick| key(pick));
    let mut window = Window::new(thread, store, plan.window);
    let (mut version, mut left) = (0_u32, most);
    // The clock is looked at now and then.
    for looks in 0_usize.. {
        if looks % WAITS_AT_ONCE == 0 && over()? {
            break;
        }
        while left > 0 && window.has_room() {
            let Some(key) = keys.next() else { break };
            left -= 1;
            if plan.mix.write(random) {
                version = version.wrapping_add(1);
                window.update(key, value(key, version))?;
            } else {
                window.lookup(key)?;
            }
        }
        if window.finish_some()? == 0 {
            break;
        }
    }
    window.finish()
}

/// Runs one thread's part of the workload, and then times single lookups.
fn serve<F: Fabric>(
    thread: &Thread<F>,
    store: &KvStore<u64, u64, F>,
    plan: &Plan,
    share: Share,
    stopped: &mut dyn FnMut() -> loco::Result<bool>,
    timing: &Phase,
) -> Result<Count> {
    let mut random = SmallRng::seed_from_u64(plan.seed.wrapping_add(share.index as u64));
    let most = plan.ops.unwrap_or(u64::MAX);
    let used = usize::try_from(most).unwrap_or(usize::MAX).min(PICKS);
    let picks = draw(plan.distribution, plan.keys, used.max(plan.window), &mut random)?;
    let begin = thread.now();
    let mut count = Count::default();
    let mut over = || Ok(thread.now().since(begin) >= plan.duration || stopped()?);
    let done = match thread.fabric().caps().synchronous {
        true => in_batches(thread, store, plan, &picks, &mut random, &mut over)?,
        false => under_way(thread, store, plan, &picks, &mut random, &mut over)?,
    };
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    let all = (done[0] + done[1]) as f64;
    count.tally = Tally {
        counts: done,
        per_second: all / thread.now().since(begin).as_secs_f64(),
    };
    let timed = usize::try_from(TIMED.min(most)).unwrap_or(usize::MAX);
    for &pick in picks.iter().take(timed) {
        let begin = thread.now();
        let found = store.get(thread, &key(pick))?;
        count.latencies.record(thread.now().since(begin));
        check(key(pick), found)?;
        timing.add(1);
    }
    Ok(count)
}
