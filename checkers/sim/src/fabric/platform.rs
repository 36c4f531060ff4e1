//! Threads, locks and atomics of the model. Each use of them is a visible step.
//!
//! An atomic is a word of the node's memory. Its loads and stores go through the thread's store buffer like
//! any other, and its read-modify-writes are locked instructions. A lock, too, is taken and released by
//! locked instructions.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};

use loco_fabric::{AtomicCell, FabricError, Lock, Platform, Result, RwLock, Task, ThreadKind, Time};

use crate::fabric::coroutine::{self, ask, current, dismantling, fresh_names, hand_over, holds, lets_go};
use crate::fabric::reaper;
use crate::fabric::request::{LockId, LockMode, Reply, Request, Rmw, VirtualWord};

/// The platform of the model fabric. Its clock moves when the deadline of a wait passes
/// ([`Faults`](crate::Faults)). The clock stands still where no deadline may pass; a wait that cannot end is
/// then a deadlock.
#[derive(Clone, Copy, Debug, Default)]
pub struct ModelPlatform {
    pub(crate) timed: bool,
}

impl Platform for ModelPlatform {
    type AtomicU64 = ModelAtomic;
    type AtomicU32 = ModelAtomic;
    type Mutex<T: Send + 'static> = ModelMutex<T>;
    type RwLock<T: Send + Sync + 'static> = ModelRwLock<T>;
    type Task = ModelTask;

    fn now(&self) -> Time {
        Time(if self.timed { value(ask(Request::Now)) } else { 0 })
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

    fn has_fibers(&self) -> bool {
        false
    }

    fn give_up_by(&self, flag: Arc<ModelAtomic>) {
        coroutine::give_up_when(Arc::new(move || AtomicCell::<u32>::load(&*flag) != 0));
    }

    fn given_up(&self) -> bool {
        coroutine::given_up()
    }

    fn unwinds(&self) -> bool {
        dismantling()
    }
}

/// Returns the error of an action that was tried outside a model thread.
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
    fn is_current(&self) -> bool {
        current().is_some_and(|(thread, _)| thread == self.thread)
    }

    fn join(self) -> Result<()> {
        match ask(Request::Join { thread: self.thread }) {
            Reply::Dismantled => Err(outside("join")),
            _ => Ok(()),
        }
    }
}

/// An atomic word. It gets its memory when a model thread first uses it.
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
                // Nobody else sees a fresh word before it has this value: the word is published by other
                // means.
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

/// Allocates zeroed words for the running thread's node.
pub(crate) fn allocate(count: u64) -> VirtualWord {
    VirtualWord(fresh_names(count))
}

/// Returns the number in a reply.
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

    fn load(&self) -> W {
        W::narrow(value(ask(Request::Load { word: self.word() })))
    }

    fn store(&self, value: W) {
        ask(Request::Store {
            word: self.word(),
            value: value.widen(),
        });
    }

    fn store_fence(&self, value: W) {
        self.store(value);
        ask(Request::Fence);
    }

    fn swap(&self, value: W) -> W {
        W::narrow(self.rmw(Rmw::Swap(value.widen())))
    }

    fn fetch_add(&self, value: W) -> W {
        W::narrow(self.rmw(Rmw::Add {
            add: value.widen(),
            mask: W::MASK,
        }))
    }

    fn fetch_or(&self, value: W) -> W {
        W::narrow(self.rmw(Rmw::Or(value.widen())))
    }

    fn fetch_and(&self, value: W) -> W {
        W::narrow(self.rmw(Rmw::And(value.widen())))
    }

    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        let found = W::narrow(self.rmw(Rmw::CompareExchange {
            current: current.widen(),
            new: new.widen(),
        }));
        if found == current { Ok(found) } else { Err(found) }
    }
}

/// Integer types that [`ModelAtomic`] stores. A stored value is never wider than the cell.
pub trait ModelWord: Copy + PartialEq + Send + Sync + 'static {
    /// The mask of the bits of a cell.
    const MASK: u64;
    /// Extends the value with zeros.
    fn widen(self) -> u64;
    /// Truncates the bits of a cell.
    fn narrow(value: u64) -> Self;
}

impl ModelWord for u64 {
    const MASK: u64 = u64::MAX;
    fn widen(self) -> u64 {
        self
    }
    fn narrow(value: u64) -> u64 {
        value
    }
}

impl ModelWord for u32 {
    const MASK: u64 = u32::MAX as u64;
    fn widen(self) -> u64 {
        u64::from(self)
    }
    #[allow(clippy::cast_possible_truncation)] // Truncation is the promise.
    fn narrow(value: u64) -> u32 {
        value as u32
    }
}

/// A lock of the model. Its value is in a real mutex that is never contended, because the model lock is taken
/// first.
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

/// Access to what a lock of the model holds, through the guard `G` of the real lock.
pub struct Held<G> {
    lock: LockId,
    mode: LockMode,
    /// The thread that holds it.
    holder: Option<u16>,
    value: Option<G>,
}

/// Access to what a [`ModelMutex`] holds.
pub type ModelGuard<'a, T> = Held<MutexGuard<'a, T>>;
/// Shared access to what a [`ModelRwLock`] holds.
pub type ModelReadGuard<'a, T> = Held<RwLockReadGuard<'a, T>>;
/// Exclusive access to what a [`ModelRwLock`] holds.
pub type ModelWriteGuard<'a, T> = Held<RwLockWriteGuard<'a, T>>;

impl<G> Held<G> {
    fn new(lock: LockId, mode: LockMode, real: impl Fn() -> Result<G, TryLockError<G>>) -> Held<G> {
        let value = loop {
            match real() {
                Ok(guard) => break guard,
                Err(TryLockError::Poisoned(poisoned)) => break poisoned.into_inner(),
                // The model lock has been taken, so the real lock is free. One case is different: the model no
                // longer decides in a destructor that runs while an execution is dismantled or while its thread
                // panics, and a suspended thread may hold the lock.
                Err(TryLockError::WouldBlock) => reaper::make_way(),
            }
        };
        let holder = current().map(|(thread, _)| thread);
        holds(holder);
        Held {
            lock,
            mode,
            holder,
            value: Some(value),
        }
    }
}

impl<G: Deref> Deref for Held<G> {
    type Target = G::Target;
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref(&self) -> &G::Target {
        self.value.as_ref().expect("held")
    }
}

impl<G: DerefMut> DerefMut for Held<G> {
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref_mut(&mut self) -> &mut G::Target {
        self.value.as_mut().expect("held")
    }
}

impl<G> Drop for Held<G> {
    fn drop(&mut self) {
        self.value = None;
        lets_go(self.holder);
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
        let (lock, mode) = (self.id.id(), LockMode::Exclusive);
        ask(Request::Lock { lock, mode });
        Held::new(lock, mode, || self.value.try_lock())
    }

    fn try_lock(&self) -> Option<ModelGuard<'_, T>> {
        let lock = self.id.id();
        match ask(Request::TryLock { lock }) {
            Reply::Value(0) => None,
            _ => Some(Held::new(lock, LockMode::Exclusive, || self.value.try_lock())),
        }
    }
}

/// A reader-writer lock of the model.
#[derive(Debug)]
pub struct ModelRwLock<T> {
    id: LazyLock,
    value: std::sync::RwLock<T>,
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
        let (lock, mode) = (self.id.id(), LockMode::Shared);
        ask(Request::Lock { lock, mode });
        Held::new(lock, mode, || self.value.try_read())
    }

    fn write(&self) -> ModelWriteGuard<'_, T> {
        let (lock, mode) = (self.id.id(), LockMode::Exclusive);
        ask(Request::Lock { lock, mode });
        Held::new(lock, mode, || self.value.try_write())
    }
}
