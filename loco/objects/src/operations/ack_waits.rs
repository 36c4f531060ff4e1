//! Waits for the operations of a key.

use loco_fabric::{Fabric, NodeId, Peers, Time};

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::thread::Thread;

impl<F: Fabric> AckKey<F> {
    /// Waits until every operation has ended, for the thread's deadline at most.
    ///
    /// # Errors
    /// Returns the first failure among the operations (a lost peer's operations fail), or
    /// [`Timeout`](crate::ErrorKind::Timeout).
    ///
    /// # After a timeout
    /// The operations are still under way, or ended in between. Wait again.
    #[inline]
    pub fn wait(&self, thread: &Thread<F>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.wait_until(thread, Some(thread.deadline()))
    }

    /// Waits until no operation of the set reads its source any more, and empties the set. An operation that
    /// failed reads no more.
    ///
    /// # Errors
    /// Returns `Timeout`: the operations may still read. Call again.
    pub(crate) fn wait_until_read(&mut self, thread: &Thread<F>) -> Result<()> {
        match self.wait_for_ends(thread, Some(thread.deadline())) {
            Err(error) if error.is_timeout() => Err(error),
            _ => {
                *self = AckKey::done();
                Ok(())
            }
        }
    }

    /// Waits until every operation has ended, or until `deadline`. `None` means no deadline.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](AckKey::wait).
    ///
    /// # After a timeout
    /// See [`wait`](AckKey::wait).
    pub fn wait_until(&self, thread: &Thread<F>, deadline: Option<Time>) -> Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        self.wait_for_ends(thread, deadline)
            .map_err(|error| thread.operations_failed(self.peers(), error))
    }

    /// Waits like [`wait_until`](AckKey::wait_until). The launcher does not hear of a lost peer: the caller need not mind.
    pub(super) fn wait_for_ends(&self, thread: &Thread<F>, deadline: Option<Time>) -> Result<()> {
        // The wait names no peer. The fabric reports operations towards a lost peer as failed. A peer whose
        // operations have ended may leave while others' operations are awaited.
        let waited = thread.wait_completion(Peers::None, deadline, || self.outcome());
        waited.map_err(|error| {
            let peers = self.peers();
            let nodes = NodeId::list(peers.iter().copied());
            error.because(peers, format!("operations towards {nodes} have not completed"))
        })
    }
}
