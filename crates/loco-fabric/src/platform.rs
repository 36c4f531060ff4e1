//! What the threads of one node share besides registered memory: clock, threads, locks, atomics.
//!
//! On fabrics that move bytes these are the standard library's types with nothing around them ([`Std`]); the
//! model fabric makes each use a visible step. Object code takes them from `F::Platform`, never from `std`.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

use crate::{FabricError, Result, Time};

/// The types and services shared by the threads of one node.
pub trait Platform: Clone + Send + Sync + 'static {
    /// A 64-bit atomic.
    type AtomicU64: AtomicCell<u64>;
    /// A 32-bit atomic.
    type AtomicU32: AtomicCell<u32>;
    /// A mutual exclusion lock without poisoning.
    type Mutex<T: Send + 'static>: Lock<T>;
    /// A reader-writer lock without poisoning.
    type RwLock<T: Send + Sync + 'static>: RwLock<T>;
    /// A started thread.
    type Task: Task;

    /// Returns the node's clock.
    fn now(&self) -> Time;

    /// Starts a thread of this node. `kind` tells the model fabric whether the end of the program waits for it.
    ///
    /// # Errors
    /// [`FabricError::Os`] when the system refuses another thread.
    fn spawn(&self, name: &str, kind: ThreadKind, body: impl FnOnce() + Send + 'static)
    -> Result<Self::Task>;
}

/// Why a thread exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// Part of the computation: a program that ends without it has hung.
    Worker,
    /// Serves others until told to stop (a monitor, a poller, the set-up service); may wait for ever.
    Service,
}

/// A started thread.
pub trait Task: Send + Sync + 'static {
    /// Waits for the thread's end. A panic in it becomes an error.
    ///
    /// # Errors
    /// [`FabricError::Os`] carrying the panic message.
    fn join(self) -> Result<()>;
}

/// An atomic word in ordinary (not registered) memory. Ordered as x86-TSO orders accesses (see
/// [`contract`](crate::WordCell)): there is nothing to choose. Every read-modify-write is a full fence.
pub trait AtomicCell<T>: Send + Sync + 'static {
    /// Returns a new cell.
    fn new(value: T) -> Self;
    /// Loads: before every later access of this thread.
    fn load(&self) -> T;
    /// Stores: after every earlier access of this thread, before its later stores. A later load may overtake it.
    fn store(&self, value: T);
    /// Stores and executes a full fence.
    fn store_fence(&self, value: T);
    /// Swaps, returning the old value.
    fn swap(&self, value: T) -> T;
    /// Adds with wrap-around, returning the old value.
    fn fetch_add(&self, value: T) -> T;
    /// Bitwise or, returning the old value.
    fn fetch_or(&self, value: T) -> T;
    /// Bitwise and, returning the old value.
    fn fetch_and(&self, value: T) -> T;
    /// Stores `new` if the value is `current`; `Err` has the value found.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn compare_exchange(&self, current: T, new: T) -> Result<T, T>;
}

/// A mutual exclusion lock.
pub trait Lock<T>: Send + Sync + 'static {
    /// Access while locked.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Returns a new, unlocked lock.
    fn new(value: T) -> Self;
    /// Locks, waiting as long as it takes: hold it for bounded work only.
    fn lock(&self) -> Self::Guard<'_>;
    /// Locks if free.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}

/// A reader-writer lock.
pub trait RwLock<T>: Send + Sync + 'static {
    /// Shared access.
    type ReadGuard<'a>: Deref<Target = T>
    where
        Self: 'a;
    /// Exclusive access.
    type WriteGuard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Returns a new, unlocked lock.
    fn new(value: T) -> Self;
    /// Locks shared.
    fn read(&self) -> Self::ReadGuard<'_>;
    /// Locks exclusively.
    fn write(&self) -> Self::WriteGuard<'_>;
}

/// The standard library's threads, clock, locks and atomics.
#[derive(Clone, Copy, Debug, Default)]
pub struct Std;

impl Platform for Std {
    type AtomicU64 = std::sync::atomic::AtomicU64;
    type AtomicU32 = std::sync::atomic::AtomicU32;
    type Mutex<T: Send + 'static> = Mutex<T>;
    type RwLock<T: Send + Sync + 'static> = std::sync::RwLock<T>;
    type Task = std::thread::JoinHandle<()>;

    fn now(&self) -> Time {
        static ORIGIN: OnceLock<Instant> = OnceLock::new();
        let elapsed = ORIGIN.get_or_init(Instant::now).elapsed();
        Time(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX))
    }

    fn spawn(
        &self,
        name: &str,
        _kind: ThreadKind,
        body: impl FnOnce() + Send + 'static,
    ) -> Result<Self::Task> {
        std::thread::Builder::new()
            .name(name.to_owned())
            .spawn(body)
            .map_err(|e| FabricError::os(format!("starting thread `{name}`"), &e))
    }
}

impl Task for std::thread::JoinHandle<()> {
    fn join(self) -> Result<()> {
        let name = self.thread().name().unwrap_or("unnamed").to_owned();
        std::thread::JoinHandle::join(self).map_err(|panic| FabricError::Os {
            what: format!("thread `{name}` panicked"),
            source: panic
                .downcast_ref::<&str>()
                .map(|s| (*s).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_default()
                .into(),
        })
    }
}

/// A read-modify-write with a full fence on both sides. A locked instruction of x86-64 is one by itself; elsewhere `SeqCst`
/// orders no more than other `SeqCst` accesses.
#[inline]
fn fenced<T>(rmw: impl FnOnce() -> T) -> T {
    let others_need_it = cfg!(not(target_arch = "x86_64"));
    if others_need_it {
        fence(Ordering::SeqCst);
    }
    let outcome = rmw();
    if others_need_it {
        fence(Ordering::SeqCst);
    }
    outcome
}

macro_rules! std_atomic {
    ($atomic:ty, $word:ty) => {
        impl AtomicCell<$word> for $atomic {
            fn new(value: $word) -> Self {
                <$atomic>::new(value)
            }
            #[inline]
            fn load(&self) -> $word {
                self.load(Ordering::Acquire)
            }
            #[inline]
            fn store(&self, value: $word) {
                self.store(value, Ordering::Release);
            }
            #[inline]
            fn store_fence(&self, value: $word) {
                // One locked instruction on x86-64.
                fenced(|| self.swap(value, Ordering::SeqCst));
            }
            #[inline]
            fn swap(&self, value: $word) -> $word {
                fenced(|| self.swap(value, Ordering::SeqCst))
            }
            #[inline]
            fn fetch_add(&self, value: $word) -> $word {
                fenced(|| self.fetch_add(value, Ordering::SeqCst))
            }
            #[inline]
            fn fetch_or(&self, value: $word) -> $word {
                fenced(|| self.fetch_or(value, Ordering::SeqCst))
            }
            #[inline]
            fn fetch_and(&self, value: $word) -> $word {
                fenced(|| self.fetch_and(value, Ordering::SeqCst))
            }
            #[inline]
            fn compare_exchange(&self, current: $word, new: $word) -> Result<$word, $word> {
                fenced(|| self.compare_exchange(current, new, Ordering::SeqCst, Ordering::SeqCst))
            }
        }
    };
}
std_atomic!(std::sync::atomic::AtomicU64, u64);
std_atomic!(std::sync::atomic::AtomicU32, u32);

// A panic of a lock's holder is the holder's to report; the others go on with the value as it is.
impl<T: Send + 'static> Lock<T> for Mutex<T> {
    type Guard<'a> = MutexGuard<'a, T>;
    fn new(value: T) -> Self {
        Mutex::new(value)
    }
    #[inline]
    fn lock(&self) -> MutexGuard<'_, T> {
        self.lock().unwrap_or_else(PoisonError::into_inner)
    }
    #[inline]
    fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.try_lock() {
            Ok(guard) => Some(guard),
            Err(std::sync::TryLockError::Poisoned(e)) => Some(e.into_inner()),
            Err(std::sync::TryLockError::WouldBlock) => None,
        }
    }
}

impl<T: Send + Sync + 'static> RwLock<T> for std::sync::RwLock<T> {
    type ReadGuard<'a> = RwLockReadGuard<'a, T>;
    type WriteGuard<'a> = RwLockWriteGuard<'a, T>;
    fn new(value: T) -> Self {
        std::sync::RwLock::new(value)
    }
    #[inline]
    fn read(&self) -> RwLockReadGuard<'_, T> {
        self.read().unwrap_or_else(PoisonError::into_inner)
    }
    #[inline]
    fn write(&self) -> RwLockWriteGuard<'_, T> {
        self.write().unwrap_or_else(PoisonError::into_inner)
    }
}
