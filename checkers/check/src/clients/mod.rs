//! Runs clients of libraries on shipped objects, and checks that clients see only what the objects' specifications
//! allow.
//!
//! A client (`mowgli_libraries::client`) is run as calls on the objects of `loco` under the model fabric. Its
//! declarations become objects, its columns become threads, and its calls become calls. Every outcome that an
//! execution has is compared with the outcomes that the specifications allow. An outcome that they do not allow is a
//! failure, with its schedule.
//!
//! | file | content |
//! |---|---|
//! | `channel` | a channel of the caller's own that replaces a shipped object |
//! | `form` | the shipped object that stands for a library if several do |
//! | `objects` | the objects of a client, made in the set-up of the nodes |
//! | `interpreter` | one thread of a client |
//! | `check` | one client: its outcomes, and the comparison |
//! | `generate` | the clients that an object is checked with |
//! | `campaign` | many clients, in parallel |
//!
//! Relies on `mowgli-libraries` for clients and specifications, on `loco-sim` for the exploration. `loco check --client` and
//! `loco check --clients` are its command line.

mod campaign;
mod channel;
mod check;
mod form;
mod generate;
mod interpreter;
mod objects;

pub use campaign::{Campaign, Failed, Summary};
pub use channel::{Channel, Make, Own};
pub use check::{Checked, Effort, again, check, describe, film, graph, promised};
pub use form::{Form, LockForm, OwnedForm, RingForm};
pub use generate::{Clients, NotASize, Size, library};
