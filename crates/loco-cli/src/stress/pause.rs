//! The hidden subcommand that stops a process and resumes it: a stopped process cannot resume itself.

use std::ffi::OsString;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::error::CliError;

/// Name of the subcommand.
pub const NAME: &str = "__pause";

/// Stop a process and resume it after a while (for internal use).
#[derive(clap::Args)]
pub struct Args {
    /// The process.
    process: i32,
    /// Milliseconds between the two.
    milliseconds: u64,
}

/// The arguments that make this program stop `process` for that long.
pub(super) fn arguments(process: Pid, time: Duration) -> [OsString; 3] {
    let process = process.as_raw_nonzero().to_string();
    [NAME.into(), process.into(), time.as_millis().to_string().into()]
}

/// Stops the process, waits, and resumes it. A process that is gone needs neither.
///
/// # Errors
/// [`CliError::Usage`] for a process id that is none.
pub fn pause(args: &Args) -> Result<u8, CliError> {
    let process = Pid::from_raw(args.process)
        .ok_or_else(|| CliError::Usage(format!("{} is no process id", args.process)))?;
    let _ = kill_process(process, Signal::STOP);
    std::thread::sleep(Duration::from_millis(args.milliseconds));
    let _ = kill_process(process, Signal::CONT);
    Ok(0)
}
