//! The page of `mowgli serve`: a local server, and the page that it embeds (`docs/page.md`).
//!
//! [`Server`] listens. `guard` turns away requests that are not the page's own, `jobs` bounds what runs, `api` answers with what the
//! libraries find, and `page` has the files. Relies on `mowgli` and `mowgli-libraries` for all knowledge of memory models. Used by
//! the command `mowgli`.
#![forbid(unsafe_code)]

mod api;
mod connections;
mod guard;
mod jobs;
mod page;
mod server;
mod text;

pub use jobs::Limits;
pub use server::{Options, Server};
