//! The fabric: another one, with a card that executes its operations late.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    Caps, Completion, Doorbell, Fabric, FabricError, MemoryKind, NodeId, Order, RegionKey, Result, Wait,
};
use loco_job::Mesh;

use super::card::Card;
use super::nic::Nic;
use super::place::{Place, Placed};
use super::queue_pair::DeferredQueuePair;
use super::send_queue::CHUNK;

/// The longest inline put. It is that of a modest card, so that longer puts take the other path.
const INLINE_BYTES: usize = 64;

/// A node's fabric, with a deferred NIC or without.
#[derive(Clone, Debug)]
pub struct Deferred<F: Fabric> {
    inner: F,
    /// The card and what the fabric can do with it.
    card: Option<(Arc<Card<F>>, Arc<Caps>)>,
}

impl<F: Fabric> Deferred<F> {
    /// Returns `fabric` with a deferred NIC, or as it is.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`] for a NIC on a fabric that does not execute operations as they are posted, and for a NIC
    /// without room for an operation.
    pub fn new(fabric: F, nic: Option<&Nic>) -> Result<Deferred<F>> {
        let Some(nic) = nic else {
            return Ok(Deferred {
                inner: fabric,
                card: None,
            });
        };
        let caps = fabric.caps();
        if !caps.synchronous || caps.inline_bytes_max < CHUNK {
            return Err(FabricError::Config(format!(
                "a deferred NIC on `{}`, which does not execute operations as they are posted: use shared memory",
                caps.name
            )));
        }
        if nic.queue_depth == 0 {
            return Err(FabricError::Config(
                "`queue_depth` of `Nic` is 0: a queue pair needs room for one operation".into(),
            ));
        }
        let caps = Caps {
            inline_bytes_max: INLINE_BYTES,
            order: Order::of_card(nic.discipline.tier()),
            puts_placed_on_post: false,
            synchronous: false,
            ..caps.clone()
        };
        let card = Card::start(&fabric, nic)?;
        Ok(Deferred {
            inner: fabric,
            card: Some((Arc::new(card), Arc::new(caps))),
        })
    }
}

impl<F: Fabric<Control = Mesh>> Deferred<F> {
    /// Returns the mesh that the other fabric was built from.
    pub fn mesh(&self) -> &Mesh {
        self.inner.control()
    }
}

impl<F: Fabric> Fabric for Deferred<F> {
    type Platform = F::Platform;
    type Memory = F::Memory;
    type Remote = Placed<F::Remote>;
    type QueuePair = DeferredQueuePair<F>;
    type Control = F::Control;

    fn caps(&self) -> &Caps {
        self.card.as_ref().map_or(self.inner.caps(), |(_, caps)| caps)
    }

    fn platform(&self) -> &F::Platform {
        self.inner.platform()
    }

    fn control(&self) -> &F::Control {
        self.inner.control()
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<F::Memory> {
        self.inner.allocate(len, kind)
    }

    fn export(&self, memory: &F::Memory) -> RegionKey {
        self.inner.export(memory)
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<Placed<F::Remote>> {
        Ok(Placed {
            remote: self.inner.import(peer, key)?,
            place: Place::of(key),
        })
    }

    fn queue_pair(&self, peer: NodeId) -> Result<DeferredQueuePair<F>> {
        let qp = self.inner.queue_pair(peer)?;
        Ok(match &self.card {
            None => DeferredQueuePair::straight(qp),
            Some((card, caps)) => DeferredQueuePair::on(card, self.inner.clone(), qp, caps.inline_bytes_max),
        })
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        match &self.card {
            None => self.inner.poll(completions),
            Some((card, _)) => Ok(card.poll(completions)),
        }
    }

    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.inner.wait(wait, ready)
    }

    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.inner.wait_within(wait, within, ready)
    }

    fn wait_for_arrival<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.inner.wait_for_arrival(wait, ready)
    }

    fn wait_for_arrival_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.inner.wait_for_arrival_within(wait, within, ready)
    }

    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.inner.wait_for_completion(wait, ready)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.inner.doorbell()
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        F::prefer_large_pages(memory);
    }

    fn cpu_fence(&self) {
        self.inner.cpu_fence();
    }
}
