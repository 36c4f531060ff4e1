//! Where records lie in the ring. Pure arithmetic, shared by writer and readers.

/// Bytes of a word, of a record's header and of a position.
pub(super) const WORD_BYTES: usize = 8;

/// Bytes that a message of `len` bytes takes: header, message, zeros up to a whole word.
pub(super) const fn record_bytes(len: usize) -> usize {
    WORD_BYTES + len.next_multiple_of(WORD_BYTES)
}

/// A place in the ring: how many bytes came before since the beginning, and where that is in the ring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Bytes since the beginning.
    pub(super) position: u64,
    /// Offset in the ring: the position modulo the capacity.
    pub(super) offset: usize,
    capacity: usize,
}

impl Place {
    /// The beginning of a ring of `capacity` bytes.
    pub(super) fn start(capacity: usize) -> Place {
        Place {
            position: 0,
            offset: 0,
            capacity,
        }
    }

    /// `bytes` later, which are at most the capacity.
    #[inline]
    pub(super) fn plus(self, bytes: usize) -> Place {
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

    /// How `bytes` from here lie in the ring: this many up to its end, the rest from its start.
    #[inline]
    pub(super) fn before_end(self, bytes: usize) -> usize {
        bytes.min(self.capacity - self.offset)
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

    #[test]
    fn records_are_whole_words() {
        assert_eq!([0, 1, 8, 9, 64].map(record_bytes), [8, 16, 16, 24, 72]);
    }
}
