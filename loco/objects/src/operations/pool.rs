//! A thread's pool of registered blocks, from which temporary buffers come.

use loco_fabric::{Fabric, Memory, MemoryKind};

use crate::Result;
use crate::operations::ack::AckKey;

/// The number of blocks allocated from the fabric at a time.
const SLAB_BLOCKS: usize = 16;

/// A thread's blocks.
pub(crate) struct Pool<F: Fabric> {
    free: Vec<F::Memory>,
    /// The blocks whose operation was abandoned while under way.
    kept: Vec<Kept<F>>,
}

struct Kept<F: Fabric> {
    key: AckKey<F>,
    memory: F::Memory,
    recycled: bool,
}

impl<F: Fabric> Pool<F> {
    /// Takes a block of `block_bytes`, which must be equal at each call.
    pub(crate) fn block(&mut self, fabric: &F, block_bytes: usize) -> Result<F::Memory> {
        if let Some(block) = self.free.pop() {
            return Ok(block);
        }
        let (ended, kept) = std::mem::take(&mut self.kept)
            .into_iter()
            .partition(|kept| kept.key.query());
        self.kept = kept;
        let ended: Vec<Kept<F>> = ended;
        self.free
            .extend(ended.into_iter().filter(|k| k.recycled).map(|k| k.memory));
        if let Some(block) = self.free.pop() {
            return Ok(block);
        }
        let slab = fabric.allocate(block_bytes * SLAB_BLOCKS, MemoryKind::Host)?;
        for block in 0..SLAB_BLOCKS {
            self.free.push(slab.slice(block * block_bytes, block_bytes)?);
        }
        Ok(self.free.pop().unwrap_or(slab))
    }

    /// Takes a block back that no operation uses.
    pub(crate) fn give_back(&mut self, block: F::Memory) {
        self.free.push(block);
    }

    /// Keeps memory until the operations of `key` have ended. It then becomes a free block if `recycled`.
    pub(crate) fn keep_until_done(&mut self, key: AckKey<F>, memory: F::Memory, recycled: bool) {
        self.kept.push(Kept {
            key,
            memory,
            recycled,
        });
    }
}

impl<F: Fabric> Default for Pool<F> {
    fn default() -> Self {
        Pool {
            free: Vec::new(),
            kept: Vec::new(),
        }
    }
}
