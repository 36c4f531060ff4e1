//! Short names for the fabric's platform types.

use loco_fabric::{Fabric, Platform};

pub(crate) type PlatformOf<F> = <F as Fabric>::Platform;
pub(crate) type MutexOf<F, T> = <PlatformOf<F> as Platform>::Mutex<T>;
pub(crate) type RwLockOf<F, T> = <PlatformOf<F> as Platform>::RwLock<T>;
pub(crate) type AtomicU64Of<F> = <PlatformOf<F> as Platform>::AtomicU64;
pub(crate) type AtomicU32Of<F> = <PlatformOf<F> as Platform>::AtomicU32;
pub(crate) type TaskOf<F> = <PlatformOf<F> as Platform>::Task;
