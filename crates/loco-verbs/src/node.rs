//! What the handles of a node share, and what nodes tell one another at set-up.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use loco_fabric::{Caps, NodeId, Peers, Result};
use loco_host::membership::Membership;
use serde::{Deserialize, Serialize};

use super::config::VerbsConfig;
use super::connect::{Dial, Hello, VERSION};
use super::device::Device;
use super::heap::Heap;
use super::memory::VerbsMemory;
use super::outage::Outage;
use super::send_queue::{Poller, SendQueue};
use super::service::Service;

/// What the handles of a node share. Fields are dropped in order: queue pairs before the device.
pub(super) struct Node {
    pub(super) poller: Arc<Mutex<Poller>>,
    pub(super) service: Service,
    pub(super) outage: Arc<Outage>,
    pub(super) job: Membership,
    pub(super) caps: Caps,
    pub(super) config: VerbsConfig,
    /// Of all nodes, in the order of the mesh's; set once at bring-up.
    pub(super) cards: OnceLock<Vec<Card>>,
    /// Word that flushes read, here at this node, and where they read it to.
    pub(super) scratch: VerbsMemory,
    pub(super) heap: Heap,
    pub(super) device: Arc<Device>,
}

/// What a node tells the others at set-up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Card {
    pub(super) address: SocketAddr,
    /// What its peers say when they connect.
    pub(super) token: u64,
    /// The word that flushes read.
    pub(super) scratch: (u64, u32),
    pub(super) zero_length_reads: bool,
}

/// How earlier puts are forced to be placed.
#[derive(Clone, Copy)]
pub(super) struct Flush {
    /// Word of the peer's that is read.
    pub(super) remote: (u64, u32),
    /// Word of ours that the read goes to, or none if both devices have reads of length zero.
    pub(super) local: Option<(u64, u32)>,
}

impl Node {
    /// The poller, locked.
    pub(super) fn poller(&self) -> MutexGuard<'_, Poller> {
        self.poller.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What `node` told at set-up.
    pub(super) fn card(&self, node: NodeId) -> Result<&Card> {
        let cards = self.cards.get().map_or(&[][..], Vec::as_slice);
        self.job.card(cards, node)
    }

    /// How to flush towards the node of `card`.
    pub(super) fn flush_for(&self, card: &Card, zero_length: bool) -> Flush {
        let own = (self.scratch.device_address() + 64, self.scratch.lkey());
        Flush {
            remote: card.scratch,
            local: (!zero_length).then_some(own),
        }
    }

    /// Makes a connected queue pair towards the node of `card`, known to the poller.
    pub(super) fn connect(&self, peer: NodeId, card: &Card) -> Result<Arc<SendQueue>> {
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
                let queue = Arc::new(SendQueue::new(connection, peer));
                poller.add(&queue);
                Ok(queue)
            }
            Err(error) => {
                poller.unreserve(&self.device);
                Err(error)
            }
        }
    }

    /// What `ready` gives, or an error once this node's port is cut off from the peers that are waited for.
    #[inline]
    pub(super) fn or_outage<T>(
        &self,
        peers: Peers<'_>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> impl FnMut() -> Option<Result<T>> {
        let waits_for_peers = !matches!(peers, Peers::None);
        move || match ready() {
            Some(value) => Some(Ok(value)),
            None if waits_for_peers => self.outage.error().map(Err),
            None => None,
        }
    }

    /// The owner of `queue` is done with it.
    pub(super) fn retire(&self, queue: &SendQueue) {
        self.poller().retire(queue, &self.device, self.service.mailbox());
    }
}
