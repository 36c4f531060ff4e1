//! The fabric of one node.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

#[cfg(not(feature = "model"))]
use loco_fabric::Std;
use loco_fabric::{Caps, Completion, Doorbell, Fabric, MemoryKind, NodeId, RegionKey, Result, Wait};
#[cfg(feature = "model")]
use loco_fabric::{Control, Seen, Target};
use loco_host::membership::Membership;
use loco_job::Mesh;
#[cfg(feature = "ofi")]
use loco_ofi::OfiFabric;
#[cfg(feature = "shm")]
use loco_shm::ShmFabric;
#[cfg(feature = "tcp")]
use loco_tcp::TcpFabric;
#[cfg(feature = "verbs")]
use loco_verbs::VerbsFabric;

use crate::agreement::{CHOICE_TIMEOUT, absent, agree, network};
use crate::choice::FabricChoice;
use crate::config::AnyConfig;
#[cfg(feature = "model")]
use crate::erased::{AnyPlatform, ErasedFabric};
use crate::foreign::NO_KEY;
#[cfg(feature = "model")]
use crate::foreign::mixed;
use crate::memory::{AnyMemory, AnyRemote};
use crate::queue_pair::AnyQueuePair;

either! {
    /// The fabric of one node, chosen at run time.
    #[derive(Clone, Debug)]
    AnyFabric, ShmFabric, VerbsFabric, TcpFabric, OfiFabric, ErasedFabric
}

impl AnyFabric {
    /// Brings the chosen fabric up on every node of `mesh`: a collective call. With [`FabricChoice::Auto`] the nodes
    /// agree on one.
    ///
    /// # Errors
    /// Returns [`FabricError::Config`](loco_fabric::FabricError::Config) if the nodes chose different fabrics, and names
    /// which nodes chose which, or if another node could not bring up its fabric, and gives that node's reason.
    /// Returns [`FabricError::Unsupported`](loco_fabric::FabricError::Unsupported) for a fabric that this build does
    /// not have, and otherwise the errors of `ShmFabric::new`, `VerbsFabric::new`, `TcpFabric::new` and `OfiFabric::new`.
    pub fn new(mesh: Mesh, config: AnyConfig) -> Result<AnyFabric> {
        AnyFabric::with_settings(mesh, Ok(config))
    }

    /// Brings up the fabric that the environment chooses, as [`new`](AnyFabric::new) does. If the environment has a
    /// mistake, the other nodes fail with its description, too.
    ///
    /// # Errors
    /// Returns the errors of [`AnyConfig::from_env`] and of [`new`](AnyFabric::new).
    pub fn from_env(mesh: Mesh) -> Result<AnyFabric> {
        AnyFabric::with_settings(mesh, AnyConfig::from_env())
    }

    /// Brings a fabric up, as [`new`](AnyFabric::new) does, or sends the other nodes the reason why this one has no
    /// settings for it.
    ///
    /// # Errors
    /// Returns the error in place of the settings, and the errors of [`new`](AnyFabric::new).
    pub fn with_settings(mesh: Mesh, config: Result<AnyConfig>) -> Result<AnyFabric> {
        let its = mesh.clone();
        Membership::bring_up_or_report(&mesh, CHOICE_TIMEOUT, || AnyFabric::choose(its, config?))
    }

    /// Brings the chosen fabric up, or one on which the nodes agree.
    fn choose(mesh: Mesh, config: AnyConfig) -> Result<AnyFabric> {
        if config.choice != FabricChoice::Auto {
            return AnyFabric::bring_up(mesh, config.choice, config);
        }
        let choice = agree(&mesh, &config)?;
        let its = mesh.clone();
        // The agreement was an exchange of its own.
        Membership::bring_up_or_report(&mesh, CHOICE_TIMEOUT, || {
            AnyFabric::bring_up_agreed(its, choice, config)
        })
    }

    /// Brings up the fabric on which the nodes have agreed, or the network where they find that they cannot share memory.
    fn bring_up_agreed(mesh: Mesh, choice: FabricChoice, config: AnyConfig) -> Result<AnyFabric> {
        #[cfg(feature = "shm")]
        if choice == FabricChoice::Shm {
            match ShmFabric::try_new(mesh.clone(), config.shm.clone())? {
                Ok(fabric) => return Ok(AnyFabric::Shm(fabric)),
                // All nodes have found the same.
                Err(why) => {
                    let choice = network()?;
                    tracing::warn!("{}: fabric {choice} instead of shm: {why}", mesh.node());
                    return AnyFabric::bring_up(mesh, choice, config);
                }
            }
        }
        AnyFabric::bring_up(mesh, choice, config)
    }

    /// Brings up this fabric.
    fn bring_up(mesh: Mesh, choice: FabricChoice, config: AnyConfig) -> Result<AnyFabric> {
        match choice {
            #[cfg(feature = "verbs")]
            FabricChoice::Verbs => Ok(AnyFabric::Verbs(VerbsFabric::new(mesh, config.verbs)?)),
            #[cfg(feature = "tcp")]
            FabricChoice::Tcp => Ok(AnyFabric::Tcp(TcpFabric::new(mesh, config.tcp)?)),
            #[cfg(feature = "ofi")]
            FabricChoice::Ofi(provider) => {
                let named = provider.map(|name| name.as_str().to_owned());
                let provider = named.or(config.ofi.provider.clone());
                Ok(AnyFabric::Ofi(OfiFabric::new(
                    mesh,
                    config.ofi.provider(provider),
                )?))
            }
            #[cfg(feature = "shm")]
            FabricChoice::Shm => Ok(AnyFabric::Shm(ShmFabric::new(mesh, config.shm)?)),
            #[allow(unreachable_patterns)] // Reached without one of the features.
            choice => Err(absent(&choice.to_string())),
        }
    }

    /// Returns the mesh that the fabric was built from.
    #[cfg_attr(
        feature = "model",
        doc = "\n# Panics\nPanics on the model fabric, which is built from none."
    )]
    pub fn mesh(&self) -> &Mesh {
        each!(self, fabric => fabric.mesh())
    }
}

impl Fabric for AnyFabric {
    #[cfg(not(feature = "model"))]
    type Platform = Std;
    #[cfg(feature = "model")]
    type Platform = AnyPlatform;
    type Memory = AnyMemory;
    type Remote = AnyRemote;
    type QueuePair = AnyQueuePair;
    #[cfg(not(feature = "model"))]
    type Control = Mesh;
    #[cfg(feature = "model")]
    type Control = dyn Control;

    fn caps(&self) -> &Caps {
        each!(self, fabric => fabric.caps())
    }

    #[cfg(not(feature = "model"))]
    fn platform(&self) -> &Std {
        each!(self, fabric => fabric.platform())
    }

    #[cfg(feature = "model")]
    fn platform(&self) -> &AnyPlatform {
        match self {
            AnyFabric::Model(fabric) => fabric.platform(),
            _ => &AnyPlatform::Std,
        }
    }

    #[cfg(not(feature = "model"))]
    fn control(&self) -> &Mesh {
        each!(self, fabric => fabric.control())
    }

    #[cfg(feature = "model")]
    fn control(&self) -> &dyn Control {
        each!(self, fabric => fabric.control())
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<AnyMemory> {
        wrapped!(self, fabric => fabric.allocate(len, kind) => AnyMemory)
    }

    /// Returns the memory's key. Memory of the other fabric gives a key that no node accepts.
    fn export(&self, memory: &AnyMemory) -> RegionKey {
        match (self, memory) {
            #[cfg(feature = "shm")]
            (AnyFabric::Shm(fabric), AnyMemory::Shm(memory)) => fabric.export(memory),
            #[cfg(feature = "verbs")]
            (AnyFabric::Verbs(fabric), AnyMemory::Verbs(memory)) => fabric.export(memory),
            #[cfg(feature = "tcp")]
            (AnyFabric::Tcp(fabric), AnyMemory::Tcp(memory)) => fabric.export(memory),
            #[cfg(feature = "ofi")]
            (AnyFabric::Ofi(fabric), AnyMemory::Ofi(memory)) => fabric.export(memory),
            #[cfg(feature = "model")]
            (AnyFabric::Model(fabric), AnyMemory::Model(memory)) => fabric.export(memory),
            #[allow(unreachable_patterns)] // With one fabric there is no other.
            _ => NO_KEY,
        }
    }

    #[cfg(feature = "model")]
    fn name_memory(&self, memory: &AnyMemory, name: &str) {
        if let (AnyFabric::Model(fabric), AnyMemory::Model(memory)) = (self, memory) {
            fabric.name_memory(memory, name);
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<AnyRemote> {
        wrapped!(self, fabric => fabric.import(peer, key) => AnyRemote)
    }

    fn queue_pair(&self, peer: NodeId) -> Result<AnyQueuePair> {
        wrapped!(self, fabric => fabric.queue_pair(peer) => AnyQueuePair)
    }

    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        each!(self, fabric => fabric.poll(completions))
    }

    #[inline]
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        each!(self, fabric => fabric.wait(wait, ready))
    }

    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        each!(self, fabric => fabric.wait_within(wait, within, ready))
    }

    #[inline]
    fn wait_for_arrival<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        each!(self, fabric => fabric.wait_for_arrival(wait, ready))
    }

    #[inline]
    fn wait_for_arrival_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        each!(self, fabric => fabric.wait_for_arrival_within(wait, within, ready))
    }

    #[inline]
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        each!(self, fabric => fabric.wait_for_completion(wait, ready))
    }

    #[cfg(feature = "model")]
    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, AnyRemote>) -> Result<()> {
        let offset = seen.at.offset;
        /// Pauses on the arm of the fabric and the memory.
        macro_rules! on {
            ($($(#[$with:meta])* $arm:ident),*) => {
                match (self, seen.at.remote) {
                    $($(#[$with])* (AnyFabric::$arm(fabric), AnyRemote::$arm(remote)) => {
                        let at = Target { remote, offset };
                        fabric.pause(wait, pause, &Seen { at, bytes: seen.bytes })
                    })*
                    _ => Err(mixed()),
                }
            };
        }
        on!(
            #[cfg(feature = "shm")]
            Shm,
            #[cfg(feature = "verbs")]
            Verbs,
            #[cfg(feature = "tcp")]
            Tcp,
            #[cfg(feature = "ofi")]
            Ofi,
            Model
        )
    }

    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        each!(self, fabric => fabric.doorbell())
    }

    fn prefer_large_pages<T>(memory: &[MaybeUninit<T>]) {
        loco_host::pages::prefer_large(memory);
    }

    #[inline]
    fn cpu_fence(&self) {
        each!(self, fabric => fabric.cpu_fence());
    }
}
