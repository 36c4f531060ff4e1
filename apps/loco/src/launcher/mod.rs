//! Starts the processes of a job, passes their output and signals on, and leaves no process behind.
//!
//! Three mechanisms together make sure that nothing is left:
//!
//! * every node leads a process group of its own, and this process is a *subreaper*: what a node starts and leaves
//!   behind becomes a child of this process, which ends it when the job is over;
//! * every node starts through the hidden subcommand [`EXEC`], which asks the kernel to kill it when this process dies,
//!   however it dies, and then becomes the program;
//! * a guard (hidden subcommand [`GUARD`]) holds one end of a pipe whose other end only this process has. When the pipe
//!   breaks, it kills the groups that are left. It covers processes that nodes had started when this process was
//!   killed.
//!
//! Not covered: a process that left its node's group *and* outlives a `kill -9` of the launcher.
//!
//! For a node on another host the process here is an `ssh`; the module [`ssh`] says how the far side is ended.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use indicatif::ProgressBar;
use loco::fabric::{Departures, NodeId};
use signal_hook::consts::{SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;

use crate::error::CliError;
use loco_app::OutputError;

mod children;
mod exec;
mod failure;
mod far;
mod guard;
mod input;
mod job;
mod missed;
mod output;
mod ssh;

pub use exec::{Args as ExecArgs, NAME as EXEC, exec};
pub use failure::Failure;
pub use guard::{NAME as GUARD, guard};
pub use ssh::{Remote, is_name};

use input::Input;
use job::RunningJob;
use output::Printer;

/// The job that [`launch`] runs.
pub struct Plan {
    /// The nodes to start here.
    pub nodes: Vec<Node>,
    /// The program and its arguments, which are the same for all nodes.
    pub command: Vec<OsString>,
    /// The time after which the job is ended.
    pub timeout: Option<Duration>,
    /// The time between asking a node to end and killing it.
    pub grace: Duration,
    /// Lets the other nodes go on when one fails.
    pub keep_going: bool,
    /// Puts the node's id before each line.
    pub prefix: bool,
    /// The only node joins a running job, which gives it an id that is not known here.
    pub joins: bool,
    /// A progress bar, hidden while a line is printed.
    pub bar: Option<ProgressBar>,
    /// Gives the first node our standard input.
    pub input: bool,
    /// A directory to make for the nodes. The caller removes it. If this process is killed, the guard does.
    pub scratch: Option<PathBuf>,
}

impl Plan {
    /// Returns the message about a failure, which is `message` unless the node has no id here.
    fn tell(&self, message: &impl ToString, failure: &Failure) -> String {
        match self.joins {
            true => format!("the node of `--join` {}", failure.end()),
            false => message.to_string(),
        }
    }
}

/// A node: its id, and how its environment differs from ours.
pub struct Node {
    /// The id.
    pub id: NodeId,
    /// Variables to remove.
    pub unset: Vec<&'static str>,
    /// Variables to set.
    pub set: Vec<(&'static str, String)>,
    /// The place to report the node's end, so that nobody waits for the node to come.
    pub departures: Option<Departures>,
    /// The host to start it on by `ssh`. `None` starts it here.
    pub remote: Option<Remote>,
}

/// The signals that end the job.
const ENDING_SIGNALS: [i32; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];
/// The signals that are passed on to the nodes, and the one that reports the end of children.
const OTHER_SIGNALS: [i32; 5] = [SIGCHLD, SIGCONT, SIGTSTP, SIGUSR1, SIGUSR2];

/// An event that wakes the launcher.
enum Event {
    Signal(i32),
    /// Our standard output cannot be written any more.
    OutputFailed(OutputError),
    /// The program of a node on another host begins. The number is the process there that holds the pipe of its
    /// input, if it has one.
    Began(NodeId, Option<i32>),
}

/// The end of a job.
pub struct Ended {
    /// The job's exit code.
    pub code: u8,
    /// The nodes that failed before they were asked to end, in the order in which the kernel reported them.
    pub failures: Vec<Failure>,
}

/// Runs the job to its end. Must be called from the main thread: the kernel takes the end of the thread that
/// started a node for the end of the launcher.
///
/// # Errors
/// Returns a [`CliError`] when the nodes cannot be started. Nodes that had started are ended.
pub fn launch(plan: &Plan) -> Result<Ended, CliError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))
        .map_err(CliError::os("becoming a subreaper"))?;
    let (sender, events) = mpsc::channel();
    watch_signals(sender.clone())?;
    let printer = Arc::new(Printer::new(
        plan.prefix,
        plan.bar.clone(),
        &plan.nodes,
        sender.clone(),
    )?);
    let mut job = RunningJob::new(plan, printer, sender)?;
    // An error here drops the job, which ends the nodes that have started.
    for (index, node) in plan.nodes.iter().enumerate() {
        let input = match &node.remote {
            _ if !plan.input || index > 0 => Input::None,
            Some(_) => Input::choose_far(),
            None => Input::choose(),
        };
        job.start_in_turn(node, input)?;
    }
    Ok(job.see_through(&events))
}

/// Starts a thread that turns signals into events, so that the main loop can wait for both signals and time.
fn watch_signals(sender: mpsc::Sender<Event>) -> Result<(), CliError> {
    let mut signals = Signals::new(ENDING_SIGNALS.iter().chain(&OTHER_SIGNALS))
        .map_err(CliError::os("taking over signals"))?;
    thread::Builder::new()
        .name("loco-signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                let job_is_over = sender.send(Event::Signal(signal)).is_err();
                if job_is_over && ENDING_SIGNALS.contains(&signal) {
                    // After the job, the launcher does not handle signals: the signal has its default effect.
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
            }
        })
        .map_err(CliError::os("starting the thread that takes signals"))?;
    Ok(())
}
