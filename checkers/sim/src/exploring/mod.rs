//! Explores the states of a world: exhaustively, within bounds, or at random, and makes failing schedules short.
//!
//! Relies on [`crate::world`] for runs and on [`crate::state`] for moves. Used by the crate's entry points.

pub(crate) mod conditions;
pub(crate) mod liveness;
pub(crate) mod persistent;
mod polling;
pub(crate) mod progress;
pub(crate) mod random;
pub(crate) mod reach;
pub(crate) mod robust;
pub(crate) mod rounds;
pub(crate) mod script;
pub(crate) mod search;
pub(crate) mod shorten;
pub(crate) mod system;
pub(crate) mod trail;
pub(crate) mod walk;
