//! A job under way: its processes, and what ends it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco_fabric::NodeId;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGTSTP};

use super::guard::Guard;
use super::input::{self, Input};
use super::output::Printer;
use super::{ENDING_SIGNALS, Event, Node, Plan, children, exec};
use crate::error::CliError;

/// Exit code of a job that ran past its timeout, as `timeout(1)` has it.
const TIMED_OUT: u8 = 124;
/// Exit code when nobody reads our output: that of a program killed by SIGPIPE.
const OUTPUT_CLOSED: u8 = 128 + 13;
/// How long what is left of the nodes may take to die.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The main loop looks around at least this often.
const LOOK: Duration = Duration::from_secs(1);

pub(super) struct RunningJob {
    guard: Guard,
    printer: Arc<Printer>,
    readers: Vec<JoinHandle<()>>,
    nodes: Vec<RunningNode>,
    /// Exit code of the job, decided by what goes wrong first.
    code: Option<u8>,
    ending: Ending,
    deadline: Option<Instant>,
    grace: Duration,
    keep_going: bool,
}

struct RunningNode {
    id: NodeId,
    /// Its process, which leads a group of the same id.
    pid: Pid,
    alive: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// The nodes were asked to end and are killed at this time.
    Asked(Instant),
    Killed,
}

impl RunningJob {
    pub(super) fn new(plan: &Plan, printer: Arc<Printer>) -> Result<RunningJob, CliError> {
        Ok(RunningJob {
            guard: Guard::start()?,
            printer,
            readers: Vec::new(),
            nodes: Vec::new(),
            code: None,
            ending: Ending::No,
            deadline: plan.timeout.map(|timeout| Instant::now() + timeout),
            grace: plan.grace,
            keep_going: plan.keep_going,
        })
    }

    pub(super) fn start(&mut self, node: &Node, command: &[OsString], input: Input) -> Result<(), CliError> {
        let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
        let mut shim = Command::new(own);
        shim.args(exec::arguments(command)).process_group(0);
        shim.stdin(input.stdio())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        for name in &node.unset {
            shim.env_remove(name);
        }
        shim.envs(node.set.iter().map(|(name, value)| (name, value)));
        let mut child = shim.spawn().map_err(CliError::os("starting a node"))?;
        let pid = Pid::from_child(&child);
        if let Some(pipe) = child.stdin.take() {
            input::forward(pipe)?;
        }
        self.nodes.push(RunningNode {
            id: node.id,
            pid,
            alive: true,
        });
        self.guard.watch(pid);
        let reader = Printer::read(&self.printer, node.id, child.stdout.take(), child.stderr.take())?;
        self.readers.extend(reader);
        Ok(())
    }

    /// Waits for the end of all nodes and gives the exit code.
    pub(super) fn see_through(mut self, events: &mpsc::Receiver<Event>) -> u8 {
        while self.nodes.iter().any(|node| node.alive) {
            let event = events.recv_timeout(self.next_look());
            match event {
                Ok(Event::Signal(SIGCHLD)) | Err(_) => {}
                Ok(Event::Signal(signal)) => self.pass_on(signal),
                Ok(Event::OutputClosed) => self.end_with(OUTPUT_CLOSED),
            }
            self.reap();
            self.look_at_clock();
        }
        self.code.unwrap_or(0)
    }

    fn next_look(&self) -> Duration {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let kill = match self.ending {
            Ending::Asked(at) => until(at),
            _ => LOOK,
        };
        self.deadline.map_or(LOOK, until).min(kill).min(LOOK)
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.printer.say("the job ran past its timeout; ending it");
            self.end_with(TIMED_OUT);
        }
        if matches!(self.ending, Ending::Asked(at) if now >= at) {
            self.kill();
        }
    }

    fn pass_on(&mut self, signal: i32) {
        let Some(to_nodes) = Signal::from_named_raw(signal) else {
            return;
        };
        if ENDING_SIGNALS.contains(&signal) {
            if self.ending != Ending::No {
                // Asked twice: no more patience.
                self.kill();
                return;
            }
            self.code
                .get_or_insert(u8::try_from(128 + signal).unwrap_or(u8::MAX));
            self.signal_all(to_nodes);
            self.ending = Ending::Asked(Instant::now() + self.grace);
        } else if signal == SIGTSTP {
            // The nodes are not in the terminal's foreground group: stop them for it, then ourselves.
            self.signal_all(Signal::STOP);
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        } else {
            self.signal_all(to_nodes);
        }
    }

    /// Asks the nodes to end, for the reason that `code` tells.
    fn end_with(&mut self, code: u8) {
        self.code.get_or_insert(code);
        if self.ending == Ending::No {
            self.signal_all(Signal::TERM);
            // A stopped node ends only when it goes on.
            self.signal_all(Signal::CONT);
            self.ending = Ending::Asked(Instant::now() + self.grace);
        }
    }

    fn kill(&mut self) {
        self.signal_all(Signal::KILL);
        self.ending = Ending::Killed;
    }

    fn signal_all(&self, signal: Signal) {
        for node in self.nodes.iter().filter(|node| node.alive) {
            // A group can be gone before we have heard of it.
            let _ = rustix::process::kill_process_group(node.pid, signal);
        }
    }

    /// Takes note of every child that has ended: nodes, and orphans that have become ours.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let Some(node) = self.nodes.iter_mut().find(|node| node.alive && node.pid == pid) else {
                continue;
            };
            node.alive = false;
            let id = node.id;
            self.guard.forget_if_empty(pid);
            self.judge(id, status);
        }
    }

    fn judge(&mut self, id: NodeId, status: WaitStatus) {
        let (code, how) = match (status.exit_status(), status.terminating_signal()) {
            (Some(0), _) => return,
            (Some(code), _) => (code, format!("ended with exit code {code}")),
            (None, Some(signal)) => (128 + signal, format!("was killed by signal {signal}")),
            (None, None) => return,
        };
        if self.ending == Ending::No && self.code.is_none() {
            let then = if self.keep_going {
                ""
            } else {
                "; ending the others"
            };
            self.printer.say(&format!("{id} {how}{then}"));
        }
        // At least 1, whatever the system says.
        let code = u8::try_from(code).unwrap_or(u8::MAX);
        if self.keep_going {
            self.code.get_or_insert(code);
        } else {
            self.end_with(code);
        }
    }
}

impl Drop for RunningJob {
    /// Ends whatever is left: nodes of a start that failed, processes that nodes left behind. Then lets the last output
    /// through.
    fn drop(&mut self) {
        self.kill();
        if !children::kill_all(self.guard.pid(), LAST_WAIT) {
            self.printer.say("some processes of the job do not die");
            return;
        }
        for reader in self.readers.drain(..) {
            // No writer is left, so the pipes end; a reader that panicked has been reported by the panic.
            let _ = reader.join();
        }
    }
}
