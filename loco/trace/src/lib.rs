//! What a job does, told to those who look from outside: timelines of calls, posts, completions, waits and losses, and what threads
//! wait for at this moment.
//!
//! [`chrome`] writes the lines of the format that Perfetto and `chrome://tracing` read. [`timeline`] records what the nodes of this
//! process do, and writes a file for each node. [`waits`] keeps a page for each node, which other processes read. Nothing here knows
//! of objects or fabrics: those say what happens.

#![deny(unsafe_code)]

pub mod chrome;
pub mod clock;
pub mod timeline;
pub mod waits;
