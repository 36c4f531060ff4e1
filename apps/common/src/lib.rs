//! The common parts of this repository's commands. They are output, log and signals of a command, the job
//! whose node it is, and [`Team`]: threads on all nodes that work for a while and add up their work. Relies
//! on `loco`; used by `kv`, `transfer`, `power` and `loco`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod command;
mod output;
mod stop;
mod team;

pub use command::{arguments, exit, fabric, init_logging, run, seconds, some_seconds};
pub use output::{OUTPUT_CLOSED, OutputError, complain, counted, print};
pub use stop::Stop;
pub use team::{Share, Tally, Team, agreement};
