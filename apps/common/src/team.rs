//! Threads on all nodes that start together, work for a while, and add up their work. They use a barrier of
//! all threads, one of all nodes, and shared state tables. Threads, and the places of their results, are those of the fabric's
//! platform, so that a program with a team runs under the model too.

use std::fmt::Display;
use std::sync::Arc;

use loco::fabric::{AtomicCell, Fabric, Lock as _, Platform, Task as _, ThreadKind};
use loco::{Barrier, Channel, Error, Manager, Participants, Result, Sst, Thread};

use crate::Stop;

/// A thread's part of the work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// The number of the thread among those of all nodes.
    pub index: usize,
    /// The number of threads of all nodes.
    pub of: usize,
    /// The number of the thread among those of its node.
    pub local: usize,
    /// The number of threads of its node.
    pub local_of: usize,
}

impl Share {
    /// Returns the share of the thread `local` among the `local_of` threads of this node. All nodes have as many threads.
    pub fn new<F: Fabric>(manager: &Manager<F>, local: usize, local_of: usize) -> Share {
        let nodes = manager.nodes();
        let position = nodes.iter().position(|&node| node == manager.node());
        Share {
            index: position.unwrap_or(0) * local_of + local,
            of: nodes.len() * local_of,
            local,
            local_of,
        }
    }
}

/// The work that was done.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Tally {
    /// The operations of each of two kinds.
    pub counts: [u64; 2],
    /// The operations of both kinds, a second.
    pub per_second: f64,
}

/// Makes a channel that fails with `Mismatch`, on all nodes, if nodes were started with different `options`. It is
/// ready when the options have been compared.
///
/// # Errors
/// Returns the errors of channels.
pub fn agreement<F: Fabric>(manager: &Manager<F>, options: String) -> Result<Channel<F>> {
    Channel::builder(manager, "options").kind(options).join()
}

/// Waits at `barrier` as long as it takes. The others may fill, measure or check for longer than a wait's deadline, each as
/// long as its own operations succeed: a node whose operations time out fails and leaves, so nobody waits for it here.
///
/// # Errors
/// Returns the errors of the barrier but [`Timeout`](loco::ErrorKind::Timeout).
pub fn meet<F: Fabric>(barrier: &Barrier<F>, thread: &Thread<F>) -> Result<()> {
    meet_while(barrier, thread, || true)
}

/// Waits as [`meet`] does, but after a wait's deadline only while `may_come` says that the others may still come.
fn meet_while<F: Fabric>(
    barrier: &Barrier<F>,
    thread: &Thread<F>,
    may_come: impl Fn() -> bool,
) -> Result<()> {
    loop {
        match barrier.wait(thread) {
            Err(error) if error.is_timeout() && may_come() => {}
            met => return met,
        }
    }
}

/// The threads of all nodes. Clones share them.
pub struct Team<F: Fabric> {
    parts: Arc<Parts<F>>,
}

impl<F: Fabric> Clone for Team<F> {
    fn clone(&self) -> Self {
        Team {
            parts: self.parts.clone(),
        }
    }
}

/// The place of a thread's result.
type Slot<T, F> = <<F as Fabric>::Platform as Platform>::Mutex<Option<T>>;

/// Tells the other threads of a node that one has failed, by an error or a panic, when it is dropped.
struct Failure<'a, N: AtomicCell<u64>> {
    /// 1 + the number of the first that has failed, or 0.
    first: &'a N,
    number: u64,
    is_none: bool,
}

impl<N: AtomicCell<u64>> Drop for Failure<'_, N> {
    fn drop(&mut self) {
        if !self.is_none {
            let _later = self.first.compare_exchange(0, self.number);
        }
    }
}

struct Parts<F: Fabric> {
    manager: Manager<F>,
    threads: usize,
    /// The position of this node.
    position: usize,
    line: Barrier<F>,
    end: Barrier<F>,
    counts: [Sst<u64, F>; 2],
    rates: Sst<f64, F>,
    sums: Sst<i64, F>,
    stopped: Sst<u64, F>,
    /// 1 + the number of the thread of this node that has failed first, or 0.
    failed: <F::Platform as Platform>::AtomicU64,
    /// A channel that fails for nodes that were started with different options.
    _agreement: Channel<F>,
}

impl<F: Fabric> Team<F> {
    /// Makes this node's part of a team of `threads` threads on each node of `manager`. `plan` describes the
    /// options that must be equal on all nodes. Wait until the manager is ready before [`run`](Team::run).
    /// If threads or plans differ, this wait fails with `Mismatch` on all nodes.
    ///
    /// Make the team before the objects whose shape follows from the plan, so that the error names the plan.
    ///
    /// # Errors
    /// Returns the errors of the objects.
    pub fn new(manager: &Manager<F>, threads: u16, plan: impl Display) -> Result<Team<F>> {
        let agreement = agreement(manager, format!("--threads {threads} {plan}"))?;
        let everybody = Participants::all(manager);
        let threads = usize::from(threads);
        let here = |&node| node == manager.node();
        let parts = Parts {
            manager: manager.clone(),
            threads,
            position: everybody.nodes().iter().position(here).unwrap_or(0),
            // The options contain the number of threads. A check by the barrier itself would say less, and
            // could come first.
            line: Barrier::with_local_threads(manager, "line", threads)?,
            end: Barrier::new(manager, "end")?,
            counts: [
                Sst::new(manager, "first count")?,
                Sst::new(manager, "second count")?,
            ],
            rates: Sst::new(manager, "rates")?,
            sums: Sst::new(manager, "sums")?,
            stopped: Sst::new(manager, "stopped")?,
            failed: AtomicCell::<u64>::new(0),
            _agreement: agreement,
        };
        Ok(Team {
            parts: Arc::new(parts),
        })
    }

    /// Runs `prepare` in every thread, and `work` once all threads of all nodes have finished that. From then on a signal
    /// is a request to end; before, it ends the process. `work` calls its last argument from time to time to learn
    /// whether to end. The answer is true on all nodes once one of them has been asked to end.
    ///
    /// # Errors
    /// Returns the first error of a thread.
    pub fn run<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        stop: &Stop,
        prepare: impl Fn(&Thread<F>, Share) -> Result<(), E> + Send + Sync + 'static,
        work: impl Fn(&Thread<F>, Share, &mut dyn FnMut() -> Result<bool>) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, E> {
        let (team, stop) = (self.clone(), stop.clone());
        self.each(move |thread, share| {
            prepare(thread, share)?;
            // A thread of this node that has failed never comes, and the node can only end when no thread waits for it.
            meet_while(&team.parts.line, thread, || team.parts.failed.load() == 0)?;
            if share.local == 0 {
                stop.begin_work();
            }
            work(thread, share, &mut || team.is_stopped(thread, &stop))
        })
    }

    /// Runs `body` in every thread of this node. The threads of other nodes are not waited for.
    ///
    /// # Errors
    /// Returns the error of the thread that failed first. A panic of a thread is an error too.
    pub fn each<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        body: impl Fn(&Thread<F>, Share) -> Result<T, E> + Send + Sync + 'static,
    ) -> Result<Vec<T>, E> {
        let (body, parts) = (Arc::new(body), &self.parts);
        let start = |local| {
            let (body, parts) = (body.clone(), self.parts.clone());
            let slot = Arc::new(Slot::<Result<T, E>, F>::new(None));
            let filled = slot.clone();
            let run = move || {
                let mut failure = Failure {
                    first: &parts.failed,
                    number: 1 + local as u64,
                    is_none: false,
                };
                let begun = parts.manager.thread().map_err(E::from);
                let outcome =
                    begun.and_then(|thread| body(&thread, Share::new(&parts.manager, local, parts.threads)));
                failure.is_none = outcome.is_ok();
                drop(failure);
                *filled.lock() = Some(outcome);
            };
            let platform = self.parts.manager.fabric().platform();
            let task = platform.spawn("worker", ThreadKind::Worker, run);
            Ok::<_, E>((task.map_err(Error::from)?, slot))
        };
        let started = (0..parts.threads).map(start).collect::<Result<Vec<_>, E>>()?;
        let mut outcomes = Vec::with_capacity(started.len());
        for (task, slot) in started {
            task.join().map_err(Error::from)?;
            // A thread that has ended without a panic has left its result.
            outcomes.extend(slot.lock().take());
        }
        // The first failure is the cause: a later one may be a wait for the thread that had failed.
        let first = (self.parts.failed.load() as usize).checked_sub(1);
        if let Some(first) = first.filter(|&first| outcomes.get(first).is_some_and(Result::is_err)) {
            outcomes.swap(0, first);
        }
        outcomes.into_iter().collect()
    }

    fn is_stopped(&self, thread: &Thread<F>, stop: &Stop) -> Result<bool> {
        if stop.is_asked() && self.parts.stopped.mine()?.load() == 0 {
            self.parts.stopped.store_mine(1)?;
            self.parts.stopped.push(thread)?.wait(thread)?;
        }
        Ok(self.parts.stopped.rows()?.any(|row| row.load() != 0))
    }

    /// Adds up the work of each node's threads. On the lowest node, returns the work of all nodes; elsewhere
    /// `None`. All nodes must call it. When it returns, the work is over on all of them, and placed.
    ///
    /// # Errors
    /// Returns the errors of the objects.
    pub fn add_up(&self, thread: &Thread<F>, mine: impl Iterator<Item = Tally>) -> Result<Option<Tally>> {
        let mine = mine.fold(Tally::default(), |sum, tally| Tally {
            counts: [0, 1].map(|kind| sum.counts[kind] + tally.counts[kind]),
            per_second: sum.per_second + tally.per_second,
        });
        for (table, count) in self.parts.counts.iter().zip(mine.counts) {
            table.store_mine(count)?;
            table.push(thread)?.wait(thread)?;
        }
        self.parts.rates.store_mine(mine.per_second)?;
        self.parts.rates.push(thread)?.wait(thread)?;
        // The barrier completes what was pushed before it.
        meet(&self.parts.end, thread)?;
        if self.parts.position != 0 {
            return Ok(None);
        }
        let sum = |table: &Sst<u64, F>| Ok::<u64, Error>(table.rows()?.map(|row| row.load()).sum());
        Ok(Some(Tally {
            counts: [sum(&self.parts.counts[0])?, sum(&self.parts.counts[1])?],
            per_second: self.parts.rates.rows()?.map(|row| row.load()).sum(),
        }))
    }

    /// Adds up a number of each node, with wrap-around. On the lowest node, returns the sum of all; elsewhere `None`. All
    /// nodes must call it, once.
    ///
    /// # Errors
    /// Returns the errors of the objects.
    pub fn sum(&self, thread: &Thread<F>, mine: i64) -> Result<Option<i64>> {
        self.parts.sums.store_mine(mine)?;
        self.parts.sums.push(thread)?.wait(thread)?;
        // The barrier completes what was pushed before it.
        meet(&self.parts.end, thread)?;
        if self.parts.position != 0 {
            return Ok(None);
        }
        let rows = self.parts.sums.rows()?.map(|row| row.load());
        Ok(Some(rows.fold(0, i64::wrapping_add)))
    }

    /// Returns whether this is the lowest node, which speaks for all.
    pub fn leads(&self) -> bool {
        self.parts.position == 0
    }

    /// Waits until all nodes have called this, as long as it takes.
    ///
    /// # Errors
    /// Returns the errors of [`meet`].
    pub fn end(&self, thread: &Thread<F>) -> Result<()> {
        meet(&self.parts.end, thread)
    }
}
