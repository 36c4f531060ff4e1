//! The common base of the fabrics of real machines: registered memory that this process has mapped, and the
//! other members of the job. It is for implementers of fabrics; programs use a fabric.
//!
//! From the bottom: [`word`] (racy accesses), `wide` (16 bytes at once), [`bytes`] (racy copies), [`span`] (bounds-checked
//! handles), `futex` (sleeping on a word), [`pages`] (huge or small), `ranges` and [`arenas`] (allocation), [`heap`] (one
//! mapping and its handles), [`backoff`]
//! (pauses of a waiting thread), `fiber` (many waits on one thread), [`interrupt`] (signals that end waits), [`membership`] (the members of the job, set-up data,
//! waiting).
//! Beside them, [`bindings`] (C structures), [`places`] (numbers that processes take in a folder) and [`dispatch`] (how processes of other
//! hosts come to these). Nothing here knows how data travels to a peer; `loco-shm`, `loco-verbs`, `loco-tcp` and `loco-ofi` do.

#![deny(unsafe_code)]

#[allow(unsafe_code)]
pub mod arenas;
pub mod backoff;
pub mod bindings;
#[allow(unsafe_code)]
pub mod bytes;
pub mod dispatch;
#[cfg(feature = "fibers")]
#[allow(unsafe_code)]
pub mod fiber;
#[allow(unsafe_code)]
mod futex;
#[allow(unsafe_code)]
pub mod heap;
pub mod interrupt;
pub mod membership;
#[allow(unsafe_code)]
pub mod memory;
#[allow(unsafe_code)]
pub mod pages;
pub mod places;
mod ranges;
#[allow(unsafe_code)]
pub mod span;
#[allow(unsafe_code)]
mod wide;
#[allow(unsafe_code)]
pub mod word;

pub use pages::HugePages;
