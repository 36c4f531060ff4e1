//! A fabric of a type that is not known here.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use loco_fabric::{
    Caps, Completion, Control, Doorbell, Fabric, FabricError, MemoryKind, NodeId, RegionKey, Result, Seen,
    Wait,
};
use loco_job::Mesh;

use super::memory::{ErasedMemory, ErasedRemote};
use super::platform::AnyPlatform;
use super::queue_pair::ErasedQueuePair;
use super::{Of, memory};
use crate::foreign::NO_KEY;

/// The object-safe form of [`Fabric`]. The condition of a wait keeps its value by itself.
trait DynFabric: Send + Sync {
    fn name(&self) -> &'static str;
    fn caps(&self) -> &Caps;
    fn control(&self) -> &dyn Control;
    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ErasedMemory>;
    fn name_memory(&self, memory: &ErasedMemory, name: &str);
    fn export(&self, memory: &ErasedMemory) -> Option<RegionKey>;
    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ErasedRemote>;
    fn queue_pair(&self, peer: NodeId) -> Result<ErasedQueuePair>;
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize>;
    fn wait(&self, wait: Wait<'_>, ready: &mut dyn FnMut() -> bool) -> Result<()>;
    fn wait_within(&self, wait: Wait<'_>, within: Duration, ready: &mut dyn FnMut() -> bool) -> Result<()>;
    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, ErasedRemote>) -> Result<()>;
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>>;
    fn cpu_fence(&self);
}

impl<F: Fabric<Control: Sized>> DynFabric for Of<F> {
    fn name(&self) -> &'static str {
        std::any::type_name::<F>()
    }

    fn caps(&self) -> &Caps {
        self.0.caps()
    }

    fn control(&self) -> &dyn Control {
        self.0.control()
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ErasedMemory> {
        self.0.allocate(len, kind).map(ErasedMemory::new)
    }

    fn name_memory(&self, memory: &ErasedMemory, name: &str) {
        if let Ok(memory) = memory.get() {
            self.0.name_memory(memory, name);
        }
    }

    fn export(&self, memory: &ErasedMemory) -> Option<RegionKey> {
        Some(self.0.export(memory.get().ok()?))
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ErasedRemote> {
        self.0.import(peer, key).map(ErasedRemote::new)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ErasedQueuePair> {
        self.0.queue_pair(peer).map(ErasedQueuePair::new)
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        self.0.poll(completions)
    }

    fn wait(&self, wait: Wait<'_>, ready: &mut dyn FnMut() -> bool) -> Result<()> {
        self.0.wait(wait, || ready().then_some(()))
    }

    fn wait_within(&self, wait: Wait<'_>, within: Duration, ready: &mut dyn FnMut() -> bool) -> Result<()> {
        self.0.wait_within(wait, within, || ready().then_some(()))
    }

    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, ErasedRemote>) -> Result<()> {
        let at = memory::target(&seen.at)?;
        let bytes = seen.bytes;
        self.0.pause(wait, pause, &Seen { at, bytes })
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.0.doorbell()
    }

    fn cpu_fence(&self) {
        self.0.cpu_fence();
    }
}

/// A fabric of any type. Its waits for arrivals and for completions are plain waits.
#[derive(Clone)]
pub struct ErasedFabric {
    fabric: Arc<dyn DynFabric>,
    platform: AnyPlatform,
}

impl ErasedFabric {
    /// Erases the type of `fabric`. Clones share the one fabric.
    pub fn new<F: Fabric<Control: Sized>>(fabric: F) -> ErasedFabric {
        ErasedFabric {
            platform: AnyPlatform::erased(fabric.platform().clone()),
            fabric: Arc::new(Of(fabric)),
        }
    }

    /// Panics: such a fabric is not built from a mesh, and its job has one view.
    pub(crate) fn mesh(&self) -> &Mesh {
        panic!("{} is not built from a mesh", self.fabric.name());
    }
}

impl fmt::Debug for ErasedFabric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ErasedFabric").field(&self.fabric.name()).finish()
    }
}

/// Keeps the value that a condition returns.
fn keep<T>(value: &mut Option<T>, mut ready: impl FnMut() -> Option<T>) -> impl FnMut() -> bool {
    move || {
        *value = ready();
        value.is_some()
    }
}

/// Returns what the condition of a wait has found. A wait ends well only after its condition has held.
fn kept<T>(value: Option<T>) -> Result<T> {
    value.ok_or_else(|| FabricError::Unsupported("a wait that ends before its condition holds".into()))
}

impl Fabric for ErasedFabric {
    type Platform = AnyPlatform;
    type Memory = ErasedMemory;
    type Remote = ErasedRemote;
    type QueuePair = ErasedQueuePair;
    type Control = dyn Control;

    fn caps(&self) -> &Caps {
        self.fabric.caps()
    }

    fn platform(&self) -> &AnyPlatform {
        &self.platform
    }

    fn control(&self) -> &dyn Control {
        self.fabric.control()
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<ErasedMemory> {
        self.fabric.allocate(len, kind)
    }

    fn name_memory(&self, memory: &ErasedMemory, name: &str) {
        self.fabric.name_memory(memory, name);
    }

    /// Returns the memory's key. Memory of another fabric gives a key that no node accepts.
    fn export(&self, memory: &ErasedMemory) -> RegionKey {
        self.fabric.export(memory).unwrap_or(NO_KEY)
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<ErasedRemote> {
        self.fabric.import(peer, key)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<ErasedQueuePair> {
        self.fabric.queue_pair(peer)
    }

    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        self.fabric.poll(completions)
    }

    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        let mut value = None;
        self.fabric.wait(wait, &mut keep(&mut value, ready))?;
        kept(value)
    }

    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let mut value = None;
        self.fabric
            .wait_within(wait, within, &mut keep(&mut value, ready))?;
        kept(value)
    }

    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, ErasedRemote>) -> Result<()> {
        self.fabric.pause(wait, pause, seen)
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        self.fabric.doorbell()
    }

    fn cpu_fence(&self) {
        self.fabric.cpu_fence();
    }
}
