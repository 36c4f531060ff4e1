//! The orders between operations of one queue pair that a network gives by itself, and what the others cost.

use serde::{Deserialize, Serialize};

/// What it costs to ask for an order ([`Caps::order`](crate::Caps::order)). A program may read it to choose between two ways
/// that are both right; no program needs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    /// The cost of [`Work::strong`](crate::Work::strong). Where it is [`Cost::Free`], every operation is ordered as if it had
    /// asked.
    pub strong: Cost,
    /// The cost of [`Work::fenced`](crate::Work::fenced).
    pub fenced: Cost,
    /// The cost of a [`flush`](crate::QueuePair::flush).
    pub flush: Cost,
}

/// The price of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Cost {
    /// Nothing: the network orders so anyway.
    Free,
    /// A flag on the work request, which the network obeys.
    Flag,
    /// A wait for the completion of earlier operations before the request is handed on.
    Wait,
    /// A read of the peer's memory, which takes a round trip.
    Read,
    /// A wait for the completion of earlier operations, and then a read.
    WaitAndRead,
}

impl Order {
    /// The orders of a fabric on which every operation has taken effect when the next one begins.
    pub const IMMEDIATE: Order = Order {
        strong: Cost::Free,
        fenced: Cost::Free,
        flush: Cost::Free,
    };

    /// The orders of a network of the InfiniBand specification (tier `ibta`): what is asked for by a flag or a read is not
    /// ordered without.
    pub const IN_ORDER: Order = Order {
        strong: Cost::Free,
        fenced: Cost::Flag,
        flush: Cost::Read,
    };
}
