//! The NIC of this process: queue pairs, their peers, and the thread that works when no call does.
//!
//! A request is *sent* (its source is read), carried out by the NIC of its target, and *answered*. Data on its way to memory is on a
//! [`bus`]. Each of these steps may be late, and may overtake others as far as the tier allows ([`order`]). All of it happens under
//! one lock, in the NIC's threads and within calls that post and poll.

mod bus;
mod company;
mod core;
mod far;
mod faults;
mod foreseen;
mod foresight;
mod forked;
mod link;
mod near;
mod order;
mod progress;
mod queue;
mod requester;
mod responder;
mod ring;
mod thread;

pub(crate) use queue::{Making, QueuePair, Receive, Request, SharedReceives};
pub(crate) use thread::{expect, look_on, nic, poke, start, welcome_by, work};
