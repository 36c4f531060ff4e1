//! Which nodes take part in a channel.

use loco_fabric::NodeId;

use crate::{Error, Result};

/// A set of nodes, in ascending order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Participants {
    nodes: Vec<NodeId>,
}

impl Participants {
    /// These nodes.
    pub fn of(nodes: impl IntoIterator<Item = NodeId>) -> Participants {
        let mut nodes: Vec<NodeId> = nodes.into_iter().collect();
        nodes.sort_unstable();
        nodes.dedup();
        Participants { nodes }
    }

    /// The nodes.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// True if `node` takes part.
    pub fn contains(&self, node: NodeId) -> bool {
        self.nodes.binary_search(&node).is_ok()
    }

    /// # Errors
    /// `NotParticipant` of the channel to be called `channel` unless `node` takes part.
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
