//! The guard: a process that outlives the launcher by a moment, to end what the launcher could not.
//!
//! It reads process groups from its standard input, `+ID` to watch and `-ID` to forget, and at the end of input kills
//! those that are left. The launcher holds the only writing end, so the end of input is the end of the launcher.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::error::CliError;

/// Name of the subcommand.
pub const NAME: &str = "__guard";

/// The launcher's end.
pub(super) struct Guard {
    child: Child,
    pipe: Option<ChildStdin>,
}

impl Guard {
    pub(super) fn start() -> Result<Guard, CliError> {
        let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
        let mut command = Command::new(own);
        // A group of its own: the terminal's signals are for the launcher.
        command.arg(NAME).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().map_err(CliError::os("starting the guard"))?;
        let pipe = child.stdin.take();
        Ok(Guard { child, pipe })
    }

    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    pub(super) fn watch(&mut self, group: Pid) {
        self.tell('+', group);
    }

    /// The group's leader has ended. While others of the group live its id is not given to a new process.
    pub(super) fn forget_if_empty(&mut self, group: Pid) {
        if rustix::process::test_kill_process_group(group).is_err() {
            self.tell('-', group);
        }
    }

    fn tell(&mut self, what: char, group: Pid) {
        if let Some(pipe) = &mut self.pipe
            && let Err(error) = writeln!(pipe, "{what}{}", group.as_raw_nonzero())
        {
            tracing::warn!(%error, "the guard is gone");
            self.pipe = None;
        }
    }
}

impl Drop for Guard {
    /// Called after the job's last process has ended, so there is nothing left to kill.
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// The guard's own life.
///
/// # Errors
/// [`CliError::Os`] when its input breaks.
pub fn guard() -> Result<u8, CliError> {
    let mut groups = BTreeSet::new();
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(CliError::os("listening to the launcher"))?;
        let (what, id) = line.split_at_checked(1).unwrap_or_default();
        // Group 1 and below would mean everybody.
        let Some(id) = id.parse::<i32>().ok().filter(|&id| id > 1) else {
            continue;
        };
        match what {
            "+" => drop(groups.insert(id)),
            _ => drop(groups.remove(&id)),
        }
    }
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    Ok(0)
}
