//! Posting with memory that the caller does not own: the operations as the fabric has them.
//!
//! A put reads its source, and a get or an atomic writes its result, at some time between the call and the end of the
//! operation. [`MemRef`](crate::MemRef) ensures that nobody touches the buffer meanwhile, by taking it. Here nobody
//! ensures it. **A caller that posts through [`Raw`] promises** that until the operation has ended
//!
//! * nobody writes the source of a put: not a CPU of this node, and no operation of any node;
//! * nobody reads or writes the memory that a get or an atomic fills;
//! * the memory is not given to another use. A handle on it may be dropped before, as peers' handles do not keep it. The
//!   memory then belongs to the next allocation.
//!
//! A promise that is broken is a local data race (Robust'25 Def. 7). It is not undefined behaviour in the sense of Rust:
//! aligned words do not tear. But the peer may receive any mix of old and new words, and the result of a get may be
//! overwritten or read too early. Objects that race on purpose, and detect it, do so through here.
//!
//! An operation has ended when its key is done, when a [fence](crate::fence) that covers it has returned, or when its peer
//! is lost and the key says so. A call that waits for a key and fails with `Timeout` leaves the operation under way.
//!
//! Used by objects, benchmarks and tests; programs rather use [`Thread::mem_ref`] and [`Thread::put_inline`].

use loco_fabric::{Fabric, Local, Target};

use crate::Result;
use crate::fabric::AnyFabric;
use crate::operations::ack::AckKey;
pub use crate::operations::operation::{Flags, Operation};
use crate::operations::thread::Thread;

/// Posts operations of one thread on memory for which the caller is responsible, as the [module](self) says. Made by
/// [`Thread::raw`].
///
/// ```
/// use loco::fabric::{Local, NodeId};
/// use loco::{Manager, SharedRegion, testing};
///
/// testing::run(1, |fabric| {
///     let manager = Manager::new(fabric)?;
///     let region = SharedRegion::new(&manager, "region", 16)?;
///     manager.wait_for_ready()?;
///     let thread = manager.thread()?;
///     region.write(0, &[7; 8])?;
///     let source = Local { memory: region.local()?, offset: 0, len: 8 };
///     let key = thread.raw().put(source, region.target(NodeId(0), 8)?)?;
///     // Nobody writes the first eight bytes before this returns.
///     key.wait(&thread)
/// });
/// ```
pub struct Raw<'t, F: Fabric = AnyFabric> {
    thread: &'t Thread<F>,
}

impl<F: Fabric> Thread<F> {
    /// Gives access to the operations on memory for which the caller is responsible: see [`raw`](crate::raw).
    #[inline]
    pub fn raw(&self) -> Raw<'_, F> {
        Raw { thread: self }
    }
}

impl<F: Fabric> Raw<'_, F> {
    /// Writes local memory to a peer's. The source may be read until the key is done.
    ///
    /// # Errors
    /// Returns range errors before anything is posted, [`PeerLost`](crate::ErrorKind::PeerLost), and
    /// [`Timeout`](crate::ErrorKind::Timeout) when the queue gets no room.
    ///
    /// # After a timeout
    /// Nothing was posted. Post again. This holds for every method that posts one operation.
    #[inline]
    pub fn put(&self, src: Local<'_, F::Memory>, dst: Target<'_, F::Remote>) -> Result<AckKey<F>> {
        self.post(&Operation::Put(src, dst), Flags::default())
    }

    /// Reads a peer's memory into local memory. The data are there when the key is done.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Raw::put).
    #[inline]
    pub fn get(&self, dst: Local<'_, F::Memory>, src: Target<'_, F::Remote>) -> Result<AckKey<F>> {
        self.post(&Operation::Get(dst, src), Flags::default())
    }

    /// Adds to a peer's 8-byte word atomically. The old value is in `result` when the key is done.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Raw::put), and [`Unsupported`](crate::fabric::FabricError::Unsupported) where
    /// the fabric has no atomics.
    #[inline]
    pub fn fetch_add(
        &self,
        word: Target<'_, F::Remote>,
        add: u64,
        result: Local<'_, F::Memory>,
    ) -> Result<AckKey<F>> {
        self.post(&Operation::FetchAdd(word, add, result), Flags::default())
    }

    /// Stores `new` in a peer's 8-byte word if it holds `expected`, atomically. The old value is in `result` when the
    /// key is done.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add`](Raw::fetch_add).
    #[inline]
    pub fn compare_swap(
        &self,
        word: Target<'_, F::Remote>,
        expected: u64,
        new: u64,
        result: Local<'_, F::Memory>,
    ) -> Result<AckKey<F>> {
        let operation = Operation::CompareSwap(word, expected, new, result);
        self.post(&operation, Flags::default())
    }

    /// Posts an operation. The key is done when it has ended.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Raw::put).
    #[inline]
    pub fn post(&self, operation: &Operation<'_, F>, flags: Flags) -> Result<AckKey<F>> {
        self.thread.post(operation, flags)
    }

    /// Posts an operation and adds it to `key`.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Raw::put).
    #[inline]
    pub fn post_into(&self, operation: &Operation<'_, F>, flags: Flags, key: &mut AckKey<F>) -> Result<()> {
        self.thread.post_into(operation, flags, key)
    }

    /// Posts a put without tracking its end, which saves the completion. The promise about its source holds until a
    /// [fence](crate::fence) or a later tracked operation to the same peer is done.
    ///
    /// # Errors
    /// Returns the errors of [`put`](Raw::put).
    #[inline(always)] // see `Queues::at_once`
    pub fn post_untracked(&self, operation: &Operation<'_, F>, flags: Flags) -> Result<()> {
        self.thread.post_untracked(operation, flags)
    }
}
