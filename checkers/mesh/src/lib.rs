//! Explores the agreement of a job's nodes on who is in: the shipped [`Agreement`](loco_job::agreement::Agreement) of each node,
//! in small worlds, with every order of steps.
//!
//! A [`World`] has some nodes, connections between them that deliver words in order and at any later time, and faults: a node
//! stops, a node hears nothing of another for too long, a connection is cut one way or both ways. [`World::explore`] follows every
//! execution, or every one within a bound, and judges each by what [`Membership`](loco_fabric::Membership) promises
//! ([`promises`]). [`ladder`] has the worlds that are explored by default, [`large`] those that take longer.
//!
//! The driver here keeps to the rules that `loco_job::agreement` names, as the one over sockets does. It does not have
//! sockets, records, heartbeats or their clocks: a silence is a move, which may come at any time.
//!
//! Relies on `loco-job` for the agreement and on `mowgli-explorer` for the search. Used by its tests, by the example `mesh`, and by
//! the mutations of the agreement.

#![forbid(unsafe_code)]

mod explore;
mod link;
mod moves;
pub mod promises;
mod state;
mod world;

pub use explore::{Explored, Failure};
pub use explorer::{Bounds, Ended};
pub use world::{Begin, Fabric, Faults, World, ladder, large};
