//! Plays an RDMA device in software in this process: the table of functions that libibverbs and librdmacm otherwise
//! fill, over memory copies.
//!
//! The fabric's suites run on the device of `loco nic` (`loco-nic`), which programs of others use, too. This one stays beside it for
//! what a device does not do on request, and what is not seen from outside of one. Faults can be injected that no healthy
//! device shows: every completion status, refused registration, queues that overflow, completions that stay
//! out. An operation is executed when it is posted, in order;
//! [`hold_completions`](SoftDevice::hold_completions) holds its completion back. A device of another
//! [tier](SoftLimits::tier) than `ibta` executes operations later, in every order that the tier allows.
//!
//! The device connects nodes of one process only. A device is found by its address, which is unique in the process.
//! A device lives as long as the process.
//!
//! From the bottom: `shared` (a device's state and its injected faults), `execute` (carries out work requests),
//! `channel` (completion events), `handles` (what is behind the handles of verbs), `device_memory`, `late` (operations that
//! wait), `verbs` (the functions for queue pairs and memory), `cm` (the connection manager), `table` (the functions),
//! `device` (the handle of tests).

mod channel;
mod cm;
mod device;
mod device_memory;
mod execute;
mod handles;
mod late;
mod shared;
mod table;
mod verbs;

pub use device::{NullLoop, SoftCounts, SoftDevice};
pub use shared::SoftLimits;
