//! The doorbell: how a thread sleeps until something may have changed in its node's memory.
//!
//! Relies on nothing. Fabrics that have one return it from [`Fabric::doorbell`](crate::Fabric::doorbell); the driver of
//! asynchronous calls sleeps by it.

use std::fmt::Debug;
use std::time::Duration;

/// Wakes the threads of a node that sleep until something has changed.
///
/// A thread that wants to sleep calls [`arm`](Doorbell::arm), looks once more at everything that it waits for, and then
/// calls [`sleep`](Doorbell::sleep). Every change that the look may have missed ends the sleep, if it was made by a queue
/// pair of any node towards this one, by this node's membership, or by code that calls [`ring`](Doorbell::ring) after it.
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
