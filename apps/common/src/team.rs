//! Threads on all nodes that start together, work for a while, and add up their work. They use a barrier of
//! all threads, one of all nodes, and shared state tables.

use std::fmt::Display;
use std::thread;

use loco::fabric::Fabric;
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
    loop {
        match barrier.wait(thread) {
            Err(error) if error.is_timeout() => {}
            met => return met,
        }
    }
}

/// The threads of all nodes.
pub struct Team<F: Fabric> {
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
        Ok(Team {
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
            _agreement: agreement,
        })
    }

    /// Runs `prepare` in every thread, and `work` once all threads of all nodes have finished that. From then on a signal
    /// is a request to end; before, it ends the process. `work` calls its last argument from time to time to learn
    /// whether to end. The answer is true on all nodes once one of them has been asked to end.
    ///
    /// # Errors
    /// Returns the first error of a thread.
    pub fn run<T: Send, E: From<Error> + Send>(
        &self,
        stop: &Stop,
        prepare: impl Fn(&Thread<F>, Share) -> Result<(), E> + Sync,
        work: impl Fn(&Thread<F>, Share, &mut dyn FnMut() -> Result<bool>) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        self.each(|thread, share| {
            prepare(thread, share)?;
            meet(&self.line, thread)?;
            if share.local == 0 {
                stop.begin_work();
            }
            work(thread, share, &mut || self.is_stopped(thread, stop))
        })
    }

    /// Runs `body` in every thread of this node. The threads of other nodes are not waited for.
    ///
    /// # Errors
    /// Returns the first error of a thread.
    pub fn each<T: Send, E: From<Error> + Send>(
        &self,
        body: impl Fn(&Thread<F>, Share) -> Result<T, E> + Sync,
    ) -> Result<Vec<T>, E> {
        let each = |index| {
            let thread = self.manager.thread()?;
            body(&thread, Share::new(&self.manager, index, self.threads))
        };
        thread::scope(|scope| {
            let each = &each;
            let started: Vec<_> = (0..self.threads)
                .map(|index| scope.spawn(move || each(index)))
                .collect();
            let joined = started.into_iter().map(|thread| thread.join());
            joined
                .map(|outcome| outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        })
    }

    fn is_stopped(&self, thread: &Thread<F>, stop: &Stop) -> Result<bool> {
        if stop.is_asked() && self.stopped.mine()?.load() == 0 {
            self.stopped.store_mine(1)?;
            self.stopped.push(thread)?.wait(thread)?;
        }
        Ok(self.stopped.rows()?.any(|row| row.load() != 0))
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
        for (table, count) in self.counts.iter().zip(mine.counts) {
            table.store_mine(count)?;
            table.push(thread)?.wait(thread)?;
        }
        self.rates.store_mine(mine.per_second)?;
        self.rates.push(thread)?.wait(thread)?;
        // The barrier completes what was pushed before it.
        meet(&self.end, thread)?;
        if self.position != 0 {
            return Ok(None);
        }
        let sum = |table: &Sst<u64, F>| Ok::<u64, Error>(table.rows()?.map(|row| row.load()).sum());
        Ok(Some(Tally {
            counts: [sum(&self.counts[0])?, sum(&self.counts[1])?],
            per_second: self.rates.rows()?.map(|row| row.load()).sum(),
        }))
    }

    /// Adds up a number of each node, with wrap-around. On the lowest node, returns the sum of all; elsewhere `None`. All
    /// nodes must call it, once.
    ///
    /// # Errors
    /// Returns the errors of the objects.
    pub fn sum(&self, thread: &Thread<F>, mine: i64) -> Result<Option<i64>> {
        self.sums.store_mine(mine)?;
        self.sums.push(thread)?.wait(thread)?;
        // The barrier completes what was pushed before it.
        meet(&self.end, thread)?;
        if self.position != 0 {
            return Ok(None);
        }
        let rows = self.sums.rows()?.map(|row| row.load());
        Ok(Some(rows.fold(0, i64::wrapping_add)))
    }

    /// Returns whether this is the lowest node, which speaks for all.
    pub fn leads(&self) -> bool {
        self.position == 0
    }

    /// Waits until all nodes have called this, as long as it takes.
    ///
    /// # Errors
    /// Returns the errors of [`meet`].
    pub fn end(&self, thread: &Thread<F>) -> Result<()> {
        meet(&self.end, thread)
    }
}
