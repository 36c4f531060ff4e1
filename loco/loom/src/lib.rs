//! Runs lock-free code under loom: the `Platform` of the fabrics, with loom's atomics, locks and threads.
//!
//! Lock-free code that takes its words and locks from a `Platform`, or is generic over `AtomicCell`, runs here as it is. loom tries
//! the interleavings of two or three threads, and the values that the memory model of C11 lets a load return, except those of
//! stores that come later (load buffering), which loom does not have. That memory is weaker than x86-TSO, which the contract
//! promises. So code that passes needs less than it has.
//!
//! Without the feature `loom` there is nothing here: only tests ask for it, so that a build of the whole workspace has the same features of
//! its crates with this one as without.
//!
//! Relies on `loom`. Used by tests named `model` of the crates that have such code; the gate and the doorbell of the shared-memory
//! fabric have words of their own kind, as their fences are two-sided.

#![cfg(feature = "loom")]
#![forbid(unsafe_code)]

use loco_fabric::{AtomicCell, FabricError, Lock, Platform, Result, RwLock, Task, ThreadKind, Time};
use loom::model::Builder;
use loom::sync::atomic::{Ordering, fence};
use loom::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};
use loom::thread;

/// Explores every interleaving of `world` with so many preemptions at most. Panics when one of them does.
pub fn explore(preemptions: usize, world: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(world);
}

/// Explores `threads` on a world that `new` makes, with so many preemptions at most, and calls `check` on the world when all of them
/// have ended. Panics when one of them does.
pub fn run<W: Send + Sync + 'static, const N: usize>(
    preemptions: usize,
    new: fn() -> W,
    threads: [fn(&W); N],
    check: fn(&W),
) {
    explore(preemptions, move || {
        let world = Arc::new(new());
        let threads = threads.map(|does| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        });
        let all_ended = threads.into_iter().all(|thread| thread.join().is_ok());
        assert!(all_ended, "a thread has panicked");
        check(&world);
    });
}

/// The platform of one execution under loom.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loom;

/// A word of loom's, with the accesses of the contract.
#[derive(Debug)]
pub struct Word<A>(A);

/// A mutual exclusion lock of loom's.
#[derive(Debug)]
pub struct LoomMutex<T>(Mutex<T>);

/// A reader-writer lock of loom's.
#[derive(Debug)]
pub struct LoomRwLock<T>(loom::sync::RwLock<T>);

/// A thread of loom's.
#[derive(Debug)]
pub struct LoomTask(thread::JoinHandle<()>);

impl Platform for Loom {
    type AtomicU64 = Word<loom::sync::atomic::AtomicU64>;
    type AtomicU32 = Word<loom::sync::atomic::AtomicU32>;
    type Mutex<T: Send + 'static> = LoomMutex<T>;
    type RwLock<T: Send + Sync + 'static> = LoomRwLock<T>;
    type Task = LoomTask;

    /// Returns the beginning: no time passes in a model.
    fn now(&self) -> Time {
        Time(0)
    }

    fn spawn(&self, _: &str, _: ThreadKind, body: impl FnOnce() + Send + 'static) -> Result<LoomTask> {
        Ok(LoomTask(thread::spawn(body)))
    }
}

impl Task for LoomTask {
    fn join(self) -> Result<()> {
        self.0.join().map_err(|_| FabricError::Os {
            what: "a thread panicked".to_owned(),
            source: String::new().into(),
        })
    }

    fn is_current(&self) -> bool {
        self.0.thread().id() == thread::current().id()
    }
}

/// Executes a read-modify-write with a full fence on both sides.
fn fenced<T>(rmw: impl FnOnce() -> T) -> T {
    fence(Ordering::SeqCst);
    let outcome = rmw();
    fence(Ordering::SeqCst);
    outcome
}

macro_rules! loom_word {
    ($atomic:ty, $word:ty) => {
        impl AtomicCell<$word> for Word<$atomic> {
            fn new(value: $word) -> Self {
                Word(<$atomic>::new(value))
            }

            fn load(&self) -> $word {
                self.0.load(Ordering::Acquire)
            }

            fn store(&self, value: $word) {
                self.0.store(value, Ordering::Release);
            }

            fn store_fence(&self, value: $word) {
                self.0.store(value, Ordering::Release);
                fence(Ordering::SeqCst);
            }

            fn swap(&self, value: $word) -> $word {
                fenced(|| self.0.swap(value, Ordering::AcqRel))
            }

            fn fetch_add(&self, value: $word) -> $word {
                fenced(|| self.0.fetch_add(value, Ordering::AcqRel))
            }

            fn fetch_or(&self, value: $word) -> $word {
                fenced(|| self.0.fetch_or(value, Ordering::AcqRel))
            }

            fn fetch_and(&self, value: $word) -> $word {
                fenced(|| self.0.fetch_and(value, Ordering::AcqRel))
            }

            fn compare_exchange(&self, current: $word, new: $word) -> std::result::Result<$word, $word> {
                fenced(|| {
                    self.0
                        .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
                })
            }
        }
    };
}
loom_word!(loom::sync::atomic::AtomicU64, u64);
loom_word!(loom::sync::atomic::AtomicU32, u32);

// loom has no poisoned locks: a panic ends the exploration.
impl<T: Send + 'static> Lock<T> for LoomMutex<T> {
    type Guard<'a> = MutexGuard<'a, T>;

    fn new(value: T) -> Self {
        LoomMutex(Mutex::new(value))
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.0.try_lock().ok()
    }
}

impl<T: Send + Sync + 'static> RwLock<T> for LoomRwLock<T> {
    type ReadGuard<'a> = RwLockReadGuard<'a, T>;
    type WriteGuard<'a> = RwLockWriteGuard<'a, T>;

    fn new(value: T) -> Self {
        LoomRwLock(loom::sync::RwLock::new(value))
    }

    fn read(&self) -> RwLockReadGuard<'_, T> {
        let guard = self.0.read().unwrap_or_else(|poisoned| poisoned.into_inner());
        fence(Ordering::SeqCst);
        guard
    }

    fn write(&self) -> RwLockWriteGuard<'_, T> {
        let guard = self.0.write().unwrap_or_else(|poisoned| poisoned.into_inner());
        fence(Ordering::SeqCst);
        guard
    }
}
