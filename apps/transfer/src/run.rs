//! Runs transfers by several threads for a while, and checks the total at the end. Relies on the bank; used by the
//! `transfer` command.

use std::sync::Arc;
use std::time::Duration;

use loco::fabric::Fabric;
use loco::{Manager, Thread};
use loco_app::{Phase, Share, Stop, Tally, Team};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde::Serialize;

use crate::{Bank, BankConfig, Result, Transfer, TransferError};

/// The number of transactions between two looks at the clock.
const AT_ONCE: u64 = 64;
/// The largest amount moved at a time.
const AMOUNT_MAX: i64 = 100;

/// The run to make.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The bank.
    pub bank: BankConfig,
    /// Threads of each node.
    pub threads: u16,
    /// The duration of the run.
    pub duration: Duration,
    /// The number of transfers of each thread after which the run ends, if that comes first.
    pub transfers: Option<u64>,
    /// Lets every thread pay into one account under one lock, instead of transferring between two random
    /// accounts.
    pub single: bool,
    /// Seed of the choice of accounts and amounts.
    pub seed: u64,
}

/// The result of all nodes together.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Outcome {
    /// Nodes.
    pub nodes: usize,
    /// Threads of each node.
    pub threads: u16,
    /// Accounts.
    pub accounts: usize,
    /// Locks.
    pub locks: usize,
    /// Set if there was only one account and one lock.
    pub single_lock: bool,
    /// Transfers that were done.
    pub transfers: u64,
    /// Transfers that were refused because the account had too little.
    pub short: u64,
    /// Transfers, done or refused, a second.
    pub transfers_per_second: f64,
    /// The sum of the accounts at the end, which has been checked.
    pub total: i64,
}

/// Runs the plan on this node, together with all others. Ends early, on all nodes, once one is asked to
/// `stop`. Every node fills the accounts in its memory, and adds them up at the end. Only the lowest node gets the
/// outcome, after it has checked the total.
///
/// # Errors
/// Returns `Usage`, `Total` (on the lowest node) if the accounts have the wrong sum, `Overdrawn` if one gets less than nothing, and
/// the errors of the objects.
pub fn run<F: Fabric>(fabric: F, plan: &Plan, stop: &Stop) -> Result<Option<Outcome>> {
    let manager = Manager::new(fabric)?;
    let BankConfig {
        accounts,
        locks,
        deposit,
    } = plan.bank;
    let single = if plan.single { " --single-lock" } else { "" };
    let options = format!("--accounts {accounts} --locks {locks} --deposit {deposit}{single}");
    let team = Team::new(&manager, plan.threads, options)?;
    let bank = Arc::new(Bank::new(&manager, "bank", plan.bank)?);
    loco_app::wait_for_ready(&manager)?;
    let filling = Phase::new("transfer: paying into the accounts", bank.own_max(), team.leads());
    let (filled, used, plan) = (bank.clone(), bank.clone(), Arc::new(plan.clone()));
    let (single, of) = (plan.single, plan.clone());
    let mine = team.run(
        stop,
        move |thread, share| match single {
            true => Ok(()),
            false => filled.fill(thread, share, &filling),
        },
        move |thread, share, stopped| transact(thread, &used, &of, share, stopped),
    )?;
    let thread = manager.thread()?;
    // After this nobody transfers.
    let all = team.add_up(&thread, mine.into_iter())?;
    let adding = Phase::new("transfer: adding up the accounts", bank.own_max(), team.leads());
    let sums = team.each(move |thread, share| bank.total(thread, share, &adding))?;
    let total = team.sum(&thread, sums.into_iter().fold(0, i64::wrapping_add))?;
    let (Some(all), Some(total)) = (all, total) else {
        return Ok(None);
    };
    let outcome = Outcome {
        nodes: manager.nodes().len(),
        threads: plan.threads,
        accounts: plan.bank.accounts,
        locks: if plan.single { 1 } else { plan.bank.locks },
        single_lock: plan.single,
        transfers: all.counts[0],
        short: all.counts[1],
        transfers_per_second: all.per_second,
        total,
    };
    check(outcome, &plan.bank).map(Some)
}

/// Checks that the total is the sum that was paid in.
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

/// Runs one thread's transactions.
fn transact<F: Fabric>(
    thread: &Thread<F>,
    bank: &Bank<F>,
    plan: &Plan,
    share: Share,
    stopped: &mut dyn FnMut() -> loco::Result<bool>,
) -> Result<Tally> {
    let mut random = SmallRng::seed_from_u64(plan.seed.wrapping_add(share.index as u64));
    let accounts = plan.bank.accounts;
    let [mut done, mut short] = [0_u64, 0];
    let most = plan.transfers.unwrap_or(u64::MAX);
    let begin = thread.now();
    while thread.now().since(begin) < plan.duration && done + short < most && !stopped()? {
        for _ in 0..AT_ONCE.min(most - done - short) {
            if plan.single {
                bank.pay_in(thread, 0, 1)?;
                done += 1;
                continue;
            }
            let from = random.random_range(0..accounts);
            // `to` is another account than `from`.
            let to = (from + random.random_range(1..accounts)) % accounts;
            match bank.transfer(thread, from, to, random.random_range(1..=AMOUNT_MAX))? {
                Transfer::Done => done += 1,
                Transfer::Short => short += 1,
            }
        }
    }
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    let all = (done + short) as f64;
    Ok(Tally {
        counts: [done, short],
        per_second: all / thread.now().since(begin).as_secs_f64(),
    })
}
