//! A thread's pool of registered blocks, from which temporary buffers come.

use loco_fabric::{Fabric, Memory, MemoryKind, Result};

use crate::operations::ack::AckKey;

/// The number of blocks allocated from the fabric at a time.
pub(crate) const SLAB_BLOCKS: usize = 16;

/// A thread's blocks.
pub(crate) struct Pool<F: Fabric> {
    free: Vec<F::Memory>,
    /// The block for the result of the thread's operation on a word, once it was [set aside](Pool::set_aside). Nothing
    /// else uses it, so that such an operation finds memory whatever the program holds.
    word: Option<F::Memory>,
    /// The memory whose operation was abandoned while under way.
    kept: Vec<Kept<F>>,
}

struct Kept<F: Fabric> {
    key: AckKey<F>,
    memory: F::Memory,
    /// Set for a block of the pool. Other memory is freed.
    recycled: bool,
}

impl<F: Fabric> Pool<F> {
    /// Takes a block of `block_bytes`, which must be equal at each call.
    pub(crate) fn block(&mut self, fabric: &F, block_bytes: usize) -> Result<F::Memory> {
        if let Some(block) = self.free.pop() {
            return Ok(block);
        }
        self.free_ended();
        if let Some(block) = self.free.pop() {
            return Ok(block);
        }
        let slab = fabric.allocate(block_bytes * SLAB_BLOCKS, MemoryKind::Host)?;
        for block in 0..SLAB_BLOCKS {
            self.free.push(slab.slice(block * block_bytes, block_bytes)?);
        }
        Ok(self.free.pop().unwrap_or(slab))
    }

    /// Allocates memory that does not come from the blocks.
    pub(crate) fn large(&mut self, fabric: &F, len: usize) -> Result<F::Memory> {
        self.free_ended();
        fabric.allocate(len, MemoryKind::Host)
    }

    /// Sets a block aside for the results of operations on words, if there is none.
    pub(crate) fn set_aside(&mut self, fabric: &F, block_bytes: usize) -> Result<()> {
        if self.word.is_none() {
            self.word = Some(self.block(fabric, block_bytes)?);
        }
        Ok(())
    }

    /// Takes the block for the result of an operation on a word: the one set aside, if there is one.
    pub(crate) fn word_block(&mut self, fabric: &F, block_bytes: usize) -> Result<F::Memory> {
        match self.word.take() {
            Some(block) => Ok(block),
            None => self.block(fabric, block_bytes),
        }
    }

    /// Takes a block back that no operation uses.
    pub(crate) fn give_back(&mut self, block: F::Memory) {
        self.free.push(block);
    }

    /// Takes the block for an operation on a word back.
    pub(crate) fn give_word_back(&mut self, block: F::Memory) {
        match &self.word {
            None => self.word = Some(block),
            Some(_) => self.free.push(block),
        }
    }

    /// Keeps memory until the operations of `key` have ended. It then becomes a free block if `recycled`, and is freed
    /// otherwise.
    pub(crate) fn keep_until_done(&mut self, key: AckKey<F>, memory: F::Memory, recycled: bool) {
        self.free_ended();
        self.keep(key, memory, recycled);
    }

    /// Keeps memory as [`keep_until_done`](Pool::keep_until_done) does, and looks at no other memory's operations: for many
    /// operations in a row.
    pub(crate) fn keep(&mut self, key: AckKey<F>, memory: F::Memory, recycled: bool) {
        self.kept.push(Kept {
            key,
            memory,
            recycled,
        });
    }

    /// Frees abandoned memory whose operations have ended by now.
    #[inline]
    pub(crate) fn free_ended(&mut self) {
        if !self.kept.is_empty() {
            self.free_ended_of_kept();
        }
    }

    fn free_ended_of_kept(&mut self) {
        let (ended, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut self.kept)
            .into_iter()
            .partition(|kept| kept.key.query());
        self.kept = kept;
        self.free
            .extend(ended.into_iter().filter(|k| k.recycled).map(|k| k.memory));
    }
}

impl<F: Fabric> Default for Pool<F> {
    fn default() -> Self {
        Pool {
            free: Vec::new(),
            word: None,
            kept: Vec::new(),
        }
    }
}
