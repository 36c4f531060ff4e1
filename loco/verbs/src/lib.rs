//! The verbs fabric: RDMA devices (InfiniBand, RoCE, Soft-RoCE) through libibverbs and librdmacm.
//!
//! The fabric promises what RDMA gives (LOCO'26 2.1, app. C). Operations are the device's, on reliable
//! connections. There is one queue pair per thread and peer, and all of a node's queue pairs complete into
//! one completion queue. Only the queue pair orders operations. A write is certainly placed only when a later
//! read of the same queue pair has completed ([`flush`](loco_fabric::QueuePair::flush)).
//!
//! The modules from the bottom:
//!
//! - `ffi`: the libraries;
//! - `sysfs`: the devices of the host;
//! - `cm`: the connection manager;
//! - `channel`: events that a completion has come;
//! - `device`: an opened device;
//! - `heap` and `memory`: registered memory;
//! - `connect`: the active side of connections;
//! - `request` and `line`: operations that are held back until what they wait for has come;
//! - `send_queue`: windows and completions;
//! - `bell`: sleeping until a completion comes;
//! - `service`: the passive side of connections;
//! - `order`: what the device orders, and what is bought;
//! - `node`: the state that the handles of a node share;
//! - `chain`: work requests that wait for their doorbell;
//! - `queue_pair`: posting;
//! - `fabric`: the fabric itself.
//!
//! `provider` says whether the functions are those of the host's libraries or of a library that the program brings
//! along, as tests without a device do (`loco-test-networks`). `sysfs` and `listed` say which devices there are, and `doctor` what a
//! host lacks.

#![deny(unsafe_code)]

mod bell;
#[allow(unsafe_code)]
mod chain;
#[allow(unsafe_code)]
mod channel;
#[allow(unsafe_code)]
mod cm;
mod config;
#[allow(unsafe_code)]
mod connect;
#[allow(unsafe_code)]
mod device;
mod doctor;
mod fabric;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod ffi;
#[allow(unsafe_code)]
mod heap;
#[allow(unsafe_code)]
mod interfaces;
#[allow(unsafe_code)]
mod line;
#[allow(unsafe_code)]
mod listed;
mod mailbox;
#[allow(unsafe_code)]
mod memory;
mod node;
mod order;
mod outage;
mod provider;
#[allow(unsafe_code)]
mod queue_pair;
mod request;
#[allow(unsafe_code)]
mod send_queue;
#[allow(unsafe_code)]
mod service;
mod status;
mod sysfs;
mod window;

pub use config::VerbsConfig;
pub use doctor::{Check, Verdict, check_host};
pub use fabric::{VerbsFabric, choose, devices, usable};
pub use memory::{VerbsCell, VerbsMemory, VerbsRemote};
pub use order::order;
#[doc(hidden)]
pub use provider::Given;
pub use provider::Provider;
pub use queue_pair::VerbsQueuePair;
pub use sysfs::{Choice, Gid, RdmaDevice, RdmaPort};
