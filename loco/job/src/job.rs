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
    /// Starts describing a job in which this process is `node`.
    pub fn builder(node: NodeId) -> JobBuilder {
        JobBuilder {
            node,
            id: None,
            secret: None,
            timeouts: Timeouts::default(),
        }
    }

    /// Returns this node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// Returns all nodes, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
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

    /// Ends the description: every node listens at its address of `hosts`.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] when this node is not in `hosts`, the secret is missing, or the id or a
    /// timeout is out of range.
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
        let secret = self.secret.ok_or_else(|| {
            FabricError::Config(format!(
                "the job has no secret: give every node the same one, e.g. in {}",
                var::SECRET
            ))
        })?;
        let id = self.id.unwrap_or_else(|| "loco".to_owned());
        if id.is_empty() || id.len() > JOB_ID_BYTES_MAX {
            return Err(FabricError::Config(format!(
                "a job id has 1 to {JOB_ID_BYTES_MAX} bytes, not {}",
                id.len()
            )));
        }
        self.timeouts.check()?;
        Ok(Job {
            node,
            nodes,
            meeting,
            id,
            secret,
            timeouts: self.timeouts,
        })
    }
}

/// Longest job id, in bytes.
const JOB_ID_BYTES_MAX: usize = 256;
