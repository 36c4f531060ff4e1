//! The shared queue, awaited.

use loco_fabric::Fabric;

use crate::asynchronous::shared::Async;
use crate::asynchronous::thread::AsyncThread;
use crate::{Popped, Pushed, Result, SharedQueue, Value};

impl<T: Value, F: Fabric> Async<SharedQueue<T, F>> {
    /// Appends a value, waiting for room: [`SharedQueue::push`].
    ///
    /// # Errors
    /// See [`SharedQueue::push`].
    ///
    /// # After a timeout, or if the future was dropped
    /// After a timeout the value is not in the queue. If the future was dropped while its push was under way, the
    /// value may be in the queue.
    pub async fn push(&self, thread: &AsyncThread<F>, value: T) -> Result<Pushed<T>> {
        let queue = self.share();
        thread.retry(move |thread| queue.push(thread, value)).await
    }

    /// Takes the oldest value, waiting for one: [`SharedQueue::pop`].
    ///
    /// # Errors
    /// See [`SharedQueue::pop`].
    ///
    /// # After a timeout, or if the future was dropped
    /// After a timeout no value was taken. If the future was dropped, a value that its pop had claimed is lost with
    /// it. Tasks that may be cancelled call [`SharedQueue::try_pop`] in a loop, or pop in a separate task that is
    /// never cancelled.
    pub async fn pop(&self, thread: &AsyncThread<F>) -> Result<Popped<T>> {
        let queue = self.share();
        thread.retry(move |thread| queue.pop(thread)).await
    }
}
