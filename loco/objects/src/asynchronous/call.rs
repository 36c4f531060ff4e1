//! The future of one call: where its outcome is left, and the effect of dropping it.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use loco_fabric::{AtomicCell, Doorbell, Lock, Platform};

use crate::operations::panics;
use crate::{Error, Result};

/// The outcome of a call: its result, or the panic of its code.
type Outcome<T> = std::thread::Result<Result<T>>;

/// The flag that a call is given up: not zero once nobody wants the outcome any more.
pub(crate) type GivenUp<P> = Arc<<P as Platform>::AtomicU32>;

/// A call under way. It resolves to the call's result. A panic in the call continues where the future is awaited.
pub(crate) struct Call<T: Send + 'static, P: Platform> {
    state: State<T, P>,
}

enum State<T: Send + 'static, P: Platform> {
    /// The outcome was known at once. `None` once it was taken.
    Known(Option<Result<T>>),
    UnderWay {
        left: Arc<Left<T, P>>,
        /// Set if dropping the future gives the call up.
        gives_up: bool,
        /// Wakes the driver.
        bell: Option<Arc<dyn Doorbell>>,
    },
}

/// The place where the outcome is left.
struct Left<T: Send + 'static, P: Platform> {
    progress: P::Mutex<Progress<T>>,
    given_up: GivenUp<P>,
    platform: P,
}

enum Progress<T> {
    Awaited(Option<Waker>),
    Over(Outcome<T>),
    Taken,
}

/// Leaves the outcome of a call, once. If dropped before that, it reports that the node has gone down.
pub(crate) struct Finish<T: Send + 'static, P: Platform>(Option<Arc<Left<T, P>>>);

impl<T: Send + 'static, P: Platform> Call<T, P> {
    /// Makes a call that is over.
    pub(crate) fn known(result: Result<T>) -> Call<T, P> {
        Call {
            state: State::Known(Some(result)),
        }
    }

    /// Makes a call under way, the half that finishes it, and the flag that the call is given up. If `gives_up`,
    /// dropping the future sets the flag and wakes the driver, which may sleep, by `bell`.
    pub(crate) fn under_way(
        platform: &P,
        gives_up: bool,
        bell: Option<Arc<dyn Doorbell>>,
    ) -> (Call<T, P>, Finish<T, P>, GivenUp<P>) {
        let given_up: GivenUp<P> = Arc::new(AtomicCell::new(0));
        let left = Arc::new(Left {
            progress: Lock::new(Progress::Awaited(None)),
            given_up: given_up.clone(),
            platform: platform.clone(),
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

impl<T: Send + 'static, P: Platform> Finish<T, P> {
    /// Leaves the outcome and wakes the awaiting task.
    pub(crate) fn finish(mut self, outcome: Outcome<T>) {
        self.leave(outcome);
    }

    fn leave(&mut self, outcome: Outcome<T>) {
        let Some(left) = self.0.take() else { return };
        let before = std::mem::replace(&mut *left.progress.lock(), Progress::Over(outcome));
        if let Progress::Awaited(Some(waker)) = before {
            // On the driver's thread, which serves other calls too.
            panics::wake(&left.platform, waker);
        }
    }
}

impl<T: Send + 'static, P: Platform> Drop for Finish<T, P> {
    fn drop(&mut self) {
        self.leave(Ok(Err(Error::Closed)));
    }
}

// Nothing in it is pinned: it owns handles.
impl<T: Send + 'static, P: Platform> Unpin for Call<T, P> {}

impl<T: Send + 'static, P: Platform> Future for Call<T, P> {
    type Output = Result<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<T>> {
        let left = match &mut self.state {
            State::Known(result) => return Poll::Ready(result.take().unwrap_or(Err(Error::Closed))),
            State::UnderWay { left, .. } => left,
        };
        let mut progress = left.progress.lock();
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

impl<T: Send + 'static, P: Platform> Drop for Call<T, P> {
    fn drop(&mut self) {
        if let State::UnderWay { left, gives_up, bell } = &self.state {
            if *gives_up {
                // The driver looks repeatedly, or is woken by the doorbell.
                left.given_up.store(1);
                if let Some(bell) = bell {
                    bell.ring();
                }
            }
            // A waker or an outcome that nobody needs is dropped, so that it does not keep the task alive.
            let rest = match &mut *left.progress.lock() {
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
