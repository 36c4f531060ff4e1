//! The functions of libibverbs, over the NIC of this process.

#![allow(unsafe_code)]

pub(crate) mod addresses;
pub(crate) mod async_events;
pub(crate) mod builders;
pub(crate) mod channels;
pub(crate) mod completion;
pub(crate) mod device;
pub(crate) mod memory;
pub(crate) mod names;
mod objects;
pub(crate) mod old;
pub(crate) mod opened;
pub(crate) mod posting;
pub(crate) mod queue_pairs;
pub(crate) mod shared;
mod transitions;

pub(crate) use objects::{fails, identity_of, set_errno};
