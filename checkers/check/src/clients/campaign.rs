//! Runs many clients in parallel. Reports how many were run, how many of them completely, and the first that shows more
//! than is promised.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use loco_sim::{Failure, SimError, Stats, Strategy, Tier};
use mowgli_libraries::client::Client;
use mowgli_libraries::outcome::{Budget, Outcome};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::check::{Checked, Effort, check, promised};
use super::form::Form;
use super::generate::Clients;

/// The time for listing the outcomes that the specification allows one client. A client that takes longer is skipped.
const SPECIFIED_TIME: Duration = Duration::from_secs(10);

/// The choice of clients, and how far each is explored.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The clients.
    pub clients: Clients,
    /// The number of clients to draw at random and the seed, instead of all clients.
    pub random: Option<(u64, u64)>,
    /// The forms of the shipped objects. Each client runs on each form.
    pub forms: Vec<Form>,
    /// The order of the network, as [`Effort::tier`].
    pub tier: Option<Tier>,
    /// The time for all clients. Clients under way when it is over do not count.
    pub time: Duration,
    /// The number of states of one client after which its schedules are no longer explored exhaustively, but by
    /// `otherwise`.
    pub states_each: u64,
    /// The schedules of the clients that were not explored completely.
    pub otherwise: Option<Strategy>,
    /// The number of clients that run at a time.
    pub workers: usize,
    /// Counts the clients that have been run.
    pub progress: Arc<AtomicU64>,
    /// A flag that ends the work early when it is set from outside.
    pub cancel: Arc<AtomicBool>,
}

/// The findings of a campaign.
#[derive(Debug, Default)]
pub struct Summary {
    /// The number of clients that were run, each in every form.
    pub clients: u64,
    /// The number of clients whose every execution was explored.
    pub complete: u64,
    /// The number of clients that were explored only as far as random or bounded schedules go.
    pub otherwise: u64,
    /// The number of clients that were skipped because their specification gives them no execution at all.
    pub blocked: u64,
    /// The number of clients that were skipped because listing the outcomes that their specification allows takes too
    /// long.
    pub unknown: u64,
    /// The number of outcomes that the specifications allow, of all clients.
    pub allowed: u64,
    /// The number of these outcomes that some execution had.
    pub seen: u64,
    /// Counters of all explorations.
    pub stats: Stats,
    /// The smallest of the clients that failed.
    pub failed: Option<Failed>,
    /// True if there were clients left when the time was over.
    pub unfinished: bool,
    /// Wall-clock seconds.
    pub seconds: f64,
}

/// A client that shows more than is promised.
#[derive(Debug)]
pub struct Failed {
    /// Its number, from 1, among the clients.
    pub number: u64,
    /// The client.
    pub client: Client,
    /// The objects that it ran on.
    pub form: Form,
    /// The execution.
    pub failure: Failure,
}

/// The findings about one client.
#[derive(Default)]
struct One {
    ran: bool,
    complete: bool,
    otherwise: bool,
    blocked: bool,
    unknown: bool,
    /// Set if the time was over before the client was explored.
    late: bool,
    allowed: u64,
    seen: u64,
    stats: Stats,
    failed: Option<Failed>,
}

impl Campaign {
    /// Runs the clients until one fails, all are run or the time is over.
    ///
    /// # Errors
    /// Returns [`SimError`] when a client cannot be explored.
    pub fn run(&self) -> Result<Summary, SimError> {
        let begun = Instant::now();
        let deadline = begun.checked_add(self.time);
        let stop = AtomicBool::new(false);
        let (send, receive) = sync_channel::<(u64, Client)>(2 * self.workers.max(1));
        let receive = Mutex::new(receive);
        let total = Mutex::new(Ok(Summary::default()));
        let unfinished = Cell::new(false);
        std::thread::scope(|scope| {
            for _ in 0..self.workers.max(1) {
                scope.spawn(|| self.work(&receive, deadline, &stop, &total));
            }
            let mut number = 0;
            let over = || {
                let late = deadline.is_some_and(|deadline| Instant::now() >= deadline);
                // Relaxed: the flags carry no data.
                let ended = late || stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed);
                unfinished.set(unfinished.get() || ended);
                ended
            };
            let mut visit = |client: Client| {
                number += 1;
                // A worker ends early only when it has set `stop`.
                if send.send((number, client)).is_err() {
                    unfinished.set(true);
                    return ControlFlow::Break(());
                }
                ControlFlow::Continue(())
            };
            match self.random {
                None => self.clients.each(&over, &mut visit),
                Some((count, seed)) => {
                    let mut random = SmallRng::seed_from_u64(seed);
                    self.clients
                        .draw(count, &over, &mut |n| random.random_range(0..n), &mut visit);
                }
            }
            drop(send);
        });
        let mut summary = total.into_inner().unwrap_or_else(PoisonError::into_inner)?;
        summary.unfinished |= unfinished.get();
        summary.seconds = begun.elapsed().as_secs_f64();
        Ok(summary)
    }

    /// Runs clients until there are no more.
    fn work(
        &self,
        receive: &Mutex<Receiver<(u64, Client)>>,
        deadline: Option<Instant>,
        stop: &AtomicBool,
        total: &Mutex<Result<Summary, SimError>>,
    ) {
        loop {
            let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
            let Ok((number, client)) = next else {
                return;
            };
            // Relaxed: the flags carry no data.
            if stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
                continue;
            }
            let found = self.one(number, client, deadline);
            if found.as_ref().is_ok_and(|one| !one.late) {
                self.progress.fetch_add(1, Ordering::Relaxed);
            }
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            match (&mut *total, found) {
                (Ok(summary), Ok(one)) => {
                    if one.failed.is_some() {
                        stop.store(true, Ordering::Relaxed);
                    }
                    summary.add(one);
                }
                (Ok(_), Err(error)) => {
                    *total = Err(error);
                    stop.store(true, Ordering::Relaxed);
                }
                (Err(_), _) => {}
            }
        }
    }

    /// Runs one client in every form.
    fn one(&self, number: u64, client: Client, deadline: Option<Instant>) -> Result<One, SimError> {
        let late = One {
            late: true,
            ..One::default()
        };
        let left = || deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let is_over = || left().is_some_and(|left| left.is_zero());
        let mut one = One::default();
        let specified_by = Instant::now().checked_add(SPECIFIED_TIME);
        let budget = Budget {
            deadline: [specified_by, deadline].into_iter().flatten().min(),
            cancel: Some(&self.cancel),
            ..Budget::default()
        };
        let allowed = promised(&client, self.tier, budget);
        if !allowed.is_complete() {
            one.unknown = true;
            return Ok(if is_over() { late } else { one });
        }
        if allowed.outcomes.is_empty() {
            one.blocked = true;
            return Ok(one);
        }
        one.ran = true;
        one.complete = true;
        one.allowed = allowed.outcomes.len() as u64;
        let mut seen: BTreeSet<Outcome> = BTreeSet::new();
        for &form in &self.forms {
            let effort = Effort {
                tier: self.tier,
                states_max: Some(self.states_each),
                time_max: left(),
                cancel: Some(self.cancel.clone()),
                ..Effort::default()
            };
            let mut checked = check(&client, form, Some(&allowed.outcomes), &effort)?;
            one.add(&mut seen, &checked);
            if !checked.is_complete() && checked.report.failure.is_none() {
                one.complete = false;
                if let Some(strategy) = self.otherwise {
                    let effort = Effort {
                        strategy,
                        time_max: left(),
                        ..effort
                    };
                    checked = check(&client, form, Some(&allowed.outcomes), &effort)?;
                    one.otherwise = true;
                    one.add(&mut seen, &checked);
                }
                if checked.report.failure.is_none() && is_over() {
                    return Ok(late);
                }
            }
            if let Some(failure) = checked.report.failure {
                one.complete = false;
                one.failed = Some(Failed {
                    number,
                    client,
                    form,
                    failure,
                });
                break;
            }
        }
        one.seen = seen.len() as u64;
        Ok(one)
    }
}

impl One {
    fn add(&mut self, seen: &mut BTreeSet<Outcome>, checked: &Checked) {
        seen.extend(checked.outcomes.iter().cloned());
        add_stats(&mut self.stats, &checked.report.stats);
    }
}

impl Summary {
    /// Returns true if every client was run, and false if clients were left out or the time was over.
    pub fn has_run_all(&self) -> bool {
        !self.unfinished && self.unknown == 0
    }

    /// Returns false if a client failed, and true if all were run and none failed. Otherwise returns `None`.
    pub fn passed(&self) -> Option<bool> {
        match &self.failed {
            Some(_) => Some(false),
            None => self.has_run_all().then_some(true),
        }
    }

    fn add(&mut self, one: One) {
        self.clients += u64::from(one.ran);
        self.complete += u64::from(one.complete);
        self.otherwise += u64::from(one.otherwise);
        self.blocked += u64::from(one.blocked);
        self.unknown += u64::from(one.unknown);
        self.unfinished |= one.late;
        self.allowed += one.allowed;
        self.seen += one.seen;
        add_stats(&mut self.stats, &one.stats);
        if let Some(failed) = one.failed
            && self
                .failed
                .as_ref()
                .is_none_or(|other| failed.number < other.number)
        {
            self.failed = Some(failed);
        }
    }
}

fn add_stats(total: &mut Stats, more: &Stats) {
    total.states += more.states;
    total.executions += more.executions;
    total.transitions += more.transitions;
    total.depth_max = total.depth_max.max(more.depth_max);
    total.runs += more.runs;
    total.passes += more.passes;
    total.pasts += more.pasts;
    total.seconds += more.seconds;
}
