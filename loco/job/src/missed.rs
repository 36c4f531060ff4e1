//! Notes for the launcher which node this node missed. When one node fails, the others notice and fail too, and the kernel
//! may report their ends first. The notes are in the order of causes: a node that ends because of another one has noted
//! that before it ends.
//!
//! Used by the mesh, for losses, and by whoever waits for other nodes.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use loco_fabric::NodeId;
use loco_trace::timeline;

use crate::var;

/// The reason why a node was reported missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Missed {
    /// It ended, or its connection broke.
    Lost,
    /// It had not arrived by the deadline.
    Late,
}

impl Missed {
    /// Returns the word that stands in the file.
    fn word(self) -> &'static str {
        match self {
            Missed::Lost => "lost",
            Missed::Late => "late",
        }
    }

    /// Reads a line of the file: the node that noted it, the reason, and the node that was missed.
    pub fn read(line: &str) -> Option<(NodeId, Missed, NodeId)> {
        let mut words = line.split(' ');
        let by = NodeId(words.next()?.parse().ok()?);
        let word = words.next()?;
        let how = [Missed::Lost, Missed::Late]
            .into_iter()
            .find(|how| how.word() == word)?;
        let node = NodeId(words.next()?.parse().ok()?);
        Some((by, how, node))
    }
}

/// What was noted in this process: by whom, why, and who was missed.
static NOTED: Mutex<BTreeSet<(NodeId, Missed, NodeId)>> = Mutex::new(BTreeSet::new());

fn noted() -> MutexGuard<'static, BTreeSet<(NodeId, Missed, NodeId)>> {
    NOTED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the number of nodes that node `by`, which is this process, has noted as lost.
pub fn missed_by(by: NodeId) -> u64 {
    let noted = noted();
    let lost = noted
        .iter()
        .filter(|&&(noter, how, _)| (noter, how) == (by, Missed::Lost));
    lost.count() as u64
}

/// Notes that node `by`, which is this process, missed `node`: for a launcher that [asks](var::MISSED) for it, and in the timeline,
/// if that is on. Notes the same only once.
#[cold]
pub fn note_missed(by: NodeId, how: Missed, node: NodeId) {
    static FILE: OnceLock<Option<File>> = OnceLock::new();
    let open = || {
        File::options()
            .append(true)
            .open(std::env::var_os(var::MISSED)?)
            .ok()
    };
    let mut noted = noted();
    if !noted.insert((by, how, node)) {
        return;
    }
    timeline::missed(by, how.word(), node);
    if let Some(mut file) = FILE.get_or_init(open).as_ref() {
        // One write, so that the lines of several nodes do not mix. A launcher that is gone needs no line.
        let _ = file.write_all(format!("{} {} {}\n", by.0, how.word(), node.0).as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_or_ignored() {
        let read = Missed::read;
        assert_eq!(read("3 lost 12"), Some((NodeId(3), Missed::Lost, NodeId(12))));
        assert_eq!(read("0 late 1"), Some((NodeId(0), Missed::Late, NodeId(1))));
        for bad in ["", "3", "3 lost", "3 gone 1", "x lost 1", "3 lost 70000"] {
            assert_eq!(read(bad), None, "{bad}");
        }
    }
}
