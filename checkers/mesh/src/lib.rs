//! Explores the agreement of a job's nodes on who is in: the shipped [`Agreement`](loco_job::agreement::Agreement) of each node,
//! in small worlds, with every order of steps.
//!
//! A [`World`] has some nodes, connections between them that deliver words in order and at any later time, and faults: a node
//! stops, a node hears nothing of another for too long, a connection is cut one way or both ways. Nodes may join.
//! [`World::explore`] follows every execution, or every one within a bound, and judges each by what
//! [`Membership`](loco_fabric::Membership) promises ([`promises`]). [`small`] has the worlds that are complete in moments, [`large`] those that take longer. A [`Ladder`] explores them
//! all within a time limit.
//!
//! The driver here keeps to the rules that `loco_job::agreement` names, as the one over sockets does. It does not have
//! sockets, records, heartbeats or their clocks: a silence is a move, which may come at any time.
//!
//! Relies on `loco-job` for the agreement and on `mowgli-explorer` for the search. Used by `loco check mesh`, by its tests, and by
//! the mutations of the agreement, which run the example `mesh`.

#![forbid(unsafe_code)]

mod explore;
mod joins;
mod ladder;
mod link;
mod moves;
pub mod promises;
mod state;
mod world;

pub use explore::{Explored, Failure};
pub use explorer::{Bounds, Ended, Limit, Limits};
pub use ladder::{Ladder, LadderReport, Seen, WorldReport};
pub use world::{Begin, Fabric, Faults, World, large, small};
