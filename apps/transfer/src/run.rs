//! Transfers by several threads for a while, and the check of the total at the end. Relies on the bank; used by the
//! `transfer` command.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use loco::fabric::Fabric;
use loco::{Barrier, Manager, Participants, Sst, Thread};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::{Bank, BankConfig, Result, Transfer, TransferError};

/// Transactions between two looks at the clock.
const AT_ONCE: u32 = 64;
/// Largest amount moved at a time.
const AMOUNT_MAX: i64 = 100;

/// What is run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The bank.
    pub bank: BankConfig,
    /// Threads of each node.
    pub threads: u16,
    /// For how long.
    pub duration: Duration,
    /// Every thread pays into one account under one lock, instead of transfers between two random accounts.
    pub single: bool,
    /// Seed of the choice of accounts and amounts.
    pub seed: u64,
}

/// What came of it, of all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Nodes.
    pub nodes: usize,
    /// Threads of each.
    pub threads: u16,
    /// Accounts.
    pub accounts: usize,
    /// Locks.
    pub locks: usize,
    /// One account and one lock only.
    pub single_lock: bool,
    /// Transfers done.
    pub transfers: u64,
    /// Transfers refused because the account had too little.
    pub short: u64,
    /// Transfers, done or refused, a second.
    pub transfers_per_second: f64,
    /// What the accounts hold at the end, which is what they should.
    pub total: i64,
}

/// What one thread, then one node, did.
#[derive(Clone, Copy, Default)]
struct Count {
    done: u64,
    short: u64,
    per_second: f64,
}

/// Runs the plan on this node, together with all others; ends early, on all nodes, once `stop` is set on one. Only the
/// lowest node gets the outcome, after it has checked the total.
///
/// # Errors
/// `Usage`; `Total`, on the lowest node, if the accounts do not hold what they should; those of the objects.
pub fn run<F: Fabric>(fabric: F, plan: &Plan, stop: &AtomicBool) -> Result<Option<Outcome>> {
    let manager = Manager::new(fabric)?;
    let bank = Bank::new(&manager, "bank", plan.bank)?;
    let everybody = Participants::all(&manager);
    let threads = usize::from(plan.threads);
    let line = Barrier::with_participants(&manager, "line", &everybody, threads)?;
    let end = Barrier::new(&manager, "end")?;
    let counts: [Sst<F, u64>; 2] = [Sst::new(&manager, "done")?, Sst::new(&manager, "short")?];
    let rates = Sst::<F, f64>::new(&manager, "rates")?;
    let stopped = Sst::<F, u64>::new(&manager, "stopped")?;
    manager.wait_for_ready()?;
    let position = everybody.nodes().iter().position(|&node| node == manager.node());
    let position = position.unwrap_or(0);
    let mine = thread::scope(|scope| {
        let started: Vec<_> = (0..threads)
            .map(|index| {
                let (manager, bank, line, stopped) = (&manager, &bank, &line, &stopped);
                let share = position * threads + index;
                scope.spawn(move || {
                    let thread = manager.thread()?;
                    let shares = manager.nodes().len() * threads;
                    if !plan.single {
                        bank.fill(&thread, share, shares)?;
                    }
                    line.wait(&thread)?;
                    transact(&thread, bank, plan, share, || {
                        // Relaxed: says all there is to say itself.
                        if stop.load(Ordering::Relaxed) && stopped.mine()?.load() == 0 {
                            stopped.store_mine(1)?;
                            stopped.push_broadcast(&thread)?.wait(&thread)?;
                        }
                        Ok(stopped.rows()?.any(|row| row.load() != 0))
                    })
                })
            })
            .collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined
            .map(|count| count.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
            .collect::<Result<Vec<Count>>>()
    })?;
    let thread = manager.thread()?;
    counts[0].store_mine(mine.iter().map(|count| count.done).sum())?;
    counts[1].store_mine(mine.iter().map(|count| count.short).sum())?;
    rates.store_mine(mine.iter().map(|count| count.per_second).sum())?;
    for count in &counts {
        count.push_broadcast(&thread)?.wait(&thread)?;
    }
    rates.push_broadcast(&thread)?.wait(&thread)?;
    // It completes what was pushed before it, and nobody transfers after it.
    end.wait(&thread)?;
    let outcome = if manager.nodes().first() == Some(&manager.node()) {
        let sum = |table: &Sst<F, u64>| Ok::<u64, loco::Error>(table.rows()?.map(|row| row.load()).sum());
        let done = sum(&counts[0])?;
        let outcome = Outcome {
            nodes: manager.nodes().len(),
            threads: plan.threads,
            accounts: plan.bank.accounts,
            locks: if plan.single { 1 } else { plan.bank.locks },
            single_lock: plan.single,
            transfers: done,
            short: sum(&counts[1])?,
            transfers_per_second: rates.rows()?.map(|row| row.load()).sum(),
            total: bank.total(&thread)?,
        };
        Some(check(outcome, &plan.bank))
    } else {
        None
    };
    // The others' accounts are there until they have been counted.
    end.wait(&thread)?;
    outcome.transpose()
}

/// The total must be what was paid in, whoever transferred what.
fn check(outcome: Outcome, bank: &BankConfig) -> Result<Outcome> {
    let expected = if outcome.single_lock {
        i64::try_from(outcome.transfers).unwrap_or(i64::MAX)
    } else {
        bank.deposit
            .wrapping_mul(i64::try_from(bank.accounts).unwrap_or(i64::MAX))
    };
    match outcome.total == expected {
        true => Ok(outcome),
        false => Err(TransferError::Total {
            found: outcome.total,
            expected,
        }),
    }
}

/// What one thread does.
fn transact<F: Fabric>(
    thread: &Thread<F>,
    bank: &Bank<F>,
    plan: &Plan,
    share: usize,
    mut stopped: impl FnMut() -> Result<bool>,
) -> Result<Count> {
    let mut random = SmallRng::seed_from_u64(plan.seed.wrapping_add(share as u64));
    let accounts = plan.bank.accounts;
    let mut count = Count::default();
    let begin = Instant::now();
    while begin.elapsed() < plan.duration && !stopped()? {
        for _ in 0..AT_ONCE {
            if plan.single {
                bank.pay_in(thread, 0, 1)?;
                count.done += 1;
                continue;
            }
            let from = random.random_range(0..accounts);
            // Another one.
            let to = (from + random.random_range(1..accounts)) % accounts;
            match bank.transfer(thread, from, to, random.random_range(1..=AMOUNT_MAX))? {
                Transfer::Done => count.done += 1,
                Transfer::Short => count.short += 1,
            }
        }
    }
    let all = count.done + count.short;
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    let all = all as f64;
    count.per_second = all / begin.elapsed().as_secs_f64();
    Ok(count)
}
