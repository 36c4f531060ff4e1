//! The state that all threads of a node share, the one that makes progress included: the engine under its lock.
//!
//! Relies on `engine` and `waker`. Used by `progress` and `node`.

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
}

impl Shared {
    pub(crate) fn new(engine: Engine, job: Membership) -> Result<Shared> {
        Ok(Shared {
            engine: Mutex::new(engine),
            job,
            waker: Waker::new()?,
        })
    }

    /// Locks the engine.
    pub(crate) fn engine(&self) -> MutexGuard<'_, Engine> {
        self.engine.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the engine unless another thread has it, which then makes progress.
    pub(crate) fn try_engine(&self) -> Option<MutexGuard<'_, Engine>> {
        match self.engine.try_lock() {
            Ok(engine) => Some(engine),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Makes progress unless another thread does.
    pub(crate) fn nudge(&self) {
        if let Some(mut engine) = self.try_engine() {
            engine.progress(&self.job);
        }
    }
}
