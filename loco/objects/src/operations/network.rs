//! The state that the threads of one node share: its fabric, its completions and the queues of all threads.

use std::cell::RefCell;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{AtomicCell, Caps, Doorbell, Fabric, FabricError, Lock, NodeId, Platform, Time};

use crate::config::{Config, Polling};
use crate::operations::completion::Completions;
use crate::operations::counts::{NodeCounts, ThreadCounts};
use crate::operations::peers::{atomics_placed, position_of};
use crate::operations::platform::{AtomicU32Of, MutexOf};
use crate::operations::pool::Pool;
use crate::operations::queues::{Queues, SharedQueues, ThreadQueues};
use crate::{Error, Result};

/// Access of one node to the network, shared by its threads and services.
pub(crate) struct Network<F: Fabric> {
    fabric: F,
    config: Config,
    completions: Arc<Completions<F>>,
    /// The queues of all threads that other threads may post on, including idle ones.
    shared_queues: MutexOf<F, Vec<NamedQueues<F>>>,
    /// The state that dropped `Thread`s left behind.
    idle: MutexOf<F, Vec<Idle<F>>>,
    stopped: AtomicU32Of<F>,
    /// The node's doorbell, if the fabric has one.
    bell: Option<Arc<dyn Doorbell>>,
    counts: NodeCounts,
}

/// The name of a thread's completion window, and its queues.
type NamedQueues<F> = (u64, SharedQueues<F>);

/// A thread's state without a thread.
pub(crate) struct Idle<F: Fabric> {
    pub(crate) queues: ThreadQueues<F>,
    pub(crate) pool: Pool<F>,
    pub(crate) counts: ThreadCounts,
}

impl<F: Fabric> Network<F> {
    pub(crate) fn new(fabric: F, config: Config) -> Arc<Network<F>> {
        let polls_by_thread = config.polling == Polling::Thread && !fabric.caps().synchronous;
        let bell = fabric.doorbell();
        let counts = NodeCounts::default();
        Arc::new(Network {
            completions: Completions::new(fabric.clone(), polls_by_thread, bell.clone(), counts.clone()),
            counts,
            bell,
            fabric,
            config,
            shared_queues: Lock::new(Vec::new()),
            idle: Lock::new(Vec::new()),
            stopped: AtomicCell::new(0),
        })
    }

    #[inline]
    pub(crate) fn fabric(&self) -> &F {
        &self.fabric
    }

    /// Returns what this node has counted.
    pub(crate) fn counts(&self) -> &NodeCounts {
        &self.counts
    }

    #[inline]
    pub(crate) fn caps(&self) -> &Caps {
        self.fabric.caps()
    }

    /// Returns the node's doorbell, if the fabric has one.
    pub(crate) fn bell(&self) -> Option<&Arc<dyn Doorbell>> {
        self.bell.as_ref()
    }

    pub(crate) fn completions(&self) -> &Arc<Completions<F>> {
        &self.completions
    }

    pub(crate) fn block_bytes(&self) -> usize {
        self.config.block_bytes
    }

    /// Returns true if no operation is ever pending.
    #[inline]
    pub(crate) fn synchronous(&self) -> bool {
        self.caps().synchronous
    }

    /// Returns true if a CPU fence places the puts posted before it.
    #[inline]
    pub(crate) fn placed_on_post(&self) -> bool {
        self.caps().puts_placed_on_post
    }

    /// Returns true if a completed remote read-modify-write has placed its write: it took effect at the
    /// memory, not in the NIC.
    pub(crate) fn atomics_placed(&self) -> bool {
        atomics_placed(&self.fabric)
    }

    #[inline]
    pub(crate) fn position(&self, peer: NodeId) -> Result<usize, FabricError> {
        position_of(self.fabric.nodes(), peer)
    }

    pub(crate) fn default_deadline(&self) -> Time {
        self.fabric.platform().now().after(self.config.deadline)
    }

    /// Returns how long a thread without a deadline of its own waits.
    #[inline]
    pub(crate) fn default_patience(&self) -> Duration {
        self.config.deadline
    }

    pub(crate) fn stop(&self) {
        self.stopped.store_fence(1);
    }

    pub(crate) fn stopped(&self) -> bool {
        self.stopped.load() != 0
    }

    /// Returns the state for a new `Thread`: the state of a dropped one, or a new state.
    pub(crate) fn take_idle(&self) -> Result<Idle<F>> {
        if self.stopped() {
            return Err(Error::Closed);
        }
        if let Some(idle) = self.idle.lock().pop() {
            return Ok(idle);
        }
        let window = self.completions.new_window()?;
        let name = window.name();
        let queues = Queues::new(window, self.fabric.nodes().len());
        let queues = if self.synchronous() && self.placed_on_post() {
            ThreadQueues::Private(RefCell::new(queues))
        } else {
            let shared: SharedQueues<F> = Arc::new(Lock::new(queues));
            self.shared_queues.lock().push((name, shared.clone()));
            ThreadQueues::Shared(shared)
        };
        Ok(Idle {
            queues,
            pool: Pool::default(),
            counts: self.counts.new_thread(),
        })
    }

    pub(crate) fn keep_idle(&self, idle: Idle<F>) {
        self.idle.lock().push(idle);
    }

    /// Returns the queues of all threads, where fences may have to look at them.
    pub(crate) fn shared_queues(&self) -> Vec<SharedQueues<F>> {
        self.shared_queues
            .lock()
            .iter()
            .map(|(_, queues)| queues.clone())
            .collect()
    }

    /// Returns the queues of the thread whose completion window is called `name`, where others may have to
    /// look at them.
    pub(crate) fn shared_queues_of(&self, name: u64) -> Option<SharedQueues<F>> {
        let shared_queues = self.shared_queues.lock();
        shared_queues
            .iter()
            .find(|(of, _)| *of == name)
            .map(|(_, queues)| queues.clone())
    }
}
