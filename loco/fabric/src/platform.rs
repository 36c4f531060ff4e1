//! The platform: everything that the threads of a node share besides registered memory, namely clock,
//! threads, locks and atomics.
//!
//! On fabrics that move bytes these are the bare types of the standard library ([`Std`]). The model fabric
//! makes each use a visible step. Object code takes them from `F::Platform`, never from `std`.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, RwLockReadGuard, RwLockWriteGuard};
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
    /// Returns [`FabricError::Os`] when the system refuses another thread.
    fn spawn(&self, name: &str, kind: ThreadKind, body: impl FnOnce() + Send + 'static)
    -> Result<Self::Task>;

    /// Returns whether code may suspend itself on a stack that the platform does not know. Where it may not, as in the model,
    /// each asynchronous call runs on a thread of its own.
    fn has_fibers(&self) -> bool {
        true
    }

    /// Makes the calling thread end its waits that have a deadline once `flag` is not zero, as if the deadline had come. Only for
    /// platforms without fibers: a fiber is told when it is resumed.
    fn give_up_by(&self, flag: Arc<Self::AtomicU32>) {
        let _ = flag;
    }

    /// Returns true if the flag of [`give_up_by`](Platform::give_up_by) is set for the calling thread.
    #[inline]
    fn given_up(&self) -> bool {
        false
    }

    /// Returns true while the platform ends the calling thread by unwinding its stack. Code that catches a panic then
    /// passes it on.
    fn unwinds(&self) -> bool {
        false
    }
}

/// The purpose of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadKind {
    /// The thread is part of the computation: a program that ends without it has hung.
    Worker,
    /// The thread serves others until told to stop (a monitor, a poller, the set-up service). It may wait for
    /// ever.
    Service,
}

/// A started thread.
pub trait Task: Send + Sync + 'static {
    /// Waits for the thread's end. A panic in it becomes an error.
    ///
    /// # Errors
    /// Returns [`FabricError::Os`] with the panic message.
    fn join(self) -> Result<()>;

    /// Returns true if the calling thread is this one, which cannot wait for its own end.
    fn is_current(&self) -> bool;
}

/// An atomic word in ordinary (not registered) memory. Accesses are ordered as in x86-TSO, like those of a
/// [`WordCell`](crate::WordCell), so there is no ordering to choose. Every read-modify-write is a full fence.
pub trait AtomicCell<T>: Send + Sync + 'static {
    /// Returns a new cell.
    fn new(value: T) -> Self;
    /// Loads the value, before every later access of this thread.
    fn load(&self) -> T;
    /// Stores the value, after every earlier access of this thread and before its later stores. A later load
    /// may overtake it.
    fn store(&self, value: T);
    /// Stores the value and executes a full fence.
    fn store_fence(&self, value: T);
    /// Swaps the value, and returns the old one.
    fn swap(&self, value: T) -> T;
    /// Adds with wrap-around, and returns the old value.
    fn fetch_add(&self, value: T) -> T;
    /// Applies a bitwise or, and returns the old value.
    fn fetch_or(&self, value: T) -> T;
    /// Applies a bitwise and, and returns the old value.
    fn fetch_and(&self, value: T) -> T;
    /// Stores `new` if the value is `current`, and returns the old value.
    ///
    /// # Errors
    /// Returns the value found, if it was not `current`.
    fn compare_exchange(&self, current: T, new: T) -> Result<T, T>;
}

/// A mutual exclusion lock.
pub trait Lock<T>: Send + Sync + 'static {
    /// The access to the value while locked.
    type Guard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Returns a new, unlocked lock.
    fn new(value: T) -> Self;
    /// Locks, and waits as long as it takes. Hold the lock for bounded work only.
    fn lock(&self) -> Self::Guard<'_>;
    /// Locks if the lock is free, and otherwise returns `None` at once.
    fn try_lock(&self) -> Option<Self::Guard<'_>>;
}

/// A reader-writer lock. Taking it is a full fence, as read-modify-writes are.
pub trait RwLock<T>: Send + Sync + 'static {
    /// The shared access.
    type ReadGuard<'a>: Deref<Target = T>
    where
        Self: 'a;
    /// The exclusive access.
    type WriteGuard<'a>: DerefMut<Target = T>
    where
        Self: 'a;
    /// Returns a new, unlocked lock.
    fn new(value: T) -> Self;
    /// Locks for shared access.
    fn read(&self) -> Self::ReadGuard<'_>;
    /// Locks for exclusive access.
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
    fn is_current(&self) -> bool {
        self.thread().id() == std::thread::current().id()
    }

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

/// Executes a read-modify-write with a full fence on both sides. On x86-64 its locked instruction is such a
/// fence. Elsewhere `SeqCst` orders only against other `SeqCst` accesses.
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

/// Executes the fence of a read-modify-write that has just been executed, where it is not a fence by itself.
#[inline]
fn fence_after_rmw() {
    if cfg!(not(target_arch = "x86_64")) {
        fence(Ordering::SeqCst);
    }
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
                // This is one locked instruction on x86-64.
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

// Poisoning is ignored. A panic is reported where the panicking thread is joined; the other threads use the value as it
// is.
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
        let guard = self.read().unwrap_or_else(PoisonError::into_inner);
        fence_after_rmw();
        guard
    }
    #[inline]
    fn write(&self) -> RwLockWriteGuard<'_, T> {
        let guard = self.write().unwrap_or_else(PoisonError::into_inner);
        fence_after_rmw();
        guard
    }
}
