//! A running job: its processes, and the events that end it.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use loco::fabric::{Departures, NodeId, var};
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus};
use signal_hook::consts::{SIGCHLD, SIGTSTP};

use super::failure::{Failure, SSH_FAILED, culprit, is_decided, is_on_its_way_out};
use super::far::Far;
use super::guard::Guard;
use super::input::{self, Input};
use super::missed::Notes;
use super::output::Printer;
use super::ssh::{self, CONNECTING_MAX, Remote};
use super::{ENDING_SIGNALS, Ended, Event, Node, Plan, children, exec};
use crate::error::CliError;
use loco_app::{OUTPUT_CLOSED, OutputError};

/// The exit code of a job that ran past its timeout, as in `timeout(1)`.
const TIMED_OUT: u8 = 124;
/// The time that the remaining processes have to die.
const LAST_WAIT: Duration = Duration::from_secs(5);
/// The time in which the last output of a connection that has ended comes out of its pipes. Only a process that has left
/// `ssh`, or a reader of our output that has stopped reading, holds it up.
const LAST_OUTPUT: Duration = Duration::from_secs(5);
/// The time after which a reader that has taken nothing has stopped reading. Only a job that was told to end, by a signal
/// or its timeout, gives up the rest of its output then.
const STALLED: Duration = Duration::from_secs(2);
/// The longest time between two looks at the output that is left, once all nodes have ended.
const OUTPUT_LOOK: Duration = Duration::from_millis(20);
/// The longest grace that is told from none.
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The longest time between two rounds of the main loop.
const LOOK: Duration = Duration::from_secs(1);
/// The time during which the launcher collects failures before it names the culprit and ends the others.
const MOMENT: Duration = Duration::from_millis(200);
/// The time during which it collects failures if nodes are on other hosts: exit codes come by way of `sshd` and `ssh`.
const FAR_MOMENT: Duration = Duration::from_secs(1);
/// The longest time that the launcher waits for nodes that are about to end.
const MOMENT_MAX: Duration = Duration::from_secs(5);
/// The time between two looks at nodes that are about to end.
const MOMENT_LOOK: Duration = Duration::from_millis(20);

pub(super) struct RunningJob<'a> {
    plan: &'a Plan,
    guard: Guard,
    printer: Arc<Printer>,
    events: mpsc::Sender<Event>,
    readers: Vec<JoinHandle<()>>,
    nodes: Vec<RunningNode>,
    /// Nodes whose host is busy with other connections.
    waiting: VecDeque<(&'a Node, Input)>,
    /// The process of the connection that brings input to a node on another host.
    feeder: Option<(Pid, NodeId)>,
    /// The exit code of the job, decided by the first failure.
    code: Option<u8>,
    /// The nodes that failed, in the order in which the kernel reported them.
    failures: Vec<Failure>,
    /// The time at which the first failure was reported, until the culprit is named.
    collecting_since: Option<Instant>,
    ending: Ending,
    deadline: Option<Instant>,
    /// Set once a signal or the timeout has asked for the end of the job.
    is_told: bool,
    /// Set once nothing is left to clean up.
    is_over: bool,
    notes: Notes,
}

struct RunningNode {
    id: NodeId,
    /// The node's process, which leads a group with the same id.
    pid: Pid,
    alive: bool,
    /// How and when the connection to a node on another host ended, until its output has been printed.
    ended: Option<(WaitStatus, Instant)>,
    departures: Option<Departures>,
    /// The far side of a node on another host, whose process here is `ssh`.
    far: Option<Far>,
}

impl RunningNode {
    /// Returns the far side, as long as the node is alive.
    fn far_alive(&self) -> Option<&Far> {
        self.far.as_ref().filter(|_| self.alive)
    }

    /// Sends a signal to the process here and its group, which may be gone before its end was reported.
    fn signal_group(&self, signal: Signal) {
        let _ = rustix::process::kill_process_group(self.pid, signal);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    No,
    /// The nodes were asked to end, and are killed at this time.
    Asked(Instant),
    /// The nodes were killed. Connections that are left are killed at this time.
    Killed(Instant),
}

impl<'a> RunningJob<'a> {
    pub(super) fn new(
        plan: &'a Plan,
        printer: Arc<Printer>,
        events: mpsc::Sender<Event>,
    ) -> Result<RunningJob<'a>, CliError> {
        let mut guard = Guard::start()?;
        if let Some(scratch) = &plan.scratch {
            // The guard comes first, so that a signal in between leaves nothing behind.
            guard.remove_in_the_end(scratch);
            std::fs::create_dir(scratch).map_err(CliError::os("making a directory for the nodes"))?;
        }
        Ok(RunningJob {
            plan,
            guard,
            printer,
            events,
            readers: Vec::new(),
            nodes: Vec::new(),
            waiting: VecDeque::new(),
            feeder: None,
            code: None,
            failures: Vec::new(),
            collecting_since: None,
            ending: Ending::No,
            // A time beyond what the clock counts to is none.
            deadline: plan
                .timeout
                .and_then(|timeout| Instant::now().checked_add(timeout)),
            is_told: false,
            is_over: false,
            notes: Notes::new()?,
        })
    }

    /// Starts a node, or puts it off while its host is busy with other connections.
    pub(super) fn start_in_turn(&mut self, node: &'a Node, input: Input) -> Result<(), CliError> {
        match &node.remote {
            None => self.start(node, input),
            Some(remote) if self.is_busy(remote) => {
                self.waiting.push_back((node, input));
                Ok(())
            }
            Some(remote) => self.start_far(node, remote, input),
        }
    }

    fn start(&mut self, node: &Node, input: Input) -> Result<(), CliError> {
        let mut child = self.spawn(&self.plan.command, input.stdio()?, Some(node))?;
        if let Some(pipe) = child.stdin.take() {
            input::forward(pipe, Vec::new())?;
        }
        let reader = Printer::read(
            &self.printer,
            node.id,
            child.stdout.take(),
            child.stderr.take(),
            |_| (),
        );
        self.note_started(node, &child, None);
        self.readers.extend(reader?);
        Ok(())
    }

    fn start_far(&mut self, node: &Node, remote: &Remote, input: Input) -> Result<(), CliError> {
        let mut child = self.spawn(&ssh::command(remote), Stdio::piped(), None)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let outlets = (&self.printer, &self.events);
        let far = Far::connect(self.plan, node, remote, input, pipes, outlets);
        let far = far.inspect_err(|_| {
            let _ = child.kill();
        })?;
        self.note_started(node, &child, Some(far));
        Ok(())
    }

    /// Starts a process that ends with this one and leads a group, with the environment of `node` if it is one.
    fn spawn(&self, command: &[OsString], input: Stdio, node: Option<&Node>) -> Result<Child, CliError> {
        let own = std::env::current_exe().map_err(CliError::os("finding this program"))?;
        let mut shim = Command::new(own);
        shim.args(exec::arguments(command)).process_group(0);
        shim.stdin(input).stdout(Stdio::piped()).stderr(Stdio::piped());
        if let Some(node) = node {
            for name in &node.unset {
                shim.env_remove(name);
            }
            shim.envs(node.set.iter().map(|(name, value)| (name, value)));
            shim.env(var::MISSED, self.notes.path());
        }
        shim.spawn().map_err(CliError::os("starting a node"))
    }

    fn note_started(&mut self, node: &Node, child: &Child, far: Option<Far>) {
        let pid = Pid::from_child(child);
        self.nodes.push(RunningNode {
            id: node.id,
            pid,
            alive: true,
            ended: None,
            departures: node.departures.clone(),
            far,
        });
        self.guard.watch(pid);
    }

    /// Returns whether the host might refuse one more connection, because many are being made.
    fn is_busy(&self, remote: &Remote) -> bool {
        let connecting = self.nodes.iter().filter_map(RunningNode::far_alive);
        let connecting = connecting.filter(|far| far.remote.host == remote.host && !far.began());
        connecting.count() >= CONNECTING_MAX
    }

    /// Starts nodes that wait for their turn.
    fn start_waiting(&mut self) {
        for (node, input) in std::mem::take(&mut self.waiting) {
            if let Err(error) = self.start_in_turn(node, input) {
                self.printer.say(&error.to_string());
                self.end_with(error.exit_code());
                return;
            }
        }
    }

    /// Returns the far side of a node, as long as the node is alive.
    fn far_of(&self, id: NodeId) -> Option<&Far> {
        let node = self.nodes.iter().find(|node| node.id == id);
        node.and_then(RunningNode::far_alive)
    }

    /// Connects the input of a node on another host, whose program begins.
    fn feed(&mut self, id: NodeId, holder: Option<i32>) {
        let Some(far) = self.far_of(id) else { return };
        let Some(holder) = holder.filter(|_| far.input != Input::None) else {
            return;
        };
        let script = ssh::feeder(holder, far.mark());
        let started = self.spawn(&ssh::command(&far.remote), Stdio::piped(), None);
        let connected = started.and_then(|mut child| {
            let pid = Pid::from_child(&child);
            self.feeder = Some((pid, id));
            self.guard.watch(pid);
            let (out, err) = (child.stdout.take(), child.stderr.take());
            // Drops the output of this second connection: start-up files of the shell print the same in both.
            let readers = Printer::read(&self.printer, id, out, err, Vec::clear)?;
            self.readers.extend(readers);
            child
                .stdin
                .take()
                .map_or(Ok(()), |pipe| input::forward(pipe, script))
        });
        if let Err(error) = connected {
            self.printer.say(&error.to_string());
            self.end_with(error.exit_code());
        }
    }

    /// Ends the job if the connection that brought input to a node has failed. Otherwise the node would take the
    /// input so far for all of it.
    fn note_feeder(&mut self, id: NodeId, status: WaitStatus) {
        if status.exit_status() == Some(0) || self.ending != Ending::No {
            return;
        }
        if let Some(far) = self.far_of(id) {
            self.printer.say(&format!(
                "the connection to {} that brought the input of {id} was lost; ending the job",
                far.remote.host
            ));
            self.end_with(SSH_FAILED);
        }
    }

    /// Waits for the end of all nodes, and until all of their output has been printed.
    pub(super) fn see_through(mut self, events: &mpsc::Receiver<Event>) -> Ended {
        let is_under_way = |node: &RunningNode| node.alive || node.ended.is_some();
        while !self.waiting.is_empty() || self.nodes.iter().any(is_under_way) {
            let event = events.recv_timeout(self.next_look());
            match event {
                Ok(Event::Signal(SIGCHLD)) | Err(_) => {}
                Ok(Event::Signal(signal)) => self.pass_on(signal),
                Ok(Event::OutputFailed(error)) => self.lose_output(error),
                Ok(Event::Began(node, holder)) => self.feed(node, holder),
            }
            self.reap();
            self.look_at_clock();
            self.start_waiting();
        }
        if self.clean_up() {
            self.print_the_rest(events);
        } else {
            std::thread::sleep(OUTPUT_LOOK);
        }
        self.is_over = true;
        if let Some(culprit) = culprit(&self.failures, &self.notes.read()) {
            self.code.get_or_insert(culprit.failure.code());
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
            Ending::Asked(at) | Ending::Killed(at) => until(at),
            Ending::No if self.collecting_since.is_some() => MOMENT_LOOK,
            _ if self.nodes.iter().any(|node| node.ended.is_some()) => MOMENT_LOOK,
            _ => LOOK,
        };
        self.deadline.map_or(LOOK, until).min(kill).min(LOOK)
    }

    fn look_at_clock(&mut self) {
        let now = Instant::now();
        if self.deadline.is_some_and(|deadline| now >= deadline) {
            self.deadline = None;
            self.is_told = true;
            self.printer.say("the job ran past its timeout; ending it");
            self.end_with(TIMED_OUT);
        }
        self.name_culprit(now);
        match self.ending {
            Ending::Asked(at) | Ending::Killed(at) if now >= at => self.kill(),
            _ => {}
        }
    }

    fn pass_on(&mut self, signal: i32) {
        let Some(to_nodes) = Signal::from_named_raw(signal) else {
            return;
        };
        if ENDING_SIGNALS.contains(&signal) {
            self.is_told = true;
            self.code
                .get_or_insert(u8::try_from(128 + signal).unwrap_or(u8::MAX));
            if self.ending != Ending::No {
                // The user has asked twice: do not wait any longer.
                self.kill();
                return;
            }
            self.ask_to_end(to_nodes);
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
            self.ask_to_end(Signal::TERM);
            // A stopped node ends only after it is resumed.
            self.signal_all(Signal::CONT);
        }
    }

    fn ask_to_end(&mut self, signal: Signal) {
        self.waiting.clear();
        self.signal_all(signal);
        for node in self.nodes.iter().filter(|node| node.alive) {
            // A host that does not answer holds nobody up. A host that is about to answer sees the connection end.
            if node.far.as_ref().is_some_and(|far| !far.began()) {
                node.signal_group(Signal::KILL);
            }
        }
        let now = Instant::now();
        // A time beyond what the clock counts to is as good as a day: the user ends it by a second signal.
        let kill = now.checked_add(self.plan.grace).unwrap_or(now + DAY);
        self.ending = Ending::Asked(kill);
    }

    /// Kills the nodes. Hosts get some time to report that this is done, unless it is the second time.
    fn kill(&mut self) {
        self.waiting.clear();
        let again = matches!(self.ending, Ending::Killed(_));
        for node in self.nodes.iter_mut().filter(|node| node.alive) {
            match &mut node.far {
                Some(far) if !again => far.let_go(),
                _ => node.signal_group(Signal::KILL),
            }
        }
        self.ending = Ending::Killed(Instant::now() + LAST_WAIT);
    }

    fn signal_all(&self, signal: Signal) {
        for node in self.nodes.iter().filter(|node| node.alive) {
            match &node.far {
                Some(far) => far.signal(signal),
                None => node.signal_group(signal),
            }
        }
    }

    /// Notes every child that has ended: nodes, and orphans that have become children of this process.
    fn reap(&mut self) {
        while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
            if let Some((_, id)) = self.feeder.take_if(|(feeder, _)| *feeder == pid) {
                self.guard.forget_if_empty(pid);
                self.note_feeder(id, status);
                continue;
            }
            let Some(node) = self.nodes.iter_mut().find(|node| node.alive && node.pid == pid) else {
                continue;
            };
            node.alive = false;
            if let Some(departures) = &node.departures {
                departures.tell(node.id);
            }
            let failure = match &mut node.far {
                None => Failure::of(node.id, status),
                Some(far) => {
                    far.let_go();
                    node.ended = Some((status, Instant::now()));
                    None
                }
            };
            self.guard.forget_if_empty(pid);
            if let Some(failure) = failure {
                self.note(failure, None);
            }
        }
        self.judge_far();
    }

    /// Notes how connections have ended, once their output has been printed. After the time for that, or when the job ends
    /// anyway, what is known must do.
    fn judge_far(&mut self) {
        let no_time = self.ending != Ending::No;
        let mut failures = Vec::new();
        for node in &mut self.nodes {
            let (Some((status, at)), Some(far)) = (node.ended, &node.far) else {
                continue;
            };
            if far.is_printed() || no_time || at.elapsed() >= LAST_OUTPUT {
                node.ended = None;
                failures.extend(
                    far.failure(node.id, status)
                        .map(|failure| (failure, far.advice(&failure))),
                );
            }
        }
        for (failure, advice) in failures {
            self.note(failure, advice);
        }
    }

    /// Notes a failure, unless the node ended because it was told to.
    fn note(&mut self, failure: Failure, advice: Option<String>) {
        if self.ending != Ending::No {
            return;
        }
        if let Some(advice) = advice {
            self.printer.say(&advice);
        }
        self.failures.push(failure);
        if self.plan.keep_going {
            self.printer.say(&self.plan.tell(&failure, &failure));
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
        let left: Vec<_> = self.nodes.iter().filter(|node| node.alive).collect();
        let missed = self.notes.read();
        let waited = now.saturating_duration_since(since);
        let is_far = self.nodes.iter().any(|node| node.far.is_some());
        let moment = if is_far { FAR_MOMENT } else { MOMENT };
        let may_change =
            |node: &RunningNode| is_on_its_way_out(node.pid) || missed.is_ending(node.id, node.pid);
        let patient = match waited {
            _ if is_decided(&self.failures) || left.is_empty() => false,
            waited if waited < moment => true,
            waited => waited < MOMENT_MAX && left.iter().any(|node| may_change(node)),
        };
        if patient {
            return;
        }
        let then = if left.is_empty() {
            ""
        } else {
            "; ending the others"
        };
        self.collecting_since = None;
        if let Some(culprit) = culprit(&self.failures, &missed) {
            let told = self.plan.tell(&culprit, &culprit.failure);
            self.printer.say(&format!("{told}{then}"));
            self.end_with(culprit.failure.code());
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

    /// Ends all remaining processes of the nodes and their descendants. Returns false if some do not die.
    fn clean_up(&mut self) -> bool {
        self.kill();
        let all = children::kill_all(self.guard.pid(), LAST_WAIT);
        if !all {
            self.printer.say("some processes of the job do not die");
        }
        all
    }

    /// Waits until the last output has been printed. It waits for a reader that takes its time, but a job that was told to
    /// end does not wait for one that has stopped reading.
    fn print_the_rest(&mut self, events: &mpsc::Receiver<Event>) {
        let (mut written, mut since) = (self.printer.written(), Instant::now());
        let mut look = Duration::from_millis(1);
        // No writer is left, so the pipes end. A reader that panicked has reported its panic.
        while !self.is_printed() {
            match events.recv_timeout(look) {
                Ok(Event::Signal(signal)) => {
                    if self.is_told && ENDING_SIGNALS.contains(&signal) {
                        // The user has asked twice.
                        break;
                    }
                    self.pass_on(signal);
                }
                Ok(Event::OutputFailed(error)) => self.lose_output(error),
                Ok(Event::Began(..)) => {}
                Err(_) => look = OUTPUT_LOOK.min(2 * look),
            }
            self.look_at_clock();
            if written != self.printer.written() {
                (written, since) = (self.printer.written(), Instant::now());
            } else if self.is_told && since.elapsed() >= STALLED {
                self.printer
                    .say("nobody reads the output any more; the rest of it is lost");
                // It is read if standard error is another stream.
                std::thread::sleep(OUTPUT_LOOK);
                break;
            }
        }
        // The failure of the last write may have come after it was looked for.
        for event in events.try_iter() {
            if let Event::OutputFailed(error) = event {
                self.lose_output(error);
            }
        }
    }

    /// Returns whether all output, of the nodes and of the launcher, has been printed.
    fn is_printed(&self) -> bool {
        let far = self.nodes.iter().filter_map(|node| node.far.as_ref());
        self.readers.iter().all(JoinHandle::is_finished)
            && far.into_iter().all(Far::is_printed)
            && self.printer.is_heard()
    }
}

impl Drop for RunningJob<'_> {
    /// Cleans up after a failed start, and prints what the nodes that had started have said.
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        self.clean_up();
        let begin = Instant::now();
        while !self.is_printed() && begin.elapsed() < STALLED {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
}
