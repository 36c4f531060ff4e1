//! The state that the handles of a node share, and the data that nodes exchange at set-up.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use loco_fabric::{Caps, Cost, Doorbell, NodeId, Order, Peers, Result};
use loco_host::membership::Membership;
use loco_job::{Revoke, Revoked};
use serde::{Deserialize, Serialize};

use super::bell::CompletionBell;
use super::config::VerbsConfig;
use super::connect::{Dial, Hello, VERSION};
use super::device::Device;
use super::heap::Heap;
use super::line::{Exit, Line, Rules};
use super::memory::VerbsMemory;
use super::outage::Outage;
use super::request::Flush;
use super::send_queue::{Poller, SendQueue, Task};
use super::service::Service;

/// The state that the handles of a node share. Fields are dropped in order: queue pairs before the device.
pub(super) struct Node {
    pub(super) poller: Arc<Mutex<Poller>>,
    /// The number of operations that are held back in their queue pairs, and of completions that stay unprocessed.
    pub(super) waiting: Arc<AtomicUsize>,
    pub(super) service: Service,
    pub(super) outage: Arc<Outage>,
    /// The doorbell, if the device reports completion events.
    pub(super) bell: Option<Arc<CompletionBell>>,
    pub(super) job: Membership,
    pub(super) caps: Caps,
    pub(super) config: VerbsConfig,
    /// The cards of all nodes, in the order of the mesh's nodes. Set once at bring-up.
    pub(super) cards: OnceLock<Vec<Card>>,
    /// The word of this node that peers' flushes read, and the word that its own flushes read to.
    pub(super) scratch: VerbsMemory,
    pub(super) heap: Heap,
    pub(super) device: Arc<Device>,
}

/// The data that a node tells the others at set-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) address: SocketAddr,
    /// The token that peers must present when they connect.
    pub(super) token: u64,
    /// The orders that this node relies on with its device, and the costs of the others.
    pub(super) order: Order,
    /// The word that flushes read: its address and key.
    pub(super) scratch: (u64, u32),
    pub(super) zero_length_reads: bool,
}

/// Takes lost nodes' access away, on behalf of the mesh. The reference is weak because the node holds the
/// mesh.
pub(super) struct Revoker {
    pub(super) node: Weak<Node>,
    /// The node's doorbell, if it has one. It does not keep the node.
    pub(super) bell: Option<Arc<CompletionBell>>,
}

impl Revoke for Revoker {
    fn revoke(&self, peer: NodeId) -> Revoked {
        // Once the node is gone, nobody has access to anything here.
        if let Some(node) = self.node.upgrade() {
            let (done, wait) = channel();
            node.service.mailbox().give(Task::Revoke(peer, done));
            drop(node);
            // The wait ends when the task is done, or when the thread is gone, which destroys the connections
            // that it accepted.
            let _ = wait.recv();
        }
        Revoked::Done
    }

    fn gone(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }
}

impl Node {
    /// Locks the poller.
    pub(super) fn poller(&self) -> MutexGuard<'_, Poller> {
        self.poller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the data that `node` sent at set-up.
    pub(super) fn card(&self, node: NodeId) -> Result<&Card> {
        let cards = self.cards.get().map_or(&[][..], Vec::as_slice);
        self.job.card(cards, node)
    }

    /// Returns how to flush towards the node of `card`.
    pub(super) fn flush_for(&self, card: &Card, zero_length: bool) -> Flush {
        Flush {
            remote: card.scratch,
            local: (self.scratch.device_address() + 64, self.scratch.lkey()),
            zero_length,
        }
    }

    /// Makes a connected queue pair towards the node of `card`, and registers it with the poller.
    pub(super) fn connect(&self, peer: NodeId, card: &Card, flush: Flush) -> Result<Arc<SendQueue>> {
        self.poller().reserve(&self.device)?;
        let dial = Dial {
            device: &self.device,
            to: card.address,
            peer,
            hello: Hello {
                version: VERSION,
                token: card.token,
                from: self.job.mesh.node(),
            },
            ack_timeout: self.config.ack_timeout,
            mesh: &self.job.mesh,
            timeout: self.config.connect_timeout,
        };
        let connected = dial.connect();
        let mut poller = self.poller();
        match connected {
            Ok(connection) => {
                let line = match self.caps.order.strong {
                    Cost::Free => None,
                    _ => {
                        let rules = Rules {
                            tier: self.caps.order.tier,
                            fences_stall: self.device.fences_stall,
                        };
                        let exit = Exit {
                            qp: connection.qp,
                            post_send: self.device.post_send,
                            flush,
                            peer,
                        };
                        Some(Line::new(rules, exit, Arc::clone(&self.waiting)))
                    }
                };
                let queue = Arc::new(SendQueue::new(connection, peer, line));
                poller.add(&queue);
                Ok(queue)
            }
            Err(error) => {
                poller.unreserve(&self.device);
                Err(error)
            }
        }
    }

    /// Makes sure that operations which were just held back go on, whether or not a thread polls: the service thread hears
    /// of the completions that they wait for.
    pub(super) fn look_after_held(&self) {
        let advanced = self
            .poller()
            .advance(&self.device, &self.job.mesh, self.service.mailbox());
        match advanced {
            Ok(true) => self.ring(),
            Ok(false) => {}
            // Whoever polls next meets the error, too.
            Err(error) => tracing::debug!("{}: {error}", self.job.mesh.node()),
        }
        if self.device.events_fd().is_none() {
            self.service.mailbox().give(Task::Advance);
        }
    }

    /// Takes completions if operations wait for them.
    #[inline]
    fn help(&self) {
        // Relaxed: a hint that is read again and again.
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return;
        }
        if let Ok(mut poller) = self.poller.try_lock() {
            let taken = poller.poll_ahead(&self.device, &self.job.mesh, self.service.mailbox());
            drop(poller);
            if taken.is_ok_and(|taken| taken > 0) {
                self.ring();
            }
        }
    }

    /// Returns the result of `ready`, or an error once this node's port is cut off from the peers that are
    /// waited for.
    #[inline]
    pub(super) fn or_outage<T>(
        &self,
        peers: Peers<'_>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> impl FnMut() -> Option<Result<T>> {
        let waits_for_peers = !matches!(peers, Peers::None);
        move || match ready() {
            Some(value) => Some(Ok(value)),
            None => {
                self.help();
                waits_for_peers.then(|| self.outage.error().map(Err)).flatten()
            }
        }
    }

    /// Wakes the threads that sleep: there are completions to poll that the device does not report.
    pub(super) fn ring(&self) {
        if let Some(bell) = &self.bell {
            bell.ring();
        }
    }

    /// Notes that the owner of `queue` no longer needs it.
    pub(super) fn retire(&self, queue: &SendQueue) {
        self.poller().retire(queue, &self.device, self.service.mailbox());
    }
}
