//! Measures locks, transfers, the queue and the key-value store. Each function is the work of one thread of
//! one node.

use std::hint::black_box;
use std::sync::{Mutex, PoisonError};

use loco::fabric::{Fabric, RemoteMemory};
use loco::fence::Scope;
use loco::{AtomicVar, KvConfig, KvStore, Manager, Popped, SharedQueue, SharedRegion, Thread, TicketLock};
use loco_app::{Latencies, Phase};
use loco_kv::pick::{draw, key};
use loco_kv::window::{Window, check};
use loco_kv::workload::{fill, value};
use loco_transfer::{Bank, BankConfig};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::measure::{Sample, latencies};
use super::site::{Bench, leads};
use super::workload::{Workload, rate_for, wrong};
use crate::error::CliError;

/// The number of operations that are timed one by one.
pub(super) const TIMED: u64 = 20_000;
/// The number of keys or accounts that are drawn before the time starts and then used over and over.
const PICKS: usize = 1 << 20;
/// The room in the queue for each thread.
const QUEUE_PER_THREAD: usize = 64;
/// The number of locks of a store. They are few enough to stay in a cache and enough for writers to meet
/// seldom.
const KV_LOCKS: u32 = 1024;

/// One lock, the word on the lowest node that it protects, and the value that the word must reach.
pub(super) struct Contended<F: Fabric> {
    lock: TicketLock<F>,
    word: SharedRegion<F>,
    total: AtomicVar<u64, F>,
    /// The share of this node's acquisitions that came after another thread's, weighted by the rates of its
    /// threads and summed.
    hand_overs: Mutex<f64>,
}

impl<F: Fabric> Contended<F> {
    pub(super) fn new(manager: &Manager<F>) -> Result<Self, CliError> {
        Ok(Contended {
            lock: TicketLock::new(manager, "lock", manager.nodes()[0])?,
            word: SharedRegion::new(manager, "word", 8)?,
            total: AtomicVar::new(manager, "total", manager.nodes()[0])?,
            hand_overs: Mutex::new(0.0),
        })
    }

    /// Reports how often the lock went from one thread to another while it was [measured](lock). This is a
    /// result of its own because a lock that stays with its holder looks fast.
    pub(super) fn hand_overs(&self) -> Result<Sample, CliError> {
        let mut here = self.hand_overs.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Sample {
            // The sum contains all of the node's threads. The first thread to come reports it.
            operations_per_second: std::mem::take(&mut *here),
            latencies: Latencies::new(),
            one_way_ns: None,
        })
    }
}

/// Measures a lock: all threads increment one word by reading and writing it, which only the lock makes
/// atomic.
pub(super) fn lock<F: Fabric>(
    bench: &Bench<'_, F>,
    _: usize,
    object: &Contended<F>,
) -> Result<Sample, CliError> {
    let thread = bench.manager.thread()?;
    let home = bench.manager.nodes()[0];
    let target = || object.word.target(home, 0);
    let (mut mine, mut last, mut from_others) = (0_u64, 0, 0_u64);
    let increment = || {
        let guard = object.lock.lock(&thread, Scope::Pair(home))?;
        // Fetch the word for writing at once. It would be fetched twice otherwise: to be read, and to be
        // written.
        target()?.remote.prefetch_write(0);
        let before = thread.read_word(target()?)?;
        from_others += u64::from(before != last);
        last = before + 1;
        let word = last.to_ne_bytes();
        thread.put_inline_untracked(&word, target()?)?;
        guard.release()?;
        mine += 1;
        Ok::<u64, CliError>(1)
    };
    let sample = timed(bench, &thread, increment)?;
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    let share = from_others as f64 / mine as f64;
    *object.hand_overs.lock().unwrap_or_else(PoisonError::into_inner) += share * sample.operations_per_second;
    object.total.fetch_add(&thread, mine)?;
    bench.meet(&thread)?;
    let found = thread.read_word(target()?)?;
    let expected = object.total.read(&thread)?;
    bench.meet(&thread)?;
    if found != expected {
        return Err(wrong(format!("{found} of {expected} increments under the lock")));
    }
    Ok(sample)
}

fn bank_config(workload: &Workload) -> BankConfig {
    BankConfig {
        accounts: workload.accounts as usize,
        locks: workload
            .locks
            .map_or(BankConfig::default().locks, |locks| locks as usize),
        ..BankConfig::default()
    }
}

/// The accounts, and what all threads have found in them at the end.
pub(super) struct Accounts<F: Fabric> {
    bank: Bank<F>,
    found: AtomicVar<i64, F>,
    filling: Phase,
    adding: Phase,
}

impl<F: Fabric> Accounts<F> {
    pub(super) fn new(manager: &Manager<F>, workload: &Workload) -> Result<Self, CliError> {
        let bank = Bank::new(manager, "bank", bank_config(workload))?;
        let leads = leads(manager);
        let phase = |what| Phase::new(what, bank.own_max(), leads);
        Ok(Accounts {
            found: AtomicVar::new(manager, "found", manager.nodes()[0])?,
            filling: phase("loco: paying into the accounts"),
            adding: phase("loco: adding up the accounts"),
            bank,
        })
    }
}

/// Measures transfers between two random accounts, each under two locks.
pub(super) fn transfer<F: Fabric>(
    bench: &Bench<'_, F>,
    index: usize,
    Accounts {
        bank,
        found,
        filling,
        adding,
    }: &Accounts<F>,
) -> Result<Sample, CliError> {
    let thread = bench.manager.thread()?;
    let share = bench.share(index);
    bank.fill(&thread, share, filling)?;
    bench.meet(&thread)?;
    let accounts = bank.config().accounts;
    let mut random = SmallRng::seed_from_u64(share.index as u64);
    let sample = timed(bench, &thread, || {
        let from = random.random_range(0..accounts);
        let to = (from + random.random_range(1..accounts)) % accounts;
        let _ = bank.transfer(&thread, from, to, random.random_range(1..=100))?;
        Ok::<u64, CliError>(1)
    })?;
    bench.meet(&thread)?;
    found.fetch_add(&thread, bank.total(&thread, share, adding)?)?;
    bench.meet(&thread)?;
    let (found, paid_in) = (found.read(&thread)?, bank.config().deposit * accounts as i64);
    bench.meet(&thread)?;
    if found != paid_in {
        return Err(wrong(format!("the accounts hold {found}, not {paid_in}")));
    }
    Ok(sample)
}

/// A queue, and the sum of the values pushed into it less those popped.
pub(super) struct Jobs<F: Fabric> {
    queue: SharedQueue<u64, F>,
    left: AtomicVar<u64, F>,
}

impl<F: Fabric> Jobs<F> {
    pub(super) fn new(manager: &Manager<F>, threads: u16) -> Result<Self, CliError> {
        let capacity = QUEUE_PER_THREAD * usize::from(threads) * manager.nodes().len();
        Ok(Jobs {
            queue: SharedQueue::new(manager, "queue", manager.nodes()[0], capacity)?,
            left: AtomicVar::new(manager, "left", manager.nodes()[0])?,
        })
    }
}

/// Measures the queue: every thread pushes a value and pops one.
pub(super) fn queue<F: Fabric>(
    bench: &Bench<'_, F>,
    index: usize,
    jobs: &Jobs<F>,
) -> Result<Sample, CliError> {
    let thread = bench.manager.thread()?;
    let share = bench.share(index).index as u64;
    let (mut pushed, mut popped) = (0_u64, 0_u64);
    let mut turn = 0;
    let sample = timed(bench, &thread, || {
        turn += 1;
        let value = (share << 48) | turn;
        let _ = jobs.queue.push(&thread, value)?;
        pushed = pushed.wrapping_add(value);
        // Each thread pops as often as it pushes, so there is a value for every pop.
        match jobs.queue.pop(&thread)? {
            Popped::Value(value) => popped = popped.wrapping_add(value),
            Popped::Empty | Popped::Closed => return Err(wrong("a pop without a value".to_owned())),
        }
        Ok::<u64, CliError>(2)
    })?;
    jobs.left.fetch_add(&thread, pushed.wrapping_sub(popped))?;
    bench.meet(&thread)?;
    let left = jobs.left.read(&thread)?;
    bench.meet(&thread)?;
    if left != 0 {
        return Err(wrong("what was popped is not what was pushed".to_owned()));
    }
    Ok(sample)
}

/// A store, and how far it is filled.
pub(super) struct Filled<F: Fabric> {
    store: KvStore<u64, u64, F>,
    filling: Phase,
}

impl<F: Fabric> Filled<F> {
    pub(super) fn new(manager: &Manager<F>, workload: &Workload) -> Result<Self, CliError> {
        let nodes = u32::try_from(manager.nodes().len()).unwrap_or(u32::MAX);
        let config = KvConfig::default()
            .slots_per_node(workload.key_space().div_ceil(nodes) + 1)
            .value_bytes_max(8)
            .key_bytes_max(8)
            .copies(usize::from(workload.copies))
            .locks(workload.locks.unwrap_or(KV_LOCKS));
        let own_keys = workload.keys().div_ceil(nodes).into();
        Ok(Filled {
            store: KvStore::new(manager, "kv", config)?,
            filling: Phase::new("loco: inserting the keys", own_keys, leads(manager)),
        })
    }
}

/// Measures lookups and updates, with a window of them under way. Every lookup is checked.
pub(super) fn kv<F: Fabric>(
    bench: &Bench<'_, F>,
    index: usize,
    Filled { store, filling }: &Filled<F>,
) -> Result<Sample, CliError> {
    let thread = bench.manager.thread()?;
    let share = bench.share(index);
    let workload = &bench.parameters.workload;
    let keys = workload.keys();
    fill(&thread, store, keys, share, filling)?;
    let window = bench.parameters.window as usize;
    let mut random = SmallRng::seed_from_u64(share.index as u64);
    let drawn = draw(workload.distribution, keys, PICKS.max(window), &mut random)?;
    // The number of the key, and whether to write. They are small, to leave the caches to the store.
    let picks: Vec<u32> = drawn
        .iter()
        .map(|&pick| pick << 1 | u32::from(workload.mix.write(&mut random)))
        .collect();
    let unpack = |pick: u32| (key(pick >> 1), pick & 1 == 1);
    let mut version = 0_u32;
    let mut found = Latencies::new();
    let operations_per_second;
    if thread.fabric().caps().synchronous {
        // An operation is done when it is started: a window of them goes by calls on many keys.
        let mut batches = picks.chunks_exact(window).cycle();
        let (mut reads, mut writes, mut values) = (Vec::new(), Vec::new(), Vec::new());
        let mut some = || {
            let Some(batch) = batches.next() else { return Ok(0) };
            reads.clear();
            writes.clear();
            for (key, write) in batch.iter().map(|&pick| unpack(pick)) {
                if write {
                    version = version.wrapping_add(1);
                    writes.push((key, value(key, version)));
                } else {
                    reads.push(key);
                }
            }
            store.get_many_into(&thread, &reads, &mut values)?;
            for (&key, &found) in reads.iter().zip(&values) {
                check(key, found)?;
            }
            if !writes.is_empty() && store.update_many(&thread, &writes)? != writes.len() {
                return Err(wrong("a key is gone that nobody deleted".to_owned()));
            }
            Ok::<u64, CliError>(batch.len() as u64)
        };
        bench.meet(&thread)?;
        rate_for(workload.warm_up(), bench.progress, &mut some)?;
        bench.meet(&thread)?;
        operations_per_second = rate_for(workload.duration, bench.progress, &mut some)?;
    } else {
        let mut picked = picks.iter().cycle().map(|&pick| unpack(pick));
        let mut rate_of_windows = |time| {
            let mut under_way = Window::new(&thread, store, window);
            let rate = rate_for(time, bench.progress, || {
                while under_way.has_room()
                    && let Some((key, write)) = picked.next()
                {
                    match write {
                        true => {
                            version = version.wrapping_add(1);
                            under_way.update(key, value(key, version))?;
                        }
                        false => under_way.lookup(key)?,
                    }
                }
                Ok::<u64, CliError>(under_way.finish_some()?)
            })?;
            // Nothing of one time counts in the next, or is under way while the node waits for the others.
            under_way.finish()?;
            Ok::<f64, CliError>(rate)
        };
        bench.meet(&thread)?;
        rate_of_windows(workload.warm_up())?;
        bench.meet(&thread)?;
        operations_per_second = rate_of_windows(workload.duration)?;
    }
    bench.meet(&thread)?;
    latencies(TIMED, 1, bench.timing, &mut found, |i| {
        let (key, write) = unpack(picks[i as usize % picks.len()]);
        if write {
            version = version.wrapping_add(1);
            store.update(&thread, &key, &value(key, version))?;
        } else {
            black_box(store.get(&thread, &key)?);
        }
        Ok::<(), CliError>(())
    })?;
    bench.meet(&thread)?;
    Ok(Sample {
        operations_per_second,
        latencies: found,
        one_way_ns: None,
    })
}

/// Warms up, measures a rate, and then times single operations.
fn timed<F: Fabric>(
    bench: &Bench<'_, F>,
    thread: &Thread<F>,
    mut operation: impl FnMut() -> Result<u64, CliError>,
) -> Result<Sample, CliError> {
    let workload = &bench.parameters.workload;
    bench.meet(thread)?;
    rate_for(workload.warm_up(), bench.progress, &mut operation)?;
    bench.meet(thread)?;
    let operations_per_second = rate_for(workload.duration, bench.progress, &mut operation)?;
    bench.meet(thread)?;
    let mut found = Latencies::new();
    latencies(TIMED, 1, bench.timing, &mut found, |_| operation().map(drop))?;
    bench.meet(thread)?;
    Ok(Sample {
        operations_per_second,
        latencies: found,
        one_way_ns: None,
    })
}
