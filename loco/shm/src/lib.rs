//! The shared-memory fabric. Nodes are processes of one host (or several in one process) that map one
//! another's registered memory.
//!
//! A put is a bounds check and a store into the peer's memory. The stamp order of the contract, LOCO'26 Fig.
//! 10, comes from the order of the CPU's own accesses. Puts are release stores, in order. A full fence
//! precedes a get, and the read of a put's source, because a CPU store comes before later NIC reads (cells
//! B6, B8) and a put before later remote reads (cell G8). Every operation is therefore done when its call
//! returns, and placed after a CPU fence
//! ([`Caps::puts_placed_on_post`](loco_fabric::Caps::puts_placed_on_post)).
//!
//! From the bottom: `arena` (a mapping), `memory` (handles), `bell` (wakes sleepers), `gate` (shuts lost nodes out), `bring_up`
//! (what nodes tell one another at set-up), `node` (the state that the handles of a node share), `queue_pair`, `fabric`. All of them rely on `loco-host`.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod arena;
mod bell;
mod bring_up;
mod config;
mod fabric;
mod gate;
#[allow(unsafe_code)]
mod memory;
mod node;
mod queue_pair;

pub use config::ShmConfig;
pub use fabric::ShmFabric;
pub use memory::{ShmCell, ShmMemory, ShmRemote};
pub use queue_pair::ShmQueuePair;
