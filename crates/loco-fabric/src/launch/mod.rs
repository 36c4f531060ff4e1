//! Which node of which job this process is, and how to meet the others: everything [`Mesh::connect`](crate::Mesh::connect)
//! needs, parsed once.
//!
//! A [`Job`] comes from a builder, a hosts file, or the environment of a launcher ([`Job::from_env`]).

use std::fmt;
use std::time::Duration;

use crate::hosts::{Address, Hosts};
use crate::{FabricError, NodeId, Result};

mod env;

pub use env::{Environment, var};

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

/// How nodes find one another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meeting {
    /// Every node listens at a known address.
    Hosts(Hosts),
    /// Every node tells its address to the lowest node, which serves here and tells everybody all of them.
    Node(Address),
    /// The same, served by the launcher.
    Launcher(Address),
}

/// What all nodes of a job know and nobody else does. Never travels and never shows in logs.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Box<[u8]>);

/// How long to wait for what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// For all nodes to be connected.
    pub connect: Duration,
    /// Between signs of life on a silent connection.
    pub heartbeat_interval: Duration,
    /// A peer on another host that is silent for this long is lost: its host may be down or unplugged, which nothing
    /// else would tell.
    pub silence: Duration,
    /// The same for a peer on this host. Death of its process is seen at once from the closed connection, so this
    /// only decides about one that is stopped or starved, and a machine with more work than cores starves often.
    pub silence_same_host: Duration,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts {
            connect: Duration::from_secs(30),
            heartbeat_interval: Duration::from_millis(100),
            silence: Duration::from_secs(1),
            silence_same_host: Duration::from_secs(10),
        }
    }
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

    /// The job that a launcher's environment describes: `loco run`, else OpenMPI, else PMI (MPICH, Intel), else Slurm.
    /// The variables are listed at [`var`].
    ///
    /// # Errors
    /// [`FabricError::Config`] naming the variable that is missing or malformed and what to set.
    pub fn from_env() -> Result<Job> {
        env::job(&Environment::of_process())
    }

    /// The same from a given environment.
    ///
    /// # Errors
    /// As [`from_env`](Job::from_env).
    pub fn from_environment(environment: &Environment) -> Result<Job> {
        env::job(environment)
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// All nodes, ascending.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// How nodes find one another.
    pub fn meeting(&self) -> &Meeting {
        &self.meeting
    }

    /// The job's id: nodes of different jobs refuse one another.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The timeouts.
    pub fn timeouts(&self) -> &Timeouts {
        &self.timeouts
    }

    /// The same job with other timeouts.
    ///
    /// # Errors
    /// [`FabricError::Config`] when a silence is not longer than the heartbeat interval, or one of them is zero.
    pub fn with_timeouts(mut self, timeouts: Timeouts) -> Result<Job> {
        timeouts.check()?;
        self.timeouts = timeouts;
        Ok(self)
    }
}

/// Describes a job step by step; ends with how nodes meet.
#[derive(Clone, Debug)]
pub struct JobBuilder {
    node: NodeId,
    id: Option<String>,
    secret: Option<Secret>,
    timeouts: Timeouts,
}

impl JobBuilder {
    /// The job's id; `loco` without.
    #[must_use]
    pub fn id(self, id: impl Into<String>) -> JobBuilder {
        JobBuilder {
            id: Some(id.into()),
            ..self
        }
    }

    /// The secret that all nodes share. There is no default.
    #[must_use]
    pub fn secret(self, secret: Secret) -> JobBuilder {
        JobBuilder {
            secret: Some(secret),
            ..self
        }
    }

    /// Timeouts other than the defaults.
    #[must_use]
    pub fn timeouts(self, timeouts: Timeouts) -> JobBuilder {
        JobBuilder { timeouts, ..self }
    }

    /// Every node listens at its address of `hosts`.
    ///
    /// # Errors
    /// [`FabricError::Config`] when this node is not in `hosts`, or something above is missing or wrong.
    pub fn hosts(self, hosts: Hosts) -> Result<Job> {
        let nodes = hosts.iter().map(|(node, _)| node).collect();
        self.finish(nodes, Meeting::Hosts(hosts))
    }

    /// `count` nodes with ids from 0, of which node 0 serves the rendezvous at `address`.
    ///
    /// # Errors
    /// [`FabricError::Config`] as [`hosts`](JobBuilder::hosts), and when `count` is zero.
    pub fn rendezvous(self, count: u16, address: Address) -> Result<Job> {
        self.finish((0..count).map(NodeId).collect(), Meeting::Node(address))
    }

    /// `count` nodes with ids from 0, whose launcher serves the rendezvous ([`Rendezvous`](crate::Rendezvous)) at
    /// `address`.
    ///
    /// # Errors
    /// As [`rendezvous`](JobBuilder::rendezvous).
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
            let known = crate::mesh::list(nodes.iter().copied());
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

/// Longest job id, in bytes; it travels in every handshake.
const JOB_ID_BYTES_MAX: usize = 256;
/// Shortest secret, in bytes: shorter ones are typing mistakes or guessable.
const SECRET_BYTES_MIN: usize = 8;

impl Secret {
    /// A secret chosen elsewhere.
    ///
    /// # Errors
    /// [`FabricError::Config`] when it is shorter than 8 bytes.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Result<Secret> {
        let bytes = bytes.into();
        if bytes.len() < SECRET_BYTES_MIN {
            return Err(FabricError::Config(format!(
                "a secret has at least {SECRET_BYTES_MIN} bytes, not {}; e.g. the output of `openssl rand -hex 16`",
                bytes.len()
            )));
        }
        Ok(Secret(bytes))
    }

    /// A fresh secret, as text that fits into an environment variable.
    ///
    /// # Errors
    /// [`FabricError::Os`] when the system gives no random bytes.
    pub fn random_text() -> Result<String> {
        let bytes = random::<16>()?;
        Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Timeouts {
    fn check(&self) -> Result<()> {
        if self.connect.is_zero() || self.heartbeat_interval.is_zero() {
            return Err(FabricError::Config(
                "a timeout of zero leaves no time for anything".to_owned(),
            ));
        }
        for silence in [self.silence, self.silence_same_host] {
            if silence < self.heartbeat_interval * 2 {
                return Err(FabricError::Config(format!(
                    "a peer may be silent for {silence:?}, but sends a heartbeat only every {:?}: take at least twice that",
                    self.heartbeat_interval
                )));
            }
        }
        Ok(())
    }
}

/// Random bytes of the system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    let mut filled = 0;
    while filled < N {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(n) => filled += n,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => {
                return Err(FabricError::Os {
                    what: "asking the system for random bytes".to_owned(),
                    source_text: e.to_string(),
                });
            }
        }
    }
    Ok(bytes)
}
