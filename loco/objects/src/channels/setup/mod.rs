//! The protocol by which endpoints of a channel on different nodes find one another (LOCO'26 A.2).
//!
//! A new endpoint sends a *join* to every participant. The join has its type, its participants, the regions
//! that it offers (with the keys to access them) and those that it expects. A node without an endpoint of
//! that name ignores the join; when it makes one, that endpoint's own join does the work. A node with the
//! endpoint compares, imports the offered regions and answers with a *connect* of the same content. Whichever
//! endpoint is made first, the second one's join reaches it, and its connect reaches the second. A connect is
//! acknowledged. An endpoint is ready when it has connected to every counterpart and every counterpart to it.
//! A node that is ready, does its work and ends therefore does not keep others from becoming ready. A
//! difference makes the endpoints of both sides fail, by a *mismatch* message. A callback that fails does so
//! too, by a *refusal*.
//!
//! An endpoint that is dropped first drains this node's outstanding operations, then sends a *leave*. Its
//! memory is kept in quarantine until every participant has acknowledged. A participant that was connected
//! acknowledges when its own endpoint is dropped (and its operations are drained). One that never connected
//! does so at once, and one whose process is gone need not. Memory is therefore never reused while a peer may
//! still access it.
//!
//! All of this runs on the node's set-up service thread and takes the registry's lock. Data never passes
//! here. Threads that make and drop channels only record that in the registry. The service tells the peers of all
//! waiting channels at once. A message costs the same however many channels and nodes there are, so set-up takes time
//! in proportion to the pairs of nodes, and to the channels between them.

mod message;
mod registry;
mod service;
mod state;

pub(crate) use message::{Expected, Spec, SpecRegion};
pub(crate) use registry::{Endpoint, Link, OnPeer};
pub(crate) use service::{enter, retire, serve};
pub(crate) use state::Setup;
