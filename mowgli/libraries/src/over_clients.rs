//! Runs over many clients. Each is judged by refinement or by local soundness, and the first failure is kept.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use mowgli::outcome::{Budget, Limit};
use mowgli::shard::Shard;
use rayon::prelude::*;

use crate::client::{Client, Stmt};
use crate::enumerate::{Bounds, for_each_client_until};
use crate::execution::Flow;
use crate::local::{self, LocalSoundness};
use crate::refine::{self, Refinement};

/// The result of a run over many clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// The clients that were judged.
    pub clients: u64,
    /// The clients whose judgement is complete.
    pub complete: u64,
    /// The first limit that was reached.
    pub limit: Option<Limit>,
    /// The first failure. It is of the smallest client that fails, because small clients come first.
    pub failure: Option<Box<refine::Failure>>,
    /// The first failure of local soundness.
    pub local_failure: Option<Box<local::Failure>>,
}

/// The number of clients that are judged together.
const BATCH: usize = 512;

/// The way in which a run judges clients.
pub trait Judge: Sync {
    /// Judges one client, and adds a failure or a limit to the summary.
    fn judge(&self, client: &Client, budget: Budget<'_>, summary: &mut Summary);
}

impl Judge for Refinement<'_> {
    fn judge(&self, client: &Client, budget: Budget<'_>, summary: &mut Summary) {
        match self.check(client, budget) {
            refine::Found::Refines => summary.complete += 1,
            refine::Found::Fails(failure) => summary.failure = Some(failure),
            refine::Found::Unknown(limit) => summary.limit = Some(limit),
        }
    }
}

impl Judge for LocalSoundness<'_> {
    fn judge(&self, client: &Client, budget: Budget<'_>, summary: &mut Summary) {
        match self.check(client, budget) {
            local::Found::Sound => summary.complete += 1,
            local::Found::Fails(failure) => summary.local_failure = Some(failure),
            local::Found::Unknown(limit) => summary.limit = Some(limit),
        }
    }
}

/// Judges every client within the bounds, in parallel and small ones first, until one fails or the budget is
/// used up. `progress` counts the judged clients.
pub fn over_clients(judge: &dyn Judge, bounds: &Bounds, budget: Budget<'_>, progress: &AtomicU64) -> Summary {
    over_share(judge, bounds, Shard::WHOLE, budget, progress)
}

/// Judges the clients of a share like [`over_clients`]. The units of the work are the clients.
pub fn over_share(
    judge: &dyn Judge,
    bounds: &Bounds,
    share: Shard,
    budget: Budget<'_>,
    progress: &AtomicU64,
) -> Summary {
    over_families(judge, std::slice::from_ref(bounds), share, budget, progress)
}

/// Judges the clients of several bounds like [`over_share`]. Those with fewer calls come first, of whichever bounds they are.
pub fn over_families(
    judge: &dyn Judge,
    families: &[Bounds],
    share: Shard,
    budget: Budget<'_>,
    progress: &AtomicU64,
) -> Summary {
    let mut summary = Summary::default();
    let mut number = 0;
    let stop = || budget.exceeded(0).is_some();
    let most = families.iter().map(|family| family.calls_max).max();
    for calls in 1..=most.unwrap_or(0) {
        let of_size = |family: &&Bounds| (family.calls_min..=family.calls_max).contains(&calls);
        for family in families.iter().filter(of_size) {
            let bounds = Bounds {
                calls_min: calls,
                calls_max: calls,
                ..family.clone()
            };
            let mut batch = Vec::with_capacity(BATCH);
            let mut ended = for_each_client_until(&bounds, &stop, &mut |client| {
                number += 1;
                if !share.has(number - 1) {
                    return ControlFlow::Continue(());
                }
                batch.push(client);
                if batch.len() == BATCH {
                    let flow = judge_batch(judge, &batch, budget, progress, &mut summary);
                    batch.clear();
                    if flow == Flow::Stop {
                        return ControlFlow::Break(());
                    }
                }
                ControlFlow::Continue(())
            });
            let has_failed = |summary: &Summary| summary.failure.is_some() || summary.local_failure.is_some();
            if ended.is_continue() && judge_batch(judge, &batch, budget, progress, &mut summary) == Flow::Stop
            {
                ended = ControlFlow::Break(());
            }
            if ended.is_break() {
                if !has_failed(&summary) {
                    summary.limit = summary.limit.or_else(|| budget.exceeded(0));
                }
                return summary;
            }
        }
    }
    summary
}

/// Judges these clients, in parallel. The failure is that of the first client that fails.
pub fn judge_batch(
    judge: &dyn Judge,
    batch: &[Client],
    budget: Budget<'_>,
    progress: &AtomicU64,
    summary: &mut Summary,
) -> Flow {
    let found: Vec<Summary> = batch
        .par_iter()
        .map(|client| {
            let mut one = Summary::default();
            if let Some(limit) = budget.exceeded(0) {
                one.limit = Some(limit);
                return one;
            }
            one.clients = 1;
            judge.judge(client, budget, &mut one);
            // Relaxed: the counter publishes no other data.
            progress.fetch_add(1, Ordering::Relaxed);
            one
        })
        .collect();
    for one in found {
        summary.clients += one.clients;
        summary.complete += one.complete;
        summary.limit = summary.limit.take().or(one.limit);
        if one.failure.is_some() || one.local_failure.is_some() {
            summary.failure = one.failure;
            summary.local_failure = one.local_failure;
            return Flow::Stop;
        }
    }
    if budget.exceeded(0).is_some() {
        Flow::Stop
    } else {
        Flow::Continue
    }
}

/// Returns the number of statements of a client's threads. A client is small if this is small.
pub fn size(client: &Client) -> usize {
    fn of(body: &[Stmt]) -> usize {
        let inner = |stmt: &Stmt| match stmt {
            Stmt::If { then, otherwise, .. } => of(then) + of(otherwise),
            Stmt::Loop(body) => of(body),
            _ => 0,
        };
        body.iter().map(|stmt| 1 + inner(stmt)).sum()
    }
    client.threads.iter().map(|t| of(&t.body)).sum()
}
