//! Facts about the fabric that several layers ask for: a peer's position among the nodes of the job, whether
//! it is gone, and whether the result of an atomic is placed. Beside them, the news for the launcher that a peer was missed.

use loco_fabric::{Atomicity, Control, Fabric, FabricError, NodeId};
use loco_job::{Missed, note_missed};

use crate::Error;

/// Returns the peer's position among the job's nodes, which are in ascending order.
#[inline]
pub(crate) fn position_of(nodes: &[NodeId], peer: NodeId) -> Result<usize, FabricError> {
    peer.position_in(nodes)
}

/// Returns true if a completed remote read-modify-write has placed its write: it took effect at the memory, not in
/// the NIC.
#[inline]
pub(crate) fn atomics_placed<F: Fabric>(fabric: &F) -> bool {
    fabric.caps().atomicity == Atomicity::Glob
}

/// Returns whether `node` is gone, for whatever reason.
pub(crate) fn is_gone<F: Fabric>(fabric: &F, node: NodeId) -> bool {
    fabric.control().is_gone(node)
}

/// Tells the launcher that this node missed a lost one, if `error` is about a lost node, and returns the error. For errors of
/// which the user hears: a launcher that is to name the node that failed first passes over those that missed it.
#[cold]
pub(super) fn tell_launcher<F: Fabric>(fabric: &F, error: Error) -> Error {
    if let Some(node) = error.lost_peer() {
        note_missed(fabric.node(), Missed::Lost, node);
    }
    error
}
