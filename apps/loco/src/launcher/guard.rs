//! The guard: a process that outlives the launcher by a moment and ends the processes that the launcher could not
//! end.
//!
//! The guard reads lines from its standard input: `+ID` is a process group to watch, `-ID` one to forget, and
//! `/PATH` a directory. At the end of input it kills the groups that are left and removes the directories.
//! Only the launcher holds the writing end of the input, so the end of input means the end of the launcher.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Duration;

use film::null_device;
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
        // The guard has a group of its own, because the terminal's signals are for the launcher.
        command.arg(NAME).process_group(0);
        command
            .stdin(Stdio::piped())
            .stdout(null_device().map_err(CliError::os("starting the guard"))?)
            .stderr(null_device().map_err(CliError::os("starting the guard"))?);
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

    /// Forgets a group whose leader has ended. While other processes of the group live, the kernel gives its
    /// id to no new process.
    pub(super) fn forget_if_empty(&mut self, group: Pid) {
        if rustix::process::test_kill_process_group(group).is_err() {
            self.tell('-', group);
        }
    }

    /// Lets the guard remove a directory when this process has died. A directory whose path is not UTF-8
    /// stays.
    pub(super) fn remove_in_the_end(&mut self, directory: &Path) {
        if let Some(path) = directory.to_str().filter(|path| path.starts_with('/')) {
            self.write(path);
        }
    }

    fn tell(&mut self, what: char, group: Pid) {
        self.write(&format!("{what}{}", group.as_raw_nonzero()));
    }

    fn write(&mut self, line: &str) {
        if let Some(pipe) = &mut self.pipe
            && let Err(error) = writeln!(pipe, "{line}")
        {
            tracing::warn!(%error, "the guard is gone");
            self.pipe = None;
        }
    }
}

impl Drop for Guard {
    /// Ends the guard. All processes of the job have ended by then, so it has nothing left to kill.
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(self.pid(), Signal::KILL);
        let _ = self.child.wait();
    }
}

/// Runs the guard.
///
/// # Errors
/// Returns [`CliError::Os`] when its input breaks.
pub fn guard() -> Result<u8, CliError> {
    let (mut groups, mut directories) = (BTreeSet::new(), Vec::new());
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(CliError::os("listening to the launcher"))?;
        if line.starts_with('/') {
            directories.push(line);
            continue;
        }
        let (what, id) = line.split_at_checked(1).unwrap_or_default();
        // A group id of 1 or below would mean every process.
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
    for directory in directories {
        // A dying process may still write into the directory, so repeat until it is gone or cannot be
        // removed.
        for _ in 0..100 {
            if std::fs::remove_dir_all(&directory).is_ok() || !Path::new(&directory).exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    Ok(0)
}
