//! The common parts of this repository's commands. They are output, log and signals of a command, the job
//! whose node it is, [`Team`]: threads on all nodes that work for a while and add up their work, [`Phase`]: how far a
//! long part of that is, and [`Latencies`]. Relies on `loco`; used by `kv`, `transfer`, `power` and `loco`.
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod command;
mod latency;
mod output;
mod phase;
mod stop;
mod team;

pub use command::{
    SECONDS_MAX, arguments, arguments_and_given, exit, fabric, milliseconds, number, run, some_time, time,
    wait_for_ready,
};
pub use latency::Latencies;
pub use output::{OUTPUT_CLOSED, OutputError, choose_colours, complain, counted, is_coloured, print};
pub use phase::Phase;
pub use stop::Stop;
pub use team::{Share, Tally, Team, agreement, meet};
