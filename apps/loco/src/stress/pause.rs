//! The hidden subcommand that stops a process and resumes it. A stopped process cannot resume itself.

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
    /// Milliseconds between stopping and resuming.
    milliseconds: u64,
}

/// Returns the arguments with which this program stops `process` for `time`.
pub(super) fn arguments(process: Pid, time: Duration) -> [OsString; 3] {
    let process = process.as_raw_nonzero().to_string();
    [NAME.into(), process.into(), time.as_millis().to_string().into()]
}

/// Stops the process, waits, and resumes it. Does nothing for a process that is gone.
///
/// # Errors
/// Returns [`CliError::Usage`] for an invalid process id.
pub fn pause(args: &Args) -> Result<u8, CliError> {
    let process = Pid::from_raw(args.process)
        .ok_or_else(|| CliError::Usage(format!("{} is no process id", args.process)))?;
    let _ = kill_process(process, Signal::STOP);
    std::thread::sleep(Duration::from_millis(args.milliseconds));
    let _ = kill_process(process, Signal::CONT);
    Ok(0)
}
