//! What the applications have in common: a command that is a node of a job, and [`Team`], threads on all nodes that work
//! for a while and add up what they did. Relies on `loco`; used by `kv`, `transfer` and `power`.
#![forbid(unsafe_code)]

mod command;
mod team;

pub use command::{exit, fabric, seconds, stop_on_signals};
pub use team::{Share, Tally, Team};
