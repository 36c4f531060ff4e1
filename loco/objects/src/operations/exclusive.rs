//! Gives one thread of the node at a time the exclusive use of a value, for as long as it takes.
//!
//! A mutex of the platform is for bounded work: a thread that waits for it cannot give up. A thread that
//! waits for the network while it has something to itself uses [`Exclusive`] instead, so that the deadlines
//! of the others hold.

use std::ops::{Deref, DerefMut};

use loco_fabric::{AtomicCell, Fabric, Lock, Peers};

use crate::Result;
use crate::operations::platform::{AtomicU32Of, MutexOf};
use crate::operations::thread::Thread;

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// A value that one thread of the node uses at a time. A wait for it ends at the waiter's deadline. It is not
/// fair, and suits uses that are usually short.
pub(crate) struct Exclusive<F: Fabric, T: Send + 'static> {
    state: AtomicU32Of<F>,
    /// The value. Its mutex is never contended, because the holder has taken `state`.
    value: MutexOf<F, T>,
}

/// The use of an [`Exclusive`], which lasts until it is dropped.
pub(crate) struct InUse<'a, F: Fabric, T: Send + 'static> {
    /// `Some` until dropped.
    value: Option<<MutexOf<F, T> as Lock<T>>::Guard<'a>>,
    state: &'a AtomicU32Of<F>,
}

impl<F: Fabric, T: Send + 'static> Exclusive<F, T> {
    pub(crate) fn new(value: T) -> Exclusive<F, T> {
        Exclusive {
            state: AtomicCell::new(FREE),
            value: Lock::new(value),
        }
    }

    /// Waits until no other thread uses the value, for the thread's deadline at most. `what` names it in messages.
    ///
    /// # Errors
    /// Returns `Timeout`. Nothing has changed then.
    pub(crate) fn enter<'a>(&'a self, thread: &Thread<F>, what: &str) -> Result<InUse<'a, F, T>> {
        let taken = || self.state.compare_exchange(FREE, TAKEN).is_ok();
        let mut timing = None;
        while !taken() {
            let timing = timing.get_or_insert_with(|| thread.timing());
            let freed = thread.wait_until(what, Peers::None, || (self.state.load() == FREE).then_some(()));
            timing.of_call(thread, freed).map_err(|error| {
                let here = thread.node_id();
                error.because(
                    &[here],
                    format!("another thread of {here} is in a call on {what}"),
                )
            })?;
        }
        Ok(InUse {
            value: Some(self.value.lock()),
            state: &self.state,
        })
    }
}

impl<F: Fabric, T: Send + 'static> Deref for InUse<'_, F, T> {
    type Target = T;
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref(&self) -> &T {
        self.value.as_ref().expect("in use")
    }
}

impl<F: Fabric, T: Send + 'static> DerefMut for InUse<'_, F, T> {
    #[allow(clippy::expect_used)] // The guard is there until it is dropped.
    fn deref_mut(&mut self) -> &mut T {
        self.value.as_mut().expect("in use")
    }
}

impl<F: Fabric, T: Send + 'static> Drop for InUse<'_, F, T> {
    fn drop(&mut self) {
        self.value = None;
        self.state.store(FREE);
    }
}
