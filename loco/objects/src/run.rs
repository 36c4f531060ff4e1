//! Makes a process a node of a job, with the work that every `main` does around its own.
//!
//! Relies on the job (its nodes, and how they connect), the fabric that is chosen at run time, and the manager.

use loco_job::{Job, Join, Mesh, View, var};

use crate::fabric::{AnyConfig, AnyFabric, Control, Platform, Std, Time};
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
/// The node takes part in the first view of its job only. A program whose nodes come and go begins with [`Startup::connect`].
///
/// # Errors
/// Returns [`Config`](crate::Error::Config) if the environment describes no job, or one to join, the errors of connecting to the
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
    join: Option<Join>,
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

    /// Makes the node [join](Mesh::join) this running job, in place of what the environment says. [`connect`](Startup::connect) does so.
    pub fn join(self, join: Join) -> Startup {
        Startup {
            join: Some(join),
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
    /// A process that was started by `loco run --join` (`LOCO_JOIN` is set), or that was told to [join](Startup::join), joins a running
    /// job. The members of that job make its view with it by [`next_view`](Manager::next_view); until all have, this call
    /// waits, for some 30 s at most. So members look for a view every few seconds.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) if the environment describes no job, and the errors of connecting to
    /// the other nodes, or of [joining](Mesh::join) them, and of bringing up the fabric. [`Timeout`](crate::ErrorKind::Timeout) and
    /// [`PeerLost`](crate::ErrorKind::PeerLost) among them mean that a node did not come.
    ///
    /// # After a timeout
    /// This process is not a node: what it had set up is taken down, and the nodes that were there see it leave.
    /// Start the job again, or join again: an attempt to join uses up an id of the job.
    pub fn connect(self) -> Result<Manager> {
        #[cfg(feature = "model")]
        if let Some(fabric) = loco_any::played::fabric_of_this_thread() {
            return Manager::with_config(fabric, self.config);
        }
        let from_env = |error: crate::fabric::FabricError| Error::Config(error.to_string());
        let mesh = match (&self.join, &self.job) {
            (Some(join), _) => Mesh::join(join)?,
            (None, Some(job)) => Mesh::connect(job)?,
            (None, None) => match Join::from_env().map_err(from_env)? {
                Some(join) => Mesh::join(&join)?,
                None => Mesh::connect(&Job::from_env().map_err(from_env)?)?,
            },
        };
        self.bring_up(mesh)
    }

    /// Waits for a view of the job after that of `node`, and makes a manager of it with these settings, as
    /// [`Manager::next_view`] does with those of the environment.
    ///
    /// # Errors
    /// Returns the errors of [`Manager::next_view`].
    pub fn next_view(self, node: &Manager, deadline: Time) -> Result<Option<Manager>> {
        #[cfg(feature = "model")]
        if let AnyFabric::Model(_) = node.fabric() {
            return Ok(None); // A job of the model has one view.
        }
        let mesh = node.fabric().mesh();
        let Some(view) = next_open(mesh, deadline) else {
            mesh.check_in()?;
            return Ok(None);
        };
        self.bring_up(mesh.of_view(&view)?).map(Some)
    }

    fn bring_up(self, mesh: Mesh) -> Result<Manager> {
        let fabric = self.fabric.map_or_else(AnyConfig::from_env, Ok);
        Manager::with_config(AnyFabric::with_settings(mesh, fabric)?, self.config)
    }

    /// Makes this process a node, as [`run`] does before it runs its program. It is for programs that cannot
    /// be a closure, such as those of another language. [`Session::leave`] does what [`run`] does at the end.
    ///
    /// # Errors
    /// Returns the errors of [`connect`](Startup::connect), and those of waiting until every other node has
    /// called this, too. Returns [`Config`](crate::Error::Config) in a process that is to join a running job: its members
    /// do not meet it again at the end.
    pub fn enter(self) -> Result<Session> {
        let is_told = || std::env::var_os(var::JOIN).is_some_and(|members| !members.is_empty());
        if self.join.is_some() || self.job.is_none() && is_told() {
            return Err(Error::Config(format!(
                "this node is to join a running job ({}), but its program takes part in the first view of a job only: let it begin \
                 with `Startup::connect` in place of `run` or `enter`, and go on with `Manager::next_view`",
                var::JOIN
            )));
        }
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

impl Manager {
    /// Returns true if this node knows a later view of the job, so that [`next_view`](Manager::next_view) has no need to wait for one, or so that
    /// this node, which has [announced that it leaves](Manager::announce_leave), is not a member any more.
    /// This is a look at the memory of this node, under a lock; other nodes may know of the view a moment earlier or later.
    pub fn has_next_view(&self) -> bool {
        #[cfg(feature = "model")]
        if let AnyFabric::Model(_) = self.fabric() {
            return false;
        }
        let mesh = self.fabric().mesh();
        next_open(mesh, Std.now()).is_some() || mesh.is_let_go()
    }

    /// Tells the job that this node is going to leave, and waits until the others have agreed on a view without it. Returns that view, or
    /// none at `deadline`: a later call waits on, and tells nobody again. A deadline that has passed makes it a look.
    ///
    /// The others find the view with [`has_next_view`](Manager::has_next_view), and go on with [`next_view`](Manager::next_view) when they agree
    /// to. This manager and its objects stay as they are, here and there, until they are dropped: in that time others can take over what this
    /// node holds. Then drop them, and the node has left. Other nodes may join and leave meanwhile.
    ///
    /// All members that leave at once get views without them, one after the other or together. If a node is lost after its
    /// announcement, it is a loss as any other, and makes a view as well if there is none without it yet. An announcement cannot be taken back.
    ///
    /// # Errors
    /// Returns [`Config`](crate::Error::Config) where the job has no room for more nodes than it began with, as it has one view then, and
    /// [`DeclaredLost`](crate::fabric::FabricError::DeclaredLost) if this node was.
    ///
    /// # After a timeout
    /// The announcement stands. A node that is about to join, or a loss that is being agreed on, has kept the members from a view.
    pub fn announce_leave(&self, deadline: Time) -> Result<Option<View>> {
        #[cfg(feature = "model")]
        if let AnyFabric::Model(_) = self.fabric() {
            return Err(Error::Config(
                "a job of the model has one view, and no node leaves it".to_owned(),
            ));
        }
        let mesh = self.fabric().mesh();
        let view = mesh.announce_leave(deadline)?;
        if view.is_none() {
            mesh.check_in()?;
        }
        Ok(view)
    }

    /// Waits for a view of the job after this manager's, and makes a manager of it. A view comes when a node has joined,
    /// [announced that it leaves](Manager::announce_leave), left or was lost, in a job with room for more nodes than it began with. This is a
    /// collective call of all members of that view, this node and a newcomer among them. Call it on the manager of the newest view that
    /// this node has. With several views ahead, it makes one of the first.
    ///
    /// Objects made from the new manager have the members of that view for participants: the newcomer, and not those that go. This manager and its objects stay as they are until they
    /// are dropped, and then this node has left its view. So the nodes have to agree to go on: if one does while others
    /// wait for it in an object of the former view, all wait. The example `visitors` lets each round of its work agree.
    ///
    /// Takes the fabric that the environment chooses, and the default settings; [`Startup::next_view`] takes others. Returns none at
    /// `deadline`, which does not bound the making of the manager, and at once on a node without which a view has come: it takes part in no
    /// later one.
    ///
    /// # Errors
    /// Returns [`DeclaredLost`](crate::fabric::FabricError::DeclaredLost) if this node was, and the errors of bringing up the fabric;
    /// [`PeerLost`](crate::ErrorKind::PeerLost) among them means that a member went on the way, [`Timeout`](crate::ErrorKind::Timeout)
    /// that one did not make this call within some 30 s, and [`Config`](crate::Error::Config) that a newcomer has another fabric.
    /// Some members may have the view and others an error. Those that have it find the others gone there.
    ///
    /// # After an error
    /// This node has left the view that it could not make, so that the others do not wait for it there. This manager stays as it is. The
    /// next call is for the view after that.
    pub fn next_view(&self, deadline: Time) -> Result<Option<Manager>> {
        Startup::new().next_view(self, deadline)
    }
}

/// Waits for the first view after that of `mesh` that this node has not left.
fn next_open(mesh: &Mesh, deadline: Time) -> Option<View> {
    let mut known = mesh.view_number();
    loop {
        let view = mesh.next_view(known, deadline)?;
        if !mesh.has_closed(&view) {
            return Some(view);
        }
        known = view.number();
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
