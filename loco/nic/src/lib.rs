//! The weakest legal NIC: `libibverbs.so.1` and `librdmacm.so.1`, played by software, for programs that use verbs.
//!
//! A program that is linked with rdma-core's libraries, and finds this one first, sees devices `loco0`, `loco1` and so on, each with an
//! active port. What it posts is carried out by a thread in each process, on the process's own registered memory; processes meet in a
//! folder, the *world*, and those of several hosts over TCP. Between post and placement the NIC takes every liberty that its tier
//! allows, at random, if it is asked to. `LOCO_NIC_WORLD`, `_HOSTS` and `_HOST` (the addresses of all hosts, and which is this one's),
//! `_DEVICES` (their number), `_TIER`, `_STRESS` (none, default, auto), `_SCHEDULE`, `_SEED`, `_REPORT`, `_TRACE`, `_DROP`, `_KILL_QP`,
//! `_LOSE_LINK` and `_ATOMICS_PUSH` say how.
//!
//! A program may also link the library as a crate, as tests do, and look its functions up by their names ([`function`]); it says the
//! same by [`set`].
//!
//! `export` has the symbols; `verbs` the functions behind them; `engine` the NIC. Nothing of ours is relied on but the names of
//! tiers (`loco-fabric`), access to words that others may change and the dispatch of connections from other hosts (`loco-host`), and encrypted connections
//! (`loco-job`).

#![deny(unsafe_code)]
#![allow(clippy::missing_safety_doc)] // The functions of C have their documentation there.

mod abroad;
mod child;
mod cm;
mod completions;
mod counts;
mod devices;
mod dice;
mod engine;
mod events;
mod export;
mod ffi;
mod log;
#[allow(unsafe_code)]
mod memory;
mod settings;
mod threads;
mod trace;
mod verbs;
mod wire;
mod world;

pub use export::function;
pub use settings::{default_world, set};
