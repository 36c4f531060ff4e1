//! Runs nodes as real processes. A test runs its own binary again, once per node, with the variables that
//! `loco run` sets.

use std::env;
use std::process::Command;

use loco_fabric::{Fabric, MemoryKind, NodeId, Platform, RegionKey, Std, Target, Time};
use loco_job::{Job, Mesh, var};

use crate::job::Processes;

pub use crate::job::PATIENCE;

/// Returns a deadline that only a failure reaches.
pub fn soon() -> Time {
    Std.now().after(PATIENCE)
}

/// Returns true in a node's process.
pub fn is_node() -> bool {
    env::var_os(var::NODE).is_some()
}

/// The node processes of a test.
pub struct Nodes(Processes);

impl Nodes {
    /// Starts, in the test's process, `n` nodes, each of which runs `test` again, and returns them. In a node's
    /// process, runs `body` and returns `None`. `more` adds to a node's command.
    pub fn run(
        test: &str,
        n: u16,
        more: impl Fn(&mut Command, u16),
        body: impl FnOnce(Mesh),
    ) -> Option<Nodes> {
        if is_node() {
            body(Mesh::connect(&Job::from_env().unwrap()).unwrap());
            return None;
        }
        let mut processes = Processes::new(test, n);
        for node in 0..n {
            let mut command = Command::new(env::current_exe().unwrap());
            command.args(["--exact", test, "--nocapture"]);
            more(&mut command, node);
            processes.start(NodeId(node), &mut command);
        }
        processes.rendezvous();
        Some(Nodes(processes))
    }

    /// Waits for a node's end. Returns true if a signal killed it.
    pub fn was_killed(&mut self, node: usize) -> bool {
        use std::os::unix::process::ExitStatusExt;
        self.status(node).signal() == Some(9)
    }

    /// Waits for a node's end. Returns true if it succeeded.
    pub fn succeeded(&mut self, node: usize) -> bool {
        self.status(node).success()
    }

    fn status(&mut self, node: usize) -> std::process::ExitStatus {
        let node = self.0.nodes()[node];
        self.0.status(node)
    }
}

/// Checks, in the test's process, that all nodes succeed except those in `killed`, which must not.
pub fn all_succeed_but(nodes: Option<Nodes>, killed: &[usize]) {
    let Some(mut nodes) = nodes else { return };
    for node in 0..nodes.0.nodes().len() {
        let succeeded = nodes.succeeded(node);
        assert_eq!(succeeded, !killed.contains(&node), "node {node}, see above");
    }
}

/// Returns memory of this node, and access to that of every node in ascending order.
pub fn share<F: Fabric>(fabric: &F, mesh: &Mesh, len: usize) -> (F::Memory, Vec<F::Remote>) {
    let memory = fabric.allocate(len, MemoryKind::Host).unwrap();
    let key = postcard::to_stdvec(&fabric.export(&memory)).unwrap();
    let keys = mesh.allgather("keys", &key, soon()).unwrap();
    let import = |(node, key): &(NodeId, Vec<u8>)| {
        let key: RegionKey = postcard::from_bytes(key).unwrap();
        fabric.import(*node, &key).unwrap()
    };
    (memory, keys.iter().map(import).collect())
}

/// Waits for all nodes, by set-up messages.
pub fn barrier(mesh: &Mesh, label: &str) {
    mesh.allgather(label, &[], soon()).unwrap();
}

/// Returns the memory from `offset` on as the remote side of an operation.
pub fn target<R>(remote: &R, offset: usize) -> Target<'_, R> {
    Target { remote, offset }
}
