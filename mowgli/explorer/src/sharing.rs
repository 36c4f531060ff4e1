//! Shares work among the workers of a search: open states, and the signal to stop.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// The open states of one search.
pub(crate) struct Pool<N> {
    open: Mutex<Open<N>>,
    changed: Condvar,
    stopped: AtomicBool,
    /// The number of idle workers for which no open state waits. Workers look at it without the lock.
    hungry: AtomicUsize,
}

struct Open<N> {
    nodes: Vec<N>,
    workers: usize,
    idle: usize,
}

impl<N> Pool<N> {
    pub(crate) fn new() -> Pool<N> {
        Pool {
            open: Mutex::new(Open {
                nodes: Vec::new(),
                workers: 0,
                idle: 0,
            }),
            changed: Condvar::new(),
            stopped: AtomicBool::new(false),
            hungry: AtomicUsize::new(0),
        }
    }

    fn open(&self) -> MutexGuard<'_, Open<N>> {
        // A panic under the lock leaves counters and a list, and both are whole.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tell(&self, open: &Open<N>) {
        let hungry = open.idle.saturating_sub(open.nodes.len());
        // Relaxed: this is a hint that publishes no other data.
        self.hungry.store(hungry, Ordering::Relaxed);
    }

    /// Registers workers. All must be registered before the first is out of work.
    pub(crate) fn add_workers(&self, count: usize) {
        self.open().workers += count;
    }

    /// Tells every worker to end.
    pub(crate) fn stop(&self) {
        // The flag is set under the lock, so that a worker that is about to wait sees it.
        let _open = self.open();
        self.stopped.store(true, Ordering::Relaxed);
        self.changed.notify_all();
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: the flag publishes no other data; joins hand the results over.
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns whether a worker waits for work. This is a hint.
    pub(crate) fn is_hungry(&self) -> bool {
        // Relaxed: a late view only delays sharing.
        self.hungry.load(Ordering::Relaxed) > 0
    }

    /// Gives an open state away.
    pub(crate) fn give(&self, node: N) {
        let mut open = self.open();
        open.nodes.push(node);
        self.tell(&open);
        self.changed.notify_one();
    }

    /// Takes an open state. Waits for one while another worker may still give one. Returns `None` when the
    /// search has ended.
    pub(crate) fn take(&self) -> Option<N> {
        let mut open = self.open();
        open.idle += 1;
        loop {
            self.tell(&open);
            if self.is_stopped() {
                return None;
            }
            if let Some(node) = open.nodes.pop() {
                open.idle -= 1;
                self.tell(&open);
                return Some(node);
            }
            if open.idle >= open.workers {
                self.changed.notify_all();
                return None;
            }
            open = self.changed.wait(open).unwrap_or_else(PoisonError::into_inner);
        }
    }
}
