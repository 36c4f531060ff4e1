//! How endpoints of a channel on different nodes find one another (LOCO'26 A.2).
//!
//! An endpoint, when made, sends a *join* to every participant, with its type, its participants, the regions it
//! offers (with what a peer needs to access them) and those it expects. A node without an endpoint of that name
//! ignores the join; when it makes one, that endpoint's own join does the work. A node with the endpoint compares,
//! imports the offered regions and answers with a *connect* of the same content. So whichever endpoint is made
//! first, the second one's join reaches it, and its connect reaches the second. A connect is acknowledged: an endpoint is ready when it
//! has connected to every counterpart and every counterpart to it, so that a node that is ready, does its work and ends takes
//! nothing from the readiness of others. A difference makes both sides'
//! endpoints fail, by a *mismatch* message; so does a callback that fails, by a *refusal*.
//!
//! An endpoint that is dropped first drains this node's outstanding operations, then sends a *leave*. Its memory is kept in
//! quarantine until every participant has acknowledged: a participant that was connected does so when its own
//! endpoint is dropped (and its operations drained), one that never connected at once, and one whose process is gone
//! needs not. So memory is never reused while a peer may still access it.
//!
//! All of this runs on the node's set-up service thread and takes the registry's lock; data never passes here.

mod message;
mod registry;
mod service;
mod state;

pub(crate) use message::{Spec, SpecRegion};
pub(crate) use registry::{Endpoint, Link, OnPeer};
pub(crate) use service::{announce, bury, serve};
pub(crate) use state::Setup;
