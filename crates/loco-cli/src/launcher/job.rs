//! A running job: its processes, and the events that end it.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco::fabric::{Departures, NodeId};
use rustix::process::{Pid, Signal, WaitOptions};
use signal_hook::consts::{SIGCHLD, SIGTSTP};

use super::failure::{Failure, culprit, is_decided, is_on_its_way_out};
use super::guard::Guard;
use super::input::{self, Input};
use super::output::Printer;
use super::{ENDING_SIGNALS, Ended, Event, Node, Plan, children, exec};
use crate::error::CliError;
use loco_app::{OUTPUT_CLOSED, OutputError};

/// The exit code of a job that ran past its timeout, as in `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// The time that the remaining processes have to die.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The longest time between two rounds of the main loop.
const LOOK: Duration = Duration::from_secs(1);
/// The time during which the launcher collects failures before it names the culprit and ends the others.
const MOMENT: Duration = Duration::from_millis(200);
/// The longest time that the launcher waits for nodes that are about to end.
const MOMENT_MAX: Duration = Duration::from_secs(5);
/// The time between two looks at nodes that are about to end.
const MOMENT_LOOK: Duration = Duration::from_millis(20);

pub(super) struct RunningJob {
    guard: Guard,
    printer: Arc<Printer>,
    readers: Vec<JoinHandle<()>>,
    nodes: Vec<RunningNode>,
    /// The exit code of the job, decided by the first failure.
    code: Option<u8>,
    /// The nodes that failed, in the order in which the kernel reported them.
    failures: Vec<Failure>,
    /// The time at which the first failure was reported, until the culprit is named.
    collecting_since: Option<Instant>,
    ending: Ending,
    deadline: Option<Instant>,
    grace: Duration,
    keep_going: bool,
}

struct RunningNode {
    id: NodeId,
    /// The node's process, which leads a group with the same id.
    pid: Pid,
    alive: bool,
    departures: Option<Departures>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// The nodes were asked to end, and are killed at this time.
    Asked(Instant),
    Killed,
}

impl RunningJob {
    pub(super) fn new(plan: &Plan, printer: Arc<Printer>) -> Result<RunningJob, CliError> {
        let mut guard = Guard::start()?;
        if let Some(scratch) = &plan.scratch {
            // The guard comes first, so that a signal in between leaves nothing behind.
            guard.remove_in_the_end(scratch);
            std::fs::create_dir(scratch).map_err(CliError::os("making a directory for the nodes"))?;
        }
        Ok(RunningJob {
            guard,
            printer,
            readers: Vec::new(),
            nodes: Vec::new(),
            code: None,
            failures: Vec::new(),
            collecting_since: None,
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
            departures: node.departures.clone(),
        });
        self.guard.watch(pid);
        let reader = Printer::read(&self.printer, node.id, child.stdout.take(), child.stderr.take())?;
        self.readers.extend(reader);
        Ok(())
    }

    /// Waits for the end of all nodes, and until all of their output has been printed.
    pub(super) fn see_through(mut self, events: &mpsc::Receiver<Event>) -> Ended {
        while self.nodes.iter().any(|node| node.alive) {
            let event = events.recv_timeout(self.next_look());
            match event {
                Ok(Event::Signal(SIGCHLD)) | Err(_) => {}
                Ok(Event::Signal(signal)) => self.pass_on(signal),
                Ok(Event::OutputFailed(error)) => self.lose_output(error),
            }
            self.reap();
            self.look_at_clock();
        }
        self.clean_up();
        for event in events.try_iter() {
            if let Event::OutputFailed(error) = event {
                self.lose_output(error);
            }
        }
        if let Some(failure) = culprit(&self.failures) {
            self.code.get_or_insert(failure.code());
        }
        Ended {
            code: self.code.unwrap_or(0),
            failures: std::mem::take(&mut self.failures),
        }
    }

    fn next_look(&self) -> Duration {
        let now = Instant::now();
        let until = |at: Instant| at.saturating_duration_since(now);
        let kill = match self.ending {
            Ending::Asked(at) => until(at),
            Ending::No if self.collecting_since.is_some() => MOMENT_LOOK,
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
        self.name_culprit(now);
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
                // The user has asked twice: do not wait any longer.
                self.kill();
                return;
            }
            self.code
                .get_or_insert(u8::try_from(128 + signal).unwrap_or(u8::MAX));
            self.signal_all(to_nodes);
            self.ending = Ending::Asked(Instant::now() + self.grace);
        } else if signal == SIGTSTP {
            // The nodes are not in the terminal's foreground group: stop them on its behalf, then this
            // process.
            self.signal_all(Signal::STOP);
            let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        } else {
            self.signal_all(to_nodes);
        }
    }

    /// Asks the nodes to end, and sets the exit code of the job.
    fn end_with(&mut self, code: u8) {
        self.code.get_or_insert(code);
        if self.ending == Ending::No {
            self.signal_all(Signal::TERM);
            // A stopped node ends only after it is resumed.
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
            // The group may be gone before its end was reported.
            let _ = rustix::process::kill_process_group(node.pid, signal);
        }
    }

    /// Notes every child that has ended: nodes, and orphans that have become children of this process.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            let Some(node) = self.nodes.iter_mut().find(|node| node.alive && node.pid == pid) else {
                continue;
            };
            node.alive = false;
            if let Some(departures) = &node.departures {
                departures.tell(node.id);
            }
            let failure = Failure::of(node.id, status);
            self.guard.forget_if_empty(pid);
            if let Some(failure) = failure {
                self.note(failure);
            }
        }
    }

    fn note(&mut self, failure: Failure) {
        if self.ending != Ending::No {
            // The node ended because it was told to.
            return;
        }
        self.failures.push(failure);
        if self.keep_going {
            self.printer.say(&failure.to_string());
        } else {
            self.collecting_since.get_or_insert_with(Instant::now);
        }
    }

    /// Names the node that failed first and ends the others, once no remaining node's end could change the
    /// choice.
    fn name_culprit(&mut self, now: Instant) {
        let Some(since) = self.collecting_since.filter(|_| self.ending == Ending::No) else {
            return;
        };
        let mut left = self.nodes.iter().filter(|node| node.alive).peekable();
        let others = left.peek().is_some();
        let waited = now.saturating_duration_since(since);
        let patient = match waited {
            _ if is_decided(&self.failures) || !others => false,
            waited if waited < MOMENT => true,
            waited => waited < MOMENT_MAX && left.any(|node| is_on_its_way_out(node.pid)),
        };
        if patient {
            return;
        }
        self.collecting_since = None;
        if let Some(&failure) = culprit(&self.failures) {
            let then = if others { "; ending the others" } else { "" };
            self.printer.say(&format!("{failure}{then}"));
            self.end_with(failure.code());
        }
    }

    /// Ends the job because its output cannot be written: quietly if its reader left, else with the reason.
    fn lose_output(&mut self, error: OutputError) {
        let code = error.exit_code();
        if code != OUTPUT_CLOSED {
            self.printer.say(&error.to_string());
        }
        // A job that has failed already keeps its code.
        self.end_with(code);
    }

    /// Ends all remaining processes of the nodes and their descendants, and waits for the last output.
    fn clean_up(&mut self) {
        self.kill();
        if !children::kill_all(self.guard.pid(), LAST_WAIT) {
            self.printer.say("some processes of the job do not die");
            return;
        }
        for reader in self.readers.drain(..) {
            // No writer is left, so the pipes end. A reader that panicked has reported its panic.
            let _ = reader.join();
        }
    }
}

impl Drop for RunningJob {
    /// Cleans up after a failed start. A job that ran to its end has nothing left.
    fn drop(&mut self) {
        self.clean_up();
    }
}
