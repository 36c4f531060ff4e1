//! Soundness by bounded refinement (LOCO'26 Def. 3.10): for every client up to a size, what an implementation lets it
//! see is among what the specification allows.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};

use mowgli::outcome::{Budget, Limit};
use rayon::prelude::*;

use crate::client::{Client, Stmt};
use crate::enumerate::{Bounds, for_each_client};
use crate::event::Event;
use crate::execution::Flow;
use crate::local;
use crate::outcome::Outcome;
use crate::outcomes::{outcomes, outcomes_beyond};
use crate::plain::Rules;

/// What is compared.
pub struct Refinement<'a> {
    /// The implementation, and what it stands on.
    pub implementation: &'a Rules<'a>,
    /// The specification.
    pub specification: &'a Rules<'a>,
}

/// An outcome that the specification does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The client.
    pub client: Client,
    /// The outcome.
    pub outcome: Outcome,
    /// The implementation's execution that ends so.
    pub events: Vec<Event>,
}

/// What was found about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Every outcome is allowed.
    Refines,
    /// One is not.
    Fails(Box<Failure>),
    /// A limit was reached, and no forbidden outcome was found.
    Unknown(Limit),
}

impl Refinement<'_> {
    /// Compares the outcomes of a client.
    pub fn check(&self, client: &Client, budget: Budget<'_>) -> Found {
        let allowed = outcomes(client, self.specification, budget);
        let (found, witness) = outcomes_beyond(client, self.implementation, budget, &allowed.outcomes, true);
        let limit = |o: &crate::outcome::Outcomes| match &o.completeness {
            mowgli::outcome::Completeness::Incomplete(limit) => Some(limit.clone()),
            mowgli::outcome::Completeness::Complete => None,
        };
        if let Some(limit) = limit(&allowed) {
            return Found::Unknown(limit);
        }
        match (found.outcomes.iter().next(), witness, limit(&found)) {
            (Some(outcome), Some(events), _) => Found::Fails(Box::new(Failure {
                client: client.clone(),
                outcome: outcome.clone(),
                events,
            })),
            (_, _, Some(limit)) => Found::Unknown(limit),
            _ => Found::Refines,
        }
    }

    /// The smallest client below this one that still fails: calls are left out as long as it does.
    pub fn shrink(&self, failure: Failure, budget: Budget<'_>) -> Failure {
        let mut smallest = failure;
        'again: loop {
            for t in 0..smallest.client.threads.len() {
                for at in 0..smallest.client.threads[t].body.len() {
                    let mut client = smallest.client.clone();
                    client.threads[t].body.remove(at);
                    if client.threads.iter().any(|thread| thread.body.is_empty()) && client.threads.len() > 1
                    {
                        continue;
                    }
                    if let Found::Fails(smaller) = self.check(&client, budget) {
                        smallest = *smaller;
                        continue 'again;
                    }
                }
            }
            return smallest;
        }
    }
}

/// What a run over many clients found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Clients that were judged.
    pub clients: u64,
    /// Those whose judgement is complete.
    pub complete: u64,
    /// The first limit that was reached.
    pub limit: Option<Limit>,
    /// The first failure: of the smallest client, as small ones come first.
    pub failure: Option<Box<Failure>>,
    /// The first failure of local soundness.
    pub local_failure: Option<Box<local::Failure>>,
}

/// Clients that are judged together.
const BATCH: usize = 512;

/// How a run over clients is judged.
pub trait Judge: Sync {
    /// What is found about one client: a failure, or a limit.
    fn judge(&self, client: &Client, budget: Budget<'_>, summary: &mut Summary);
}

impl Judge for Refinement<'_> {
    fn judge(&self, client: &Client, budget: Budget<'_>, summary: &mut Summary) {
        match self.check(client, budget) {
            Found::Refines => summary.complete += 1,
            Found::Fails(failure) => summary.failure = Some(failure),
            Found::Unknown(limit) => summary.limit = Some(limit),
        }
    }
}

/// Judges every client within the bounds, in parallel, small ones first, until one fails or the budget is used up. The count
/// of judged clients is kept in `progress`.
pub fn over_clients(judge: &dyn Judge, bounds: &Bounds, budget: Budget<'_>, progress: &AtomicU64) -> Summary {
    let mut summary = Summary::default();
    let mut batch = Vec::with_capacity(BATCH);
    let ended = for_each_client(bounds, &mut |client| {
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
    if ended.is_continue() {
        judge_batch(judge, &batch, budget, progress, &mut summary);
    }
    summary
}

/// Judges these clients, in parallel. The failure is that of the first that fails.
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
            // Relaxed: a counter that is shown to a person.
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

/// How many statements a client's threads have: what "small" means.
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
