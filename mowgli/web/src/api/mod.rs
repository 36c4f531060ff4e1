//! The answers to the page's requests, with a file for each kind of request. Each answer is JSON; the page and the
//! tests of this crate are its only readers.

pub(crate) mod catalogue;
pub(crate) mod check;
pub(crate) mod explain;
pub(crate) mod machine;
pub(crate) mod parse;
pub(crate) mod robust;

mod corerma;
mod graph;
mod model;
mod outline;
mod reasons;
mod verdicts;
