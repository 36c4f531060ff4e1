//! Processes that are the nodes of a job, as `loco run` would start them, for tests of any program.
//!
//! Relies on `loco-job`. Used by [`processes`](crate::processes), and by the tests of examples and of C programs.

use std::collections::BTreeMap;
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::{Duration, Instant};

use loco_fabric::{NodeId, Platform, Std};
use loco_job::{Rendezvous, Secret, var};

/// The longest time that nodes wait for one another. Emulated machines are slow, and lost packets are sent
/// again only after a while.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// The node processes of a job. Those that still run when the test ends, however it ends, are killed.
pub struct Processes {
    job: String,
    secret: String,
    /// `None` once the nodes have met.
    rendezvous: Option<Rendezvous>,
    address: String,
    nodes: Vec<NodeId>,
    processes: BTreeMap<NodeId, Child>,
}

impl Processes {
    /// Returns a job of `nodes` nodes, called `job`, none of which runs yet.
    pub fn new(job: &str, nodes: u16) -> Processes {
        let rendezvous = Rendezvous::on_loopback().unwrap();
        Processes {
            job: job.to_owned(),
            secret: Secret::random_text().unwrap(),
            address: rendezvous.address().to_string(),
            rendezvous: Some(rendezvous),
            nodes: (0..nodes).map(NodeId).collect(),
            processes: BTreeMap::new(),
        }
    }

    /// Returns the nodes, started or not.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns the variables by which a process is this node.
    pub fn environment(&self, node: NodeId) -> Vec<(&'static str, String)> {
        vec![
            (var::NODE, node.0.to_string()),
            (var::NODES, self.nodes.len().to_string()),
            (var::LAUNCHER, self.address.clone()),
            (var::JOB, self.job.clone()),
            (var::SECRET, self.secret.clone()),
        ]
    }

    /// Starts `command` as this node.
    pub fn start(&mut self, node: NodeId, command: &mut Command) {
        let process = command.envs(self.environment(node)).spawn().unwrap();
        self.processes.insert(node, process);
    }

    /// Starts `command` as this node, and keeps its outputs for [`finish`](Processes::finish).
    pub fn start_heard(&mut self, node: NodeId, command: &mut Command) {
        self.start(node, command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    }

    /// Serves the rendezvous of the nodes. Returns when all are there.
    pub fn rendezvous(&mut self) {
        let rendezvous = self.rendezvous.take().unwrap();
        let secret = Secret::new(self.secret.as_bytes()).unwrap();
        let deadline = Std.now().after(PATIENCE);
        rendezvous
            .serve(&self.job, &secret, &self.nodes, deadline)
            .unwrap();
    }

    /// Waits for a node's end.
    pub fn status(&mut self, node: NodeId) -> ExitStatus {
        let start = Instant::now();
        let process = self.processes.get_mut(&node).unwrap();
        loop {
            if let Some(status) = process.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < 2 * PATIENCE, "{node} hangs");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for the ends of the processes, and returns the outputs of those that were
    /// [heard](Processes::start_heard).
    pub fn finish(mut self) -> BTreeMap<NodeId, Output> {
        let processes = std::mem::take(&mut self.processes);
        let ends = processes
            .into_iter()
            .map(|(node, process)| (node, process.wait_with_output().unwrap()));
        ends.collect()
    }

    /// Waits for the ends of the processes, which all must succeed, and returns the standard output of each.
    pub fn finish_well(self) -> Vec<String> {
        let ends = self.finish().into_iter().map(|(node, output)| {
            let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
            let (out, err) = (text(&output.stdout), text(&output.stderr));
            assert!(output.status.success(), "{node}: {}\n{out}{err}", output.status);
            out
        });
        ends.collect()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in self.processes.values_mut() {
            let _gone_already = process.kill();
            let _status = process.wait();
        }
    }
}
