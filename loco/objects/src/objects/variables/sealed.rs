//! Values of several words with a checksum, so that a reader tells a torn value from a whole one (LOCO'26 G.6, LOCO'25
//! 5.1.1). Used by [`Msw`](crate::Msw) and [`WideOwnedVar`](crate::WideOwnedVar).
//!
//! Neither CPU nor NIC moves more than a word at a time, so a reader may find words of different writes. The
//! value is whole if the checksum of its words is the one beside them. The order in which they are written
//! does not matter: a mixture that has the checksum of one write is that write, except for one chance in
//! 2^64.

use smallvec::SmallVec;
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

use loco_fabric::Memory;

use crate::Result;

/// The bytes of a word, and of the checksum.
pub(crate) const WORD_BYTES: usize = 8;

/// The bytes of a sealed value, usually few.
pub(crate) type Buffer = SmallVec<[u8; 128]>;

/// Seals and opens values of one length. A sealed value is the checksum, the data, and zeros up to a whole word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seal {
    len: usize,
    /// The checksum of a value of zeros, which is subtracted from every checksum. Fresh memory, which is
    /// zero, is therefore sealed.
    of_zeros: u64,
}

impl Seal {
    pub(crate) fn new(len: usize) -> Seal {
        // In pieces, so that the seal of a large value takes no memory.
        const PIECE: [u8; 4096] = [0; 4096];
        let (mut hash, mut left) = (Xxh3::new(), padded(len));
        while left > 0 {
            let piece = left.min(PIECE.len());
            hash.update(&PIECE[..piece]);
            left -= piece;
        }
        Seal {
            len,
            of_zeros: hash.digest(),
        }
    }

    /// Returns the length of the data in bytes.
    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Returns the bytes that a sealed value takes, in whole words.
    pub(crate) fn sealed_len(self) -> usize {
        sealed_len(self.len)
    }

    /// Seals `data`, which must have the right length.
    pub(crate) fn seal(self, data: &[u8]) -> Buffer {
        debug_assert_eq!(data.len(), self.len, "the caller has checked the length");
        let mut sealed: Buffer = SmallVec::from_elem(0, self.sealed_len());
        sealed[WORD_BYTES..WORD_BYTES + self.len].copy_from_slice(data);
        let checksum = self.checksum(&sealed[WORD_BYTES..]);
        sealed[..WORD_BYTES].copy_from_slice(&checksum.to_ne_bytes());
        sealed
    }

    /// Returns the data, if they are whole.
    pub(crate) fn open(self, sealed: &[u8]) -> Option<&[u8]> {
        debug_assert_eq!(sealed.len(), self.sealed_len(), "all words of the value");
        let (checksum, data) = sealed.split_at(WORD_BYTES);
        (checksum == self.checksum(data).to_ne_bytes()).then(|| &data[..self.len])
    }

    /// Copies a sealed value out of memory, whole or not.
    pub(crate) fn load(self, memory: &impl Memory) -> Result<Buffer> {
        let mut sealed: Buffer = SmallVec::from_elem(0, self.sealed_len());
        memory.read(0, &mut sealed)?;
        Ok(sealed)
    }

    fn checksum(self, padded: &[u8]) -> u64 {
        xxh3_64(padded) ^ self.of_zeros
    }
}

/// Returns `len` rounded up to whole words. A length beyond all memory stays one.
pub(crate) const fn padded(len: usize) -> usize {
    len.saturating_add(WORD_BYTES - 1) / WORD_BYTES * WORD_BYTES
}

/// Returns the bytes of a sealed value of `len` bytes. A length beyond all memory stays one.
pub(crate) const fn sealed_len(len: usize) -> usize {
    WORD_BYTES.saturating_add(padded(len))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_sealed_opens(data in proptest::collection::vec(any::<u8>(), 0..300)) {
            let seal = Seal::new(data.len());
            let sealed = seal.seal(&data);
            prop_assert_eq!(sealed.len(), seal.sealed_len());
            prop_assert_eq!(seal.open(&sealed), Some(&data[..]));
        }

        #[test]
        fn fresh_memory_is_a_value_of_zeros(len in 0usize..300) {
            let seal = Seal::new(len);
            let fresh = vec![0; seal.sealed_len()];
            prop_assert_eq!(seal.open(&fresh), Some(&fresh[..len]));
        }

        /// Words of two different values never pass for a value, whichever words come from which.
        #[test]
        fn mixtures_do_not_open(
            one in proptest::collection::vec(any::<u8>(), 24),
            other in proptest::collection::vec(any::<u8>(), 24),
            from_other in 1u8..15,
        ) {
            let seal = Seal::new(24);
            let (one, other) = (seal.seal(&one), seal.seal(&other));
            let mut mixture = one.clone();
            for word in (0..4).filter(|word| from_other & (1 << word) != 0) {
                let range = word * WORD_BYTES..(word + 1) * WORD_BYTES;
                mixture[range.clone()].copy_from_slice(&other[range]);
            }
            prop_assume!(mixture != one && mixture != other);
            prop_assert_eq!(seal.open(&mixture), None);
        }
    }
}
