//! A block of a thread's pool with the operations under way on it, for calls that go on later.
//!
//! A [`MemRef`](crate::MemRef) borrows its thread until its operation is over. A block does not, so that a thread can keep what it has
//! under way beside itself ([`under_way`](super::under_way)). Each of its methods takes the thread that it came from.
//!
//! Relies on the pool. Used by the operations on words that are begun (`words`), and by the ticket lock.

use std::ops::Range;

use loco_fabric::{Fabric, Local, Memory, Target, WordOp};

use crate::Result;
use crate::operations::ack::AckKey;
use crate::operations::operation::{Flags, Operation};
use crate::operations::thread::Thread;

/// A block of a thread's pool. It goes back by [`give_back`](Block::give_back); if it is dropped, its memory is not used again.
pub(crate) struct Block<F: Fabric> {
    memory: F::Memory,
    /// The operations that use it.
    key: AckKey<F>,
    /// Set if it goes back to the pool. Other memory is freed.
    recycled: bool,
}

impl<F: Fabric> Block<F> {
    /// Takes a block of `len` bytes at least, from the thread's pool if its blocks are as long.
    ///
    /// # Errors
    /// Returns `OutOfMemory`.
    pub(crate) fn take(thread: &Thread<F>, len: usize) -> Result<Block<F>> {
        let block_bytes = thread.network().block_bytes();
        let recycled = len <= block_bytes;
        let mut pool = thread.pool().borrow_mut();
        let memory = match recycled {
            true => pool.block(thread.fabric(), block_bytes)?,
            false => pool.large(thread.fabric(), len)?,
        };
        Ok(Block {
            memory,
            key: AckKey::done(),
            recycled,
        })
    }

    /// Gives the block back to the pool of its thread, now or when its operations have ended.
    pub(crate) fn give_back(self, thread: &Thread<F>) {
        let mut pool = thread.pool().borrow_mut();
        match self.key.query() {
            true if self.recycled => pool.give_back(self.memory),
            true => {}
            false => pool.keep_until_done(self.key, self.memory, self.recycled),
        }
    }

    /// Returns the 8-byte word at `offset`.
    ///
    /// # Errors
    /// Returns `OutOfRange`.
    pub(crate) fn word(&self, offset: usize) -> Result<u64> {
        let mut word = [0; 8];
        self.memory.read(offset, &mut word)?;
        Ok(u64::from_ne_bytes(word))
    }

    /// Sets the 8-byte word at `offset`, as if an operation had left it there. No operation is under way.
    ///
    /// # Errors
    /// Returns `OutOfRange`.
    pub(crate) fn set_word(&mut self, offset: usize, value: u64) -> Result<()> {
        self.key = AckKey::done();
        Ok(self.memory.write(offset, &value.to_ne_bytes())?)
    }

    /// Begins an operation on the peer's word, whose old value the first word of the block gets. No other operation is under way.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    pub(crate) fn word_op(
        &mut self,
        thread: &Thread<F>,
        word: Target<'_, F::Remote>,
        op: WordOp,
        flags: Flags,
    ) -> Result<()> {
        self.key = AckKey::done();
        let result = Local {
            memory: &self.memory,
            offset: 0,
            len: size_of::<u64>(),
        };
        thread.post_into(&Operation::on_word(word, op, result), flags, &mut self.key)
    }

    /// Begins to fill the bytes `into` from `src`, beside what is under way.
    ///
    /// # Errors
    /// Returns the errors of [`Thread::put_inline`].
    pub(crate) fn get_also(
        &mut self,
        thread: &Thread<F>,
        into: Range<usize>,
        src: Target<'_, F::Remote>,
    ) -> Result<()> {
        let into = Local {
            memory: &self.memory,
            offset: into.start,
            len: into.len(),
        };
        thread.post_into(&Operation::Get(into, src), Flags::default(), &mut self.key)
    }

    /// Returns the operations that use the block.
    pub(crate) fn key(&self) -> AckKey<F> {
        self.key.clone()
    }

    /// Returns true when no operation uses the block. Polls nothing.
    pub(crate) fn query(&self) -> bool {
        self.key.query()
    }

    /// Returns `None` while an operation is under way. After that, returns `Ok`, or the first failure among the operations.
    pub(crate) fn ended(&self, thread: &Thread<F>) -> Option<Result<()>> {
        let outcome = self.key.outcome()?;
        Some(outcome.map_err(|error| thread.operations_failed(self.key.peers(), error)))
    }

    /// Returns `None` while the operation is under way. After that, returns the first word of the block, or the operation's failure.
    pub(crate) fn result(&self, thread: &Thread<F>) -> Option<Result<u64>> {
        Some(self.ended(thread)?.and_then(|()| self.word(0)))
    }

    /// Waits until no operation uses the block, for the thread's deadline at most. How they ended says [`ended`](Block::ended).
    ///
    /// # Errors
    /// Returns `Timeout`, and the errors of a fabric that is broken.
    pub(crate) fn wait(&self, thread: &Thread<F>) -> Result<()> {
        match self.key.wait_for_ends(thread, Some(thread.deadline())) {
            Err(error) if !self.key.query() => Err(error),
            _ => Ok(()),
        }
    }
}
