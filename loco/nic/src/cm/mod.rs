//! The functions of librdmacm: addresses, connections and their events.
//!
//! A listener leaves a file in the world's folder that names its port and addresses. Each process that listens has a socket there;
//! a connection of the manager is a connection to it, or to the port of another host, and lasts as long as the queue pairs' does.
//! Whoever loses it is told that the other side has disconnected.

#![allow(unsafe_code)]

pub(crate) mod addresses;
pub(crate) mod connecting;
pub(crate) mod delivery;
mod frames;
pub(crate) mod identifiers;
mod line;
mod listeners;
pub(crate) mod pairs;
pub(crate) mod refused;
mod state;
