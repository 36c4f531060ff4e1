//! The task's counterpart of a thread: a [`Thread`] whose calls the driver waits for.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use loco_fabric::{Fabric, Time};

use crate::asynchronous::call::Call;
use crate::asynchronous::call_queue::{CallQueue, Calls, Job, Place};
use crate::fabric::AnyFabric;
use crate::fence::Scope;
use crate::{Error, Result, Thread};

/// Access to the network for one sequence of asynchronous calls. It is a cheap handle; clones share one access.
///
/// Calls made through one `AsyncThread` have the guarantees of one [`Thread`]: their operations are ordered, and
/// fences cover them. They run one at a time, in the order in which they were begun. Use one `AsyncThread` for each
/// independent task. It costs a few kilobytes, and on RDMA hardware a queue pair for each node that operations are
/// posted to.
pub struct AsyncThread<F: Fabric = AnyFabric> {
    call_queue: Arc<CallQueue<F>>,
    /// Operations are done when they are posted.
    synchronous: bool,
    platform: F::Platform,
}

/// A call queue, and its thread, which is in use.
type InUse<F> = (Arc<CallQueue<F>>, Box<Thread<F>>);

/// The use of a call queue's thread by the calling thread, until dropped.
struct Borrowed<F: Fabric> {
    call_queue: Option<InUse<F>>,
}

impl<F: Fabric> Drop for Borrowed<F> {
    fn drop(&mut self) {
        if let Some((call_queue, thread)) = self.call_queue.take() {
            call_queue.give_back(thread);
        }
    }
}

impl<F: Fabric> AsyncThread<F> {
    pub(super) fn new(thread: Thread<F>, driver: Calls<F>) -> AsyncThread<F> {
        AsyncThread {
            synchronous: thread.network().synchronous(),
            platform: thread.platform(),
            call_queue: Arc::new(CallQueue::new(thread, driver)),
        }
    }

    /// Runs `call`, which may wait: any blocking call of this crate, or several. It runs on the driver's thread,
    /// which turns to other calls while this one waits for the network or for other nodes.
    ///
    /// `call` must not block the driver's thread by other means: it waits for nothing but objects of this crate, and
    /// holds no lock of its own while it waits. It has 256 KiB of stack.
    ///
    /// Dropping the future before it is ready gives the call up: its present wait ends as at its deadline, and the
    /// object's documentation "after a timeout" holds.
    ///
    /// # Errors
    /// Returns the errors of `call`, and [`Os`](crate::fabric::FabricError::Os) when there is no memory for a stack.
    ///
    /// # Panics
    /// Panics if `call` does.
    pub async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce(&Thread<F>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.begin(call, |_, _| None, true).await
    }

    /// Runs `step`, which must not wait, on the calling thread, for example to post operations or to [set a
    /// deadline](Thread::set_deadline) of later calls. If a call of this `AsyncThread` is under way, `step` runs
    /// after it, on the driver's thread.
    ///
    /// ```no_run
    /// # use loco::{SharedRegion, asynchronous::AsyncThread};
    /// # async fn example(thread: AsyncThread, region: std::sync::Arc<SharedRegion>) -> loco::Result<()> {
    /// use loco::fabric::NodeId;
    ///
    /// let put = thread.with(move |thread| thread.put_inline(&[1; 8], region.target(NodeId(1), 0)?)).await?;
    /// put.await // its source has been read
    /// # }
    /// ```
    ///
    /// # Errors
    /// Returns the errors of `step`.
    pub async fn with<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Thread<F>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        self.begin_with(step).await
    }

    /// Runs `step`, which must not wait, on the calling thread. Returns `None` if a call of this `AsyncThread` is under way.
    pub(super) fn unless_in_use<T>(&self, step: impl FnOnce(&Thread<F>) -> T) -> Option<T> {
        let borrowed = self.borrow();
        borrowed.call_queue.as_ref().map(|(_, thread)| step(thread))
    }

    fn begin_with<T: Send + 'static>(
        &self,
        step: impl FnOnce(&Thread<F>) -> Result<T> + Send + 'static,
    ) -> Call<T, F::Platform> {
        let borrowed = self.borrow();
        match &borrowed.call_queue {
            Some((_, thread)) => Call::known(step(thread)),
            None => self.begin(step, |_, _| None, true),
        }
    }

    /// Executes a [fence](crate::fence) for the operations of earlier calls.
    ///
    /// # Errors
    /// Returns the errors of [`Scope::fence`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`Scope::fence`].
    pub async fn fence(&self, scope: Scope) -> Result<()> {
        self.retry(move |thread| scope.fence(thread)).await
    }

    /// Runs a call that may be repeated after a timeout: first on the calling thread, unless it would have to wait.
    pub(super) async fn retry<T: Send + 'static>(
        &self,
        call: impl Fn(&Thread<F>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let at_once = |call: &_, thread: &Thread<F>| unless_it_waits(thread, call);
        self.begin(call, at_once, true).await
    }

    /// Begins a call behind those that wait: first `at_once` on the calling thread, if operations are done when posted and no
    /// other call is under way; then, if that gave nothing, `call` by the driver.
    pub(super) fn begin<T: Send + 'static, C>(
        &self,
        call: C,
        at_once: impl FnOnce(&C, &Thread<F>) -> Option<Result<T>>,
        gives_up: bool,
    ) -> Call<T, F::Platform>
    where
        C: FnOnce(&Thread<F>) -> Result<T> + Send + 'static,
    {
        self.begin_at(Place::Last, call, at_once, gives_up)
    }

    /// Begins a call as [`begin`](AsyncThread::begin) does, at this place among those that wait.
    pub(super) fn begin_at<T: Send + 'static, C>(
        &self,
        place: Place,
        call: C,
        at_once: impl FnOnce(&C, &Thread<F>) -> Option<Result<T>>,
        gives_up: bool,
    ) -> Call<T, F::Platform>
    where
        C: FnOnce(&Thread<F>) -> Result<T> + Send + 'static,
    {
        let mut borrowed = self.borrow();
        if self.synchronous
            && let Some((_, thread)) = &borrowed.call_queue
            && let Some(result) = at_once(&call, thread)
        {
            return Call::known(result);
        }
        let (outcome, finish, given_up) = Call::under_way(&self.platform, gives_up, self.call_queue.bell());
        let body = move |thread: Result<&Thread<F>>| {
            finish.finish(match thread {
                Err(error) => Ok(Err(error)),
                Ok(thread) => {
                    if thread.explicit_deadline() == Some(Time::NEVER) {
                        thread.set_deadline(Some(Time::LAST));
                    }
                    catch_unwind(AssertUnwindSafe(|| call(thread)))
                }
            });
        };
        let job = Job {
            body: Box::new(body),
            given_up,
        };
        match borrowed.call_queue.take() {
            Some((call_queue, thread)) => call_queue.start(thread, job),
            None => self.call_queue.clone().enqueue(job, place),
        }
        outcome
    }

    /// Takes the thread for the caller, if no call uses it.
    fn borrow(&self) -> Borrowed<F> {
        let thread = self.call_queue.take();
        Borrowed {
            call_queue: thread.map(|thread| (self.call_queue.clone(), thread)),
        }
    }
}

/// Runs `steps` with a deadline that no call reaches, for waits that last until the future is dropped.
pub(super) fn as_long_as_wanted<F: Fabric, T>(thread: &Thread<F>, steps: impl FnOnce() -> T) -> T {
    thread.until(Time::LAST, steps)
}

/// Makes a call with a deadline that has passed. Returns `None` if the call would have had to wait.
pub(super) fn unless_it_waits<F: Fabric, T>(
    thread: &Thread<F>,
    call: impl FnOnce(&Thread<F>) -> Result<T>,
) -> Option<Result<T>> {
    match thread.until(Time(0), || call(thread)) {
        Err(error) if error.is_timeout() || matches!(error, Error::Torn { .. }) => None,
        result => Some(result),
    }
}

impl<F: Fabric> Clone for AsyncThread<F> {
    fn clone(&self) -> Self {
        AsyncThread {
            call_queue: self.call_queue.clone(),
            synchronous: self.synchronous,
            platform: self.platform.clone(),
        }
    }
}
