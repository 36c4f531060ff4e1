//! Mutual exclusion among the threads of all nodes.

pub(crate) mod guard;
mod loss;
pub(crate) mod tas_lock;
pub(crate) mod ticket_lock;
mod turn;
