//! Threads, locks and atomics of the model: each use is a visible step.
//!
//! An atomic is a word of the node's memory: its loads and stores go through the thread's store buffer like any other,
//! its read-modify-writes are locked instructions. A lock is taken and released by locked instructions too.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use loco_fabric::{AtomicCell, FabricError, Lock, Platform, Result, RwLock, Task, ThreadKind, Time};

use crate::coroutine::{ask, current, fresh_names, hand_over};
use crate::request::{LockId, LockMode, Reply, Request, Rmw, VirtualWord};

/// Platform of the model fabric. Its clock stands still: deadlines never pass, a wait that cannot end is a deadlock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelPlatform;

impl Platform for ModelPlatform {
    type AtomicU64 = ModelAtomic;
    type AtomicU32 = ModelAtomic;
    type Mutex<T: Send + 'static> = ModelMutex<T>;
    type RwLock<T: Send + Sync + 'static> = ModelRwLock<T>;
    type Task = ModelTask;

    fn now(&self) -> Time {
        Time(0)
    }

    fn spawn(&self, name: &str, kind: ThreadKind, body: impl FnOnce() + Send + 'static) -> Result<ModelTask> {
        let Some((_, node)) = current() else {
            return Err(outside("spawn"));
        };
        hand_over(Box::new(body));
        match ask(Request::Spawn {
            node,
            kind: kind.into(),
            name: name.into(),
        }) {
            Reply::Value(thread) => Ok(ModelTask {
                thread: thread as u16,
            }),
            _ => Err(outside("spawn")),
        }
    }
}

/// The error of what is tried outside a model thread.
pub(crate) fn outside(what: &str) -> FabricError {
    FabricError::Unsupported(format!(
        "{what} on the model fabric outside a thread of an exploration"
    ))
}

/// A thread of the model.
#[derive(Debug)]
pub struct ModelTask {
    thread: u16,
}

impl Task for ModelTask {
    fn join(self) -> Result<()> {
        match ask(Request::Join { thread: self.thread }) {
            Reply::Dismantled => Err(outside("join")),
            _ => Ok(()),
        }
    }
}

/// An atomic word, given memory when first used by a model thread.
#[derive(Debug)]
pub struct ModelAtomic {
    initial: u64,
    word: OnceLock<VirtualWord>,
}

impl ModelAtomic {
    fn word(&self) -> VirtualWord {
        *self.word.get_or_init(|| {
            let word = allocate(1);
            if self.initial != 0 {
                // A fresh word is seen by nobody else before this value is: it is published by other means.
                ask(Request::Rmw {
                    word,
                    rmw: Rmw::Swap(self.initial),
                });
            }
            word
        })
    }

    fn rmw(&self, rmw: Rmw) -> u64 {
        value(ask(Request::Rmw {
            word: self.word(),
            rmw,
        }))
    }
}

/// Fresh zeroed words of the running thread's node.
pub(crate) fn allocate(count: u64) -> VirtualWord {
    VirtualWord(fresh_names(count))
}

/// The number in a reply.
pub(crate) fn value(reply: Reply) -> u64 {
    match reply {
        Reply::Value(value) => value,
        _ => 0,
    }
}

impl<W: ModelWord> AtomicCell<W> for ModelAtomic {
    fn new(initial: W) -> Self {
        let atomic = ModelAtomic {
            initial: initial.widen(),
            word: OnceLock::new(),
        };
        if current().is_some() {
            atomic.word();
        }
        atomic
    }

    fn load(&self, _order: Ordering) -> W {
        W::narrow(value(ask(Request::Load { word: self.word() })))
    }

    fn store(&self, value: W, order: Ordering) {
        ask(Request::Store {
            word: self.word(),
            value: value.widen(),
        });
        if order == Ordering::SeqCst {
            ask(Request::Fence);
        }
    }

    fn swap(&self, value: W, _order: Ordering) -> W {
        W::narrow(self.rmw(Rmw::Swap(value.widen())))
    }

    fn fetch_add(&self, value: W, _order: Ordering) -> W {
        W::narrow(self.rmw(Rmw::Add(value.widen())))
    }

    fn fetch_or(&self, value: W, _order: Ordering) -> W {
        W::narrow(self.rmw(Rmw::Or(value.widen())))
    }

    fn fetch_and(&self, value: W, _order: Ordering) -> W {
        W::narrow(self.rmw(Rmw::And(value.widen())))
    }

    fn compare_exchange(&self, current: W, new: W, _ok: Ordering, _fail: Ordering) -> Result<W, W> {
        let found = W::narrow(self.rmw(Rmw::CompareExchange {
            current: current.widen(),
            new: new.widen(),
        }));
        if found == current { Ok(found) } else { Err(found) }
    }
}

/// Widths of [`ModelAtomic`]. 32-bit cells wrap at 64 bits inside; narrowing gives the right value.
pub trait ModelWord: Copy + PartialEq + Send + Sync + 'static {
    /// Zero-extends.
    fn widen(self) -> u64;
    /// Truncates.
    fn narrow(value: u64) -> Self;
}

impl ModelWord for u64 {
    fn widen(self) -> u64 {
        self
    }
    fn narrow(value: u64) -> u64 {
        value
    }
}

impl ModelWord for u32 {
    fn widen(self) -> u64 {
        u64::from(self)
    }
    #[allow(clippy::cast_possible_truncation)] // Truncation is the promise.
    fn narrow(value: u64) -> u32 {
        value as u32
    }
}

/// A lock of the model. The value sits in a real mutex that is never contended: the model lock is taken first.
#[derive(Debug)]
pub struct ModelMutex<T> {
    id: LazyLock,
    value: Mutex<T>,
}

#[derive(Debug, Default)]
struct LazyLock(OnceLock<LockId>);

impl LazyLock {
    fn new() -> LazyLock {
        let lock = LazyLock::default();
        if current().is_some() {
            lock.id();
        }
        lock
    }

    fn id(&self) -> LockId {
        *self.0.get_or_init(|| LockId(fresh_names(1)))
    }
}

/// Access to what a [`ModelMutex`] holds.
pub struct ModelGuard<'a, T> {
    lock: LockId,
    mode: LockMode,
    value: Option<MutexGuard<'a, T>>,
}

impl<T> Deref for ModelGuard<'_, T> {
    type Target = T;
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref(&self) -> &T {
        self.value.as_ref().expect("held")
    }
}

impl<T> DerefMut for ModelGuard<'_, T> {
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held")
    }
}

impl<T> Drop for ModelGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        ask(Request::Unlock {
            lock: self.lock,
            mode: self.mode,
        });
    }
}

impl<T: Send + 'static> Lock<T> for ModelMutex<T> {
    type Guard<'a> = ModelGuard<'a, T>;

    fn new(value: T) -> Self {
        ModelMutex {
            id: LazyLock::new(),
            value: Mutex::new(value),
        }
    }

    fn lock(&self) -> ModelGuard<'_, T> {
        let lock = self.id.id();
        ask(Request::Lock {
            lock,
            mode: LockMode::Exclusive,
        });
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        ModelGuard {
            lock,
            mode: LockMode::Exclusive,
            value: Some(value),
        }
    }

    fn try_lock(&self) -> Option<ModelGuard<'_, T>> {
        let lock = self.id.id();
        match ask(Request::TryLock { lock }) {
            Reply::Value(0) => None,
            _ => Some(ModelGuard {
                lock,
                mode: LockMode::Exclusive,
                value: Some(self.value.lock().unwrap_or_else(PoisonError::into_inner)),
            }),
        }
    }
}

/// A reader-writer lock of the model.
#[derive(Debug)]
pub struct ModelRwLock<T> {
    id: LazyLock,
    value: std::sync::RwLock<T>,
}

/// Shared access.
pub struct ModelReadGuard<'a, T> {
    lock: LockId,
    value: Option<std::sync::RwLockReadGuard<'a, T>>,
}

/// Exclusive access.
pub struct ModelWriteGuard<'a, T> {
    lock: LockId,
    value: Option<std::sync::RwLockWriteGuard<'a, T>>,
}

impl<T> Deref for ModelReadGuard<'_, T> {
    type Target = T;
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref(&self) -> &T {
        self.value.as_ref().expect("held")
    }
}

impl<T> Deref for ModelWriteGuard<'_, T> {
    type Target = T;
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref(&self) -> &T {
        self.value.as_ref().expect("held")
    }
}

impl<T> DerefMut for ModelWriteGuard<'_, T> {
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("held")
    }
}

impl<T> Drop for ModelReadGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        ask(Request::Unlock {
            lock: self.lock,
            mode: LockMode::Shared,
        });
    }
}

impl<T> Drop for ModelWriteGuard<'_, T> {
    fn drop(&mut self) {
        self.value = None;
        ask(Request::Unlock {
            lock: self.lock,
            mode: LockMode::Exclusive,
        });
    }
}

impl<T: Send + Sync + 'static> RwLock<T> for ModelRwLock<T> {
    type ReadGuard<'a> = ModelReadGuard<'a, T>;
    type WriteGuard<'a> = ModelWriteGuard<'a, T>;

    fn new(value: T) -> Self {
        ModelRwLock {
            id: LazyLock::new(),
            value: std::sync::RwLock::new(value),
        }
    }

    fn read(&self) -> ModelReadGuard<'_, T> {
        let lock = self.id.id();
        ask(Request::Lock {
            lock,
            mode: LockMode::Shared,
        });
        let value = self.value.read().unwrap_or_else(PoisonError::into_inner);
        ModelReadGuard {
            lock,
            value: Some(value),
        }
    }

    fn write(&self) -> ModelWriteGuard<'_, T> {
        let lock = self.id.id();
        ask(Request::Lock {
            lock,
            mode: LockMode::Exclusive,
        });
        let value = self.value.write().unwrap_or_else(PoisonError::into_inner);
        ModelWriteGuard {
            lock,
            value: Some(value),
        }
    }
}
