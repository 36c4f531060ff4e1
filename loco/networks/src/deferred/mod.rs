//! The deferred NIC: a network card, played by a thread, that executes operations late, in every order that a network of a tier
//! allows.
//!
//! [`Deferred`] is a fabric around another one that executes operations as they are posted (shared memory). With it, code that must
//! work with pending operations and unplaced puts is tested without an RDMA device. The card uses the other fabric's own queue
//! pairs for its steps, so all that it says of losses, ranges and doorbells holds here, too.
//!
//! From the bottom: `discipline` (the orders that a card keeps), `nic` (its options), `dice` (its choices), `place` (where memory
//! is), `operation`, `send_queue` (the operations of a queue pair and their next steps), `card` (the thread), `queue_pair`, `fabric`.

mod card;
mod dice;
mod discipline;
mod fabric;
mod nic;
mod operation;
mod place;
mod queue_pair;
mod send_queue;

pub use discipline::{Bus, Discipline, Stage};
pub use fabric::Deferred;
pub use nic::Nic;
pub use place::Placed;
pub use queue_pair::DeferredQueuePair;
