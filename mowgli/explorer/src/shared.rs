//! The state that the workers of one search share: its options, the visited states, the pool of open states,
//! and the counts.
//!
//! Used by [`search`](crate::search()), which makes it, and by each [`crate::worker`].

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::bounds::Bounds;
use crate::limits::{Limit, Limits, Progress};
use crate::node::Node;
use crate::sharing::Pool;
use crate::system::System;
use crate::visited::Visited;

/// The options of a search.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The most threads to search with.
    pub workers: usize,
    /// The number of moves that the caller's thread makes before it starts further workers. Small searches
    /// need none.
    pub alone: u64,
    /// The bounds of the executions to follow.
    pub bounds: Option<Bounds>,
    /// The limits of the search.
    pub limits: Limits<'a>,
    /// Counts also the states that are passed through by an eager move ([`System::eager`]).
    pub count_passed: bool,
    /// The most moves of an execution. A longer one ends the search with [`Limit::Depth`].
    pub depth_max: u64,
    /// Called now and then, by any of the workers.
    pub progress: Option<&'a (dyn Fn(&Progress) + Sync)>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options {
            workers: 1,
            alone: 50_000,
            bounds: None,
            limits: Limits::default(),
            count_passed: false,
            depth_max: u64::MAX,
            progress: None,
        }
    }
}

/// The work of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// The states, counted as [`Options::count_passed`] says.
    pub states: u64,
    /// The moves made.
    pub moves: u64,
    /// The distinct states in which executions may end: those without moves that must happen. For random
    /// executions, the number of executions.
    pub ends: u64,
    /// The moves of the longest execution.
    pub depth: u64,
}

impl Stats {
    /// Adds the work of another worker.
    pub fn add(&mut self, other: &Stats) {
        self.states += other.states;
        self.moves += other.moves;
        self.ends += other.ends;
        self.depth = self.depth.max(other.depth);
    }
}

/// The end of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Everything was explored.
    Complete,
    /// Everything within the bounds was explored. There is more beyond them.
    Bounded,
    /// The system ended the search by a finding or by [`crate::Flow::Quit`].
    Quit,
    /// The search reached a limit.
    Limit(Limit),
}

/// The state that the workers of one search share.
pub(crate) struct Shared<'a, W: System> {
    pub(crate) options: &'a Options<'a>,
    pub(crate) visited: Visited,
    pub(crate) pool: Pool<Box<Node<W::State>>>,
    /// Set when moves were left out because of the bounds.
    pub(crate) cut: AtomicBool,
    states: AtomicU64,
    tally: Mutex<Tally<W::Finding>>,
}

struct Tally<F> {
    finding: Option<F>,
    stopped_by: Option<Ended>,
    ends: u64,
    /// The share of the search tree that is closed.
    closed: f64,
}

impl<'a, W: System> Shared<'a, W> {
    pub(crate) fn new(options: &'a Options<'a>) -> Self {
        Shared {
            options,
            visited: Visited::default(),
            pool: Pool::new(),
            cut: AtomicBool::new(false),
            states: AtomicU64::new(0),
            tally: Mutex::new(Tally {
                finding: None,
                stopped_by: None,
                ends: 0,
                closed: 0.0,
            }),
        }
    }

    /// Returns the end of the search, with the finding if there was one. To be called once the workers are
    /// joined.
    pub(crate) fn end(&self) -> (Ended, Option<W::Finding>) {
        let mut tally = self.tally();
        let ended = match tally.stopped_by {
            Some(why) => why,
            // Relaxed: the workers have been joined.
            None if self.cut.load(Ordering::Relaxed) => Ended::Bounded,
            None => Ended::Complete,
        };
        (ended, tally.finding.take())
    }

    fn tally(&self) -> std::sync::MutexGuard<'_, Tally<W::Finding>> {
        // The value is whole after a panic, because only fields are set under the lock.
        self.tally.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the search.
    pub(crate) fn stop(&self, why: Ended, finding: Option<W::Finding>) {
        let mut tally = self.tally();
        // The first reason is kept.
        if tally.stopped_by.is_none() {
            (tally.stopped_by, tally.finding) = (Some(why), finding);
        }
        drop(tally);
        self.pool.stop();
    }

    /// Adds to the common counts and looks at the limits. Returns false if the search is to stop. `is_over`
    /// says that the caller has nothing left to do, so a limit no longer matters to it.
    pub(crate) fn report(&self, states: u64, ends: u64, closed: f64, is_over: bool) -> bool {
        // Relaxed: the count publishes no other data.
        let states = self.states.fetch_add(states, Ordering::Relaxed) + states;
        let progress = {
            let mut tally = self.tally();
            tally.ends += ends;
            tally.closed += closed;
            Progress {
                states,
                executions: tally.ends,
                done: tally.closed.min(1.0),
            }
        };
        if self.pool.is_stopped() {
            return false;
        }
        if let Some(tell) = self.options.progress {
            tell(&progress);
        }
        match self.options.limits.exceeded(states) {
            Some(limit) if !is_over => {
                self.stop(Ended::Limit(limit), None);
                false
            }
            _ => true,
        }
    }
}
