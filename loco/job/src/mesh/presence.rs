//! Which nodes take part in a view, where threads look without the lock of what arrives.
//!
//! A node is missing from a view once it is gone from the job, or has closed the view and goes on in others.
//!
//! Relies on `parcel`. Kept by [`arrivals`](super::arrivals), one for each view, and read by
//! [`Mesh`](super::Mesh).

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::parcel::Closed;

/// The departures from a view.
pub(super) struct Presence {
    departures: AtomicU64,
    /// The nodes that have closed the view, by index.
    closed_by: Mutex<BTreeMap<usize, Closed>>,
    /// Set once there is one.
    is_closed_by_any: AtomicBool,
}

impl Presence {
    /// Makes the presence of a view in a job from which so many nodes are gone.
    pub(super) fn new(departures: usize) -> Presence {
        Presence {
            departures: AtomicU64::new(departures as u64),
            closed_by: Mutex::default(),
            is_closed_by_any: AtomicBool::new(false),
        }
    }

    /// Returns the number of nodes that are missing.
    #[inline]
    pub(super) fn departures(&self) -> u64 {
        // Acquire pairs with the releases in `depart` and `close`: whoever sees the count sees the state.
        self.departures.load(Ordering::Acquire)
    }

    /// Returns true if any node has closed the view. In a job of a fixed number of nodes none has: there is one view, and who closes it
    /// leaves.
    pub(super) fn is_closed_by_any(&self) -> bool {
        // Acquire: see `departures`.
        self.is_closed_by_any.load(Ordering::Acquire)
    }

    /// Returns true if the node at `index` has closed the view.
    pub(super) fn is_closed_by(&self, index: usize) -> bool {
        self.closed_how(index).is_some()
    }

    /// Returns how the node at `index` has closed the view, if it has.
    pub(super) fn closed_how(&self, index: usize) -> Option<Closed> {
        let is_closed = self.is_closed_by_any();
        is_closed.then(|| self.closed_by().get(&index).copied()).flatten()
    }

    /// Takes note that the node at `index` is gone from the job.
    pub(super) fn depart(&self, index: usize) {
        if !self.is_closed_by(index) {
            self.departures.fetch_add(1, Ordering::Release);
        }
    }

    /// Takes note that the node at `index`, which is not gone, has closed the view.
    pub(super) fn close(&self, index: usize, how: Closed) {
        let mut closed_by = self.closed_by();
        if let Entry::Vacant(entry) = closed_by.entry(index) {
            entry.insert(how);
            self.is_closed_by_any.store(true, Ordering::Release);
            self.departures.fetch_add(1, Ordering::Release);
        }
    }

    fn closed_by(&self) -> MutexGuard<'_, BTreeMap<usize, Closed>> {
        // A panic elsewhere leaves it whole.
        self.closed_by.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_closes_a_view_is_missing_once_also_when_it_goes_later() {
        let presence = Presence::new(1);
        presence.close(2, Closed::Lost);
        presence.close(2, Closed::Left);
        assert_eq!(
            presence.closed_how(2),
            Some(Closed::Lost),
            "the first word counts"
        );
        assert!(presence.is_closed_by(2) && !presence.is_closed_by(1));
        presence.depart(2);
        assert_eq!(presence.departures(), 2);
        presence.depart(1);
        assert_eq!(presence.departures(), 3);
    }
}
