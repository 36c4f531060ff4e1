//! The state that all threads of a node share, including the one that makes progress: the engine under its lock.
//!
//! Relies on `engine` and `waker`. Used by `progress` and `node`.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use loco_fabric::Result;
use loco_host::membership::Membership;

use crate::engine::Engine;
use crate::waker::Waker;

/// The state that the progress thread shares with the others.
pub(crate) struct Shared {
    engine: Mutex<Engine>,
    pub(crate) job: Membership,
    pub(crate) waker: Waker,
    /// The number of times that waiting threads have made progress.
    helped: AtomicU64,
    /// The number of threads that wait for the lock.
    wanting: AtomicU32,
}

impl Shared {
    pub(crate) fn new(engine: Engine, job: Membership) -> Result<Shared> {
        Ok(Shared {
            engine: Mutex::new(engine),
            job,
            waker: Waker::new()?,
            helped: AtomicU64::new(0),
            wanting: AtomicU32::new(0),
        })
    }

    /// Locks the engine.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        if let Some(engine) = self.try_engine() {
            return engine;
        }
        // Relaxed, here and in `is_wanted`: the number is a hint.
        self.wanting.fetch_add(1, Ordering::Relaxed);
        let engine = self.engine.lock().unwrap_or_else(PoisonError::into_inner);
        self.wanting.fetch_sub(1, Ordering::Relaxed);
        engine
    }

    /// Returns true if a thread waits for the lock. A thread that takes the lock again and again must leave it alone then,
    /// because a mutex need not be fair.
    pub(crate) fn is_wanted(&self) -> bool {
        self.wanting.load(Ordering::Relaxed) > 0
    }

    /// Locks the engine unless another thread has it, which then makes progress.
    pub(crate) fn try_engine(&self) -> Option<MutexGuard<'_, Engine>> {
        match self.engine.try_lock() {
            Ok(engine) => Some(engine),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Makes progress for a waiting thread, unless another thread does.
    pub(crate) fn nudge(&self) {
        if let Some(mut engine) = self.try_engine() {
            self.help(&mut engine);
        }
    }

    /// Makes progress for a waiting thread.
    pub(crate) fn help(&self, engine: &mut Engine) {
        engine.progress(&self.job);
        // Relaxed: the number publishes no other data.
        self.helped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of times that waiting threads have made progress.
    pub(crate) fn helped(&self) -> u64 {
        self.helped.load(Ordering::Relaxed)
    }
}
