//! The fabric chosen at run time: shared memory or verbs, one enum over both.
//!
//! Dispatch is a match, which inlines; there are no virtual calls. Binaries use it; libraries stay generic.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::verbs::{VerbsCell, VerbsConfig, VerbsFabric, VerbsMemory, VerbsQueuePair, VerbsRemote, choose};
use crate::{
    Caps, Completion, Fabric, FabricError, Local, Memory, MemoryKind, Mesh, NodeId, Posted, QueuePair,
    RegionKey, RemoteMemory, Result, ShmCell, ShmConfig, ShmFabric, ShmMemory, ShmQueuePair, ShmRemote, Std,
    Target, Wait, Word, WordCell, WordOp, Work, var,
};

/// Which fabric to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum FabricChoice {
    /// Shared memory between processes of one host.
    Shm,
    /// RDMA.
    Verbs,
    /// RDMA if every node has a usable device, else shared memory.
    #[default]
    Auto,
}

impl FromStr for FabricChoice {
    type Err = FabricError;

    fn from_str(name: &str) -> Result<FabricChoice> {
        match name {
            "shm" => Ok(FabricChoice::Shm),
            "verbs" => Ok(FabricChoice::Verbs),
            "auto" => Ok(FabricChoice::Auto),
            _ => Err(FabricError::Config(format!(
                "no fabric `{name}`: there are shm, verbs and auto"
            ))),
        }
    }
}

impl fmt::Display for FabricChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            FabricChoice::Shm => "shm",
            FabricChoice::Verbs => "verbs",
            FabricChoice::Auto => "auto",
        })
    }
}

impl FabricChoice {
    /// What the environment variable `LOCO_FABRIC` says; [`Auto`](FabricChoice::Auto) without it.
    ///
    /// # Errors
    /// [`FabricError::Config`] when it names no fabric.
    pub fn from_env() -> Result<FabricChoice> {
        match std::env::var(var::FABRIC) {
            Ok(name) if !name.is_empty() => name.parse(),
            _ => Ok(FabricChoice::default()),
        }
    }
}

/// How either fabric is set up.
#[derive(Clone, Debug, Default)]
pub struct AnyConfig {
    /// Which.
    pub choice: FabricChoice,
    /// Of the shared-memory fabric.
    pub shm: ShmConfig,
    /// Of the verbs fabric.
    pub verbs: VerbsConfig,
}

impl AnyConfig {
    /// The defaults, with what the environment says (`LOCO_FABRIC` and the variables of [`VerbsConfig::from_env`]).
    ///
    /// # Errors
    /// [`FabricError::Config`] naming the variable that cannot be understood.
    pub fn from_env() -> Result<AnyConfig> {
        Ok(AnyConfig {
            choice: FabricChoice::from_env()?,
            shm: ShmConfig::default(),
            verbs: VerbsConfig::from_env()?,
        })
    }
}

/// Declares an enum over the two fabrics' types.
macro_rules! either {
    ($(#[$meta:meta])* $name:ident, $shm:ty, $verbs:ty) => {
        $(#[$meta])*
        pub enum $name {
            /// Of the shared-memory fabric.
            Shm($shm),
            /// Of the verbs fabric.
            Verbs($verbs),
        }
    };
}

either! {
    /// The fabric of one node, chosen at run time.
    #[derive(Clone, Debug)]
    AnyFabric, ShmFabric, VerbsFabric
}
either! {
    /// Registered memory of this node.
    #[derive(Clone, Debug)]
    AnyMemory, ShmMemory, VerbsMemory
}
either! {
    /// Registered memory of a peer.
    #[derive(Clone, Debug)]
    AnyRemote, ShmRemote, VerbsRemote
}
either! {
    /// A queue pair.
    AnyQueuePair, ShmQueuePair, VerbsQueuePair
}

/// One aligned word of registered memory.
#[derive(Clone, Debug)]
pub enum AnyCell<W> {
    /// Of the shared-memory fabric.
    Shm(ShmCell<W>),
    /// Of the verbs fabric.
    Verbs(VerbsCell<W>),
}

/// The same expression for either variant.
macro_rules! both {
    ($value:expr, $inner:ident => $body:expr) => {
        match $value {
            Self::Shm($inner) => $body,
            Self::Verbs($inner) => $body,
        }
    };
}

impl AnyFabric {
    /// Brings the chosen fabric up on every node of `mesh`: a collective call. With [`FabricChoice::Auto`] the nodes
    /// agree: verbs if each has a device, an active port and a usable GID.
    ///
    /// # Errors
    /// Those of [`ShmFabric::new`] and [`VerbsFabric::new`].
    pub fn new(mesh: Mesh, config: AnyConfig) -> Result<AnyFabric> {
        let verbs = match config.choice {
            FabricChoice::Shm => false,
            FabricChoice::Verbs => true,
            FabricChoice::Auto => everywhere_usable(&mesh, &config.verbs)?,
        };
        if verbs {
            Ok(AnyFabric::Verbs(VerbsFabric::new(mesh, config.verbs)?))
        } else {
            Ok(AnyFabric::Shm(ShmFabric::new(mesh, config.shm)?))
        }
    }

    /// The mesh that it was built from.
    pub fn mesh(&self) -> &Mesh {
        both!(self, fabric => fabric.mesh())
    }
}

/// True if all nodes can use verbs.
fn everywhere_usable(mesh: &Mesh, config: &VerbsConfig) -> Result<bool> {
    use crate::Platform;
    let usable = crate::verbs::libraries_are_there(&config.provider).and_then(|()| choose(config));
    if let Err(error) = &usable {
        tracing::info!("{}: no verbs: {error}", mesh.node());
    }
    let deadline = Std.now().after(config.set_up_timeout);
    let answers = mesh.allgather("fabric", &[u8::from(usable.is_ok())], deadline)?;
    Ok(answers.iter().all(|(_, answer)| answer == &[1]))
}

/// Memory of one fabric was given to the other.
#[cold]
fn mixed() -> FabricError {
    FabricError::Config(
        "memory of one fabric used with another: make both by the same `AnyFabric`".to_owned(),
    )
}

impl Fabric for AnyFabric {
    type Platform = Std;
    type Memory = AnyMemory;
    type Remote = AnyRemote;
    type QueuePair = AnyQueuePair;
    type Control = Mesh;

    fn node(&self) -> NodeId {
        both!(self, fabric => fabric.node())
    }

    fn nodes(&self) -> &[NodeId] {
        both!(self, fabric => fabric.nodes())
    }

    fn caps(&self) -> &Caps {
        both!(self, fabric => fabric.caps())
    }

    fn platform(&self) -> &Std {
        both!(self, fabric => fabric.platform())
    }

    fn control(&self) -> &Mesh {
        both!(self, fabric => fabric.control())
    }

    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<AnyMemory> {
        match self {
            AnyFabric::Shm(fabric) => fabric.allocate(len, kind).map(AnyMemory::Shm),
            AnyFabric::Verbs(fabric) => fabric.allocate(len, kind).map(AnyMemory::Verbs),
        }
    }

    /// Memory of the other fabric gives a key that no node accepts.
    fn export(&self, memory: &AnyMemory) -> RegionKey {
        match (self, memory) {
            (AnyFabric::Shm(fabric), AnyMemory::Shm(memory)) => fabric.export(memory),
            (AnyFabric::Verbs(fabric), AnyMemory::Verbs(memory)) => fabric.export(memory),
            _ => RegionKey {
                arena: u64::MAX,
                address: u64::MAX,
                len: u64::MAX,
                rkey: 0,
            },
        }
    }

    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<AnyRemote> {
        match self {
            AnyFabric::Shm(fabric) => fabric.import(peer, key).map(AnyRemote::Shm),
            AnyFabric::Verbs(fabric) => fabric.import(peer, key).map(AnyRemote::Verbs),
        }
    }

    fn queue_pair(&self, peer: NodeId) -> Result<AnyQueuePair> {
        match self {
            AnyFabric::Shm(fabric) => fabric.queue_pair(peer).map(AnyQueuePair::Shm),
            AnyFabric::Verbs(fabric) => fabric.queue_pair(peer).map(AnyQueuePair::Verbs),
        }
    }

    #[inline]
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize> {
        both!(self, fabric => fabric.poll(completions))
    }

    #[inline]
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        both!(self, fabric => fabric.wait(wait, ready))
    }

    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        both!(self, fabric => fabric.wait_within(wait, within, ready))
    }

    #[inline]
    fn cpu_fence(&self) {
        both!(self, fabric => fabric.cpu_fence());
    }
}

impl Memory for AnyMemory {
    type Cell<W: Word> = AnyCell<W>;

    #[inline]
    fn len(&self) -> usize {
        both!(self, memory => memory.len())
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        match self {
            AnyMemory::Shm(memory) => memory.slice(offset, len).map(AnyMemory::Shm),
            AnyMemory::Verbs(memory) => memory.slice(offset, len).map(AnyMemory::Verbs),
        }
    }

    fn cell<W: Word>(&self, offset: usize) -> Result<AnyCell<W>> {
        match self {
            AnyMemory::Shm(memory) => memory.cell(offset).map(AnyCell::Shm),
            AnyMemory::Verbs(memory) => memory.cell(offset).map(AnyCell::Verbs),
        }
    }

    #[inline]
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()> {
        both!(self, memory => memory.read(offset, out))
    }

    #[inline]
    fn write(&self, offset: usize, data: &[u8]) -> Result<()> {
        both!(self, memory => memory.write(offset, data))
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        both!(self, memory => memory.prefetch(offset));
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        both!(self, memory => memory.prefetch_write(offset));
    }
}

impl<W: Word> WordCell<W> for AnyCell<W> {
    #[inline]
    fn load(&self, order: Ordering) -> W {
        both!(self, cell => cell.load(order))
    }

    #[inline]
    fn store(&self, value: W, order: Ordering) {
        both!(self, cell => cell.store(value, order));
    }

    #[inline]
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W> {
        both!(self, cell => cell.compare_exchange(current, new))
    }

    #[inline]
    fn fetch_add(&self, add: W) -> W {
        both!(self, cell => cell.fetch_add(add))
    }
}

impl RemoteMemory for AnyRemote {
    #[inline]
    fn node(&self) -> NodeId {
        both!(self, remote => remote.node())
    }

    #[inline]
    fn len(&self) -> usize {
        both!(self, remote => remote.len())
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        match self {
            AnyRemote::Shm(remote) => remote.slice(offset, len).map(AnyRemote::Shm),
            AnyRemote::Verbs(remote) => remote.slice(offset, len).map(AnyRemote::Verbs),
        }
    }

    #[inline]
    fn prefetch(&self, offset: usize) {
        both!(self, remote => remote.prefetch(offset));
    }

    #[inline]
    fn prefetch_write(&self, offset: usize) {
        both!(self, remote => remote.prefetch_write(offset));
    }
}

/// An operation with a local and a remote side, on whichever fabric all of it belongs to.
macro_rules! operation {
    ($qp:expr, $local:expr, $target:expr, |$q:ident, $l:ident, $t:ident| $call:expr) => {
        match ($qp, $local.memory, $target.remote) {
            (AnyQueuePair::Shm($q), AnyMemory::Shm(memory), AnyRemote::Shm(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            (AnyQueuePair::Verbs($q), AnyMemory::Verbs(memory), AnyRemote::Verbs(remote)) => {
                let ($l, $t) = operation!(sides memory, remote, $local, $target);
                $call
            }
            _ => Err(mixed()),
        }
    };
    (sides $memory:ident, $remote:ident, $local:expr, $target:expr) => {
        (
            Local { memory: $memory, offset: $local.offset, len: $local.len },
            Target { remote: $remote, offset: $target.offset },
        )
    };
}

impl QueuePair for AnyQueuePair {
    type Memory = AnyMemory;
    type Remote = AnyRemote;

    fn peer(&self) -> NodeId {
        both!(self, qp => qp.peer())
    }

    #[inline]
    fn put(&mut self, src: Local<'_, AnyMemory>, dst: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        operation!(self, src, dst, |qp, src, dst| qp.put(src, dst, work))
    }

    #[inline]
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        let offset = dst.offset;
        match (self, dst.remote) {
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.put_inline(data, Target { remote, offset }, work)
            }
            _ => Err(mixed()),
        }
    }

    #[inline]
    fn get(&mut self, dst: Local<'_, AnyMemory>, src: Target<'_, AnyRemote>, work: Work) -> Result<Posted> {
        operation!(self, dst, src, |qp, dst, src| qp.get(dst, src, work))
    }

    #[inline]
    fn fetch_add(
        &mut self,
        target: Target<'_, AnyRemote>,
        add: u64,
        result: Local<'_, AnyMemory>,
        work: Work,
    ) -> Result<Posted> {
        operation!(self, result, target, |qp, result, target| qp
            .fetch_add(target, add, result, work))
    }

    #[inline]
    fn compare_swap(
        &mut self,
        target: Target<'_, AnyRemote>,
        expected: u64,
        new: u64,
        result: Local<'_, AnyMemory>,
        work: Work,
    ) -> Result<Posted> {
        operation!(self, result, target, |qp, result, target| {
            qp.compare_swap(target, expected, new, result, work)
        })
    }

    #[inline]
    fn flush(&mut self, work: Work) -> Result<Posted> {
        both!(self, qp => qp.flush(work))
    }

    #[inline]
    fn word_at_once(&mut self, target: Target<'_, AnyRemote>, op: WordOp) -> Result<Option<u64>> {
        let offset = target.offset;
        match (self, target.remote) {
            (AnyQueuePair::Shm(qp), AnyRemote::Shm(remote)) => qp.word_at_once(Target { remote, offset }, op),
            (AnyQueuePair::Verbs(qp), AnyRemote::Verbs(remote)) => {
                qp.word_at_once(Target { remote, offset }, op)
            }
            _ => Err(mixed()),
        }
    }
}
