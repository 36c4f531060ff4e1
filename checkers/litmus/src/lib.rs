//! Litmus tests of RDMA memory models on real fabrics: the outcomes that a fabric shows, and the model's verdict on
//! them.
//!
//! A test is compiled for a job ([`code`]). The threads of every node make its runs side by side ([`worker`],
//! [`node`]; the [`interpreter`] executes them) under conditions that make rare outcomes likelier ([`stress`], [`search`]). The model judges the
//! observed outcomes ([`oracle`], [`record`]). [`job`] does this for many tests with the same connections, memory and
//! threads. The crate relies on the fabric contract alone, so that every fabric can be tested; on `loco-job` for
//! set-up; and on `mowgli` for the language and the models, and `mowgli-corerma` for tests of coreRMA ([`corerma`]). The command `loco litmus` uses it (`docs/fabrics.md`).

#![forbid(unsafe_code)]

pub mod allowed;
pub mod code;
pub mod corerma;
pub mod error;
mod files;
pub mod infer;
pub mod interpreter;
pub mod job;
pub mod line;
pub mod node;
pub mod oracle;
pub mod pin;
pub mod record;
pub mod results;
pub mod search;
pub mod shared;
pub mod stress;
pub mod table;
pub mod test;
mod traffic;
pub mod walk;
pub mod worker;

pub use error::{Error, Result};
pub use files::read_text;
pub use job::{Listener, Plan, run};
pub use record::{Record, State, Verdict};
pub use search::Strategy;
pub use stress::Stress;
pub use test::Test;
