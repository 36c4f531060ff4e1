//! The time that a call has, and the errors of calls that run out of it. An error tells how long the whole call took, not
//! its last step.

use std::time::Duration;

use loco_fabric::{Fabric, FabricError, NodeId, Peers, Time, Wait};

use crate::operations::peers::tell_launcher;
use crate::operations::thread::Thread;
use crate::{Error, Result};

/// The longest time between the failure of an operation towards a node that ends and the news that the node has ended.
const FAREWELL: Duration = Duration::from_millis(200);

/// The time of one call.
pub(crate) struct Timing {
    /// The time at which the call gives up.
    pub(crate) deadline: Time,
    /// The beginning of the call; `None` before it has first waited, if nothing has read the clock.
    begin: Option<Time>,
}

impl Timing {
    /// Returns the time at which the call began, or first waited.
    pub(crate) fn begin<F: Fabric>(&mut self, thread: &Thread<F>) -> Time {
        *self.begin.get_or_insert_with(|| thread.now())
    }

    /// Returns the error of a step; if it is a timeout, as that of the whole call.
    #[cold]
    pub(crate) fn late<F: Fabric>(&mut self, thread: &Thread<F>, error: Error) -> Error {
        error.since(self.begin(thread), self.deadline, thread.now())
    }

    /// Returns the result of a step, whose timeout is that of the whole call.
    #[inline]
    pub(crate) fn of_call<T, F: Fabric>(&mut self, thread: &Thread<F>, step: Result<T>) -> Result<T> {
        match step {
            Ok(value) => Ok(value),
            Err(error) => Err(self.late(thread, error)),
        }
    }
}

/// Returns the error of the last of several waits; if it is a timeout, as that of the waits since `timing` began. `None` says
/// that there was one wait.
#[cold]
pub(crate) fn late_since<F: Fabric>(timing: Option<Timing>, thread: &Thread<F>, error: Error) -> Error {
    match timing {
        Some(mut timing) => timing.late(thread, error),
        None => error,
    }
}

impl<F: Fabric> Thread<F> {
    /// Runs `steps` and returns their result. Every wait of this thread in `steps` ends when `limit` has passed from now.
    /// Afterwards the thread has its former deadline again. `Duration::MAX` lets the steps take any time.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use loco::{Barrier, Manager, testing};
    /// # testing::run(2, |fabric| {
    /// #     let manager = Manager::new(fabric)?;
    /// #     let barrier = Barrier::new(&manager, "bar")?;
    /// #     manager.wait_for_ready()?;
    /// #     let thread = manager.thread()?;
    /// thread.within(Duration::from_secs(60), || barrier.wait(&thread))?;
    /// #     Ok(())
    /// # });
    /// ```
    pub fn within<T>(&self, limit: Duration, steps: impl FnOnce() -> T) -> T {
        self.until(self.now().after(limit), steps)
    }

    /// Returns the time of a call that begins now.
    pub(crate) fn timing(&self) -> Timing {
        match self.explicit_deadline() {
            Some(deadline) => Timing {
                deadline,
                begin: None,
            },
            None => {
                let begin = self.now();
                Timing {
                    deadline: begin.after(self.network().default_patience()),
                    begin: Some(begin),
                }
            }
        }
    }

    /// Returns the time of a call that begins now, by the clock. For calls of several waits.
    pub(crate) fn timing_from_now(&self) -> Timing {
        let mut timing = self.timing();
        timing.begin(self);
        timing
    }

    /// Returns the error of a wait for `what` that failed in the fabric, with the deadline `deadline` or, if it is `None`,
    /// with the configured time.
    #[cold]
    pub(crate) fn of_wait(&self, what: &str, deadline: Option<Time>, error: FabricError) -> Error {
        match error {
            FabricError::PeerLost(node) => Error::PeerLost {
                node,
                object: Some(what.to_owned()),
            },
            FabricError::Timeout { after, .. } => {
                let now = self.now();
                let begin = Time(now.0.saturating_sub(after.as_nanos() as u64));
                let deadline = deadline.unwrap_or_else(|| begin.after(self.network().default_patience()));
                Error::timeout(what, begin, deadline, now)
            }
            error => error.into(),
        }
    }

    /// Returns the error of an operation or a wait that failed in the fabric, for the caller of the object. The launcher hears
    /// of a lost node that was missed.
    #[cold]
    pub(super) fn failed(&self, error: FabricError) -> Error {
        tell_launcher(self.fabric(), error.into())
    }

    /// Returns the error of operations towards `peers` that failed, for the caller of the object, as [`failed`](Thread::failed)
    /// does. A node that ends takes its memory away before the others hear that it has left. An operation that failed in
    /// between failed because the node is lost, which shows within [`FAREWELL`].
    #[cold]
    pub(crate) fn operations_failed(&self, peers: &[NodeId], error: Error) -> Error {
        if !matches!(error, Error::Fabric(FabricError::Os { .. })) {
            return tell_launcher(self.fabric(), error);
        }
        let wait = Wait {
            what: "news of the peers of a failed operation",
            peers: Peers::These(peers),
            deadline: None,
        };
        match self.fabric().wait_within(wait, FAREWELL, || None::<()>) {
            Err(lost @ FabricError::PeerLost(_)) => self.failed(lost),
            _ => error,
        }
    }

    /// Returns the error of a wait that failed in the fabric. If it waited for one peer, a timeout names that peer. The
    /// launcher hears of a lost node that was missed.
    #[cold]
    pub(super) fn wait_failed(&self, wait: Wait<'_>, error: FabricError) -> Error {
        let failed = tell_launcher(self.fabric(), self.of_wait(wait.what, wait.deadline, error));
        match wait.peers {
            Peers::One(peer) => failed.because(
                &[peer],
                format!("waiting for {}, which {peer} changes", wait.what),
            ),
            _ => failed,
        }
    }
}
