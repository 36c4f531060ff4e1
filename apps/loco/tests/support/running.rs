//! Runs `loco run` and sees what becomes of the processes of a job.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The time that a process may take to die on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs a command to its end and returns its exit code, output and standard error.
pub fn finish(mut command: Command) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

pub fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// A job that runs until something ends it, with the process ids that its nodes print as `pid ID`.
pub struct Running {
    pub launcher: Child,
    pub lines: Lines<BufReader<ChildStdout>>,
}

impl Running {
    pub fn start(mut command: Command) -> Running {
        let mut launcher = command
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        Running { launcher, lines }
    }

    /// Returns so many process ids as soon as they are printed.
    pub fn pids(&mut self, count: usize) -> Vec<Pid> {
        let lines = self.lines.by_ref().map(Result::unwrap);
        let pids = lines.filter_map(|line| {
            let (_, pid) = line.split_once("pid ")?;
            Pid::from_raw(pid.parse().ok()?)
        });
        pids.take(count).collect()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.launcher), signal).unwrap();
    }

    /// Sends a signal when the two nodes have printed so many process ids. Checks that both say that they got it, the exit code,
    /// and that none of the processes is left.
    pub fn assert_both_get(mut self, processes: usize, signal: Signal, code: i32) {
        let pids = self.pids(processes);
        self.signal(signal);
        let (out, found) = self.finish();
        assert_eq!(sorted(&out), ["[0] got it", "[1] got it"]);
        assert_eq!(found, Some(code));
        assert_gone(&pids);
    }

    /// Returns the rest of the output, and the exit code.
    pub fn finish(mut self) -> (String, Option<i32>) {
        let rest: Vec<_> = self.lines.map(Result::unwrap).collect();
        (rest.join("\n"), self.launcher.wait().unwrap().code())
    }
}

/// Waits for the end of processes, which need not be children of this one.
pub fn assert_gone(pids: &[Pid]) {
    let patience = Timespec::try_from(PATIENCE).unwrap();
    for &pid in pids {
        let process = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(process) => process,
            Err(Errno::SRCH) => continue,
            Err(error) => panic!("{pid:?}: {error}"),
        };
        // Readable at its end.
        let ended = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).unwrap();
        assert_eq!(ended, 1, "process {pid:?} is left");
    }
}
