//! The barrier, awaited.

use loco_fabric::Fabric;

use crate::asynchronous::shared::Async;
use crate::asynchronous::thread::AsyncThread;
use crate::{Barrier, Result};

impl<F: Fabric> Async<Barrier<F>> {
    /// Completes the remote operations of `thread` towards all nodes, arrives, and waits for everybody:
    /// [`Barrier::wait`].
    ///
    /// # Errors
    /// See [`Barrier::wait`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`Barrier::wait`]: the next call continues the same round.
    pub async fn wait(&self, thread: &AsyncThread<F>) -> Result<()> {
        let barrier = self.share();
        thread.retry(move |thread| barrier.wait(thread)).await
    }

    /// Completes the remote operations of all threads of the node, arrives, and waits for everybody:
    /// [`Barrier::wait_fencing_all_threads`].
    ///
    /// # Errors
    /// See [`Barrier::wait_fencing_all_threads`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`wait`](Async::wait).
    pub async fn wait_fencing_all_threads(&self, thread: &AsyncThread<F>) -> Result<()> {
        let barrier = self.share();
        thread
            .retry(move |thread| barrier.wait_fencing_all_threads(thread))
            .await
    }

    /// Arrives and waits for everybody, without completing outstanding operations: [`Barrier::wait_unfenced`].
    ///
    /// # Errors
    /// See [`Barrier::wait_unfenced`].
    ///
    /// # After a timeout, or if the future was dropped
    /// See [`wait`](Async::wait).
    pub async fn wait_unfenced(&self, thread: &AsyncThread<F>) -> Result<()> {
        let barrier = self.share();
        thread.retry(move |thread| barrier.wait_unfenced(thread)).await
    }
}
