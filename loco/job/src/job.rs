//! A process's part in a job: which node it is, and how it meets the others. This is everything that
//! [`Mesh::connect`](crate::Mesh::connect) needs, parsed once.
//!
//! A [`Job`] comes from a builder, a hosts file, or the environment of a launcher ([`Job::from_env`](crate::Job::from_env)).

use loco_fabric::{FabricError, NodeId, Result};

use crate::hosts::{Address, Hosts};
use crate::secret::Secret;
use crate::timeouts::Timeouts;
use crate::var;

/// One node's part in a job.
#[derive(Clone, Debug)]
pub struct Job {
    pub(crate) node: NodeId,
    pub(crate) nodes: Vec<NodeId>,
    /// The ids that the job has room for: those of `nodes`, then those of nodes that may join.
    ids: Vec<NodeId>,
    pub(crate) meeting: Meeting,
    pub(crate) id: String,
    pub(crate) secret: Secret,
    pub(crate) timeouts: Timeouts,
}

/// The way in which nodes find one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Every node listens at a known address.
    Hosts(Hosts),
    /// Every node registers its address with the lowest node, which serves the rendezvous at this address and sends all
    /// addresses to every node.
    Node(Address),
    /// Every node registers its address with the launcher, which serves the rendezvous at this address and sends all
    /// addresses to every node.
    Launcher(Address),
}

impl Job {
    /// The id of a job whose nodes are given none.
    pub const DEFAULT_ID: &str = "loco";

    /// Starts describing a job in which this process is `node`.
    pub fn builder(node: NodeId) -> JobBuilder {
        JobBuilder {
            node,
            id: None,
            secret: None,
            timeouts: Timeouts::default(),
            nodes_max: None,
        }
    }

    /// Returns this node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns all nodes that the job begins with, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Returns how many ids the job has room for.
    pub fn nodes_max(&self) -> usize {
        self.ids.len()
    }

    pub(crate) fn ids(&self) -> &[NodeId] {
        &self.ids
    }

    /// Returns the way in which nodes find one another.
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// Returns the job's id: nodes of different jobs refuse one another.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Returns the timeouts.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }
}

/// A job under construction. The last call says how the nodes meet.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    node: NodeId,
    id: Option<String>,
    secret: Option<Secret>,
    timeouts: Timeouts,
    nodes_max: Option<u16>,
}

impl JobBuilder {
    /// Sets the job's id, which is `loco` without this.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> JobBuilder {
        JobBuilder {
            id: Some(id.into()),
            ..self
        }
    }

    /// Sets the secret that all nodes share. There is no default.
    #[must_use]
    pub fn secret(self, secret: Secret) -> JobBuilder {
        JobBuilder {
            secret: Some(secret),
            ..self
        }
    }

    /// Sets timeouts other than the defaults.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> JobBuilder {
        JobBuilder { timeouts, ..self }
    }

    /// Lets nodes [join](crate::Mesh::join) the job while it runs, until it has used so many ids; without this the number of nodes is
    /// fixed. All nodes must have the same number.
    ///
    /// Each attempt to join uses an id for good, also one that fails, and a node that comes back after its loss gets another. So
    /// leave room for more attempts than nodes. An id costs each node some 300 bytes, and a look at every sign of life that is due. One
    /// that was used costs 8 bytes more for each member that there was then. A view costs 10 bytes for each member, and what its fabric keeps. Signs of life are as far apart as
    /// in a job that has so many nodes ([`Timeouts::heartbeat_interval`]).
    #[must_use]
    pub fn nodes_max(self, nodes_max: u16) -> JobBuilder {
        JobBuilder {
            nodes_max: Some(nodes_max),
            ..self
        }
    }

    /// Ends the description: every node listens at its address of `hosts`.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when this node is not in `hosts`, the secret is missing, or the id, a
    /// timeout or [`nodes_max`](JobBuilder::nodes_max) is out of range.
    pub fn hosts(self, hosts: Hosts) -> Result<Job> {
        let nodes = hosts.iter().map(|(node, _)| node).collect();
        self.finish(nodes, Meeting::Hosts(hosts))
    }

    /// Ends the description of a job of `count` nodes with ids from 0. Node 0 serves the rendezvous at
    /// `address`.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] in the cases of [`hosts`](JobBuilder::hosts), and when `count` is zero.
    pub fn rendezvous(self, count: u16, address: Address) -> Result<Job> {
        self.finish((0..count).map(NodeId).collect(), Meeting::Node(address))
    }

    /// Ends the description of a job of `count` nodes with ids from 0. Its launcher serves the rendezvous
    /// ([`Rendezvous`](crate::Rendezvous)) at `address`.
    ///
    /// # Errors
    /// See [`rendezvous`](JobBuilder::rendezvous).
    pub fn launcher(self, count: u16, address: Address) -> Result<Job> {
        self.finish((0..count).map(NodeId).collect(), Meeting::Launcher(address))
    }

    fn finish(self, nodes: Vec<NodeId>, meeting: Meeting) -> Result<Job> {
        let node = self.node;
        if nodes.is_empty() {
            return Err(FabricError::Config(
                "a job needs at least one node, not 0".to_owned(),
            ));
        }
        if !nodes.contains(&node) {
            let known = NodeId::list(nodes.iter().copied());
            return Err(FabricError::Config(format!(
                "{node} is not part of the job: it has {known}"
            )));
        }
        let ids = ids(&nodes, self.nodes_max.map_or(nodes.len(), usize::from))?;
        let (id, secret) = identity(self.id, self.secret)?;
        self.timeouts.check()?;
        Ok(Job {
            node,
            nodes,
            ids,
            meeting,
            id,
            secret,
            timeouts: self.timeouts,
        })
    }
}

/// Returns the id and the secret of a job, the former by default.
///
/// # Errors
/// Returns [`FabricError::Config`] when the secret is missing or the id is out of range.
pub(crate) fn identity(id: Option<String>, secret: Option<Secret>) -> Result<(String, Secret)> {
    let secret = secret.ok_or_else(|| {
        FabricError::Config(format!(
            "the job has no secret: give every node the same one, e.g. in {}",
            var::SECRET
        ))
    })?;
    let id = id.unwrap_or_else(|| Job::DEFAULT_ID.to_owned());
    if id.is_empty() || id.len() > JOB_ID_BYTES_MAX {
        return Err(FabricError::Config(format!(
            "a job id has 1 to {JOB_ID_BYTES_MAX} bytes, not {}",
            id.len()
        )));
    }
    Ok((id, secret))
}

/// Returns the ids of a job that begins with `nodes` and has room for `nodes_max`: those that join count on from the highest.
///
/// # Errors
/// Returns [`FabricError::Config`] when there is no room for `nodes`, or there are not so many ids.
pub(crate) fn ids(nodes: &[NodeId], nodes_max: usize) -> Result<Vec<NodeId>> {
    let last = nodes.last().map_or(0, |last| last.0);
    let joining = nodes_max.checked_sub(nodes.len()).ok_or_else(|| {
        FabricError::Config(format!(
            "room for {nodes_max} nodes is too little for the {} that the job begins with: raise {}",
            nodes.len(),
            var::NODES_MAX
        ))
    })?;
    let end = u16::try_from(joining)
        .ok()
        .and_then(|joining| last.checked_add(joining));
    let end = end.ok_or_else(|| {
        FabricError::Config(format!(
            "there are no ids for {joining} nodes that join after {}: lower {}",
            NodeId(last),
            var::NODES_MAX
        ))
    })?;
    Ok(nodes
        .iter()
        .copied()
        .chain((last..end).map(|id| NodeId(id + 1)))
        .collect())
}

/// Longest job id, in bytes.
const JOB_ID_BYTES_MAX: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_join_count_on_from_the_highest_id() {
        let nodes = [NodeId(3), NodeId(7)];
        assert_eq!(ids(&nodes, 2).unwrap(), nodes);
        assert_eq!(ids(&nodes, 4).unwrap(), [3, 7, 8, 9].map(NodeId));
        let error = |nodes: &[NodeId], max| ids(nodes, max).unwrap_err().to_string();
        assert!(error(&nodes, 1).contains("raise LOCO_NODES_MAX"));
        assert!(error(&[NodeId(u16::MAX)], 2).contains("lower LOCO_NODES_MAX"));
    }
}
