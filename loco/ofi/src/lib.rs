//! The libfabric fabric: the networks that libfabric reaches (TCP, AWS EFA, Slingshot, Omni-Path, verbs), through
//! `libfabric.so.1`, opened at run time.
//!
//! [`order`](Mapping) says how a provider carries the contract: the orders that its attributes give, and those that
//! are bought by waiting. A provider that promises less is used correctly, only slower. `docs/networks.md` has the
//! table by provider.
//!
//! The modules from the bottom:
//!
//! - `ffi`: the library;
//! - `order`: the mapping of the contract;
//! - `provider`: the providers of this host;
//! - `memory`: registered memory, which is [`loco_host::heap`]'s;
//! - `port`: an open endpoint;
//! - `piece` and `queue`: operations under way;
//! - `engine`: all of it under one lock;
//! - `shared` and `waker`: the state that the threads of a node share, and the means to wake one;
//! - `progress`: the thread that makes progress;
//! - `node`: the state that the handles of a node share;
//! - `queue_pair`: posting;
//! - `fabric`: the fabric itself.

#![deny(unsafe_code)]

mod config;
#[allow(unsafe_code)]
mod engine;
mod fabric;
#[allow(unsafe_code)]
#[doc(hidden)]
pub mod ffi;
mod memory;
mod node;
mod order;
#[allow(unsafe_code)]
mod piece;
#[allow(unsafe_code)]
mod port;
mod progress;
#[allow(unsafe_code)]
mod provider;
mod queue;
mod queue_pair;
mod shared;
mod waker;

#[doc(hidden)]
pub use config::Library;
pub use config::OfiConfig;
pub use fabric::OfiFabric;
pub use memory::{OfiCell, OfiMemory, OfiRemote};
#[doc(hidden)]
pub use order::{Attributes, Class};
pub use order::{Mapping, Trust, Words};
pub use provider::{OfiProvider, library_version, providers, usable, usable_rdma};
pub use queue_pair::OfiQueuePair;
