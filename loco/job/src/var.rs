//! The environment variables that are read. Ours come first; without [`NODE`] those of OpenMPI, PMI and
//! Slurm are looked at, in this order, for rank and size.
//!
//! A foreign launcher does not say where the nodes can meet. They take, in this order: a hosts file in
//! [`HOSTS`] whose ids are the ranks; a rendezvous in [`RENDEZVOUS`], served by rank 0; under
//! Slurm with several hosts, the first host of the node list and a port made from the job's id (rank 0 must be there, as
//! it is with Slurm's default distributions); on one host, the loopback interface and a port made from the job's id.
//! The secret must always be set: `mpirun -x LOCO_SECRET`, or exported before `srun`.

/// This node's id. Set by `loco run`.
pub const NODE: &str = "LOCO_NODE";
/// Number of nodes; their ids count from 0. Needed with [`LAUNCHER`] and [`RENDEZVOUS`] where no foreign launcher
/// provides it.
pub const NODES: &str = "LOCO_NODES";
/// The number of ids that the job has room for, so that nodes may join while it runs
/// ([`JobBuilder::nodes_max`](crate::JobBuilder::nodes_max)). The same on all nodes; not under a foreign launcher.
pub const NODES_MAX: &str = "LOCO_NODES_MAX";
/// `host:port` of a member of a running job that this process is to join, or several, with commas between them.
pub const JOIN: &str = "LOCO_JOIN";
/// `host:port` at which the launcher serves the rendezvous. Set by `loco run`.
pub const LAUNCHER: &str = "LOCO_LAUNCHER";
/// `host:port` at which node 0 serves the rendezvous.
pub const RENDEZVOUS: &str = "LOCO_RENDEZVOUS";
/// Path of a hosts file.
pub const HOSTS: &str = "LOCO_HOSTS";
/// The text of a hosts file, before [`HOSTS`]. Set by `loco run --ssh`, as other hosts may not have the file.
pub const HOSTS_TEXT: &str = "LOCO_HOSTS_TEXT";
/// Job id; nodes with different ones refuse each other.
pub const JOB: &str = "LOCO_JOB";
/// The shared secret. Other users cannot see the environment of a process.
pub const SECRET: &str = "LOCO_SECRET";
/// Path of a file with the shared secret, instead of [`SECRET`].
pub const SECRET_FILE: &str = "LOCO_SECRET_FILE";
/// [`Timeouts::connect`](crate::Timeouts::connect) in milliseconds.
pub const CONNECT_TIMEOUT_MS: &str = "LOCO_CONNECT_TIMEOUT_MS";
/// [`Timeouts::heartbeat_interval`](crate::Timeouts::heartbeat_interval) in milliseconds.
pub const HEARTBEAT_MS: &str = "LOCO_HEARTBEAT_MS";
/// [`Timeouts::silence`](crate::Timeouts::silence) in milliseconds.
pub const SILENCE_MS: &str = "LOCO_SILENCE_MS";
/// [`Timeouts::silence_same_host`](crate::Timeouts::silence_same_host) in milliseconds.
pub const SILENCE_SAME_HOST_MS: &str = "LOCO_SILENCE_SAME_HOST_MS";
/// Fabric that the program should use (`shm`, `verbs`, `tcp`, `ofi`, `ofi:PROVIDER`, `auto`); `loco run --fabric` sets it.
pub const FABRIC: &str = "LOCO_FABRIC";
/// Pages of the registered memory: `small`, `huge` (2 MiB) or `giant` (1 GiB).
pub const PAGES: &str = "LOCO_PAGES";
/// Path of a folder in which each node writes the timeline of what it does, `node-0.json` and so on.
pub const TRACE: &str = "LOCO_TRACE";
/// Path of a file in which nodes note whom they missed, so that the launcher can name the node that failed first. Set by
/// `loco run` for the nodes of its own host.
pub const MISSED: &str = "LOCO_MISSED";
