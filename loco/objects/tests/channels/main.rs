//! Tests of channels and objects over every fabric: one program, so that what they have in common is compiled once. Tests
//! that look at the whole process, or replace its allocator, are programs of their own beside this folder.

#![allow(clippy::unwrap_used)]

#[path = "../common/alarm.rs"]
mod alarm;
#[path = "../common/mod.rs"]
mod common;
#[path = "../common/counting.rs"]
mod counting;
#[path = "../common/failing.rs"]
mod failing;
#[path = "../common/trips.rs"]
mod trips;

mod after_timeout;
mod asynchronous;
mod asynchronous_started;
mod atomic_var;
mod awaiting;
mod calls;
mod collective;
mod completion;
mod costs;
mod declared_lost;
mod faults;
mod fence;
mod interface;
mod kvstore;
mod kvstore_given_up;
mod kvstore_many;
mod kvstore_started;
mod litmus;
mod litmus_ring;
mod locks;
mod log;
mod loss;
mod mixed_size;
mod no_inline;
mod panics;
mod ring_buffer;
mod round_trips;
mod setup;
mod setup_many;
mod shared_queue;
mod sizes;
mod star;
mod timeouts;
