//! The locks, awaited, and the guard that a task can keep across its waits.

use std::sync::Arc;

use loco_fabric::Fabric;

use crate::asynchronous::call::Call;
use crate::asynchronous::call_queue::Place;
use crate::asynchronous::shared::Async;
use crate::asynchronous::thread::AsyncThread;
use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::{LockGuard, Result, TasLock, Thread, TicketLock, Unlock};

/// Holds a lock while it lives. Unlike [`LockGuard`] it owns its parts, so tasks may keep it across waits and send it
/// to other threads.
///
/// Dropping it releases the lock without waiting for the end of the release: see [`release`](AsyncGuard::release).
#[must_use = "dropped, it releases the lock"]
pub struct AsyncGuard<L: Unlock<F> + Send + Sync + 'static, F: Fabric = AnyFabric> {
    /// `None` once the lock is being released.
    held: Option<Held<L, F>>,
    recovered: bool,
    /// Set once a task has the guard. Before, the future of its call may be dropped with it.
    is_had: bool,
}

struct Held<L, F: Fabric> {
    lock: Arc<L>,
    thread: AsyncThread<F>,
    scope: Scope,
}

impl<F: Fabric, L: Unlock<F> + Send + Sync + 'static> Held<L, F> {
    /// Begins the release, which nothing stops. If `awaited` is false, an error is logged, since nobody gets the outcome.
    fn release(self, awaited: bool, place: Place) -> Call<(), F::Platform> {
        let Held { lock, thread, scope } = self;
        let unlock = move |thread: &Thread<F>| {
            let released = lock.unlock(thread, scope);
            if let (Err(error), false) = (&released, awaited) {
                tracing::warn!(lock = lock.name(), %error, "releasing");
            }
            released
        };
        thread.begin_at(place, unlock, |unlock, thread| Some(unlock(thread)), false)
    }
}

impl<F: Fabric, L: Unlock<F> + Send + Sync + 'static> AsyncGuard<L, F> {
    /// Returns true if a former holder was lost while it held the lock: [`LockGuard::recovered`].
    pub fn recovered(&self) -> bool {
        self.recovered
    }

    /// Changes the scope of the fence at release, once it is known which operations it must cover.
    pub fn set_scope(&mut self, scope: Scope) {
        if let Some(held) = &mut self.held {
            held.scope = scope;
        }
    }

    /// Executes the fence and releases the lock. Once begun, the release is completed even if the future is dropped.
    ///
    /// # Errors
    /// Returns the errors of [`LockGuard::release`].
    pub async fn release(mut self) -> Result<()> {
        match self.held.take() {
            Some(held) => held.release(true, Place::Last).await,
            // Not reached: only `release` and `drop` take it.
            None => Ok(()),
        }
    }
}

impl<F: Fabric, L: Unlock<F> + Send + Sync + 'static> Drop for AsyncGuard<L, F> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            // No call of the task comes before the release of a guard that the task never had. A call of its `AsyncThread` that
            // waits for the lock would otherwise come first, and wait for this release.
            let place = if self.is_had { Place::Last } else { Place::First };
            drop(held.release(false, place));
        }
    }
}

/// A lock whose guard a task can keep.
trait Lock<F: Fabric>: Unlock<F> + Send + Sync + Sized + 'static {
    fn blocking<'a>(&'a self, thread: &'a Thread<F>, scope: Scope) -> Result<LockGuard<'a, Self, F>>;
    fn at_once<'a>(&'a self, thread: &'a Thread<F>, scope: Scope) -> Result<Option<LockGuard<'a, Self, F>>>;
}

/// Converts `guard` into one that a task can keep.
fn keep<L: Lock<F>, F: Fabric>(
    guard: LockGuard<'_, L, F>,
    lock: &Arc<L>,
    thread: &AsyncThread<F>,
) -> AsyncGuard<L, F> {
    let scope = guard.scope();
    AsyncGuard {
        recovered: guard.keep(),
        held: Some(Held {
            lock: lock.clone(),
            thread: thread.clone(),
            scope,
        }),
        is_had: false,
    }
}

/// Waits for `lock`. If the future was dropped, the guard is dropped too and releases the lock.
async fn lock<L: Lock<F>, F: Fabric>(
    lock: Arc<L>,
    thread: &AsyncThread<F>,
    scope: Scope,
) -> Result<AsyncGuard<L, F>> {
    let (at_once, keeper) = (lock.clone(), thread.clone());
    let waiting = move |thread: &Thread<F>| {
        let guard = lock.blocking(thread, scope)?;
        Ok(keep(guard, &lock, &keeper))
    };
    // Tries first: a wait that gives up would lose its place in the line.
    let trying = |_: &_, own: &Thread<F>| match at_once.at_once(own, scope) {
        Ok(None) => None,
        Ok(Some(guard)) => Some(Ok(keep(guard, &at_once, thread))),
        Err(error) => Some(Err(error)),
    };
    let call = thread.begin(waiting, trying, true);
    let mut guard = call.await?;
    guard.is_had = true;
    Ok(guard)
}

macro_rules! lock {
    ($lock:ident) => {
        impl<F: Fabric> Lock<F> for $lock<F> {
            fn blocking<'a>(&'a self, thread: &'a Thread<F>, scope: Scope) -> Result<LockGuard<'a, Self, F>> {
                self.lock(thread, scope)
            }
            fn at_once<'a>(
                &'a self,
                thread: &'a Thread<F>,
                scope: Scope,
            ) -> Result<Option<LockGuard<'a, Self, F>>> {
                self.try_lock(thread, scope)
            }
        }

        impl<F: Fabric> Async<$lock<F>> {
            /// Waits for the lock, for the thread's deadline at most. `scope` is the fence at release, which covers the
            /// operations of `thread`. Tasks of one node wait in the order in which they came.
            ///
            /// # Errors
            #[doc = concat!("See [`", stringify!($lock), "::lock`].")]
            ///
            /// # After a timeout, or if the future was dropped
            #[doc = concat!("As after [`", stringify!($lock), "::lock`]: nobody holds the lock through this call.")]
            pub async fn lock(
                &self,
                thread: &AsyncThread<F>,
                scope: Scope,
            ) -> Result<AsyncGuard<$lock<F>, F>> {
                lock(self.share(), thread, scope).await
            }
        }
    };
}
lock!(TicketLock);
lock!(TasLock);
