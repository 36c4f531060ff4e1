//! Makes a process a node of a job, with the work that every `main` does around its own.
//!
//! Relies on the job (its nodes, and how they connect), the fabric that is chosen at run time, and the manager.

use loco_job::{Job, Mesh};

use crate::fabric::{AnyConfig, AnyFabric, Time};
use crate::{Barrier, Config, Error, Manager, Result};

/// The channel of the barrier at the end. Errors of that wait show the name to users.
const END: &str = "the end of the job";

/// Runs `program` as one node of the job that this process was started in, with the default settings.
///
/// ```no_run
/// fn main() -> loco::Result<()> {
///     loco::run(|node| {
///         println!("{} of {}", node.node(), node.nodes().len());
///         Ok(())
///     })
/// }
/// ```
///
/// Start it with `loco run -n 3 PROGRAM`, with `mpirun`, or under Slurm. The environment says which node this is and
/// how nodes find one another ([`var`](crate::fabric::var)). `LOCO_FABRIC` chooses the fabric. `program` gets the
/// node's manager. It makes its objects, waits until they are ready, and uses them.
///
/// Returns when `program` has returned on every node, so that no node takes its memory away from one that still works.
///
/// # Errors
/// Returns [`Config`](crate::Error::Config) if the environment describes no job, the errors of connecting to the
/// other nodes and of bringing up the fabric, the error of `program` at once, and
/// [`PeerLost`](crate::ErrorKind::PeerLost) if this node is done and another one ended without being done.
pub fn run<T, E: From<Error>>(program: impl FnOnce(&Manager) -> Result<T, E>) -> Result<T, E> {
    Startup::new().run(program)
}

/// The settings of a node that differ from those of the environment. See [`run`] for what happens then.
///
/// ```no_run
/// use std::time::Duration;
/// use loco::{Config, Startup};
///
/// let config = Config::default().deadline(Duration::from_secs(60));
/// let nodes = Startup::new().config(config).run(|node| Ok::<_, loco::Error>(node.nodes().len()))?;
/// # Ok::<(), loco::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "nothing happens before `run` or `connect`"]
pub struct Startup {
    job: Option<Job>,
    fabric: Option<AnyConfig>,
    config: Config,
}

impl Startup {
    /// Returns the settings of the environment, and the defaults of the manager.
    pub fn new() -> Startup {
        Startup::default()
    }

    /// Sets the job, in place of the environment's.
    pub fn job(self, job: Job) -> Startup {
        Startup {
            job: Some(job),
            ..self
        }
    }

    /// Sets the fabric and its settings, in place of the environment's.
    pub fn fabric(self, fabric: AnyConfig) -> Startup {
        Startup {
            fabric: Some(fabric),
            ..self
        }
    }

    /// Sets the settings of the manager, in place of the defaults.
    pub fn config(self, config: Config) -> Startup {
        Startup { config, ..self }
    }

    /// Connects to the other nodes, brings the fabric up and starts the manager. This is a collective call.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if the environment describes no job, and the errors of connecting to
    /// the other nodes and of bringing up the fabric. [`Timeout`](crate::ErrorKind::Timeout) and
    /// [`PeerLost`](crate::ErrorKind::PeerLost) among them mean that a node did not come.
    ///
    /// # After a timeout
    /// This process is not a node: what it had set up is taken down, and the nodes that were there see it leave.
    /// Start the job again.
    pub fn connect(self) -> Result<Manager> {
        let job = match self.job {
            Some(job) => job,
            None => Job::from_env().map_err(|error| Error::Config(error.to_string()))?,
        };
        let fabric = self.fabric.map_or_else(AnyConfig::from_env, Ok);
        Manager::with_config(
            AnyFabric::with_settings(Mesh::connect(&job)?, fabric)?,
            self.config,
        )
    }

    /// Makes this process a node, as [`run`] does before it runs its program. It is for programs that cannot
    /// be a closure, such as those of another language. [`Session::leave`] does what [`run`] does at the end.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Startup::connect), and those of waiting until every other node has
    /// called this, too.
    pub fn enter(self) -> Result<Session> {
        let manager = self.connect()?;
        let end = Barrier::new(&manager, END)?;
        end.channel().wait_for_ready()?;
        Ok(Session { manager, end })
    }

    /// Runs `program` as [`run`] does.
    ///
    /// # Errors
    /// Returns the errors of [`run`].
    pub fn run<T, E: From<Error>>(self, program: impl FnOnce(&Manager) -> Result<T, E>) -> Result<T, E> {
        let session = self.enter()?;
        let value = program(&session.manager)?;
        session.leave()?;
        Ok(value)
    }
}

/// A node between entering its job and leaving it together with the others. Made by [`Startup::enter`]. A
/// session that is dropped makes the node leave without waiting for the others.
pub struct Session {
    manager: Manager,
    end: Barrier,
}

impl Session {
    /// Returns the node's manager.
    pub fn manager(&self) -> &Manager {
        &self.manager
    }

    /// Waits until every node has called this, so that no node frees memory that another one still uses. The wait has no
    /// deadline. It ends early if a node is lost, or if the call is [interrupted](crate::interruptible).
    ///
    /// # Errors
    /// Returns [`PeerLost`](crate::ErrorKind::PeerLost) if another node ended without leaving.
    pub fn leave(self) -> Result<()> {
        let thread = self.manager.thread()?;
        thread.set_deadline(Some(Time::LAST));
        self.end.wait(&thread)
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("node", &self.manager.node())
            .finish_non_exhaustive()
    }
}
