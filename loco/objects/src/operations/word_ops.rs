//! Operations on one remote word that are complete when the call returns. Atomic variables and locks are
//! built from them. The state for a wait is built only if there is something to wait for.

use loco_fabric::{Fabric, NodeId, RemoteMemory as _, Target, WordOp};

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::mem_ref::MemRef;
use crate::operations::mem_ref::Pending;
use crate::operations::operation::{Flags, Operation};
use crate::operations::thread::Thread;

const WORD_BYTES: usize = 8;

impl<F: Fabric> Thread<F> {
    /// Returns the peer's 8-byte word at `word`.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](Thread::put_inline), and those of the wait.
    ///
    /// # After a timeout
    /// Nothing has changed. Read again.
    #[inline]
    pub fn read_word(&self, word: Target<'_, F::Remote>) -> Result<u64> {
        self.word_op(word, WordOp::Get, Flags::default())
    }

    /// Returns the peer's word as [`read_word`](Thread::read_word) does, after this thread's earlier puts and atomics to that node are
    /// placed ([strong order](crate::raw::Flags::strong)).
    ///
    /// # Errors
    /// Returns the errors of [`read_word`](Thread::read_word).
    ///
    /// # After a timeout
    /// Nothing has changed. Read again.
    #[inline]
    pub fn read_word_strong(&self, word: Target<'_, F::Remote>) -> Result<u64> {
        self.word_op(word, WordOp::Get, Flags::STRONG)
    }

    /// Adds to the peer's 8-byte word atomically. Returns the old value.
    ///
    /// # Errors
    /// Returns the errors of [`put_inline`](Thread::put_inline),
    /// [`Unsupported`](crate::fabric::FabricError::Unsupported) where the fabric has no atomics, and the errors of the
    /// wait.
    ///
    /// # After a timeout
    /// The addition may be under way, and may take effect at any later time, once. Adding again may therefore add
    /// twice.
    #[inline]
    pub fn fetch_add_word(&self, word: Target<'_, F::Remote>, add: u64) -> Result<u64> {
        self.word_op(word, WordOp::FetchAdd(add), Flags::default())
    }

    /// Adds as [`fetch_add_word`](Thread::fetch_add_word) does, after this thread's earlier puts and atomics to that node are placed.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add_word`](Thread::fetch_add_word).
    ///
    /// # After a timeout
    /// See [`fetch_add_word`](Thread::fetch_add_word).
    #[inline]
    pub fn fetch_add_word_strong(&self, word: Target<'_, F::Remote>, add: u64) -> Result<u64> {
        self.word_op(word, WordOp::FetchAdd(add), Flags::STRONG)
    }

    /// Stores `new` in the peer's 8-byte word if it holds `expected`, atomically. Returns the old value
    /// either way.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add_word`](Thread::fetch_add_word).
    ///
    /// # After a timeout
    /// The operation may be under way. It may take effect at any later time, once, if the word holds `expected` then.
    #[inline]
    pub fn compare_swap_word(&self, word: Target<'_, F::Remote>, expected: u64, new: u64) -> Result<u64> {
        self.word_op(word, WordOp::CompareSwap { expected, new }, Flags::default())
    }

    /// Swaps as [`compare_swap_word`](Thread::compare_swap_word) does, after this thread's earlier puts and atomics to that node are
    /// placed.
    ///
    /// # Errors
    /// Returns the errors of [`fetch_add_word`](Thread::fetch_add_word).
    ///
    /// # After a timeout
    /// See [`compare_swap_word`](Thread::compare_swap_word).
    #[inline]
    pub fn compare_swap_word_strong(
        &self,
        word: Target<'_, F::Remote>,
        expected: u64,
        new: u64,
    ) -> Result<u64> {
        self.word_op(word, WordOp::CompareSwap { expected, new }, Flags::STRONG)
    }

    /// Does the operation at once where the fabric can. Otherwise posts it and waits for it.
    #[inline(always)] // The caller's compiler knows which operation it is.
    fn word_op(&self, word: Target<'_, F::Remote>, op: WordOp, flags: Flags) -> Result<u64> {
        if let Some(old) = self.word_at_once(&word, op)? {
            return Ok(old);
        }
        let (buffer, peer) = (self.word_ref()?, word.remote.node());
        let operation = Operation::on_word(word, op, buffer.local(0, WORD_BYTES)?);
        match self.post_seq(&operation, flags)? {
            0 => buffer.word(0),
            seq => self.wait_for_word(buffer, seq, peer),
        }
    }

    fn wait_for_word(&self, buffer: MemRef<'_, F>, seq: u64, peer: NodeId) -> Result<u64> {
        let mut key = AckKey::done();
        key.insert(self.window(), seq, peer);
        // If the wait fails, the buffer is kept until the operation has ended.
        Pending::new(key, buffer).wait()?.word(0)
    }
}
