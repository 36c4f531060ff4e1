//! The executor of posted operations where that is not the posting call: the deferred NIC, or nobody in
//! builds without it.

#[cfg(feature = "deferred-nic")]
mod deferred;
#[cfg(feature = "deferred-nic")]
mod dice;
#[cfg(feature = "deferred-nic")]
mod send_queue;

#[cfg(feature = "deferred-nic")]
pub(crate) use deferred::{DeferredNic, QueueId};

#[cfg(not(feature = "deferred-nic"))]
mod absent;
#[cfg(not(feature = "deferred-nic"))]
pub(crate) use absent::{DeferredNic, QueueId};
