//! The manager of a node: peers, registered memory, set-up service, threads (LOCO'26 A.2).

use std::sync::{Arc, Weak};

use loco_fabric::{Control, Fabric, Lock, NodeId, Peers, Platform, Task, ThreadKind, Time, Wait};

use crate::channel::{self, Parent};
use crate::node::Node;
use crate::platform::{MutexOf, TaskOf};
use crate::{Config, Error, Participants, Result, Thread, setup};

/// A node's manager; channels are made from it and threads get their access from it. A cheap handle: the node goes
/// down when the last handle, channel and thread included, is dropped.
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
pub struct Manager<F: Fabric> {
    inner: Arc<Inner<F>>,
}

/// What the last handle shuts down.
pub(crate) struct Inner<F: Fabric> {
    node: Arc<Node<F>>,
    tasks: MutexOf<F, Vec<TaskOf<F>>>,
}

impl<F: Fabric> Manager<F> {
    /// Starts the node's services on `fabric`.
    ///
    /// # Errors
    /// `Os` when a service thread cannot be started.
    pub fn new(fabric: F) -> Result<Manager<F>> {
        Manager::with_config(fabric, Config::default())
    }

    /// The same with settings.
    ///
    /// # Errors
    /// See [`new`](Manager::new); `Config` for a block size that is no multiple of 64.
    pub fn with_config(fabric: F, config: Config) -> Result<Manager<F>> {
        if config.block_bytes == 0 || !config.block_bytes.is_multiple_of(64) {
            return Err(Error::Config(format!(
                "block_bytes is {}: take a positive multiple of 64",
                config.block_bytes
            )));
        }
        let node = Node::new(fabric, config);
        let inner = Arc::new(Inner {
            node: node.clone(),
            tasks: Lock::new(Vec::new()),
        });
        let platform = node.fabric().platform().clone();
        let id = node.fabric().node();
        let weak: Weak<Inner<F>> = Arc::downgrade(&inner);
        let for_service = node.clone();
        let service = platform.spawn(&format!("loco-setup-{}", id.0), ThreadKind::Service, move || {
            setup::serve(&for_service, &weak);
        })?;
        inner.tasks.lock().push(service);
        if node.tracker().polls_by_thread() {
            let for_poller = node.clone();
            let poller = platform.spawn(&format!("loco-poll-{}", id.0), ThreadKind::Service, move || {
                poll_until_stopped(&for_poller);
            })?;
            inner.tasks.lock().push(poller);
        }
        Ok(Manager { inner })
    }

    /// This node.
    pub fn node(&self) -> NodeId {
        self.inner.node.fabric().node()
    }

    /// All nodes of the job, in ascending order.
    pub fn nodes(&self) -> &[NodeId] {
        self.inner.node.fabric().nodes()
    }

    /// The fabric.
    pub fn fabric(&self) -> &F {
        self.inner.node.fabric()
    }

    /// Access to the network for one thread.
    ///
    /// # Errors
    /// `TooManyThreads`.
    pub fn thread(&self) -> Result<Thread<F>> {
        Ok(Thread::new(self.clone(), self.inner.node.take_idle()?))
    }

    /// Waits until every channel of this node is connected to all its participants, for the configured deadline at
    /// most.
    ///
    /// # Errors
    /// `Mismatch` (on both nodes), `NotReady` with who is missing, `PeerLost`, or what a callback returned.
    pub fn wait_for_ready(&self) -> Result<()> {
        self.wait_for_ready_until(self.inner.node.default_deadline())
    }

    /// The same until `deadline`.
    ///
    /// # Errors
    /// See [`wait_for_ready`](Manager::wait_for_ready).
    pub fn wait_for_ready_until(&self, deadline: Time) -> Result<()> {
        channel::wait_until_ready(&self.inner.node, None, deadline)
    }

    /// Channels dropped on this node whose memory peers may still access.
    pub fn quarantined_channels(&self) -> usize {
        self.inner.node.registry().lock().quarantined()
    }

    pub(crate) fn from_inner(inner: Arc<Inner<F>>) -> Manager<F> {
        Manager { inner }
    }

    pub(crate) fn shared(&self) -> &Arc<Node<F>> {
        &self.inner.node
    }

    /// Drops a handle on the service thread: if it was the last one, the service must not wait for itself.
    pub(crate) fn drop_on_service(self) {
        if let Some(inner) = Arc::into_inner(self.inner) {
            inner.tasks.lock().clear();
        }
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

impl<F: Fabric> Parent<F> for Manager<F> {
    fn manager(&self) -> &Manager<F> {
        self
    }

    fn path(&self) -> Option<&str> {
        None
    }

    fn participants(&self) -> Participants {
        Participants::all(self)
    }
}

impl<F: Fabric> Drop for Inner<F> {
    fn drop(&mut self) {
        // What was posted is placed before peers hear that this node has left.
        let deadline = self.node.default_deadline();
        if let Err(error) = crate::fence::drain(&self.node, Some(deadline)) {
            tracing::debug!(%error, "operations outstanding at shut-down");
        }
        self.node.stop();
        self.node.fabric().control().close();
        for task in std::mem::take(&mut *self.tasks.lock()) {
            if let Err(error) = task.join() {
                tracing::warn!(%error, "a service thread ended badly");
            }
        }
    }
}

/// Body of the polling thread. It wakes at least every so often to see whether to stop.
fn poll_until_stopped<F: Fabric>(node: &Arc<Node<F>>) {
    let mut scratch = Vec::new();
    while !node.stopped() {
        let wait = Wait {
            what: "completions to poll",
            peers: Peers::None,
            deadline: None,
        };
        let polled = node.fabric().wait(wait, || {
            if node.stopped() {
                return Some(Ok(0));
            }
            match node.tracker().poll(&mut scratch) {
                Ok(0) => None,
                other => Some(other),
            }
        });
        if let Err(error) | Ok(Err(error)) = polled {
            tracing::error!(%error, "polling ends: the fabric is broken");
            return;
        }
    }
}
