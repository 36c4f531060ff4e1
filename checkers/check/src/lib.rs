//! Explores the shipped objects of `loco` under the RDMA memory model, in the worlds of a ladder: from two nodes with
//! one thread each to several threads, three nodes, records that straddle, data under locks.
//!
//! A *world* is a set of nodes whose threads use one object and assert what the object's documentation promises. A [`NamedWorld`]
//! is one with a name. A [`Ladder`] explores the worlds of one object within a time limit and reports, for each
//! world, how much of it was explored, and for the object, which public methods no execution called.
//!
//! [`RobustCheck`] asks instead whether clients of an object see only what a strong memory would show them.
//!
//! [`LivenessCheck`] asks whether every call of the ladder's worlds ends.
//!
//! Relies on `loco-sim` for the model fabric and the explorer, and on `loco` for the objects. `loco check` is its
//! command line.

#![forbid(unsafe_code)]

pub mod clients;
mod ladder;
mod liveness;
mod methods;
mod named_world;
mod object;
mod robust;
pub mod sized;
mod stage;
mod worlds;

pub use ladder::{FABRICS, Ladder, LadderReport, WorldReport};
pub use liveness::{LivenessCheck, LivenessReport};
pub use methods::unreached;
pub use named_world::{Expected, NamedWorld};
pub use object::Object;
pub use robust::{RobustCheck, RobustReport};
pub use worlds::worlds;
