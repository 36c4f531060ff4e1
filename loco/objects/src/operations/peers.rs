//! Facts about the fabric that several layers ask for: a peer's position among the nodes of the job, whether
//! it is gone, and whether the result of an atomic is placed.

use loco_fabric::{Atomicity, Control, Fabric, FabricError, NodeId};

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
