//! The platform of [`AnyFabric`](crate::AnyFabric) with an erased arm: the types of the standard library, or those of the platform that
//! plays the calling thread.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, RwLockReadGuard, RwLockWriteGuard};

use loco_fabric::{AtomicCell, Lock, Platform, Result, RwLock, Std, Task, ThreadKind, Time};

use super::Of;
use super::player::primitives_of_this_thread;
use super::primitives::{DynAtomic, DynLock, DynPrimitives, DynRwLock, Held};

/// The object-safe form of [`Platform`], without what is made without a platform.
trait DynPlatform: Send + Sync {
    fn now(&self) -> Time;
    fn spawn(&self, name: &str, kind: ThreadKind, body: Box<dyn FnOnce() + Send>)
    -> Result<Box<dyn DynTask>>;
    fn has_fibers(&self) -> bool;
    fn give_up_by(&self, flag: &dyn DynAtomic);
    fn given_up(&self) -> bool;
    fn unwinds(&self) -> bool;
}

impl<P: Platform> DynPlatform for Of<P> {
    fn now(&self) -> Time {
        self.0.now()
    }

    fn spawn(
        &self,
        name: &str,
        kind: ThreadKind,
        body: Box<dyn FnOnce() + Send>,
    ) -> Result<Box<dyn DynTask>> {
        Ok(Box::new(Of(self.0.spawn(name, kind, body)?)))
    }

    fn has_fibers(&self) -> bool {
        self.0.has_fibers()
    }

    fn give_up_by(&self, flag: &dyn DynAtomic) {
        if let Ok(flag) = flag.shared().downcast::<P::AtomicU32>() {
            self.0.give_up_by(flag);
        }
    }

    fn given_up(&self) -> bool {
        self.0.given_up()
    }

    fn unwinds(&self) -> bool {
        self.0.unwinds()
    }
}

/// The object-safe form of [`Task`].
trait DynTask: Send + Sync {
    fn join(self: Box<Self>) -> Result<()>;
    fn is_current(&self) -> bool;
}

impl<T: Task> DynTask for Of<T> {
    fn join(self: Box<Self>) -> Result<()> {
        self.0.join()
    }

    fn is_current(&self) -> bool {
        self.0.is_current()
    }
}

/// The platform: that of the standard library, or another one.
#[derive(Clone)]
pub enum AnyPlatform {
    /// That of the standard library.
    Std,
    /// Another one.
    #[allow(private_interfaces)] // Made by `ErasedFabric::new` only.
    Erased(Arc<dyn DynPlatform>),
}

impl AnyPlatform {
    pub(super) fn erased(platform: impl Platform) -> AnyPlatform {
        AnyPlatform::Erased(Arc::new(Of(platform)))
    }
}

impl fmt::Debug for AnyPlatform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            AnyPlatform::Std => "Std",
            AnyPlatform::Erased(_) => "Erased",
        })
    }
}

impl Platform for AnyPlatform {
    type AtomicU64 = AnyAtomic<AtomicU64>;
    type AtomicU32 = AnyAtomic<AtomicU32>;
    type Mutex<T: Send + 'static> = AnyMutex<T>;
    type RwLock<T: Send + Sync + 'static> = AnyRwLock<T>;
    type Task = AnyTask;

    fn now(&self) -> Time {
        match self {
            AnyPlatform::Std => Std.now(),
            AnyPlatform::Erased(platform) => platform.now(),
        }
    }

    fn spawn(&self, name: &str, kind: ThreadKind, body: impl FnOnce() + Send + 'static) -> Result<AnyTask> {
        Ok(AnyTask(match self {
            AnyPlatform::Std => Box::new(Of(Std.spawn(name, kind, body)?)),
            AnyPlatform::Erased(platform) => platform.spawn(name, kind, Box::new(body))?,
        }))
    }

    fn has_fibers(&self) -> bool {
        match self {
            AnyPlatform::Std => Std.has_fibers(),
            AnyPlatform::Erased(platform) => platform.has_fibers(),
        }
    }

    fn give_up_by(&self, flag: Arc<AnyAtomic<AtomicU32>>) {
        if let (AnyPlatform::Erased(platform), AnyAtomic::Erased(flag)) = (self, &*flag) {
            platform.give_up_by(&**flag);
        }
    }

    fn given_up(&self) -> bool {
        match self {
            AnyPlatform::Std => Std.given_up(),
            AnyPlatform::Erased(platform) => platform.given_up(),
        }
    }

    fn unwinds(&self) -> bool {
        match self {
            AnyPlatform::Std => Std.unwinds(),
            AnyPlatform::Erased(platform) => platform.unwinds(),
        }
    }
}

/// A started thread of either platform.
pub struct AnyTask(Box<dyn DynTask>);

impl Task for AnyTask {
    fn join(self) -> Result<()> {
        self.0.join()
    }

    fn is_current(&self) -> bool {
        self.0.is_current()
    }
}

/// An atomic word: `A` of the standard library, or that of the platform that plays the thread that makes it.
pub enum AnyAtomic<A> {
    /// That of the standard library.
    Std(A),
    /// Another one.
    #[allow(private_interfaces)] // Made by `AtomicCell::new` only.
    Erased(Box<dyn DynAtomic>),
}

impl<A> fmt::Debug for AnyAtomic<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AnyAtomic").finish_non_exhaustive()
    }
}

macro_rules! any_atomic {
    ($atomic:ty, $word:ty, $make:ident) => {
        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless)] // No value is wider than the cell.
        impl AtomicCell<$word> for AnyAtomic<$atomic> {
            fn new(value: $word) -> Self {
                match primitives_of_this_thread() {
                    None => AnyAtomic::Std(AtomicCell::new(value)),
                    Some(primitives) => AnyAtomic::Erased(primitives.$make(value)),
                }
            }
            fn load(&self) -> $word {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::load(atomic),
                    AnyAtomic::Erased(atomic) => atomic.load() as $word,
                }
            }
            fn store(&self, value: $word) {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::store(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.store(value as u64),
                }
            }
            fn store_fence(&self, value: $word) {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::store_fence(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.store_fence(value as u64),
                }
            }
            fn swap(&self, value: $word) -> $word {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::swap(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.swap(value as u64) as $word,
                }
            }
            fn fetch_add(&self, value: $word) -> $word {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::fetch_add(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.fetch_add(value as u64) as $word,
                }
            }
            fn fetch_or(&self, value: $word) -> $word {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::fetch_or(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.fetch_or(value as u64) as $word,
                }
            }
            fn fetch_and(&self, value: $word) -> $word {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::fetch_and(atomic, value),
                    AnyAtomic::Erased(atomic) => atomic.fetch_and(value as u64) as $word,
                }
            }
            fn compare_exchange(&self, current: $word, new: $word) -> Result<$word, $word> {
                match self {
                    AnyAtomic::Std(atomic) => AtomicCell::compare_exchange(atomic, current, new),
                    AnyAtomic::Erased(atomic) => {
                        let swapped = atomic.compare_exchange(current as u64, new as u64);
                        swapped
                            .map(|old| old as $word)
                            .map_err(|found| found as $word)
                    }
                }
            }
        }
    };
}
any_atomic!(AtomicU64, u64, atomic_u64);
any_atomic!(AtomicU32, u32, atomic_u32);

/// A lock. Where a player runs the thread that makes it, the player's lock is taken before that of the standard library and
/// released after it, so that this one is always free.
pub struct AnyMutex<T> {
    turn: Option<Box<dyn DynLock>>,
    value: Mutex<T>,
}

/// Access to what a lock of type [`AnyMutex`] or [`AnyRwLock`] holds, through the guard `G` of the standard library. The fields are
/// dropped in their order.
pub struct Guard<'a, G> {
    value: G,
    _turn: Option<Box<dyn Held + 'a>>,
}

/// Access to what an [`AnyMutex`] holds.
pub type AnyGuard<'a, T> = Guard<'a, MutexGuard<'a, T>>;
/// Shared access to what an [`AnyRwLock`] holds.
pub type AnyReadGuard<'a, T> = Guard<'a, RwLockReadGuard<'a, T>>;
/// Exclusive access to what an [`AnyRwLock`] holds.
pub type AnyWriteGuard<'a, T> = Guard<'a, RwLockWriteGuard<'a, T>>;

impl<G: Deref> Deref for Guard<'_, G> {
    type Target = G::Target;
    fn deref(&self) -> &G::Target {
        &self.value
    }
}

impl<G: DerefMut> DerefMut for Guard<'_, G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.value
    }
}

impl<T: Send + 'static> Lock<T> for AnyMutex<T> {
    type Guard<'a> = AnyGuard<'a, T>;

    fn new(value: T) -> Self {
        AnyMutex {
            turn: primitives_of_this_thread().map(DynPrimitives::lock),
            value: Mutex::new(value),
        }
    }

    fn lock(&self) -> AnyGuard<'_, T> {
        let turn = self.turn.as_ref().map(|turn| turn.lock());
        Guard {
            value: Lock::lock(&self.value),
            _turn: turn,
        }
    }

    fn try_lock(&self) -> Option<AnyGuard<'_, T>> {
        let turn = match &self.turn {
            Some(turn) => Some(turn.try_lock()?),
            None => None,
        };
        Some(Guard {
            value: Lock::try_lock(&self.value)?,
            _turn: turn,
        })
    }
}

/// A reader-writer lock, made as an [`AnyMutex`] is.
pub struct AnyRwLock<T> {
    turn: Option<Box<dyn DynRwLock>>,
    value: std::sync::RwLock<T>,
}

impl<T: Send + Sync + 'static> RwLock<T> for AnyRwLock<T> {
    type ReadGuard<'a> = AnyReadGuard<'a, T>;
    type WriteGuard<'a> = AnyWriteGuard<'a, T>;

    fn new(value: T) -> Self {
        AnyRwLock {
            turn: primitives_of_this_thread().map(DynPrimitives::rw_lock),
            value: std::sync::RwLock::new(value),
        }
    }

    fn read(&self) -> AnyReadGuard<'_, T> {
        let turn = self.turn.as_ref().map(|turn| turn.read());
        Guard {
            value: RwLock::read(&self.value),
            _turn: turn,
        }
    }

    fn write(&self) -> AnyWriteGuard<'_, T> {
        let turn = self.turn.as_ref().map(|turn| turn.write());
        Guard {
            value: RwLock::write(&self.value),
            _turn: turn,
        }
    }
}
