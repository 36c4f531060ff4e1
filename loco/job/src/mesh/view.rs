//! The views of a job as programs see them, and the part that a node takes in one.
//!
//! Relies on [`agreement`](super::agreement) for what a view is. Used by [`Mesh`](super::Mesh).

use std::sync::Arc;

use loco_fabric::{NodeId, Result};

use super::agreement;

/// The members of a job at a time. In a job that nodes may join, each node that joins, [announces that it leaves](super::Mesh::announce_leave),
/// leaves or is lost makes a view; several that go may make one together.
///
/// Nodes that have one another for members get the same views in the same order, except that a newcomer's first is the one that
/// it makes, and a node that leaves by an announcement gets none after those that it is a member of. In parts of a network that take each other for lost, views of the same number may differ.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct View {
    number: u32,
    members: Vec<NodeId>,
}

impl View {
    /// Makes the view that a job with these nodes begins with.
    pub(super) fn first(nodes: &[NodeId]) -> View {
        View {
            number: view_number(nodes.len()),
            members: nodes.to_vec(),
        }
    }

    /// Makes the view with these members out of the one of the agreement, whose nodes have these ids.
    pub(super) fn of(view: &agreement::View, nodes: &[NodeId]) -> View {
        View {
            number: view_number(view.epoch),
            members: view.members.iter().map(|&member| nodes[member]).collect(),
        }
    }

    /// Returns the view's number. It grows from view to view, not always by one, since an attempt to join that fails uses a number as
    /// well. The first is the number of the nodes that the job began with.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Returns the members, in ascending order. Some may be gone: [`Control::peer_state`](loco_fabric::Control::peer_state) tells.
    pub fn members(&self) -> &[NodeId] {
        &self.members
    }
}

/// The part that a node takes in a view.
#[derive(Debug)]
pub(super) struct Scope {
    view: View,
    /// The indices of the members.
    indices: Box<[usize]>,
}

impl Scope {
    /// Makes the part in `view` of a node that knows `nodes`.
    ///
    /// # Errors
    /// Returns [`UnknownPeer`](loco_fabric::FabricError::UnknownPeer) for a member that is not among them.
    pub(super) fn of(view: View, nodes: &[NodeId]) -> Result<Arc<Scope>> {
        let indices = view.members.iter().map(|member| member.position_in(nodes));
        let indices = indices.collect::<Result<_>>()?;
        Ok(Arc::new(Scope { view, indices }))
    }

    pub(super) fn number(&self) -> u32 {
        self.view.number
    }

    pub(super) fn nodes(&self) -> &[NodeId] {
        &self.view.members
    }

    pub(super) fn indices(&self) -> &[usize] {
        &self.indices
    }
}

/// Returns the number of a view as it goes over a connection. There are never so many that it does not fit.
pub(super) fn view_number(epoch: usize) -> u32 {
    u32::try_from(epoch).unwrap_or(u32::MAX)
}
