//! What a job does, told to those who look from outside: timelines of calls, posts, completions, waits and losses.
//!
//! [`chrome`] writes the lines of the format that Perfetto and `chrome://tracing` read. [`timeline`] records what the nodes of this
//! process do, and writes a file for each node. Nothing here knows of objects or fabrics: those say what happens.

#![forbid(unsafe_code)]

pub mod chrome;
pub mod timeline;
