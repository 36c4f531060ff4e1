//! Explores the states of transition systems: exhaustively, within bounds, or at random.
//!
//! A [`System`] defines its states, the moves of each and the effect of a move. [`search`] visits every state
//! that a sufficient subset of the moves reaches, each once, on several threads. With [`Bounds`] it follows
//! only executions with few preemptions or delays. [`sample`] runs random executions. [`Closure`] computes
//! persistent sets, with which a system chooses its subsets. [`fair_circle`] finds what can go on for ever, and
//! [`estimate`](estimate()) how large a search will be.
//!
//! Relies on threads of the standard library and on nothing else of an operating system. `mowgli` runs litmus
//! programs with it, `loco-sim` object code.
#![forbid(unsafe_code)]

mod agents;
mod bounds;
mod circles;
mod estimate;
mod limits;
mod node;
mod random;
mod search;
mod shared;
mod sharing;
mod system;
mod visited;
mod worker;

pub use agents::{Agents, Closure};
pub use bounds::{Bounds, Mover};
pub use circles::{Circle, Edge, fair_circle};
pub use estimate::{Estimate, Trials, estimate};
pub use limits::{Limit, Limits, MemoryLimit, Progress};
pub use random::{Choice, SampleResult, Sampled, Samples, sample};
pub use search::{SearchResult, Searched, search};
pub use shared::{Ended, Options, Stats};
pub use system::{Failed, Flow, System};
pub use visited::{Visited, fingerprint};
