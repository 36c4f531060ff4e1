//! State that the threads of one node share: its memory, access to its peers' memory, and the completions that have come.
//!
//! Each node has one region. Its parts are data (the locations of tests), report (what the runs of a batch gave),
//! scratch (where traffic goes) and control (words by which nodes synchronize). The leader, node 0, also has an inbox for the
//! report of every node. Relies on the fabric and its mesh. Used by workers, traffic and the node.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use loco_fabric::{
    Completion, CompletionStatus, Fabric, FabricError, MemoryKind, NodeId, Platform, RegionKey, Result, Std,
};
use loco_job::Mesh;

/// The most threads of a program.
pub const THREADS_MAX: usize = 8;
/// The bytes for the locations of tests.
pub const DATA: usize = 1 << 20;
/// The bytes of a report.
pub const REPORT: usize = 1 << 20;
/// The bytes that traffic goes to, and those that it comes from.
pub const SCRATCH: usize = 1 << 17;
/// The distance of two words of control.
const LINE: usize = 64;
/// The most nodes of a job.
pub const JOB_NODES_MAX: usize = 64;
/// The workers of a node: one for each thread of a program, and one for traffic.
const WORKERS: usize = THREADS_MAX + 1;
/// The most queue pairs of a worker.
pub const LINES_MAX: usize = 2 * JOB_NODES_MAX;

/// The offset of the report.
pub const REPORT_AT: usize = DATA;
/// The offset of the scratch memory.
pub const SCRATCH_AT: usize = REPORT_AT + REPORT;
/// The offset of the control words.
const CONTROL_AT: usize = SCRATCH_AT + 2 * SCRATCH;
/// The offset of the leader's command.
pub const COMMAND_AT: usize = CONTROL_AT;
/// The offset of the number of the last synchronization that the leader has ended.
pub const GO_AT: usize = CONTROL_AT + LINE;
/// The offset of the leader's inbox.
const INBOX_AT: usize = progress_at(THREADS_MAX);

/// Returns the offset of the number of the last synchronization that a node has reached.
pub const fn arrived_at(node: usize) -> usize {
    CONTROL_AT + (2 + node) * LINE
}

/// Returns the offset of a thread's progress.
pub const fn progress_at(thread: usize) -> usize {
    CONTROL_AT + (2 + JOB_NODES_MAX + thread) * LINE
}

/// Returns the offset of a node's report in the leader's inbox.
pub const fn inbox_at(node: usize) -> usize {
    INBOX_AT + node * REPORT
}

/// Returns words as they lie in a region.
pub fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The time that nodes wait for one another at set-up.
const SET_UP: Duration = Duration::from_secs(60);

/// State that the threads of one node share.
pub struct Shared<F: Fabric> {
    /// The fabric.
    pub fabric: F,
    /// The nodes of the job, in ascending order; a node's index here is its index everywhere in this crate.
    pub nodes: Vec<NodeId>,
    /// The index of this node.
    pub me: usize,
    /// This node's region.
    pub memory: F::Memory,
    /// Every node's region.
    pub remotes: Vec<F::Remote>,
    /// For each worker and line, the number of completions that have come.
    ended: Vec<AtomicU64>,
    failed: AtomicBool,
    failure: Mutex<Option<FabricError>>,
}

impl<F: Fabric<Control = Mesh, Platform = Std>> Shared<F> {
    /// Exchanges handles: peers get access to this node's memory, and this node to theirs. Every node must call it.
    pub fn new(fabric: F) -> Result<Shared<F>> {
        let nodes = fabric.nodes().to_vec();
        if nodes.len() > JOB_NODES_MAX {
            return Err(FabricError::Config(format!(
                "{} nodes: a job that runs litmus tests has at most {JOB_NODES_MAX}",
                nodes.len()
            )));
        }
        let me = nodes.iter().position(|&node| node == fabric.node()).unwrap_or(0);
        let inbox = if me == 0 { nodes.len() } else { 0 };
        let memory = fabric.allocate(inbox_at(inbox), MemoryKind::Host)?;
        let key = postcard::to_stdvec(&fabric.export(&memory)).unwrap_or_default();
        let deadline = Std.now().after(SET_UP);
        let keys = fabric.control().allgather("litmus region", &key, deadline)?;
        let import = |(node, key): &(NodeId, Vec<u8>)| {
            let key: RegionKey = postcard::from_bytes(key)
                .map_err(|_| FabricError::Config(format!("{node} sent no key: it runs another program")))?;
            fabric.import(*node, &key)
        };
        let remotes = keys.iter().map(import).collect::<Result<_>>()?;
        Ok(Shared {
            nodes,
            me,
            memory,
            remotes,
            ended: (0..WORKERS * LINES_MAX).map(|_| AtomicU64::new(0)).collect(),
            failed: AtomicBool::new(false),
            failure: Mutex::new(None),
            fabric,
        })
    }
}

impl<F: Fabric> Shared<F> {
    /// Returns the number of completions of a worker's line.
    pub fn ended(&self, worker: usize, line: usize) -> u64 {
        self.ended[worker * LINES_MAX + line].load(Ordering::Acquire)
    }

    /// Takes the completions that have come, of all workers. `buffer` is for reuse.
    ///
    /// # Errors
    /// Fails if an operation of this node has failed.
    pub fn take(&self, buffer: &mut Vec<Completion>) -> Result<()> {
        self.fabric.poll(buffer)?;
        for completion in buffer.drain(..) {
            let (worker, line) = (completion.id.0 >> 32, completion.id.0 as u32);
            if let CompletionStatus::Failed(error) = completion.status {
                let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
                failure.get_or_insert(*error);
                self.failed.store(true, Ordering::Release);
            }
            self.ended[worker as usize * LINES_MAX + line as usize].fetch_add(1, Ordering::Release);
        }
        if self.failed.load(Ordering::Acquire) {
            let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            return failure.clone().map_or(Ok(()), Err);
        }
        Ok(())
    }
}
