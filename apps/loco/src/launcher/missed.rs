//! Reads which nodes of this host missed which others, in the order in which they noted it. They write into a file that has no
//! name, so that nothing is left however the job ends.

use std::fs::{self, File};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;

use loco::fabric::{Missed, NodeId};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::Pid;

use crate::error::CliError;

/// The most bytes that are read. What nodes write beyond them is ignored.
const BYTES_MAX: u64 = 16 << 20;

/// The file with the notes.
pub(super) struct Notes(File);

impl Notes {
    pub(super) fn new() -> Result<Notes, CliError> {
        let memory = memfd_create("loco-missed", MemfdFlags::CLOEXEC);
        let memory = memory.map_err(CliError::os(
            "making the file in which nodes note whom they missed",
        ))?;
        Ok(Notes(File::from(memory)))
    }

    /// Returns the path by which a node of this host opens the file.
    pub(super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }

    /// Reads what has been noted so far.
    pub(super) fn read(&self) -> MissedNodes {
        let length = self.0.metadata().map_or(0, |found| found.len()).min(BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        // Notes that cannot be read are none: then the exit codes alone tell which node failed first.
        let read = self.0.read_exact_at(&mut bytes, 0);
        MissedNodes::of(
            read.map_or("".into(), |()| String::from_utf8_lossy(&bytes))
                .as_ref(),
        )
    }
}

/// Who missed whom, in the order in which it was noted.
#[derive(Debug, Default)]
pub(super) struct MissedNodes(Vec<(NodeId, Missed, NodeId)>);

impl MissedNodes {
    /// Reads the lines. A node that others have missed before is no witness: it notices that they go on without it.
    pub(super) fn of(text: &str) -> MissedNodes {
        let mut kept: Vec<(NodeId, Missed, NodeId)> = Vec::new();
        for (by, how, node) in text.lines().filter_map(Missed::read) {
            if !kept.iter().any(|&(_, _, missed)| missed == by) {
                kept.push((by, how, node));
            }
        }
        MissedNodes(kept)
    }

    /// Returns the first of these nodes to miss another, with the nodes that it missed for the same reason, but for those that
    /// went because they missed others.
    pub(super) fn first(&self, of: impl Fn(NodeId) -> bool) -> Option<(NodeId, Vec<NodeId>)> {
        let &(by, how, first) = self.0.iter().find(|&&(by, ..)| of(by))?;
        let same = self
            .0
            .iter()
            .filter(|&&(other, why, _)| (other, why) == (by, how));
        let mut nodes: Vec<_> = same
            .map(|&(.., node)| node)
            .filter(|&node| !self.has_missed(node))
            .collect();
        if nodes.is_empty() {
            nodes.push(first);
        }
        nodes.sort_unstable();
        Some((by, nodes))
    }

    /// Returns whether the node missed another.
    pub(super) fn has_missed(&self, node: NodeId) -> bool {
        self.0.iter().any(|&(by, ..)| by == node)
    }

    /// Returns whether others missed the node for this reason.
    pub(super) fn was_missed(&self, node: NodeId, how: Missed) -> bool {
        self.0
            .iter()
            .any(|&(_, why, missed)| (why, missed) == (how, node))
    }

    /// Returns whether a node that is alive is about to end: others have lost it, and it was not merely stopped.
    pub(super) fn is_ending(&self, node: NodeId, pid: Pid) -> bool {
        self.was_missed(node, Missed::Lost) && !is_stopped(pid)
    }
}

/// Returns whether a process is stopped.
fn is_stopped(pid: Pid) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, after)| after.split_whitespace().next());
    matches!(state, Some("T" | "t"))
}
