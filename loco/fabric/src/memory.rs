//! Registered memory: handles on ranges of bytes and on words, of this node and of its peers. It is a part of the
//! contract ([`Fabric`](crate::Fabric)). The head of `contract.rs` describes the order of accesses.

use crate::{NodeId, Result};

/// Registered memory of this node: a cheap handle on a range of bytes.
pub trait Memory: Clone + Send + Sync + 'static {
    /// A handle on one word.
    type Cell<W: Word>: WordCell<W>;

    /// Returns the length in bytes.
    fn len(&self) -> usize;

    /// Returns true if the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns a handle on a part.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`](crate::FabricError::OutOfRange).
    fn slice(&self, offset: usize, len: usize) -> Result<Self>;

    /// Returns a handle on the word at `offset`. The range is checked here once, so that accesses need no
    /// check.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`](crate::FabricError::OutOfRange) or [`FabricError::Misaligned`](crate::FabricError::Misaligned).
    fn cell<W: Word>(&self, offset: usize) -> Result<Self::Cell<W>>;

    /// Loads the word of 8 bytes at `offset` as [`WordCell::load`] does, for callers that need no handle on the word.
    ///
    /// # Errors
    /// Returns the errors of [`cell`](Memory::cell).
    #[inline]
    fn load_word(&self, offset: usize) -> Result<u64> {
        Ok(self.cell::<u64>(offset)?.load())
    }

    /// Copies out `out.len()` bytes. Aligned 8-byte words within do not tear. Nothing else is promised: words
    /// have no order.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`](crate::FabricError::OutOfRange).
    fn read(&self, offset: usize, out: &mut [u8]) -> Result<()>;

    /// Copies in `data`. Aligned 8-byte words within do not tear. The stores are not ordered among
    /// themselves, but precede (TSO) later word stores of this thread.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`](crate::FabricError::OutOfRange).
    fn write(&self, offset: usize, data: &[u8]) -> Result<()>;

    /// Hints that the bytes from `offset` will be read soon. It promises nothing: neither order nor a check.
    #[inline]
    fn prefetch(&self, _offset: usize) {}

    /// Hints that the bytes from `offset` will be written soon. It promises nothing.
    #[inline]
    fn prefetch_write(&self, _offset: usize) {}

    /// Hints that the line of `offset` be dropped from the caches, for tests and measurements with cold caches. It
    /// promises nothing.
    #[inline]
    fn evict(&self, _offset: usize) {}
}

/// An aligned word of registered memory.
pub trait WordCell<W: Word>: Clone + Send + Sync + 'static {
    /// Loads the word, before every later access of this thread.
    fn load(&self) -> W;
    /// Stores the word, after every earlier access of this thread and before its later stores. A later load
    /// may overtake it.
    fn store(&self, value: W);
    /// Stores the word and executes a full fence: before every later access of this thread.
    fn store_fence(&self, value: W);
    /// Executes a CPU compare-and-swap, which is a full fence whether it succeeds or not. Returns the old
    /// value.
    ///
    /// # Errors
    /// Returns the value found, if it was not `current`.
    fn compare_exchange(&self, current: W, new: W) -> Result<W, W>;
    /// Executes a CPU fetch-and-add with wrap-around, which is a full fence. Returns the old value.
    fn fetch_add(&self, add: W) -> W {
        let mut old = self.load(); // a guess, which the exchange checks
        let sum = |old: W| W::from_u64(old.to_u64().wrapping_add(add.to_u64()));
        while let Err(found) = self.compare_exchange(old, sum(old)) {
            old = found;
        }
        old
    }
}

/// A word that registered memory can hold without tearing.
pub trait Word: Copy + Eq + Send + Sync + std::fmt::Debug + Default + sealed::Sealed + 'static {
    /// The size and alignment in bytes.
    const BYTES: usize;
    /// Extends the word with zeros.
    fn to_u64(self) -> u64;
    /// Truncates the value.
    fn from_u64(value: u64) -> Self;
}

mod sealed {
    /// Seals [`Word`](super::Word): the word types are fixed, with 1, 2, 4 and 8 bytes.
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

/// A peer's registered memory.
pub trait RemoteMemory: Clone + Send + Sync + 'static {
    /// Returns the node that has the memory.
    fn node(&self) -> NodeId;
    /// Returns the length in bytes.
    fn len(&self) -> usize;
    /// Returns true if the length is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Returns a handle on a part.
    ///
    /// # Errors
    /// Returns [`FabricError::OutOfRange`](crate::FabricError::OutOfRange).
    fn slice(&self, offset: usize, len: usize) -> Result<Self>;
    /// Hints that the bytes from `offset` will be read soon. It promises nothing: neither order nor a check.
    #[inline]
    fn prefetch(&self, _offset: usize) {}

    /// Hints that the bytes from `offset` will be written soon. It promises nothing.
    #[inline]
    fn prefetch_write(&self, _offset: usize) {}
}
