//! The doorbell of waits for a change that may come without a ring.
//!
//! A thread of the library that works in the background waits so, such as the one that takes in what other nodes report to a store.
//! Were it woken by everything that comes for other threads, it would take as much of the processor as they do. While others
//! look at the sockets, it takes a nap of bounded length in place of a sleep, as on fabrics where nobody rings. It sleeps by the
//! sockets once they have stopped.
//!
//! Relies on `shared`. Used by `fabric`.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loco_fabric::{Armed, Doorbell};

use crate::shared::Shared;

/// The announcement of a nap. Those of sleeps are odd.
const NAP: Armed = Armed(0);

/// The longest nap. It bounds how long peers wait for this node after its last other thread has stopped looking.
const NAP_MAX: Duration = Duration::from_micros(200);

/// The doorbell of one wait.
#[derive(Debug)]
pub(crate) struct Background {
    shared: Arc<Shared>,
    /// The waits and polls of the node's threads that were known at the last announcement. Polls of the waiting thread's own condition
    /// count, too.
    seen: AtomicU64,
}

impl Background {
    /// Makes the doorbell of a wait that has just begun.
    pub(crate) fn new(shared: &Arc<Shared>) -> Background {
        Background {
            seen: AtomicU64::new(shared.activity()),
            shared: Arc::clone(shared),
        }
    }
}

impl Doorbell for Background {
    fn arm(&self) -> Option<Armed> {
        let activity = self.shared.activity();
        // Relaxed: one thread uses it.
        match self.seen.swap(activity, Ordering::Relaxed) == activity {
            true => self.shared.arm(),
            false => Some(NAP),
        }
    }

    fn sleep(&self, armed: Armed, limit: Duration) {
        match armed == NAP {
            true => std::thread::sleep(limit.min(NAP_MAX)),
            false => self.shared.sleep(armed, limit),
        }
    }

    fn ring(&self) {
        self.shared.ring();
    }
}
