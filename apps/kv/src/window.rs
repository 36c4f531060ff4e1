//! A window of operations under way: each is started and completed by itself, and its result checked.
//!
//! Relies on the store. Used by the `kv` command and by `loco bench kv` on networks.

use std::collections::VecDeque;

use loco::fabric::Fabric;
use loco::{KvStore, PendingGet, PendingUpdate, Thread};

use crate::{KvError, Result};

/// The operations of one thread under way.
pub struct Window<'a, F: Fabric> {
    thread: &'a Thread<F>,
    store: &'a KvStore<u64, u64, F>,
    size: usize,
    /// From the oldest on.
    started: VecDeque<Started<'a, F>>,
    /// The lookups and updates that are done.
    done: [u64; 2],
}

/// An operation under way, and its key.
enum Started<'a, F: Fabric> {
    Lookup(u64, PendingGet<'a, u64, u64, F>),
    Update(u64, PendingUpdate<'a, u64, u64, F>),
}

impl<'a, F: Fabric> Window<'a, F> {
    /// Makes a window for `size` operations.
    pub fn new(thread: &'a Thread<F>, store: &'a KvStore<u64, u64, F>, size: usize) -> Window<'a, F> {
        Window {
            thread,
            store,
            size,
            started: VecDeque::with_capacity(size),
            done: [0; 2],
        }
    }

    /// Returns true if fewer operations are under way than the window has room for.
    pub fn has_room(&self) -> bool {
        self.started.len() < self.size
    }

    /// Starts a lookup.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub fn lookup(&mut self, key: u64) -> Result<()> {
        let lookup = self.store.get_start(self.thread, &key)?;
        self.started.push_back(Started::Lookup(key, lookup));
        Ok(())
    }

    /// Starts an update.
    ///
    /// # Errors
    /// Returns the errors of the store.
    pub fn update(&mut self, key: u64, value: u64) -> Result<()> {
        let update = self.store.update_start(self.thread, &key, &value)?;
        self.started.push_back(Started::Update(key, update));
        Ok(())
    }

    /// Completes the oldest operation, and those behind it that are over too, so that as many are started together. Returns their number, 0
    /// if none is under way.
    ///
    /// # Errors
    /// Returns `Wrong` if a lookup finds a value that nobody wrote or a key is gone, and the errors of the store.
    pub fn finish_some(&mut self) -> Result<u64> {
        let before = self.done;
        if let Some(oldest) = self.started.pop_front() {
            self.check(oldest)?;
        }
        while self.started.front().is_some_and(Started::query) {
            if let Some(next) = self.started.pop_front() {
                self.check(next)?;
            }
        }
        Ok(self.done[0] + self.done[1] - before[0] - before[1])
    }

    /// Completes all operations. Returns the numbers of lookups and updates that the window has done.
    ///
    /// # Errors
    /// Returns the errors of [`finish_some`](Window::finish_some).
    pub fn finish(mut self) -> Result<[u64; 2]> {
        while self.finish_some()? > 0 {}
        Ok(self.done)
    }

    /// Waits for an operation and checks its result.
    fn check(&mut self, started: Started<'a, F>) -> Result<()> {
        match started {
            Started::Lookup(key, lookup) => {
                check(key, lookup.wait()?)?;
                self.done[0] += 1;
            }
            Started::Update(key, update) => {
                if !update.wait()? {
                    return Err(KvError::Wrong { key, found: None });
                }
                self.done[1] += 1;
            }
        }
        Ok(())
    }
}

impl<F: Fabric> Started<'_, F> {
    /// Returns true if it is over.
    fn query(&self) -> bool {
        match self {
            Started::Lookup(_, lookup) => lookup.query(),
            Started::Update(_, update) => update.query(),
        }
    }
}

/// Fails if `found` is not a value of `key`.
///
/// # Errors
/// Returns `Wrong`.
#[inline]
pub fn check(key: u64, found: Option<u64>) -> Result<()> {
    match found {
        Some(value) if (value ^ key) & 0xffff_ffff == 0 => Ok(()),
        found => Err(KvError::Wrong { key, found }),
    }
}
