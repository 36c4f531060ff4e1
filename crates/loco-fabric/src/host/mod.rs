//! What the fabrics of real machines share, below both: registered memory that this process has mapped, and the other
//! members of the job.
//!
//! From the bottom: `word` (racy accesses), `span` (bounds-checked handles), `pages` (huge or small), `ranges` and
//! `arenas` (allocation), `backoff` (how a waiting thread spends its time), `membership` (who is there, set-up data,
//! waiting). Nothing here knows how data travels to a peer; `shm` and `verbs` do.

#[allow(unsafe_code)]
pub(crate) mod arenas;
mod backoff;
pub(crate) mod membership;
#[allow(unsafe_code)]
pub(crate) mod pages;
mod ranges;
#[allow(unsafe_code)]
pub(crate) mod span;
#[allow(unsafe_code)]
pub(crate) mod word;

pub use pages::HugePages;
