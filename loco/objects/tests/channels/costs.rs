//! Counts what one operation of each object asks of the network on every tier: the table of `docs/evidence/ordering.md`.
//!
//! Two nodes, on the deferred card, make the calls of [`calls`](crate::calls).

use std::fmt;
use std::sync::atomic::Ordering::SeqCst;

use crate::calls::{CALLS, Objects, calls, counted};
use crate::common::Net;
use crate::counting::Counts;
use loco::fabric::{AnyConfig, AnyFabric, FabricChoice, Tier};
use loco::{Barrier, Log, LogConfig, Result};
use loco_test_networks::deferred::Nic;

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

/// The number of appends to a log.
const APPENDS: u64 = 30;

/// Returns what each call on each object asks for on this tier.
fn costs(tier: Tier) -> Vec<(&'static str, Cost)> {
    let nic = Nic::deferred(1).tier(tier);
    let mut of_nodes = on_card(&nic, |inner| {
        let (manager, counts) = counted(inner)?;
        let objects = Objects::new(&manager)?;
        manager.wait_for_ready()?;
        let thread = manager.thread()?;
        let mut table = Vec::new();
        calls(&manager, &thread, &objects, &mut |name, call| {
            row(&counts, &mut table, name, call)
        })?;
        Ok(table)
    });
    of_nodes.swap_remove(0)
}

/// Runs two nodes over shared memory with such a card.
fn on_card<T: Send>(nic: &Nic, node: impl Fn(Net) -> Result<T> + Sync) -> Vec<T> {
    let config = AnyConfig::default().choice(FabricChoice::Shm);
    let bring_up = |mesh| Net::new(AnyFabric::new(mesh, config.clone())?, Some(nic));
    loco::testing::run_on(2, bring_up, node)
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
        let mut of_nodes = on_card(&nic, |inner| {
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
