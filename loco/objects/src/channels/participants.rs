//! The nodes that take part in a channel.

use std::sync::Arc;

use loco_fabric::NodeId;

use crate::{Error, Result};

/// A set of nodes, in ascending order. Clones share it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants {
    nodes: Arc<[NodeId]>,
}

impl<'a> IntoIterator for &'a Participants {
    type Item = NodeId;
    type IntoIter = std::iter::Copied<std::slice::Iter<'a, NodeId>>;

    fn into_iter(self) -> Self::IntoIter {
        self.nodes.iter().copied()
    }
}

impl Participants {
    /// Makes the set of these nodes.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Participants {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Participants { nodes: nodes.into() }
    }

    /// Returns the nodes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns true if `node` takes part.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    /// Checks that `node` takes part.
    ///
    /// # Errors
    /// Returns `NotParticipant` for the channel to be called `channel` unless `node` takes part.
    pub(crate) fn require(&self, channel: &str, node: NodeId) -> Result<()> {
        if self.contains(node) {
            return Ok(());
        }
        Err(Error::NotParticipant {
            channel: channel.to_owned(),
            node,
        })
    }
}
