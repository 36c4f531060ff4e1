//! The contract between objects and fabrics: everything that object code may rely on.
//!
//! The contract is RDMA^WAIT (LOCO'26 3.3, app. F.2) with remote read-modify-write, and with order only where it is asked
//! for. It holds on networks that order nothing by themselves (tier `unordered` of `docs/ordering-models.md`). A fabric
//! may be stronger, never weaker.
//!
//! * Local memory behaves as x86-TSO. The CPU accesses registered memory through [`Memory`] and [`WordCell`](crate::WordCell),
//!   and other memory that the threads of a node share through [`AtomicCell`](crate::AtomicCell). Calls take
//!   no ordering, as TSO leaves none to choose. Loads and stores keep the order of the program, with one
//!   exception: a later load of another word may overtake a store. To keep that order too, use a
//!   [`store_fence`](crate::WordCell::store_fence), a read-modify-write, or a [`cpu_fence`](Fabric::cpu_fence) in
//!   between. The code that runs is therefore the code that a model checker passes: there is no weaker order
//!   that the model would not see. On x86-64 these calls are plain moves and locked instructions. Elsewhere
//!   loads acquire and stores release, which keeps load before load, load before store and store before
//!   store, and read-modify-writes have a full fence on both sides.
//! * **Order is asked for.** Nothing orders the effects of two operations of a queue pair at the peer, even if both write the
//!   same word, and nothing orders their accesses to this node's memory. The poster asks:
//!   * A [*strong*](Work::strong) operation takes effect at the peer after the writes of the earlier puts and
//!     read-modify-writes of its queue pair are placed there. This says nothing of earlier gets, of later operations, or
//!     of when the operation reads its own source.
//!   * A [*fenced*](Work::fenced) operation starts after the results of the earlier gets and read-modify-writes of its queue
//!     pair have come back to this node. This says nothing of earlier puts. The write of a read-modify-write may not be
//!     placed yet, and results may not be in memory yet.
//!   * A completion that was waited for gives an order, too: that of the next item.
//!
//!   A fabric whose network gives an order by itself says so in [`Caps::order`]. It obtains the other orders at the costs
//!   that are named there.
//! * Completion of a `get` or an atomic: the result is in local memory. Completion of a `put`: its source has been read,
//!   nothing more. An operation that is posted later may still take effect before the put does. Completion of a
//!   [`flush`](QueuePair::flush): the write of every earlier put and read-modify-write of that queue pair is placed in the
//!   peer's memory. The operations of a queue pair complete in the order in which they were posted: a completion says that
//!   the earlier operations have completed, too.
//! * A CPU step comes before the steps of the operations that its thread posts later. Nothing orders a NIC step before a
//!   later CPU step except waiting.
//! * A transfer of more than one word is a set of word transfers (LOCO'26 G.6): words do not tear, larger values may. The
//!   words of one transfer have no order: those of a put are placed, and those of a get are read, in any order. A flag
//!   beside its data needs a strong transfer of its own, after that of the data, or a record that shows by itself whether
//!   it is whole.
//! * Remote read-modify-writes are atomic against one another on the same node. They are atomic against CPU
//!   accesses only where [`Caps::atomicity`] is [`Atomicity::Glob`]. Elsewhere, the write of a completed
//!   read-modify-write is placed by a later flush or strong operation of its queue pair, as a put's data is. Until
//!   then only other read-modify-writes are sure to see it.

use std::mem::MaybeUninit;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    Completion, Control, Doorbell, FabricError, Membership, Memory, NodeId, Order, Platform, RemoteMemory,
    Result, Time, Wait, WorkRequestId,
};

/// A node's access to the network and to everything that its threads share.
pub trait Fabric: Clone + Send + Sync + 'static {
    /// The platform: threads, clock, locks, atomics.
    type Platform: Platform;
    /// Registered memory of this node.
    type Memory: Memory;
    /// A peer's registered memory.
    type Remote: RemoteMemory;
    /// A queue pair, by which one thread reaches one peer.
    type QueuePair: QueuePair<Memory = Self::Memory, Remote = Self::Remote>;
    /// The control plane, for set-up messages.
    type Control: Control + ?Sized;

    /// Returns this node.
    #[inline]
    fn node(&self) -> NodeId {
        self.control().node()
    }

    /// Returns all nodes of the job, this one included, in ascending order.
    #[inline]
    fn nodes(&self) -> &[NodeId] {
        self.control().nodes()
    }

    /// Returns the capabilities of this fabric.
    fn caps(&self) -> &Caps;

    /// Returns the platform: threads, clock, locks.
    fn platform(&self) -> &Self::Platform;

    /// Returns the control plane.
    fn control(&self) -> &Self::Control;

    /// Returns the members of the job, as this node knows them.
    fn membership(&self) -> Membership {
        self.control().membership()
    }

    /// Allocates `len` bytes of zeroed registered memory, aligned to at least 64 bytes. The memory is freed
    /// when the last clone or slice is dropped. The caller must make sure that no operation, its own or a
    /// peer's, still uses it then.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfMemory`], or [`FabricError::Unsupported`] for device memory where there is
    /// none.
    fn allocate(&self, len: usize, kind: MemoryKind) -> Result<Self::Memory>;

    /// Gives `memory` a name, for fabrics that show what happens to memory. Nothing depends on it.
    fn name_memory(&self, _memory: &Self::Memory, _name: &str) {}

    /// Returns the key that a peer needs to access `memory`. The key travels in set-up messages.
    fn export(&self, memory: &Self::Memory) -> RegionKey;

    /// Returns access to memory that `peer` exported.
    ///
    /// # Errors
    /// Returns [`FabricError::UnknownPeer`], [`FabricError::PeerLost`], or an OS error while mapping.
    fn import(&self, peer: NodeId, key: &RegionKey) -> Result<Self::Remote>;

    /// Returns a new queue pair towards `peer` (which may be this node: the NIC loops back). One thread at a time may
    /// use it. When it is dropped, operations under way go on, and their completions are still reported.
    ///
    /// # Errors
    /// Returns [`FabricError::UnknownPeer`], [`FabricError::PeerLost`], or [`FabricError::Timeout`] if the connection
    /// takes longer than the fabric's settings allow. After an error nothing is left behind: ask again.
    fn queue_pair(&self, peer: NodeId) -> Result<Self::QueuePair>;

    /// Appends to `completions` those that have arrived at this node since the last call (of any thread), and returns
    /// their number. Never blocks; while another thread polls, it may append nothing. Each signaled operation is
    /// reported once, to one caller. A lost peer's outstanding operations are reported with
    /// [`CompletionStatus::Failed`](crate::CompletionStatus::Failed).
    ///
    /// # Errors
    /// Fails only when the fabric as a whole is broken.
    fn poll(&self, completions: &mut Vec<Completion>) -> Result<usize>;

    /// Waits until `ready` returns `Some`, and returns its value. This is the one waiting primitive. `ready`
    /// may load memory, call [`poll`](Fabric::poll) and update tracking state. It is called again whenever
    /// something that it looked at may have changed. Hardware fabrics spin, then yield, then sleep briefly;
    /// the model fabric parks the thread.
    ///
    /// # Errors
    /// Returns [`FabricError::PeerLost`] when a peer of `wait.peers` is gone and `ready`, asked once more
    /// after that, still returns `None`. Returns [`FabricError::DeclaredLost`] in the same way once this node's peers
    /// have declared it lost. Returns [`FabricError::Timeout`] after `wait.deadline`. An error cancels no operation:
    /// operations under way go on.
    fn wait<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T>;

    /// Waits as [`wait`](Fabric::wait) does, but for `within` at most, in place of `wait.deadline`. The
    /// timeout starts at the first clock read. A clock read takes about as long as a message over shared
    /// memory; waits that finish while spinning never read the clock.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Fabric::wait).
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

    /// Waits as [`wait`](Fabric::wait) does for something that only a queue pair's operation towards this node, or code
    /// that rings the node's [`Doorbell`] afterwards, can change. A thread that waits for long, or on behalf of many, may
    /// sleep meanwhile, if the fabric's doorbell rings for such operations. `ready` may wait for the end of this node's own
    /// operations too, as in [`wait_for_completion`](Fabric::wait_for_completion): every doorbell rings for completions.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Fabric::wait).
    #[inline]
    fn wait_for_arrival<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait(wait, ready)
    }

    /// Waits as [`wait_for_arrival`](Fabric::wait_for_arrival) does, for `within` at most, as
    /// [`wait_within`](Fabric::wait_within).
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Fabric::wait).
    #[inline]
    fn wait_for_arrival_within<T>(
        &self,
        wait: Wait<'_>,
        within: Duration,
        ready: impl FnMut() -> Option<T>,
    ) -> Result<T> {
        self.wait_within(wait, within, ready)
    }

    /// Waits as [`wait`](Fabric::wait) does for the end of this node's own operations: `ready` polls, or another
    /// thread does and rings the node's [`Doorbell`] when it has recorded what it polled. A thread that waits on
    /// behalf of many may sleep meanwhile.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Fabric::wait).
    #[inline]
    fn wait_for_completion<T>(&self, wait: Wait<'_>, ready: impl FnMut() -> Option<T>) -> Result<T> {
        self.wait(wait, ready)
    }

    /// Returns the doorbell of this node, if the fabric has one.
    fn doorbell(&self) -> Option<Arc<dyn Doorbell>> {
        None
    }

    /// Backs off for `pause` between polls of *remote* memory, which a thread cannot watch. `seen` is what
    /// the last poll found. May return early; callers must read the memory again and infer nothing from the
    /// return.
    ///
    /// A fabric that can watch the memory may return as soon as it differs from `seen`. The model fabric, on which no
    /// time passes, must block until then: otherwise the caller would poll an unchanged memory for ever.
    ///
    /// # Errors
    /// Returns the errors of [`wait`](Fabric::wait).
    fn pause(&self, wait: Wait<'_>, pause: Duration, seen: &Seen<'_, Self::Remote>) -> Result<()> {
        let _ = seen;
        if pause.is_zero() {
            return Ok(());
        }
        let until = self.platform().now().after(pause);
        let deadline = wait.deadline.unwrap_or(Time::NEVER);
        let earlier = Some(deadline.min(until));
        // Time ends this wait, and nothing else does, so every doorbell will do.
        let waited = self.wait_for_completion(
            Wait {
                deadline: earlier,
                ..wait
            },
            || {
                let now = self.platform().now();
                (now >= until && now < deadline).then_some(())
            },
        );
        match waited {
            Err(FabricError::Timeout { .. }) if deadline == Time::NEVER => Ok(()), // It ended early.
            ended => ended,
        }
    }

    /// Hints that `memory`, newly allocated, will be accessed in random order, so that large pages suit it. The hint
    /// promises nothing.
    fn prefer_large_pages<T>(_memory: &[MaybeUninit<T>]) {}

    /// Executes a CPU full fence (`mfence`): earlier stores of this thread are visible on this node before
    /// later accesses.
    fn cpu_fence(&self);
}

/// The capabilities of a fabric.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Caps {
    /// The name for logs and benchmark output (`shm`, `verbs`, `model`).
    pub name: String,
    /// The largest [`put_inline`](QueuePair::put_inline), in bytes; 0 where there are none.
    pub inline_bytes_max: usize,
    /// The accesses against which remote read-modify-writes are atomic.
    pub atomicity: Atomicity,
    /// The orders that the network gives by itself, and what the others cost.
    pub order: Order,
    /// True if a put is placed in the peer's memory once the posting call has returned and a CPU fence was
    /// executed. Fences then need no read.
    pub puts_placed_on_post: bool,
    /// True if remote read-modify-writes, gets and puts complete within the call, which then always returns
    /// [`Posted::Done`].
    pub synchronous: bool,
    /// Bytes of device memory; 0 if there is none.
    pub device_memory_bytes: u64,
}

/// The accesses against which a remote read-modify-write is atomic (`ibv_atomic_cap`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Atomicity {
    /// The fabric has no remote atomics at all.
    None,
    /// They are atomic against other remote read-modify-writes of the same node's memory.
    Hca,
    /// They are atomic against CPU atomics on that node, too.
    Glob,
}

/// The place of registered memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum MemoryKind {
    /// Host memory.
    #[default]
    Host,
    /// Memory on the network card, not coherent with the CPU (LOCO'26 C.4).
    Device,
}

/// Names a region of a peer's memory. Objects do not look inside; the fabric gives it its meaning.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RegionKey {
    /// The arena or memory region of the exporting node.
    pub arena: u64,
    /// The offset or address within it.
    pub address: u64,
    /// The length in bytes.
    pub len: u64,
    /// The remote key, where the fabric has one.
    pub rkey: u32,
}

/// The local side of an operation: `len` bytes of registered memory from `offset`.
#[derive(Debug)]
pub struct Local<'a, M> {
    /// The memory.
    pub memory: &'a M,
    /// The first byte.
    pub offset: usize,
    /// The number of bytes.
    pub len: usize,
}

/// The remote side of an operation: the peer's memory from `offset`. The length is that of the local side.
#[derive(Debug)]
pub struct Target<'a, R> {
    /// The memory.
    pub remote: &'a R,
    /// The first byte.
    pub offset: usize,
}

/// The bytes that a poll of remote memory found.
#[derive(Debug)]
pub struct Seen<'a, R> {
    /// The place, with as many bytes as were found, in whole words.
    pub at: Target<'a, R>,
    /// The bytes.
    pub bytes: &'a [u8],
}

/// The options with which an operation is posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// The id that comes back in the completion.
    pub id: WorkRequestId,
    /// Asks for a completion. Without it none is reported, and the end of the operation is known only from a
    /// later signaled operation of the same queue pair.
    pub signaled: bool,
    /// Starts the operation only when the results of the earlier gets and atomics of this queue pair have come back (remote
    /// fence, `IBV_SEND_FENCE`).
    pub fenced: bool,
    /// Lets the operation take effect at the peer only after the writes of the earlier puts and read-modify-writes of this
    /// queue pair are placed there (strong order; mlx5 has a flag of that name).
    pub strong: bool,
    /// Says that more operations follow at once. The fabric may leave ringing the NIC's doorbell to the next post without this
    /// hint, or to the next that fails.
    pub more: bool,
    /// Says that nobody waits for the operation soon. The fabric may keep it for some milliseconds at most, and longer where a fiber
    /// computes without giving way, so that it shares a message with what this node sends next. Operations that were posted before it with
    /// [`more`](Work::more) may be kept with it.
    pub lazy: bool,
}

impl Work {
    /// Returns the options of a signaled operation that asks for no order.
    #[inline]
    pub fn signaled(id: WorkRequestId) -> Work {
        Work {
            id,
            signaled: true,
            fenced: false,
            strong: false,
            more: false,
            lazy: false,
        }
    }

    /// Returns the options of an operation that reports no completion and asks for no order.
    #[inline]
    pub fn unsignaled() -> Work {
        Work {
            id: WorkRequestId(u64::MAX),
            signaled: false,
            fenced: false,
            strong: false,
            more: false,
            lazy: false,
        }
    }

    /// Returns these options with the remote fence.
    #[must_use]
    #[inline]
    pub fn fenced(self) -> Work {
        Work { fenced: true, ..self }
    }

    /// Returns these options with strong order.
    #[must_use]
    #[inline]
    pub fn strong(self) -> Work {
        Work { strong: true, ..self }
    }

    /// Returns these options with the hint that more operations follow.
    #[must_use]
    #[inline]
    pub fn more(self) -> Work {
        Work { more: true, ..self }
    }

    /// Returns these options with the hint that nobody waits for the operation soon.
    #[must_use]
    #[inline]
    pub fn lazy(self) -> Work {
        Work { lazy: true, ..self }
    }
}

/// The progress of an operation when the posting call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Posted {
    /// The operation has completed. No completion will be reported, signaled or not.
    Done,
    /// The operation is under way under its work request id.
    Pending,
}

/// An operation on one aligned 8-byte word of a peer. Each returns the old value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WordOp {
    /// [`QueuePair::get`].
    Get,
    /// [`QueuePair::fetch_add`] of this number.
    FetchAdd(u64),
    /// [`QueuePair::compare_swap`].
    CompareSwap {
        /// The value that the word must have.
        expected: u64,
        /// The value that is then stored.
        new: u64,
    },
}

/// A thread's connection to a peer. The module head says how operations are ordered.
///
/// Every method that posts fails with [`FabricError::OutOfRange`] or [`FabricError::Misaligned`] before anything is
/// posted. It fails with [`FabricError::QueueFull`] when completions must be polled first, with
/// [`FabricError::PeerLost`] when the peer is known to be gone, and with [`FabricError::DeclaredLost`] when this node's
/// peers have declared it lost. If the peer is lost later, the operation fails: see [`Fabric::poll`].
pub trait QueuePair: Send + 'static {
    /// This node's memory.
    type Memory: Memory;
    /// Peers' memory.
    type Remote: RemoteMemory;

    /// Returns the peer.
    fn peer(&self) -> NodeId;

    /// Writes local memory to the peer's. The fabric may read the source until completion.
    ///
    /// # Errors
    /// Returns the errors listed at the trait.
    fn put(
        &mut self,
        src: Local<'_, Self::Memory>,
        dst: Target<'_, Self::Remote>,
        work: Work,
    ) -> Result<Posted>;

    /// Writes `data` (at most [`Caps::inline_bytes_max`]). The data are copied within the call.
    ///
    /// # Errors
    /// Returns the errors listed at the trait, and [`FabricError::Unsupported`] when `data` is longer. No fabric then writes
    /// or posts anything: the caller puts the data from registered memory, as `loco`'s `Thread` does.
    fn put_inline(&mut self, data: &[u8], dst: Target<'_, Self::Remote>, work: Work) -> Result<Posted>;

    /// Writes each of `pieces` at its offset of `remote`. Equals an unsignaled call of
    /// [`put_inline`](QueuePair::put_inline) for each piece that is not empty. With `strong_last`, the last piece, which must
    /// not be empty, asks for strong order, so that it is placed after the others. Nothing orders these.
    /// [Synchronous](Caps::synchronous) fabrics can save the checks of the single calls.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](QueuePair::put_inline). The pieces before the one that failed were written.
    #[inline]
    fn put_inline_each(
        &mut self,
        pieces: &[(usize, &[u8])],
        remote: &Self::Remote,
        strong_last: bool,
    ) -> Result<()> {
        let last = pieces.len().wrapping_sub(1);
        let pieces = pieces.iter().enumerate();
        for (index, &(offset, data)) in pieces.filter(|(_, (_, data))| !data.is_empty()) {
            let work = Work {
                strong: strong_last && index == last,
                ..Work::unsignaled()
            };
            let _: Posted = self.put_inline(data, Target { remote, offset }, work)?;
        }
        Ok(())
    }

    /// Reads the peer's memory into local memory.
    ///
    /// # Errors
    /// Returns the errors listed at the trait.
    fn get(
        &mut self,
        dst: Local<'_, Self::Memory>,
        src: Target<'_, Self::Remote>,
        work: Work,
    ) -> Result<Posted>;

    /// Adds to the peer's aligned 8-byte word atomically. The old value is stored in `result` (8 aligned
    /// bytes).
    ///
    /// # Errors
    /// Returns the errors listed at the trait, and [`FabricError::Unsupported`] where [`Caps::atomicity`] is
    /// none.
    fn fetch_add(
        &mut self,
        target: Target<'_, Self::Remote>,
        add: u64,
        result: Local<'_, Self::Memory>,
        work: Work,
    ) -> Result<Posted>;

    /// Stores `new` into the peer's aligned 8-byte word if it holds `expected`, atomically. The old value is
    /// stored in `result` (8 aligned bytes) either way.
    ///
    /// # Errors
    /// Returns the errors listed at the trait, and [`FabricError::Unsupported`] where [`Caps::atomicity`] is
    /// none.
    fn compare_swap(
        &mut self,
        target: Target<'_, Self::Remote>,
        expected: u64,
        new: u64,
        result: Local<'_, Self::Memory>,
        work: Work,
    ) -> Result<Posted>;

    /// Posts an operation that moves no data the caller sees. Once it has completed, the write of every earlier put and
    /// read-modify-write of this queue pair is placed (LOCO'26 C.2). `work` need not ask for strong order: where the network
    /// orders reads after writes, a flush is a plain read; elsewhere it is a strong read, or the fabric's equivalent.
    ///
    /// # Errors
    /// Returns the errors listed at the trait.
    fn flush(&mut self, work: Work) -> Result<Posted>;

    /// Executes an operation on a word at once, where such operations complete within the posting call
    /// ([`Caps::synchronous`]). Returns the old value directly instead of storing it in registered memory. The
    /// operation is ordered as if it were posted as strong. Returns `None` on other fabrics: the caller must post the
    /// operation.
    ///
    /// # Errors
    /// Returns the errors listed at the trait.
    #[inline]
    fn word_at_once(&mut self, _target: Target<'_, Self::Remote>, _op: WordOp) -> Result<Option<u64>> {
        Ok(None)
    }

    /// Copies a peer's memory into private memory at once, where gets complete within the posting call
    /// ([`Caps::synchronous`]). Aligned words do not tear, and words have no order. The read precedes this thread's
    /// later accesses, as a load does. Unlike a [`get`](QueuePair::get), it may overtake the thread's earlier stores
    /// and puts. A [`cpu_fence`](Fabric::cpu_fence) in between keeps the order; one fence serves any number of reads.
    ///
    /// # Errors
    /// Returns the errors listed at the trait, and [`FabricError::Unsupported`] on other fabrics.
    #[inline]
    fn read_at_once(&mut self, _src: Target<'_, Self::Remote>, _out: &mut [u8]) -> Result<()> {
        Err(FabricError::Unsupported(
            "reads at once: gets of this fabric have to be posted".into(),
        ))
    }
}
