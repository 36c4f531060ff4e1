//! A running node on another host: its connection, and the meaning of its end.

use std::process::{ChildStderr, ChildStdin, ChildStdout};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;

use loco::fabric::{NodeId, Secret};
use rustix::process::{Signal, WaitStatus};

use super::failure::{Failure, SSH_FAILED};
use super::input::Input;
use super::output::Printer;
use super::ssh::{self, Control, Progress, Remote};
use super::{Event, Node, Plan};
use crate::error::CliError;

/// The far side of a node.
pub(super) struct Far {
    pub(super) remote: Remote,
    /// The way to the node; dropping it ends the node.
    control: Option<Control>,
    progress: Arc<Progress>,
    readers: Vec<JoinHandle<()>>,
    /// The input that is to be connected when the program begins.
    pub(super) input: Input,
}

impl Far {
    /// Sends the node's script into its connection, and prints the connection's output.
    pub(super) fn connect(
        plan: &Plan,
        node: &Node,
        remote: &Remote,
        input: Input,
        pipes: (Option<ChildStdin>, Option<ChildStdout>, Option<ChildStderr>),
        (printer, events): (&Arc<Printer>, &mpsc::Sender<Event>),
    ) -> Result<Far, CliError> {
        let (to, out, err) = pipes;
        let mark = format!("loco-{}", Secret::random_text()?);
        let progress = Arc::new(Progress::new(mark));
        let script = ssh::node(node, remote, &plan.command, progress.mark(), input != Input::None)?;
        let control = to.map(|pipe| Control::open(pipe, script)).transpose()?;
        let (marks, events, id) = (Arc::clone(&progress), events.clone(), node.id);
        let look = move |line: &mut Vec<u8>| {
            if let Some(holder) = marks.take(line) {
                // Without a receiver the job is over.
                let _ = events.send(Event::Began(id, holder));
            }
        };
        Ok(Far {
            remote: remote.clone(),
            control,
            progress,
            readers: Printer::read(printer, node.id, out, err, look)?,
            input,
        })
    }

    pub(super) fn mark(&self) -> &str {
        self.progress.mark()
    }

    /// Returns whether the program has begun.
    pub(super) fn began(&self) -> bool {
        self.progress.began()
    }

    /// Sends a signal to the node.
    pub(super) fn signal(&self, signal: Signal) {
        if let (Some(control), Some(name)) = (&self.control, ssh::signal_name(signal)) {
            control.signal(name);
        }
    }

    /// Ends the connection's input, at which the far side kills the node and the processes that it has started.
    pub(super) fn let_go(&mut self) {
        self.control = None;
    }

    /// Returns whether all output of the connection has been printed.
    pub(super) fn is_printed(&self) -> bool {
        self.readers.iter().all(JoinHandle::is_finished)
    }

    /// Returns what went wrong, once the connection has ended and its output, which tells how far it came, is printed.
    pub(super) fn failure(&self, node: NodeId, status: WaitStatus) -> Option<Failure> {
        // A program that a signal killed makes `ssh` end with a code.
        let failed = status.signaled() || status.exit_status() == Some(i32::from(SSH_FAILED));
        if !self.began() {
            Some(Failure::not_begun(node, status))
        } else if failed && !self.progress.told_code() {
            Some(Failure::cut_off(node))
        } else {
            Failure::of(node, status)
        }
    }

    /// Returns advice for the user about a failure that is not the program's, or `None` if it is the program's.
    pub(super) fn advice(&self, failure: &Failure) -> Option<String> {
        let host = &self.remote.host;
        let node = failure.node;
        if failure.is_cut_off() {
            Some(format!("the connection to {host}, on which {node} ran, was lost"))
        } else if !failure.is_not_begun() {
            None
        } else if failure.code() == SSH_FAILED {
            Some(format!(
                "ssh to {host} failed, where {node} was to run; its own message is above. `{}` must work and ask nothing",
                self.remote.trial()
            ))
        } else {
            Some(format!(
                "{node} did not begin on {host}: the shell there ended with exit code {}; what it said is above",
                failure.code()
            ))
        }
    }
}
