//! A slot: the place of one value. A reader can tell whether it has the value that it looked for.
//!
//! The words of a slot are the counter and valid bit; the checksum; the length in bytes; and the value,
//! filled up to a whole word. The checksum covers the counter, the length and the value. Words of different
//! values, or of the same slot in different uses, therefore never pass for one value. The checksum does not
//! cover the valid bit, which changes alone.

use smallvec::SmallVec;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::objects::variables::sealed::padded;

pub(super) const WORD_BYTES: usize = 8;
/// The offset of the part that an update writes: all but counter and valid bit.
pub(super) const BODY: usize = WORD_BYTES;
const LEN: usize = 2 * WORD_BYTES;
const VALUE: usize = 3 * WORD_BYTES;

/// The bits of a counter. After 2^47 uses the counter of a slot has run out, and the slot is not used again.
pub(super) const COUNTER_BITS: u32 = 48;
const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;

// Counter and valid bit share a word, the body follows it, and the value follows the length.
const _: () = assert!(
    COUNTER_BITS < u64::BITS && BODY == WORD_BYTES && LEN == BODY + WORD_BYTES && VALUE == LEN + WORD_BYTES
);

/// Returns the bytes of a slot for values of up to `value_bytes_max`.
pub(super) const fn slot_bytes(value_bytes_max: usize) -> usize {
    VALUE.saturating_add(padded(value_bytes_max))
}

/// Returns the first word of a slot.
pub(super) const fn meta(counter: u64, valid: bool) -> u64 {
    debug_assert!(counter <= COUNTER_MAX, "the slot is used no more before that");
    (counter << 1) | valid as u64
}

/// The place of a key's value, as recorded in the indices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Location {
    pub(super) node: loco_fabric::NodeId,
    pub(super) slot: u32,
    /// The counter of the slot's use. It is higher in each later use.
    pub(super) counter: u64,
}

/// The result of reading a slot.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found<'a> {
    /// The value.
    Value(&'a [u8]),
    /// An insert is not done yet, or a delete is done.
    Invalid,
    /// The slot is in another use: the index was out of date.
    Reused,
    /// The words are of different writes.
    Torn,
    /// The value has this length, and the copy has only its beginning.
    Longer(usize),
}

/// The contents of a slot except its first word.
pub(super) type Body = SmallVec<[u8; 128]>;

/// Returns the body of a slot for `value` in use `counter`.
pub(super) fn body(value: &[u8], counter: u64) -> Body {
    let mut out = Body::new();
    out.resize(slot_bytes(value.len()) - BODY, 0);
    out[LEN - BODY..VALUE - BODY].copy_from_slice(&(value.len() as u64).to_ne_bytes());
    out[VALUE - BODY..VALUE - BODY + value.len()].copy_from_slice(value);
    let checksum = xxh3_64_with_seed(&out[LEN - BODY..], counter);
    out[..WORD_BYTES].copy_from_slice(&checksum.to_ne_bytes());
    out
}

/// Reads a copy of a slot, or of its beginning, for the use `counter`. The copy was made word by word in any
/// order.
#[inline(always)] // Of a copy whose length the compiler knows.
pub(super) fn open(slot: &[u8], counter: u64, value_bytes_max: usize) -> Found<'_> {
    let first = word(slot, 0);
    if first >> 1 != counter {
        return Found::Reused;
    }
    if first & 1 == 0 {
        return Found::Invalid;
    }
    let Some(len) = usize::try_from(word(slot, LEN))
        .ok()
        .filter(|&len| len <= value_bytes_max)
    else {
        return Found::Torn;
    };
    if slot_bytes(len) > slot.len() {
        return Found::Longer(len);
    }
    if xxh3_64_with_seed(&slot[LEN..VALUE + padded(len)], counter) != word(slot, BODY) {
        return Found::Torn;
    }
    Found::Value(&slot[VALUE..VALUE + len])
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; WORD_BYTES];
    word.copy_from_slice(&bytes[offset..offset + WORD_BYTES]);
    u64::from_ne_bytes(word)
}

/// This node's slots: the free ones, and the use of each.
pub(super) struct Slots {
    free: Vec<u32>,
    /// Twice the number of uses so far, less one while the slot is in use.
    uses: Vec<u64>,
}

impl Slots {
    pub(super) fn new(slots: u32) -> Slots {
        Slots {
            free: (0..slots).rev().collect(),
            uses: vec![0; slots as usize],
        }
    }

    /// Returns a free slot and the counter of its new use.
    pub(super) fn take(&mut self) -> Option<(u32, u64)> {
        let slot = self.free.pop()?;
        self.uses[slot as usize] += 1;
        debug_assert!(
            !self.uses[slot as usize].is_multiple_of(2),
            "a slot in use has an odd count"
        );
        Some((slot, self.uses[slot as usize]))
    }

    /// Ends the use `counter` of `slot`. Must be called once for each use.
    pub(super) fn free(&mut self, slot: u32, counter: u64) {
        if let Some(uses) = self.uses.get_mut(slot as usize)
            && *uses == counter
        {
            *uses += 1;
            if *uses < COUNTER_MAX {
                self.free.push(slot);
            }
        }
    }

    pub(super) fn free_count(&self) -> usize {
        self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slot(value: &[u8], counter: u64, valid: bool) -> Vec<u8> {
        let mut slot = meta(counter, valid).to_ne_bytes().to_vec();
        slot.extend(body(value, counter));
        slot.resize(slot_bytes(64), 0xaa);
        slot
    }

    #[test]
    fn a_slot_tells_what_it_is() {
        for value in [&b""[..], b"abc", &[7; 64]] {
            assert_eq!(open(&slot(value, 3, true), 3, 64), Found::Value(value));
            assert_eq!(open(&slot(value, 3, false), 3, 64), Found::Invalid);
            assert_eq!(open(&slot(value, 5, true), 3, 64), Found::Reused);
        }
    }

    #[test]
    fn the_beginning_of_a_longer_value_says_how_long_it_is() {
        let whole = slot(&[7; 40], 3, true);
        assert_eq!(open(&whole[..slot_bytes(8)], 3, 64), Found::Longer(40));
        assert_eq!(
            open(&whole[..slot_bytes(8)], 3, 32),
            Found::Torn,
            "no value is that long"
        );
        assert_eq!(open(&whole[..slot_bytes(40)], 3, 64), Found::Value(&[7; 40]));
    }

    #[test]
    fn mixtures_are_torn() {
        let (one, other) = (slot(&[1; 24], 3, true), slot(&[2; 24], 3, true));
        let words = slot_bytes(24) / WORD_BYTES;
        for from_other in 1..(1u32 << (words - 1)) - 1 {
            let mut mixture = one.clone();
            // The first word and the length are the same in both, so they are not mixed.
            for w in (1..words).filter(|&w| w != 2 && from_other & (1 << (w - 1)) != 0) {
                mixture[w * 8..w * 8 + 8].copy_from_slice(&other[w * 8..w * 8 + 8]);
            }
            if mixture != one && mixture != other {
                assert_eq!(open(&mixture, 3, 64), Found::Torn);
            }
        }
    }

    #[test]
    fn the_value_of_a_later_use_does_not_pass_for_this_one() {
        // The first word was read before the slot was used again, and the rest after it.
        let mut mixture = slot(b"abc", 5, true);
        mixture[..8].copy_from_slice(&meta(3, true).to_ne_bytes());
        assert_eq!(open(&mixture, 3, 64), Found::Torn);
    }

    #[test]
    fn slots_are_freed_once() {
        let mut slots = Slots::new(1);
        let (slot, counter) = slots.take().expect("one is free");
        assert_eq!(slots.take(), None);
        slots.free(slot, counter);
        slots.free(slot, counter);
        assert_eq!(slots.free_count(), 1);
        let (again, later) = slots.take().expect("it was freed");
        assert_eq!(again, slot);
        assert!(later > counter);
    }

    #[test]
    fn a_slot_whose_counter_has_run_out_is_not_used_again() {
        let mut slots = Slots::new(1);
        slots.uses[0] = COUNTER_MAX - 3;
        let (slot, counter) = slots.take().expect("one is free");
        slots.free(slot, counter);
        let (slot, counter) = slots.take().expect("it has one more use");
        assert!(counter >> COUNTER_BITS == 0);
        slots.free(slot, counter);
        assert_eq!(slots.take(), None);
    }
}
