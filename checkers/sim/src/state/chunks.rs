//! An array that grows without moving its elements. Reading takes no lock.

use std::sync::OnceLock;

const CHUNK: usize = 1 << 12;
const CHUNKS: usize = 1 << 14;

/// Elements by index. Each is made by default when its chunk is first touched. There are at most 64 Mi.
pub(crate) struct Chunks<T> {
    chunks: Box<[OnceLock<Box<[T]>>]>,
}

impl<T> Default for Chunks<T> {
    fn default() -> Self {
        Chunks {
            chunks: (0..CHUNKS).map(|_| OnceLock::new()).collect(),
        }
    }
}

impl<T: Default> Chunks<T> {
    /// Returns the element at `index`.
    ///
    /// # Panics
    /// Panics if the index is beyond the capacity. More distinct pasts than 64 Mi do not fit the memory of
    /// the machines that this code runs on.
    pub(crate) fn get(&self, index: u32) -> &T {
        let index = index as usize;
        let chunk = self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| T::default()).collect());
        &chunk[index % CHUNK]
    }
}
