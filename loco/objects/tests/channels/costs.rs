//! Counts what one operation of each object asks of the network on every tier: the table of `docs/evidence/ordering.md`.
//!
//! Two nodes, on the deferred card. Node 0 calls, and what it works with is on node 1. The first call, which may set things up,
//! does not count.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

use crate::common::{PATIENCE, Shared, run_on_shm};
use crate::counting::{Counting, Counts};
use loco::fabric::{NodeId, ShmConfig, Tier};
use loco::fence::{self, Scope};
use loco::{
    AtomicVar, Barrier, Collective, Config, KvConfig, KvStore, Log, LogConfig, Manager, Msw, OwnedVar,
    Result, RingBuffer, RingConfig, SharedQueue, SharedRegion, SharedVar, Sst, TasLock, Thread, TicketLock,
    WideOwnedVar,
};
use loco_test_networks::deferred::Nic;

type Fabric = Counting<Shared>;
/// A value of several words.
type Wide = [u64; 4];

/// What an operation asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cost {
    /// Operations of the network, flushes among them.
    operations: u64,
    /// Operations that asked for strong order.
    strong: u64,
    /// Operations that asked for a fence.
    fenced: u64,
    /// Flushes.
    flushes: u64,
    /// Completions, each of which the call waits for or hands to its caller as a key.
    completions: u64,
}

impl Cost {
    fn so_far(counts: &Counts) -> Cost {
        let flushes = counts.flushes.load(SeqCst);
        Cost {
            operations: counts.puts.load(SeqCst) + counts.results.load(SeqCst) + flushes,
            strong: counts.strong.load(SeqCst),
            fenced: counts.fenced.load(SeqCst),
            flushes,
            completions: counts.signaled.load(SeqCst),
        }
    }

    fn since(self, before: Cost) -> Cost {
        Cost {
            operations: self.operations - before.operations,
            strong: self.strong - before.strong,
            fenced: self.fenced - before.fenced,
            flushes: self.flushes - before.flushes,
            completions: self.completions - before.completions,
        }
    }

    /// Returns the greater of each count.
    fn max(self, other: Cost) -> Cost {
        Cost {
            operations: self.operations.max(other.operations),
            strong: self.strong.max(other.strong),
            fenced: self.fenced.max(other.fenced),
            flushes: self.flushes.max(other.flushes),
            completions: self.completions.max(other.completions),
        }
    }

    /// Returns the number of waits for earlier operations, at most, that a fabric inserts on a network of this tier, and how many
    /// operations it adds. A card that obeys a flag inserts none.
    fn bought(self, tier: Tier) -> (u64, u64) {
        match tier {
            Tier::Ibta => (0, 0),
            Tier::OooRw | Tier::OooAll | Tier::Unordered => (self.strong + self.flushes, 0),
            // A strong operation waits, sends a barrier, and waits for it. A flush is a barrier itself.
            Tier::PcieRelaxed => (2 * self.strong + self.flushes, self.strong),
        }
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Cost {
            operations,
            strong,
            fenced,
            flushes,
            completions,
        } = self;
        write!(
            f,
            "{operations} | {completions} | {strong} | {fenced} | {flushes}"
        )
    }
}

/// The objects that node 0 calls.
struct Objects {
    region: SharedRegion<Fabric>,
    var: SharedVar<u64, Fabric>,
    owned: OwnedVar<u64, Fabric>,
    theirs: OwnedVar<u64, Fabric>,
    wide: WideOwnedVar<Wide, Fabric>,
    sst: Sst<u64, Fabric>,
    msw: Msw<Fabric>,
    barrier: Barrier<Fabric>,
    collective: RefCell<Collective<u64, Fabric>>,
    ring: RingBuffer<Fabric>,
    counter: AtomicVar<u64, Fabric>,
    ticket: TicketLock<Fabric>,
    tas: TasLock<Fabric>,
    queue: SharedQueue<u64, Fabric>,
    store: KvStore<u64, u64, Fabric>,
}

impl Objects {
    fn new(manager: &Manager<Fabric>) -> Result<Objects> {
        let (here, there) = (NodeId(0), NodeId(1));
        Ok(Objects {
            region: SharedRegion::new(manager, "region", 64)?,
            var: SharedVar::new(manager, "var")?,
            owned: OwnedVar::new(manager, "owned", here)?,
            theirs: OwnedVar::new(manager, "theirs", there)?,
            wide: WideOwnedVar::new(manager, "wide", here)?,
            sst: Sst::new(manager, "sst")?,
            msw: Msw::new(manager, "msw", &[32])?,
            barrier: Barrier::new(manager, "barrier")?,
            collective: RefCell::new(Collective::new(manager, "collective")?),
            ring: RingBuffer::with_config(manager, "ring", here, &RingConfig::new(4096).readers([there]))?,
            counter: AtomicVar::new(manager, "counter", there)?,
            ticket: TicketLock::new(manager, "ticket", there)?,
            tas: TasLock::new(manager, "tas", there)?,
            queue: SharedQueue::new(manager, "queue", there, 8)?,
            store: KvStore::new(manager, "store", KvConfig::default())?,
        })
    }
}

/// The number of calls of each kind that count.
const CALLS: u64 = 6;
/// The number of appends to a log.
const APPENDS: u64 = 30;
/// A key whose value is on node 1.
const THEIRS: u64 = 1000;

/// Makes the manager of a node whose posted requests are counted.
fn counted(inner: Shared) -> Result<(Manager<Fabric>, Arc<Counts>)> {
    let counts = Arc::new(Counts::default());
    let fabric = Counting {
        inner,
        counts: counts.clone(),
    };
    let manager = Manager::with_config(fabric, Config::default().deadline(PATIENCE))?;
    Ok((manager, counts))
}

/// Returns what each call on each object asks for on this tier.
fn costs(tier: Tier) -> Vec<(&'static str, Cost)> {
    let nic = Nic::deferred(1).tier(tier);
    let mut of_nodes = run_on_shm(2, &ShmConfig::default(), Some(&nic), |inner| {
        let (manager, counts) = counted(inner)?;
        let objects = Objects::new(&manager)?;
        let end = Barrier::new(&manager, "end")?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let mut table = Vec::new();
        if manager.node().0 == 1 {
            assert_eq!(objects.store.insert(&thread, &THEIRS, &1)?, loco::Inserted::Done);
            end.wait(&thread)?;
        } else {
            end.wait(&thread)?;
            calls(&objects, &thread, &counts, &mut table)?;
        }
        end.wait(&thread)?;
        row(&counts, &mut table, "barrier: wait", |_| {
            objects.barrier.wait(&thread)
        })?;
        row(&counts, &mut table, "collective: all_reduce", |n| {
            let mut collective = objects.collective.borrow_mut();
            collective
                .all_reduce(&thread, n, |sum, value| sum + value)
                .map(drop)
        })?;
        end.wait(&thread)?;
        Ok(table)
    });
    of_nodes.swap_remove(0)
}

/// Makes a call several times, and adds to the table the most that one asked for. Calls on the queue differ: some find the room
/// or the value in what the node has read before.
fn row(
    counts: &Counts,
    table: &mut Vec<(&'static str, Cost)>,
    name: &'static str,
    call: impl Fn(u64) -> Result<()>,
) -> Result<()> {
    call(0)?;
    let mut most = Cost::default();
    for n in 1..=CALLS {
        let before = Cost::so_far(counts);
        call(n)?;
        most = most.max(Cost::so_far(counts).since(before));
    }
    table.push((name, most));
    Ok(())
}

/// Makes the calls that concern node 0 alone.
fn calls(
    objects: &Objects,
    thread: &Thread<Fabric>,
    counts: &Counts,
    table: &mut Vec<(&'static str, Cost)>,
) -> Result<()> {
    let there = NodeId(1);
    let word = || objects.region.target(there, 0);
    let mut add = |name, call: &dyn Fn(u64) -> Result<()>| row(counts, table, name, call);
    add("region: put, and a pair fence", &|n| {
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        fence::pair(thread, there)
    })?;
    add("shared-var: broadcast", &|n| {
        objects.var.write(n);
        objects.var.broadcast(thread)?.wait(thread)
    })?;
    add("owned-var: push", &|n| {
        objects.owned.store(n)?;
        objects.owned.push(thread)?.wait(thread)
    })?;
    add("owned-var: pull", &|_| objects.theirs.pull(thread).map(drop))?;
    add("wide-owned-var: push", &|n| {
        objects.wide.store(thread, [n; 4])?;
        objects.wide.push(thread)?.wait(thread)
    })?;
    add("sst: push", &|n| {
        objects.sst.store_mine(n)?;
        objects.sst.push(thread)?.wait(thread)
    })?;
    add("msw: put", &|n| {
        objects.msw.write(0, &[n.to_ne_bytes()[0]; 32])?;
        objects.msw.put(thread, 0, there, 0)?.wait(thread)
    })?;
    add("msw: get", &|_| {
        objects.msw.get(thread, 0, there, 0)?.wait(thread)
    })?;
    let writer = RefCell::new(objects.ring.writer()?);
    add("ring-buffer: submit", &|n| {
        writer.borrow_mut().submit(thread, &n.to_ne_bytes())
    })?;
    add("atomic: fetch_add", &|n| {
        objects.counter.fetch_add(thread, n).map(drop)
    })?;
    add("atomic: read", &|_| objects.counter.read(thread).map(drop))?;
    add("ticket-lock: lock, put, release", &|n| {
        let guard = objects.ticket.lock(thread, Scope::Thread)?;
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        guard.release()
    })?;
    add("tas-lock: lock, put, release", &|n| {
        let guard = objects.tas.lock(thread, Scope::Thread)?;
        thread.put_inline_untracked(&n.to_ne_bytes(), word()?)?;
        guard.release()
    })?;
    add("queue: push", &|n| objects.queue.try_push(thread, n).map(drop))?;
    add("queue: pop", &|_| objects.queue.try_pop(thread).map(drop))?;
    add("kv: insert", &|n| objects.store.insert(thread, &n, &n).map(drop))?;
    add("kv: get", &|_| objects.store.get(thread, &THEIRS).map(drop))?;
    add("kv: update", &|n| {
        objects.store.update(thread, &THEIRS, &n).map(drop)
    })?;
    add("kv: delete", &|n| objects.store.delete(thread, &n).map(drop))
}

/// Prints the table with `--nocapture`.
#[test]
fn every_call_asks_for_the_same_on_every_weak_tier_and_for_no_more_where_the_network_orders() {
    let tables = Tier::ALL.map(|tier| (tier, costs(tier)));
    println!(
        "| call | operations | completions | strong | fenced | flushes | `ibta` | `ooo-rw`, `ooo-all`, `unordered` | `pcie-relaxed` |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for (at, &(name, cost)) in tables[4].1.iter().enumerate() {
        let (waits, _) = cost.bought(Tier::Unordered);
        let (relaxed, barriers) = cost.bought(Tier::PcieRelaxed);
        println!("| {name} | {cost} | 0 | {waits} | {relaxed}, {barriers} |");
        for (tier, table) in &tables {
            let (of, on_tier) = table[at];
            assert_eq!(of, name);
            match tier {
                Tier::Ibta => {
                    let more = on_tier.strong > cost.strong || on_tier.flushes > cost.flushes;
                    assert!(
                        !more,
                        "{name}: {on_tier:?} where the network orders, {cost:?} where it does not"
                    );
                }
                _ => assert_eq!(on_tier, cost, "{name} on {tier}"),
            }
        }
    }
}

/// The leader of a log appends. What the log's own task asks for besides, which tells the others how far they may read, falls into any
/// call, so the sum counts. Prints the row of the table with `--nocapture`.
#[test]
fn an_append_to_a_log_asks_for_an_order_for_each_record_and_each_word_that_tells_of_it() {
    for tier in Tier::ALL {
        let nic = Nic::deferred(1).tier(tier);
        let mut of_nodes = run_on_shm(2, &ShmConfig::default(), Some(&nic), |inner| {
            let (manager, counts) = counted(inner)?;
            let log = Log::new(&manager, "log", LogConfig::new(64, 8))?;
            let end = Barrier::new(&manager, "end")?;
            manager.wait_for_ready()?;
            let thread = manager.thread()?;
            end.wait(&thread)?;
            let before = Cost::so_far(&counts);
            if manager.node() == log.leader() {
                for n in 0..APPENDS {
                    log.append(&thread, &n.to_ne_bytes())?;
                }
            }
            let cost = Cost::so_far(&counts).since(before);
            end.wait(&thread)?;
            Ok(cost)
        });
        let all = of_nodes.swap_remove(0);
        println!("log: append, {APPENDS} times on {tier}: {all}");
        // A header each, and a word that tells of it, unless one tells of several.
        let most = 2 * APPENDS + 2;
        assert!(
            (APPENDS..=most).contains(&all.strong),
            "{APPENDS} appends on {tier}: {all:?}"
        );
        assert_eq!(all.fenced, 0, "{APPENDS} appends on {tier}: {all:?}");
    }
}
