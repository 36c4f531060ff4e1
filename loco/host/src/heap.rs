//! A node's registered memory as one mapping, made at bring-up, and the handles on it: this node's, one word of it, and a peer's.
//!
//! It is one piece, so that a place in it names a byte for every peer, and that what peers need for their access to it (keys, say) can be
//! exchanged before anything is allocated. Relies on [`crate::arenas`] and [`crate::memory`]. Used by `loco-tcp` and `loco-ofi`.

use std::ptr::NonNull;
use std::sync::Arc;

use loco_fabric::{FabricError, Memory as _, NodeId, RegionKey, RemoteMemory, Result};

use crate::HugePages;
use crate::arenas::{self, Arena as _, Arenas, Block};
use crate::memory::{ArenaCell, ArenaMemory};
use crate::pages::PrivateMapping;
use crate::span::{Span, check_aligned, check_range};

/// The mapped memory of a node.
pub struct Arena(PrivateMapping);

/// The allocator of a node's memory.
pub struct Heap {
    arena: Arc<Arena>,
    arenas: Arc<Arenas<Arena>>,
}

/// Registered memory of this node.
pub type HeapMemory = ArenaMemory<Arena>;

/// An aligned word of registered memory. Loads and stores are single instructions.
pub type HeapCell<W> = ArenaCell<Arena, W>;

/// A peer's memory: its place in the peer's one mapping.
#[derive(Clone, Debug)]
pub struct HeapRemote {
    node: NodeId,
    offset: u64,
    len: usize,
}

impl Heap {
    /// Maps `len` bytes for `node`. The configuration type named `config_name` sets the length, for error messages.
    ///
    /// # Errors
    /// Returns the error of the mapping.
    pub fn new(node: NodeId, len: usize, huge: HugePages, config_name: &'static str) -> Result<Heap> {
        let mapping = PrivateMapping::new(node, 0, len, huge)?;
        let len = mapping.len();
        Ok(Heap {
            arena: Arc::new(Arena(mapping)),
            arenas: Arenas::new(len, len, config_name),
        })
    }

    /// Returns the mapping.
    pub fn arena(&self) -> &Arc<Arena> {
        &self.arena
    }

    /// Returns all of the memory, for the operations of peers.
    pub fn whole(&self) -> Span<Arena> {
        let arena = &*self.arena;
        // SAFETY: the handle keeps the mapping.
        unsafe { Span::new(arena.start(), arena.len(), Arc::clone(&self.arena)) }
    }

    /// Allocates at least `len` zeroed bytes.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfMemory`] if there is no room.
    pub fn block(&self, len: usize) -> Result<Block<Arena>> {
        self.arenas.allocate(len, |index, _| match index {
            0 => Ok(Arc::clone(&self.arena)),
            _ => Err(FabricError::Unsupported("a second arena".to_owned())),
        })
    }

    /// Allocates `len` zeroed bytes, with the handle of a fabric's users.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfMemory`] if there is no room.
    pub fn allocate(&self, len: usize) -> Result<HeapMemory> {
        Ok(HeapMemory::new(self.block(len)?, len))
    }
}

// SAFETY: the mapping is private to the arena, unmapped with it; anonymous memory begins as zeros. This process accesses it through
// spans alone, and beside it a card that was given the mapping.
unsafe impl arenas::Arena for Arena {
    fn start(&self) -> NonNull<u8> {
        self.0.start()
    }

    fn len(&self) -> usize {
        self.0.len()
    }
}

impl HeapMemory {
    /// Returns the key by which peers name the memory. `token` is this node's in this run, by which [`HeapRemote::of_key`] knows its keys.
    pub fn key(&self, token: u32) -> RegionKey {
        RegionKey {
            arena: 0,
            address: self.place(),
            len: self.len() as u64,
            rkey: token,
        }
    }
}

impl HeapRemote {
    /// Returns the memory that `key` names in the mapping of `node`, which has `mapping_len` bytes. `token` is the node's in this run.
    ///
    /// # Errors
    /// Returns [`FabricError::Refused`] for a key of another node or run.
    pub fn of_key(node: NodeId, key: &RegionKey, token: u32, mapping_len: u64) -> Result<HeapRemote> {
        let end = key.address.checked_add(key.len);
        let len = usize::try_from(key.len).ok();
        match len.filter(|_| key.rkey == token && end.is_some_and(|end| end <= mapping_len)) {
            Some(len) => Ok(HeapRemote {
                node,
                offset: key.address,
                len,
            }),
            None => Err(FabricError::Refused(format!(
                "the region key is not one that {node} exported in this run"
            ))),
        }
    }

    /// Returns the place of `len` bytes from `offset` in the peer's mapping.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`] unless the bytes lie within the memory.
    #[inline]
    pub fn place(&self, offset: usize, len: usize) -> Result<u64> {
        check_range(offset, len, self.len)?;
        Ok(self.offset + offset as u64)
    }

    /// Returns the place of the aligned 8-byte word at `offset`. (Mappings begin at a page.)
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`] or [`FabricError::Misaligned`].
    #[inline]
    pub fn word_place(&self, offset: usize) -> Result<u64> {
        let place = self.place(offset, 8)?;
        check_aligned(place, offset, 8)?;
        Ok(place)
    }
}

impl RemoteMemory for HeapRemote {
    #[inline]
    fn node(&self) -> NodeId {
        self.node
    }

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn slice(&self, offset: usize, len: usize) -> Result<Self> {
        let offset = self.place(offset, len)?;
        Ok(HeapRemote { offset, len, ..*self })
    }
}
