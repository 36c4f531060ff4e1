//! The doorbell: how a thread sleeps until something may have happened that its node waits for.
//!
//! Relies on nothing. Fabrics that have a doorbell return it from [`Fabric::doorbell`](crate::Fabric::doorbell).
//! Threads whose waits last long, the polling thread and the driver of asynchronous calls sleep by it.

use std::fmt::Debug;
use std::time::Duration;

/// Wakes the threads of a node that sleep until something has changed.
///
/// A thread that wants to sleep calls [`arm`](Doorbell::arm), looks once more at everything that it waits for, and then
/// calls [`sleep`](Doorbell::sleep). These events end the sleep if the look may have missed them:
///
/// - a completion that [`Fabric::poll`](crate::Fabric::poll) has not yet reported to anybody;
/// - a node that leaves or is lost;
/// - on some fabrics, an operation of a queue pair towards this node:
///   [`Fabric::wait_for_arrival`](crate::Fabric::wait_for_arrival) then lets its caller sleep;
/// - every change by code that calls [`ring`](Doorbell::ring) after it. A thread that polls completions for other
///   threads rings after it has recorded them.
///
/// Other changes, such as stores of this node's threads, do not.
pub trait Doorbell: Debug + Send + Sync + 'static {
    /// Announces that the caller is about to sleep. Returns `None` where the doorbell cannot be relied on now.
    fn arm(&self) -> Option<Armed>;

    /// Sleeps until the doorbell has rung since `armed`, or for `limit` at most. May return early.
    fn sleep(&self, armed: Armed, limit: Duration);

    /// Ends the sleeps of this node's threads that have been announced. Costs a load where nobody has announced one.
    fn ring(&self);
}

/// The state of a doorbell when a sleep was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Armed(pub u32);
