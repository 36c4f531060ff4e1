//! An array that grows without moving: reading takes no lock.

use std::sync::OnceLock;

const CHUNK: usize = 1 << 12;
const CHUNKS: usize = 1 << 14;

/// Elements by index, each made by default when its chunk is first touched. At most 64 Mi.
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
    /// The element at `index`.
    ///
    /// # Panics
    /// Beyond the capacity: 64 Mi distinct pasts do not fit the memory of the machines this runs on.
    pub(crate) fn get(&self, index: u32) -> &T {
        let index = index as usize;
        let chunk = self.chunks[index / CHUNK].get_or_init(|| (0..CHUNK).map(|_| T::default()).collect());
        &chunk[index % CHUNK]
    }
}
