//! The hidden subcommand through which every node starts. It ties the node's life to the launcher's, and then
//! becomes the program.
//!
//! This is a program of its own, because code that runs between fork and exec in the launcher's process would
//! be unsafe.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Pid, Signal};

use crate::error::CliError;

/// Name of the subcommand.
pub const NAME: &str = "__exec";

/// Becomes the program of a node (for internal use).
#[derive(clap::Args)]
pub struct Args {
    /// The launcher's process id.
    launcher: i32,
    /// Program and arguments.
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Returns the arguments that make this program run `command` for the calling process.
pub(super) fn arguments(command: &[OsString]) -> Vec<OsString> {
    let launcher = rustix::process::getpid().as_raw_nonzero();
    let own = [NAME.into(), launcher.to_string().into(), "--".into()];
    own.into_iter().chain(command.iter().cloned()).collect()
}

/// Becomes the program. Returns only if the program cannot be started.
pub fn exec(args: &Args) -> CliError {
    // The kernel keeps this across exec, unless the program gains privileges.
    if let Err(error) = rustix::process::set_parent_process_death_signal(Some(Signal::KILL)) {
        return CliError::os("asking to end with the launcher")(error);
    }
    // The launcher may have died before the kernel was told.
    if rustix::process::getppid() != Pid::from_raw(args.launcher) {
        return CliError::Usage("the launcher is gone".to_owned());
    }
    let Some((program, rest)) = args.command.split_first() else {
        return CliError::Usage("no program was given".to_owned());
    };
    CliError::Start {
        program: program.to_string_lossy().into_owned(),
        source: Command::new(program).args(rest).exec(),
    }
}
