//! The future of one call: where its outcome is left, and the effect of dropping it.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use loco_fabric::{Doorbell, Std};

use crate::operations::panics;
use crate::{Error, Result};

/// The outcome of a call: its result, or the panic of its code.
type Outcome<T> = std::thread::Result<Result<T>>;

/// A call under way. It resolves to the call's result. A panic in the call continues where the future is awaited.
pub(crate) struct Call<T> {
    state: State<T>,
}

enum State<T> {
    /// The outcome was known at once. `None` once it was taken.
    Known(Option<Result<T>>),
    UnderWay {
        left: Arc<Left<T>>,
        /// Set if dropping the future gives the call up.
        gives_up: bool,
        /// Wakes the driver.
        bell: Option<Arc<dyn Doorbell>>,
    },
}

/// The place where the outcome is left.
struct Left<T> {
    progress: Mutex<Progress<T>>,
    given_up: Arc<AtomicBool>,
}

enum Progress<T> {
    Awaited(Option<Waker>),
    Over(Outcome<T>),
    Taken,
}

/// Leaves the outcome of a call, once. If dropped before that, it reports that the node has gone down.
pub(crate) struct Finish<T>(Option<Arc<Left<T>>>);

impl<T> Call<T> {
    /// Makes a call that is over.
    pub(crate) fn known(result: Result<T>) -> Call<T> {
        Call {
            state: State::Known(Some(result)),
        }
    }

    /// Makes a call under way, the half that finishes it, and the flag that the call is given up. If `gives_up`,
    /// dropping the future sets the flag and wakes the driver, which may sleep, by `bell`.
    pub(crate) fn under_way(
        gives_up: bool,
        bell: Option<Arc<dyn Doorbell>>,
    ) -> (Call<T>, Finish<T>, Arc<AtomicBool>) {
        let given_up = Arc::new(AtomicBool::new(false));
        let left = Arc::new(Left {
            progress: Mutex::new(Progress::Awaited(None)),
            given_up: given_up.clone(),
        });
        let call = Call {
            state: State::UnderWay {
                left: left.clone(),
                gives_up,
                bell,
            },
        };
        (call, Finish(Some(left)), given_up)
    }
}

impl<T> Left<T> {
    fn lock(&self) -> MutexGuard<'_, Progress<T>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Finish<T> {
    /// Leaves the outcome and wakes the awaiting task.
    pub(crate) fn finish(mut self, outcome: Outcome<T>) {
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Outcome<T>) {
        let Some(left) = self.0.take() else { return };
        let before = std::mem::replace(&mut *left.lock(), Progress::Over(outcome));
        if let Progress::Awaited(Some(waker)) = before {
            // On the driver's thread, which serves other calls too.
            panics::wake(&Std, waker);
        }
    }
}

impl<T> Drop for Finish<T> {
    fn drop(&mut self) {
        self.leave(Ok(Err(Error::Closed)));
    }
}

// Nothing in it is pinned: it owns handles.
impl<T> Unpin for Call<T> {}

impl<T> Future for Call<T> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let left = match &mut self.state {
            State::Known(result) => return Poll::Ready(result.take().unwrap_or(Err(Error::Closed))),
            State::UnderWay { left, .. } => left,
        };
        let mut progress = left.lock();
        match std::mem::replace(&mut *progress, Progress::Taken) {
            Progress::Awaited(before) => {
                let waker = match before {
                    Some(waker) if waker.will_wake(context.waker()) => waker,
                    _ => context.waker().clone(),
                };
                *progress = Progress::Awaited(Some(waker));
                Poll::Pending
            }
            Progress::Over(Ok(result)) => Poll::Ready(result),
            Progress::Over(Err(panic)) => {
                drop(progress);
                resume_unwind(panic)
            }
            // The future was polled after it was ready.
            Progress::Taken => Poll::Ready(Err(Error::Closed)),
        }
    }
}

impl<T> Drop for Call<T> {
    fn drop(&mut self) {
        if let State::UnderWay { left, gives_up, bell } = &self.state {
            if *gives_up {
                // Relaxed: the flag publishes no other data. The driver looks repeatedly, or is woken by the
                // doorbell.
                left.given_up.store(true, Ordering::Relaxed);
                if let Some(bell) = bell {
                    bell.ring();
                }
            }
            // A waker or an outcome that nobody needs is dropped, so that it does not keep the task alive.
            let rest = match &mut *left.lock() {
                Progress::Awaited(waker) => Progress::Awaited({
                    drop(waker.take());
                    None
                }),
                over => std::mem::replace(over, Progress::Taken),
            };
            drop(rest);
        }
    }
}
