//! The manager of a node: its peers, registered memory, set-up service and threads (LOCO'26 A.2).

use std::sync::{Arc, Weak};

use loco_fabric::{Control, Fabric, Lock, NodeId, Platform, Task, ThreadKind, Time};

use loco_trace::timeline;

use crate::channels::participants::Participants;
use crate::channels::setup::{self, Setup};
use crate::fabric::AnyFabric;
use crate::operations::fence;
use crate::operations::network::Network;
use crate::operations::platform::{MutexOf, TaskOf};
use crate::operations::pool::SLAB_BLOCKS;
use crate::operations::thread::Thread;
use crate::{Config, Error, Result};

/// A node's manager. Channels are made from it, and threads get their access from it. It is a cheap handle:
/// the node goes down when the last handle, channel and thread is dropped.
///
/// ```
/// use loco::{Barrier, Manager, testing};
///
/// // Two nodes of one process; in a program a node makes its fabric from the hosts file or the launcher.
/// let nodes = testing::run(2, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let barrier = Barrier::new(&manager, "bar")?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     barrier.wait(&thread)?;
///     Ok(manager.node())
/// });
/// assert_eq!(nodes.len(), 2);
/// ```
pub struct Manager<F: Fabric = AnyFabric> {
    inner: Arc<Inner<F>>,
}

/// The state that the last handle shuts down.
struct Inner<F: Fabric> {
    setup: Arc<Setup<F>>,
    tasks: MutexOf<F, Vec<TaskOf<F>>>,
}

impl<F: Fabric> Manager<F> {
    /// Starts the node's services on `fabric`.
    ///
    /// # Errors
    /// Returns [`Os`](crate::fabric::FabricError::Os) when a service thread cannot be started.
    pub fn new(fabric: F) -> Result<Manager<F>> {
        Manager::with_config(fabric, Config::default())
    }

    /// Starts the node's services on `fabric`, with settings.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Manager::new), and [`Config`](crate::Error::Config) for a block size that is no
    /// multiple of 64, and [`TooLarge`](crate::Error::TooLarge) for one beyond all addresses.
    pub fn with_config(fabric: F, config: Config) -> Result<Manager<F>> {
        if config.block_bytes == 0 || !config.block_bytes.is_multiple_of(64) {
            return Err(Error::Config(format!(
                "block_bytes is {}: take a positive multiple of 64",
                config.block_bytes
            )));
        }
        let slab = config.block_bytes.saturating_mul(SLAB_BLOCKS);
        if slab > isize::MAX as usize {
            return Err(Error::TooLarge {
                what: format!("{SLAB_BLOCKS} blocks of `block_bytes`, which threads take at a time"),
                len: slab,
                max: isize::MAX as usize,
            });
        }
        let network = Network::new(fabric, config);
        let setup = Arc::new(Setup::new(network.clone()));
        let inner = Arc::new(Inner {
            setup: setup.clone(),
            tasks: Lock::new(Vec::new()),
        });
        let platform = network.fabric().platform().clone();
        let id = network.fabric().node();
        let service = platform.spawn(&format!("loco-setup-{}", id.0), ThreadKind::Service, move || {
            setup::serve(&setup);
        })?;
        inner.tasks.lock().push(service);
        if network.completions().polls_by_thread() {
            network.completions().start_poller()?;
        }
        Ok(Manager { inner })
    }

    /// Returns this node.
    pub fn node(&self) -> NodeId {
        self.network().fabric().node()
    }

    /// Returns all nodes of the job, in ascending order.
    pub fn nodes(&self) -> &[NodeId] {
        self.network().fabric().nodes()
    }

    /// Returns the fabric.
    pub fn fabric(&self) -> &F {
        self.network().fabric()
    }

    /// Returns access to the network for one thread.
    ///
    /// # Errors
    /// Returns [`TooManyThreads`](crate::Error::TooManyThreads).
    pub fn thread(&self) -> Result<Thread<F>> {
        let idle = self.network().take_idle()?;
        Ok(Thread::new(self.network().clone(), idle, self.inner.clone()))
    }

    /// Waits until every channel of this node is connected to all its participants, for the configured deadline at
    /// most.
    ///
    /// # Errors
    /// Returns [`Mismatch`](crate::Error::Mismatch) (on both nodes), [`NotReady`](crate::Error::NotReady) with the
    /// missing participants, [`PeerLost`](crate::ErrorKind::PeerLost), or the error of a callback.
    ///
    /// # After a timeout
    /// (The error is [`NotReady`](crate::Error::NotReady) here.) Set-up goes on in the background. Wait again.
    pub fn wait_for_ready(&self) -> Result<()> {
        self.wait_for_ready_until(self.network().default_deadline())
    }

    /// Waits as [`wait_for_ready`](Manager::wait_for_ready) does, until `deadline`.
    ///
    /// # Errors
    /// Returns the errors of [`wait_for_ready`](Manager::wait_for_ready).
    ///
    /// # After a timeout
    /// See [`wait_for_ready`](Manager::wait_for_ready).
    pub fn wait_for_ready_until(&self, deadline: Time) -> Result<()> {
        self.inner.setup.wait_until_ready(None, deadline)
    }

    /// Returns the number of channels dropped on this node whose memory peers may still access.
    pub fn quarantined_channels(&self) -> usize {
        self.inner.setup.registry().lock().quarantined()
    }

    pub(crate) fn setup(&self) -> &Arc<Setup<F>> {
        &self.inner.setup
    }

    pub(crate) fn network(&self) -> &Arc<Network<F>> {
        self.inner.setup.network()
    }

    /// Returns a handle that does not keep the node up.
    pub(crate) fn downgrade(&self) -> WeakManager<F> {
        WeakManager(Arc::downgrade(&self.inner))
    }

    /// Drops a handle on the service thread. If it was the last one, the service must not wait for itself.
    pub(crate) fn drop_on_service(self) {
        if let Some(inner) = Arc::into_inner(self.inner) {
            inner.tasks.lock().clear();
        }
    }
}

/// A handle that does not keep the node up.
pub(crate) struct WeakManager<F: Fabric>(Weak<Inner<F>>);

impl<F: Fabric> WeakManager<F> {
    /// Returns a handle, if the node is still up.
    pub(crate) fn upgrade(&self) -> Option<Manager<F>> {
        self.0.upgrade().map(|inner| Manager { inner })
    }
}

impl Participants {
    /// Returns all nodes of the job.
    pub fn all<F: Fabric>(manager: &Manager<F>) -> Participants {
        Participants::of(manager.nodes().iter().copied())
    }
}

impl<F: Fabric> Clone for Manager<F> {
    fn clone(&self) -> Self {
        Manager {
            inner: self.inner.clone(),
        }
    }
}

impl<F: Fabric> std::fmt::Debug for Manager<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Manager")
            .field("node", &self.node())
            .finish_non_exhaustive()
    }
}

impl<F: Fabric> Drop for Inner<F> {
    fn drop(&mut self) {
        // Posted operations are placed before peers hear that this node has left.
        let network = self.setup.network();
        let deadline = network.default_deadline();
        if let Err(error) = fence::drain(network, Some(deadline)) {
            tracing::debug!(%error, "operations outstanding at shut-down");
        }
        network.stop();
        network.completions().stop();
        network.fabric().control().close();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        timeline::end(network.fabric().node());
        // A service that drops the last handle itself does not wait for its own end.
        for task in tasks.into_iter().filter(|task| !task.is_current()) {
            if let Err(error) = task.join() {
                tracing::warn!(%error, "a service thread ended badly");
            }
        }
    }
}
