//! The contract: what object code may rely on, and all it may rely on.
//!
//! It is RDMA^WAIT (LOCO'26 3.3, app. F.2) with remote read-modify-write. A fabric may be stronger, never weaker.
//!
//! * Local memory behaves as x86-TSO; CPU access goes through [`Memory`] and [`WordCell`], and to what the threads of a
//!   node share besides through [`AtomicCell`](crate::AtomicCell). Calls take no ordering, as TSO leaves none to choose: loads
//!   and stores keep the order of the program, but for a store and a later load of another word; what is to keep that
//!   order too is a [`store_fence`](WordCell::store_fence), a read-modify-write, or has a [`cpu_fence`](Fabric::cpu_fence)
//!   in between. So what a model checker passes is what runs: there is no weaker order that the model would not
//!   see. On x86-64 these are plain moves and locked instructions. Elsewhere loads acquire and stores release, which keeps
//!   load before load, load before store and store before store, and read-modify-writes have a full fence on both sides.
//! * Operations of one queue pair are ordered by the stamp order of LOCO'26 Fig. 10: NIC local read < NIC remote
//!   write < NIC remote read < NIC local write. Nothing orders a NIC step before a later CPU step except waiting.
//! * Completion of a `get` or an atomic: the result is in local memory. Completion of a `put`: its source has
//!   been read, nothing more. Completion of a [`flush`](QueuePair::flush): every earlier put of that queue pair is
//!   placed in the peer's memory.
//! * A transfer of more than one word is a sequence of word transfers (LOCO'26 G.6): words do not tear,
//!   larger values may.
//! * Remote read-modify-writes are atomic against one another on the same node; against CPU accesses only where
//!   [`Caps::atomicity`] is [`Atomicity::Glob`]. Where it is not, what a completed one wrote is placed by a later read-like
//!   operation of its queue pair, as a put's data is; until then only other read-modify-writes are sure to see it.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Control, FabricError, Membership, NodeId, Platform, Result, Time, WorkRequestId};

/// One node's access to the network and to everything its threads share.
pub trait Fabric: Clone + Send + Sync + 'static {
    /// Threads, clock, locks, atomics.
    type Platform: Platform;
    /// Registered memory of this node.
    type Memory: Memory;
    /// Registered memory of a peer.
    type Remote: RemoteMemory;
    /// A queue pair of one thread towards one peer.
    type QueuePair: QueuePair<Memory = Self::Memory, Remote = Self::Remote>;
    /// Set-up messages.
    type Control: Control;

    /// This node.
    fn node(&self) -> NodeId;

    /// Returns all nodes of the job, this one included, in ascending order.
    fn nodes(&self) -> &[NodeId];

    /// What this fabric can do.
    fn caps(&self) -> &Caps;

    /// Threads, clock, locks.
    fn platform(&self) -> &Self::Platform;

    /// Returns the control plane.
    fn control(&self) -> &Self::Control;

    /// Who is in the job, as this node knows it.
    fn membership(&self) -> Membership {
        Membership::of(self.control(), self.node(), self.nodes())
    }

    /// Allocates `len` bytes of zeroed registered memory, aligned to at least 64 bytes; freed when the last
    /// clone or slice is dropped. The caller sees to it that no operation, its own or a peer's, is still using it.
    ///
    /// # Errors
    /// [`FabricError::OutOfMemory`]; [`FabricError::Unsupported`] for device memory where there is none.
    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<Self::Memory>;

    /// What a peer needs to access `memory`; travels in set-up messages.
    fn export(&self, memory: &Self::Memory) -> RegionKey;

    /// Access to memory that `peer` exported.
    ///
    /// # Errors
    /// [`FabricError::UnknownPeer`], [`FabricError::PeerLost`], or an OS error while mapping.
    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<Self::Remote>;

    /// Returns a new queue pair towards `peer` (which may be this node: the NIC loops back). To be used by
    /// one thread.
    ///
    /// # Errors
    /// [`FabricError::UnknownPeer`], [`FabricError::PeerLost`], [`FabricError::Timeout`].
    fn queue_pair(&self, peer: NodeId) -> Result<Self::QueuePair>;

    /// Appends completions that have arrived at this node since the last call (of any thread) to `completions`;
    /// returns how many. Never blocks. Each signalled operation is reported once, to one caller. A lost peer's
    /// outstanding operations are reported with [`CompletionStatus::Failed`].
    ///
    /// # Errors
    /// Only when the fabric as a whole is broken.
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize>;

    /// The one waiting primitive: returns what `ready` returns once it is `Some`. `ready` may load memory, call
    /// [`poll`](Fabric::poll) and update tracking state; it is called again whenever something it looked at may have
    /// changed. Hardware fabrics spin, then yield, then sleep briefly; the model fabric parks the thread.
    ///
    /// # Errors
    /// [`FabricError::PeerLost`] when a peer of `wait.peers` is gone and `ready`, asked once more after that, is
    /// still `None`; [`FabricError::Timeout`] after `wait.deadline`.
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T>;

    /// [`wait`](Fabric::wait) for `within` at most, in place of `wait.deadline`. It counts from when the fabric first
    /// looks at the clock, which takes about as long as a message over shared memory: a wait that is soon over need not.
    ///
    /// # Errors
    /// See [`wait`](Fabric::wait).
    #[inline]
    fn wait_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        let deadline = Some(self.platform().now().after(within));
        self.wait(Wait { deadline, ..wait }, ready)
    }

    /// What a thread does between two looks at *remote* memory, which it cannot watch: lets `pause` pass. `seen` is what
    /// the last look found; a caller looks again when this returns, and makes no more of it than that.
    ///
    /// A fabric that can tell may return as soon as the memory holds something else than `seen`. One on which no time
    /// passes must do that, as looking again before would find the same for ever: the model fabric parks the thread.
    ///
    /// # Errors
    /// As [`wait`](Fabric::wait).
    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, Self::Remote>) -> Result<()> {
        let _ = seen;
        if pause.is_zero() {
            return Ok(());
        }
        let until = self.platform().now().after(pause);
        self.wait(wait, || {
            let now = self.platform().now();
            (now >= until && wait.deadline.is_none_or(|deadline| now < deadline)).then_some(())
        })
    }

    /// CPU full fence (`mfence`): earlier stores of this thread are visible on this node before later accesses.
    fn cpu_fence(&self);
}

/// What a fabric can do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// Name for logs and benchmark output (`shm`, `verbs`, `model`).
    pub name: String,
    /// Largest [`put_inline`](QueuePair::put_inline), bytes.
    pub inline_bytes_max: usize,
    /// What remote read-modify-writes are atomic against.
    pub atomicity: Atomicity,
    /// True if a put is placed in the peer's memory once the posting call returned and a CPU fence was executed:
    /// then fences need no read.
    pub puts_placed_on_post: bool,
    /// True if remote read-modify-writes, gets and puts complete at the call ([`Posted::Done`] always).
    pub synchronous: bool,
    /// Bytes of device memory, 0 if none.
    pub device_memory_bytes: u64,
}

/// What a remote read-modify-write is atomic against (`ibv_atomic_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Atomicity {
    /// No remote atomics at all.
    None,
    /// Other remote read-modify-writes of the same node's memory.
    Hca,
    /// Also CPU atomics on that node.
    Glob,
}

/// Where registered memory lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// Host memory.
    #[default]
    Host,
    /// Memory on the network card, not coherent with the CPU (LOCO'26 C.4).
    Device,
}

/// Names a region of a peer's memory. Opaque to objects; meaning is the fabric's.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegionKey {
    /// Arena or memory region of the exporting node.
    pub arena: u64,
    /// Offset or address within it.
    pub address: u64,
    /// Length in bytes.
    pub len: u64,
    /// Remote key, where the fabric has one.
    pub rkey: u32,
}

/// Registered memory of this node: a cheap handle on a range of bytes.
pub trait Memory: Clone + Send + Sync + 'static {
    /// Handle on one word.
    type Cell<W: Word>: WordCell<W>;

    /// Length in bytes.
    fn len(&self) -> usize;

    /// Returns true if the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a handle on a part.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`].
    fn slice(&self, offset: usize, len: usize) -> Result<Self>;

    /// Returns a handle on the word at `offset`, checked here once so that its accesses need no check.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`], [`FabricError::Misaligned`].
    fn cell<W: Word>(&self, offset: usize) -> Result<Self::Cell<W>>;

    /// Copies out `out.len()` bytes. Aligned 8-byte words within do not tear, nothing else is promised: no
    /// order between words.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`].
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()>;

    /// Copies in `data`. Aligned 8-byte words within do not tear; stores are not ordered among themselves but
    /// precede (TSO) later word stores of this thread.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`].
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;

    /// A hint that the bytes from `offset` will be read soon. Means nothing: neither order nor a check.
    #[inline]
    fn prefetch(&self, _offset: usize) {}

    /// The same for bytes that will be written.
    #[inline]
    fn prefetch_write(&self, _offset: usize) {}
}

/// One aligned word of registered memory.
pub trait WordCell<W: Word>: Clone + Send + Sync + 'static {
    /// Loads: before every later access of this thread.
    fn load(&self) -> W;
    /// Stores: after every earlier access of this thread, before its later stores. A later load may overtake it.
    fn store(&self, value: W);
    /// Stores and executes a full fence: before every later access of this thread.
    fn store_fence(&self, value: W);
    /// CPU compare-and-swap, a full fence whether it succeeds or not.
    ///
    /// # Errors
    /// The value found, if it was not `current`.
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W>;
    /// CPU fetch-and-add with wrap-around, a full fence; returns the old value.
    fn fetch_add(&self, add: W) -> W {
        let mut old = self.load(); // a guess, which the exchange checks
        let sum = |old: W| W::from_u64(old.to_u64().wrapping_add(add.to_u64()));
        while let Err(found) = self.compare_exchange(old, sum(old)) {
            old = found;
        }
        old
    }
}

/// Words that registered memory can hold without tearing.
pub trait Word: Copy + Eq + Send + Sync + std::fmt::Debug + Default + sealed::Sealed + 'static {
    /// Size and alignment in bytes.
    const BYTES: usize;
    /// Zero-extends.
    fn to_u64(self) -> u64;
    /// Truncates.
    fn from_u64(value: u64) -> Self;
}

mod sealed {
    /// Word types are fixed: 1, 2, 4 and 8 bytes.
    pub trait Sealed {}
}

macro_rules! word {
    ($($t:ty),*) => {$(
        impl sealed::Sealed for $t {}
        impl Word for $t {
            const BYTES: usize = size_of::<$t>();
            #[inline]
            fn to_u64(self) -> u64 {
                u64::from(self)
            }
            #[inline]
            #[allow(clippy::cast_possible_truncation)] // Truncation is the promise.
            fn from_u64(value: u64) -> Self {
                value as $t
            }
        }
    )*};
}
word!(u8, u16, u32, u64);

/// Registered memory of a peer.
pub trait RemoteMemory: Clone + Send + Sync + 'static {
    /// Returns the node that holds it.
    fn node(&self) -> NodeId;
    /// Length in bytes.
    fn len(&self) -> usize;
    /// Returns true if the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns a handle on a part.
    ///
    /// # Errors
    /// [`FabricError::OutOfRange`].
    fn slice(&self, offset: usize, len: usize) -> Result<Self>;
    /// A hint that the bytes from `offset` will be read soon. Means nothing: neither order nor a check.
    #[inline]
    fn prefetch(&self, _offset: usize) {}

    /// The same for bytes that will be written.
    #[inline]
    fn prefetch_write(&self, _offset: usize) {}
}

/// Local side of an operation: `len` bytes of registered memory from `offset`.
#[derive(Debug)]
pub struct Local<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// First byte.
    pub offset: usize,
    /// Bytes.
    pub len: usize,
}

/// Remote side of an operation: the peer's memory from `offset`; the length is the local side's.
#[derive(Debug)]
pub struct Target<'a, R> {
    /// The memory.
    pub remote: &'a R,
    /// First byte.
    pub offset: usize,
}

/// What a look at remote memory found.
#[derive(Debug)]
pub struct Seen<'a, R> {
    /// Where: as many bytes as were found, in whole words.
    pub at: Target<'a, R>,
    /// What.
    pub bytes: &'a [u8],
}

/// How an operation is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Comes back in the completion.
    pub id: WorkRequestId,
    /// Report a completion. Without it none is reported, and the operation's end is known only from a later
    /// signalled operation of the same queue pair.
    pub signaled: bool,
    /// Start only when earlier gets and atomics of this queue pair have completed (remote fence,
    /// `IBV_SEND_FENCE`).
    pub fenced: bool,
    /// More follows at once: the doorbell may wait for the next post without this hint.
    pub more: bool,
}

impl Work {
    /// Returns a signalled, unfenced operation.
    #[inline]
    pub fn signaled(id: WorkRequestId) -> Work {
        Work {
            id,
            signaled: true,
            fenced: false,
            more: false,
        }
    }

    /// Returns an operation that reports no completion.
    #[inline]
    pub fn unsignaled() -> Work {
        Work {
            id: WorkRequestId(u64::MAX),
            signaled: false,
            fenced: false,
            more: false,
        }
    }

    /// The same, fenced.
    #[must_use]
    #[inline]
    pub fn fenced(self) -> Work {
        Work { fenced: true, ..self }
    }

    /// The same, with more to follow.
    #[must_use]
    #[inline]
    pub fn more(self) -> Work {
        Work { more: true, ..self }
    }
}

/// How far an operation is when the posting call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// Completed; no completion will be reported, signalled or not.
    Done,
    /// Under way under its work request id.
    Pending,
}

/// What is done to one aligned 8-byte word of a peer. Each gives the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    /// [`QueuePair::get`].
    Get,
    /// [`QueuePair::fetch_add`] of this.
    FetchAdd(u64),
    /// [`QueuePair::compare_swap`].
    CompareSwap {
        /// Only if the word is this.
        expected: u64,
        /// What is stored then.
        new: u64,
    },
}

/// One thread's connection to one peer. Operations are ordered as the module head says.
///
/// Every method fails with [`FabricError::OutOfRange`] or [`FabricError::Misaligned`] before anything is posted,
/// with [`FabricError::QueueFull`] when completions must be polled first, with [`FabricError::PeerLost`] when the
/// peer is known to be gone.
pub trait QueuePair: Send + 'static {
    /// This node's memory.
    type Memory: Memory;
    /// Peers' memory.
    type Remote: RemoteMemory;

    /// Returns the peer.
    fn peer(&self) -> NodeId;

    /// Writes local memory to the peer's. The source may be read until completion.
    ///
    /// # Errors
    /// See the trait.
    fn put(
        &mut self,
        src: Local<'_, Self::Memory>,
        dst: Target<'_, Self::Remote>,
        work: Work,
    ) -> Result<Posted>;

    /// Writes `data` (at most [`Caps::inline_bytes_max`]), which is copied at the call.
    ///
    /// # Errors
    /// See the trait; [`FabricError::Unsupported`] when `data` is too long.
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Self::Remote>, work: Work) -> Result<Posted>;

    /// Reads the peer's memory into local memory.
    ///
    /// # Errors
    /// See the trait.
    fn get(
        &mut self,
        dst: Local<'_, Self::Memory>,
        src: Target<'_, Self::Remote>,
        work: Work,
    ) -> Result<Posted>;

    /// Atomically adds to the peer's aligned 8-byte word; the old value lands in `result` (8 aligned bytes).
    ///
    /// # Errors
    /// See the trait; [`FabricError::Unsupported`] where [`Caps::atomicity`] is none.
    fn fetch_add(
        &mut self,
        target: Target<'_, Self::Remote>,
        add: u64,
        result: Local<'_, Self::Memory>,
        work: Work,
    ) -> Result<Posted>;

    /// Atomically stores `new` into the peer's aligned 8-byte word if it holds `expected`; the old value lands in
    /// `result` (8 aligned bytes) either way.
    ///
    /// # Errors
    /// See the trait; [`FabricError::Unsupported`] where [`Caps::atomicity`] is none.
    fn compare_swap(
        &mut self,
        target: Target<'_, Self::Remote>,
        expected: u64,
        new: u64,
        result: Local<'_, Self::Memory>,
        work: Work,
    ) -> Result<Posted>;

    /// A read that moves no data the caller sees: once complete, every earlier put of this queue pair is placed
    /// (LOCO'26 C.2).
    ///
    /// # Errors
    /// See the trait.
    fn flush(&mut self, work: Work) -> Result<Posted>;

    /// Where an operation on a word is done when the call that posts it returns ([`Caps::synchronous`]): does it, and gives
    /// the old value without the way through registered memory. Ordered as if posted. `None` elsewhere: post it.
    ///
    /// # Errors
    /// See the trait.
    #[inline]
    fn word_at_once(&mut self, _target: Target<'_, Self::Remote>, _op: WordOp) -> Result<Option<u64>> {
        Ok(None)
    }
}

/// The end of a posted operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The operation.
    pub id: WorkRequestId,
    /// The peer it went to.
    pub peer: NodeId,
    /// How it ended.
    pub status: CompletionStatus,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CompletionStatus {
    /// Completed; see the module head for what that promises.
    Success,
    /// Failed, with what is known. Its effect at the peer is unknown.
    Failed(Box<FabricError>),
}

/// What a thread waits for.
#[derive(Clone, Copy, Debug)]
pub struct Wait<'a> {
    /// For error messages and deadlock reports: "barrier `bar`: node 2".
    pub what: &'a str,
    /// Peers without whom the wait is in vain.
    pub peers: Peers<'a>,
    /// When to give up.
    pub deadline: Option<Time>,
}

/// A set of peers.
#[derive(Clone, Copy, Debug)]
pub enum Peers<'a> {
    /// Nobody.
    None,
    /// One peer.
    One(NodeId),
    /// These.
    These(&'a [NodeId]),
    /// Every node of the job.
    All,
}
