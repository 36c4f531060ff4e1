//! Computes the places of records in the ring. It is pure arithmetic, shared by writer and readers.

/// The bytes of a word, of a record's header and of a position.
pub(super) const WORD_BYTES: usize = 8;

/// The header of a place without a record.
pub(super) const NO_RECORD: u64 = 0;

/// Returns the bytes that a message of `len` bytes takes: header, message, zeros up to a whole word. A length beyond all
/// memory stays one.
pub(super) const fn record_bytes(len: usize) -> usize {
    (len.saturating_add(2 * WORD_BYTES - 1)) / WORD_BYTES * WORD_BYTES
}

/// Returns the header of the record of a message of `len` bytes: `len` plus one, so that no record has the header
/// [`NO_RECORD`].
pub(super) const fn header(len: usize) -> u64 {
    debug_assert!(len < usize::MAX, "a message that fits into a ring");
    len as u64 + 1
}

/// Returns the bytes of the message whose record has this header.
pub(super) fn message_bytes(header: u64) -> usize {
    debug_assert_ne!(header, NO_RECORD, "only a record has a length");
    usize::try_from(header.wrapping_sub(1)).unwrap_or(usize::MAX)
}

/// A place in the ring: the number of bytes before it since the beginning, and its offset in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// The bytes since the beginning.
    pub(super) position: u64,
    /// The offset in the ring, which is the position modulo the capacity.
    pub(super) offset: usize,
    capacity: usize,
}

impl Place {
    /// Returns the first place of a ring that takes `capacity` bytes of memory.
    pub(super) fn start(capacity: usize) -> Place {
        assert!(
            capacity >= WORD_BYTES && capacity.is_multiple_of(WORD_BYTES),
            "a ring has whole words: {capacity} bytes"
        );
        Place {
            position: 0,
            offset: 0,
            capacity,
        }
    }

    /// Returns the place `bytes` later. `bytes` must be at most the capacity.
    #[inline]
    pub(super) fn plus(self, bytes: usize) -> Place {
        debug_assert!(
            bytes <= self.capacity,
            "{bytes} bytes of a ring of {}",
            self.capacity
        );
        let offset = self.offset + bytes;
        Place {
            position: self.position + bytes as u64,
            offset: if offset >= self.capacity {
                offset - self.capacity
            } else {
                offset
            },
            capacity: self.capacity,
        }
    }

    /// Returns how many of the `bytes` from here lie before the end of the ring. The rest lies at its start.
    #[inline]
    pub(super) fn before_end(self, bytes: usize) -> usize {
        debug_assert!(self.offset < self.capacity, "a place is within the ring");
        bytes.min(self.capacity - self.offset)
    }

    /// Cuts `data`, which begin at this place, where the ring ends. Returns the two parts, each with its offset. The
    /// second part is at the start of the ring and may be empty.
    #[inline]
    pub(super) fn cut(self, data: &[u8]) -> [(usize, &[u8]); 2] {
        debug_assert!(data.len() <= self.capacity, "data go round at most once");
        let (front, rest) = data.split_at(self.before_end(data.len()));
        [(self.offset, front), (0, rest)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn places_follow_positions(words in 1usize..20, steps in proptest::collection::vec(0usize..20, 0..50)) {
            let capacity = words * WORD_BYTES;
            let mut place = Place::start(capacity);
            for step in steps {
                let bytes = (step * WORD_BYTES).min(capacity);
                prop_assert_eq!(place.position % capacity as u64, place.offset as u64);
                let first = place.before_end(bytes);
                prop_assert!(place.offset + first <= capacity && bytes - first <= place.offset);
                place = place.plus(bytes);
            }
        }
    }

    #[cfg(debug_assertions)]
    #[test]
    fn places_that_no_ring_has_are_noticed() {
        let fails = |what: fn() -> Place| std::panic::catch_unwind(what).is_err();
        assert!(fails(|| Place::start(0)) && fails(|| Place::start(12)));
        assert!(fails(|| Place::start(16).plus(24)), "a step is at most the ring");
        assert!(!fails(|| Place::start(16).plus(16)));
    }

    #[test]
    fn records_are_whole_words() {
        assert_eq!([0, 1, 8, 9, 64].map(record_bytes), [8, 16, 16, 24, 72]);
        assert_eq!(record_bytes(usize::MAX), usize::MAX / WORD_BYTES * WORD_BYTES);
    }
}
