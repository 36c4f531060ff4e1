//! The locks and atomics of a platform that is not known here.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;

use loco_fabric::{AtomicCell, Lock, Platform, Result, RwLock};

use super::Of;

/// The object-safe form of [`AtomicCell`]: values go as `u64`.
pub(super) trait DynAtomic: Send + Sync {
    /// Returns the atomic itself.
    fn shared(&self) -> Arc<dyn Any + Send + Sync>;
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    fn store_fence(&self, value: u64);
    fn swap(&self, value: u64) -> u64;
    fn fetch_add(&self, value: u64) -> u64;
    fn fetch_or(&self, value: u64) -> u64;
    fn fetch_and(&self, value: u64) -> u64;
    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64>;
}

macro_rules! dyn_atomic {
    ($word:ty) => {
        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless)] // No value is wider than the cell.
        impl<A: AtomicCell<$word>> DynAtomic for Of<(Arc<A>, PhantomData<$word>)> {
            fn shared(&self) -> Arc<dyn Any + Send + Sync> {
                self.0.0.clone()
            }
            fn load(&self) -> u64 {
                self.0.0.load() as u64
            }
            fn store(&self, value: u64) {
                self.0.0.store(value as $word);
            }
            fn store_fence(&self, value: u64) {
                self.0.0.store_fence(value as $word);
            }
            fn swap(&self, value: u64) -> u64 {
                self.0.0.swap(value as $word) as u64
            }
            fn fetch_add(&self, value: u64) -> u64 {
                self.0.0.fetch_add(value as $word) as u64
            }
            fn fetch_or(&self, value: u64) -> u64 {
                self.0.0.fetch_or(value as $word) as u64
            }
            fn fetch_and(&self, value: u64) -> u64 {
                self.0.0.fetch_and(value as $word) as u64
            }
            fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
                let swapped = self.0.0.compare_exchange(current as $word, new as $word);
                swapped.map(|old| old as u64).map_err(|found| found as u64)
            }
        }
    };
}
dyn_atomic!(u64);
dyn_atomic!(u32);

/// A guard of any type, which holds its lock until it is dropped.
pub(super) trait Held {}
impl<T> Held for T {}

/// The object-safe form of [`Lock`], over nothing.
pub(super) trait DynLock: Send + Sync {
    fn lock(&self) -> Box<dyn Held + '_>;
    fn try_lock(&self) -> Option<Box<dyn Held + '_>>;
}

impl<L: Lock<()>> DynLock for Of<L> {
    fn lock(&self) -> Box<dyn Held + '_> {
        Box::new(self.0.lock())
    }

    fn try_lock(&self) -> Option<Box<dyn Held + '_>> {
        let guard = self.0.try_lock()?;
        Some(Box::new(guard))
    }
}

/// The object-safe form of [`RwLock`], over nothing.
pub(super) trait DynRwLock: Send + Sync {
    fn read(&self) -> Box<dyn Held + '_>;
    fn write(&self) -> Box<dyn Held + '_>;
}

impl<L: RwLock<()>> DynRwLock for Of<L> {
    fn read(&self) -> Box<dyn Held + '_> {
        Box::new(self.0.read())
    }

    fn write(&self) -> Box<dyn Held + '_> {
        Box::new(self.0.write())
    }
}

/// Makes the locks and atomics of a platform.
pub(super) trait DynPrimitives: Sync {
    fn atomic_u64(&self, value: u64) -> Box<dyn DynAtomic>;
    fn atomic_u32(&self, value: u32) -> Box<dyn DynAtomic>;
    fn lock(&self) -> Box<dyn DynLock>;
    fn rw_lock(&self) -> Box<dyn DynRwLock>;
}

struct Primitives<P>(PhantomData<fn() -> P>);

impl<P: Platform> DynPrimitives for Primitives<P> {
    fn atomic_u64(&self, value: u64) -> Box<dyn DynAtomic> {
        Box::new(Of((Arc::new(P::AtomicU64::new(value)), PhantomData::<u64>)))
    }

    fn atomic_u32(&self, value: u32) -> Box<dyn DynAtomic> {
        Box::new(Of((Arc::new(P::AtomicU32::new(value)), PhantomData::<u32>)))
    }

    fn lock(&self) -> Box<dyn DynLock> {
        Box::new(Of(P::Mutex::new(())))
    }

    fn rw_lock(&self) -> Box<dyn DynRwLock> {
        Box::new(Of(P::RwLock::new(())))
    }
}

/// Returns what makes the locks and atomics of `P`.
pub(super) fn primitives<P: Platform>() -> &'static dyn DynPrimitives {
    &Primitives::<P>(PhantomData)
}
