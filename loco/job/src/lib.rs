//! The nodes of a job and how they reach one another before any fabric is up.
//!
//! [`Job`] says which node of which job a process is; it comes from a builder, a [hosts](Hosts) file or a launcher's
//! [environment](var). [`Mesh`] connects every node to every other, by TCP between processes or by queues within one,
//! carries set-up messages, and tells who is alive. Fabrics are built from a mesh; objects get it as their
//! [`Control`](loco_fabric::Control).

#![forbid(unsafe_code)]

mod env;
mod files;
mod hosts;
mod job;
mod join;
mod kernel;
mod mesh;
mod missed;
mod secret;
mod shown;
mod timeouts;
pub mod var;

pub use env::Environment;
pub use hosts::{Address, Hosts, PORT_BASE};
pub use job::{Job, JobBuilder, Meeting};
pub use join::Join;
pub use kernel::process_namespace;
pub use mesh::agreement;
pub use mesh::{Departures, Link, Mesh, PAYLOAD_BYTES_MAX, Rendezvous, Revoke, Revoked, View};
pub use missed::{Missed, missed_by, note_missed};
pub use secret::{Secret, random};
pub use timeouts::Timeouts;
