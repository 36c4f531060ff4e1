//! The page of `mowgli serve`: a local server, and the page that it embeds (`docs/page.md`). Also films of executions as documents.
//!
//! [`Server`] listens. `guard` turns away requests that are not the page's own, `jobs` bounds what runs, `api` answers with what the
//! libraries find, and `page` has the files. Relies on `mowgli` and `mowgli-libraries` for all knowledge of memory models. Used by
//! the command `mowgli`. [`film`] draws with the same boxes what `loco check --html` has found; it needs no server.
#![forbid(unsafe_code)]

pub mod film;

#[cfg(feature = "server")]
mod api;
#[cfg(feature = "server")]
mod guard;
#[cfg(feature = "server")]
mod jobs;
#[cfg(feature = "server")]
mod page;
#[cfg(feature = "server")]
mod server;
#[cfg(feature = "server")]
mod text;

#[cfg(feature = "server")]
pub use jobs::Limits;
#[cfg(feature = "server")]
pub use server::{Options, Server};
