//! A backup slot: room for two values of a slot of another node, of which one is whole at any time.
//!
//! The first word has the counter of the slot's use and the valid bit, as in the slot itself. Two *halves* follow. A half has a
//! number, a checksum, the length and the value. The checksum covers the number, the length, the value and the counter of the use, so
//! a half that is partly written, or is of an earlier use, is not whole. The whole half with the higher number counts. A writer
//! writes the other half, with the next number.
//!
//! That is so for who holds the key's lock. A read without the lock may copy one half, be overtaken by a write of that half, and copy the
//! other one in the middle of the write after that. The one half that is whole in such a copy has a value that was replaced before.
//! So a read without the lock takes the only whole half if the other one has a lower number, and is otherwise repeated under
//! the lock.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::super::slot::{WORD_BYTES, meta};
use crate::objects::variables::sealed::padded;

const CHECKSUM: usize = WORD_BYTES;
const LEN: usize = 2 * WORD_BYTES;
const VALUE: usize = 3 * WORD_BYTES;

/// Returns the bytes of a half for values of up to `value_bytes_max`.
const fn half_bytes(value_bytes_max: usize) -> usize {
    VALUE.saturating_add(padded(value_bytes_max))
}

/// Returns the bytes of a backup slot for values of up to `value_bytes_max`.
pub(super) const fn slot_bytes(value_bytes_max: usize) -> usize {
    half_bytes(value_bytes_max)
        .saturating_mul(2)
        .saturating_add(WORD_BYTES)
}

/// A copy of a backup slot, to be read for one use of it.
pub(super) struct Backup<'a> {
    bytes: &'a [u8],
    counter: u64,
}

/// Says whether a key is present, as one copy of its value tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Presence {
    /// The key is present.
    Present,
    /// The key is not present: an insert is not done, or a delete has been here.
    Absent,
    /// The slot is in a later use, so the key of this one has been deleted.
    Over,
    /// The node has no copy: the slot has not been written in this use.
    Unknown,
}

/// Returns what the first word of a backup slot says of the use `counter` of the slot that it is a copy of.
pub(super) fn presence(word: u64, counter: u64) -> Presence {
    // The valid bit is below the counter.
    if word < meta(counter, false) {
        Presence::Unknown
    } else if word == meta(counter, true) {
        Presence::Present
    } else if word == meta(counter, false) {
        Presence::Absent
    } else {
        Presence::Over
    }
}

/// A half that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Whole<'a> {
    half: usize,
    number: u64,
    value: &'a [u8],
}

/// The next write of a backup slot.
pub(super) struct Write {
    /// The offset in the slot.
    pub(super) offset: usize,
    /// The half.
    pub(super) bytes: Vec<u8>,
}

impl<'a> Backup<'a> {
    /// Takes `bytes` for a copy of a whole slot in the use `counter`. It was made word by word in any order.
    pub(super) fn new(bytes: &'a [u8], counter: u64) -> Backup<'a> {
        Backup { bytes, counter }
    }

    /// Returns what this copy says of the key.
    pub(super) fn presence(&self) -> Presence {
        presence(word(self.bytes, 0), self.counter)
    }

    /// Returns the last whole value of a slot that nobody writes, or that a lost writer left half written; `None` if neither half is whole.
    pub(super) fn value(&self) -> Option<&'a [u8]> {
        self.last().map(|whole| whole.value)
    }

    /// Returns the value of a slot that may have been written while it was copied; `None` if the copy does not tell.
    pub(super) fn value_unlocked(&self) -> Option<&'a [u8]> {
        let last = self.last()?;
        // The next value goes to the other half. It was not complete when this number was copied, if the number is not its.
        (self.number(1 - last.half) < last.number).then_some(last.value)
    }

    /// Returns the write of the next value, which leaves the last one whole.
    pub(super) fn next(&self, value: &[u8]) -> Write {
        let (half, number) = self.last().map_or((0, first_number(self.counter)), |last| {
            (1 - last.half, last.number + 1)
        });
        Write {
            offset: self.half_at(half),
            bytes: half_of(value, number, self.counter),
        }
    }

    fn half_at(&self, half: usize) -> usize {
        WORD_BYTES + half * ((self.bytes.len() - WORD_BYTES) / 2)
    }

    fn number(&self, half: usize) -> u64 {
        word(self.bytes, self.half_at(half))
    }

    fn last(&self) -> Option<Whole<'a>> {
        let halves = (0..2).filter_map(|half| self.whole(half));
        halves.max_by_key(|whole| whole.number)
    }

    fn whole(&self, half: usize) -> Option<Whole<'a>> {
        let begin = self.half_at(half);
        let bytes = &self.bytes[begin..begin + (self.bytes.len() - WORD_BYTES) / 2];
        let len = usize::try_from(word(bytes, LEN)).ok()?;
        let value = bytes.get(VALUE..VALUE.checked_add(len)?)?;
        let number = self.number(half);
        let sum = checksum(number, &bytes[LEN..half_bytes(len)], self.counter);
        // Fresh memory has no numbers.
        (number != 0 && sum == word(bytes, CHECKSUM)).then_some(Whole { half, number, value })
    }
}

/// Returns the first write of a backup slot in the use `counter`.
pub(super) fn first(value: &[u8], counter: u64) -> Write {
    Write {
        offset: WORD_BYTES,
        bytes: half_of(value, first_number(counter), counter),
    }
}

/// Returns the number of the first half of a use, which is higher than those that the earlier use has left in the other half. After four
/// billion updates of one use it may be lower; reads without the lock are then repeated under it until the first update.
fn first_number(counter: u64) -> u64 {
    (counter << u32::BITS) | 1
}

fn half_of(value: &[u8], number: u64, counter: u64) -> Vec<u8> {
    let mut out = vec![0; half_bytes(value.len())];
    out[..WORD_BYTES].copy_from_slice(&number.to_ne_bytes());
    out[LEN..VALUE].copy_from_slice(&(value.len() as u64).to_ne_bytes());
    out[VALUE..VALUE + value.len()].copy_from_slice(value);
    let sum = checksum(number, &out[LEN..], counter);
    out[CHECKSUM..LEN].copy_from_slice(&sum.to_ne_bytes());
    out
}

/// Returns the checksum of a half with this number, from the bytes of its length and value on.
fn checksum(number: u64, rest: &[u8], counter: u64) -> u64 {
    // An odd factor keeps different numbers apart.
    xxh3_64_with_seed(rest, counter ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

fn word(bytes: &[u8], offset: usize) -> u64 {
    let mut word = [0; WORD_BYTES];
    word.copy_from_slice(&bytes[offset..offset + WORD_BYTES]);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: usize = 20;

    /// Applies the words of a write that `which` chooses by their number.
    fn apply(slot: &mut [u8], write: &Write, which: impl Fn(usize) -> bool) {
        for (number, word) in write.bytes.chunks_exact(WORD_BYTES).enumerate() {
            if which(number) {
                let at = write.offset + number * WORD_BYTES;
                slot[at..at + WORD_BYTES].copy_from_slice(word);
            }
        }
    }

    fn value(slot: &[u8], counter: u64) -> Option<Vec<u8>> {
        Backup::new(slot, counter).value().map(<[u8]>::to_vec)
    }

    #[test]
    fn fresh_memory_has_no_value() {
        let slot = vec![0; slot_bytes(MAX)];
        for counter in [0, 1, 3] {
            assert_eq!(value(&slot, counter), None);
        }
    }

    #[test]
    fn the_last_of_many_values_counts() {
        let mut slot = vec![0; slot_bytes(MAX)];
        apply(&mut slot, &first(b"first", 3), |_| true);
        assert_eq!(value(&slot, 3).as_deref(), Some(&b"first"[..]));
        for len in (0..=MAX).chain([0, MAX, 1]) {
            let next = vec![len as u8; len];
            let write = Backup::new(&slot, 3).next(&next);
            apply(&mut slot, &write, |_| true);
            assert_eq!(value(&slot, 3), Some(next));
        }
    }

    /// Whatever words of a write have arrived, in whatever order, the slot has the old value or the new one.
    #[test]
    fn a_write_that_is_broken_off_leaves_a_whole_value() {
        let mut before = vec![0; slot_bytes(MAX)];
        apply(&mut before, &first(b"zeroth", 3), |_| true);
        for (old, new) in [
            (&b"old"[..], &b"new"[..]),
            (&[1; MAX], &[2; MAX]),
            (b"", &[3; MAX]),
        ] {
            let mut slot = before.clone();
            let write = Backup::new(&slot, 3).next(old);
            apply(&mut slot, &write, |_| true);
            let write = Backup::new(&slot, 3).next(new);
            let words = write.bytes.len() / WORD_BYTES;
            for arrived in 0..1_u32 << words {
                let mut slot = slot.clone();
                apply(&mut slot, &write, |word| arrived & 1 << word != 0);
                let found = value(&slot, 3);
                assert!(
                    found.as_deref() == Some(old) || found.as_deref() == Some(new),
                    "{found:?} after words {arrived:b} of {new:?} over {old:?}"
                );
                // The next writer may be broken off, too, and takes nothing away either.
                let last = Backup::new(&slot, 3).next(b"last");
                apply(&mut slot, &last, |word| word < 2);
                assert_eq!(value(&slot, 3), found, "the broken half was written again");
            }
        }
    }

    /// A read without the lock copies the halves at any two moments of a row of updates, the words of which arrive one by one. It has a
    /// value that was not replaced before the read began, or none.
    #[test]
    fn an_unlocked_read_has_no_value_that_was_replaced_before() {
        let mut slot = vec![0; slot_bytes(MAX)];
        // What an earlier use has left.
        apply(&mut slot, &first(b"old", 3), |_| true);
        for value in [&b"older"[..], b"oldest"] {
            let write = Backup::new(&slot, 3).next(value);
            apply(&mut slot, &write, |_| true);
        }
        apply(&mut slot, &first(&[0; MAX], 5), |_| true);
        // The slot after each word, with the last value that was complete by then and the last that was begun.
        let mut moments = vec![(slot.clone(), 0, 0)];
        for value in 1..=5 {
            let write = Backup::new(&slot, 5).next(&[value; MAX]);
            let words = write.bytes.len() / WORD_BYTES;
            // The number is the first word to arrive, or the last one.
            for n in 0..words {
                let word = if value % 2 == 0 { n } else { words - 1 - n };
                apply(&mut slot, &write, |at| at == word);
                moments.push((
                    slot.clone(),
                    if n + 1 == words { value } else { value - 1 },
                    value,
                ));
            }
        }
        let second = WORD_BYTES + half_bytes(MAX);
        let (mut known, mut unknown) = (0, 0);
        for (begin, (before, complete, _)) in moments.iter().enumerate() {
            for (after, _, begun) in &moments[begin..] {
                for (one, other) in [(before, after), (after, before)] {
                    let copied = [&one[..second], &other[second..]].concat();
                    let Some(found) = Backup::new(&copied, 5).value_unlocked() else {
                        unknown += 1;
                        continue;
                    };
                    known += 1;
                    assert!(
                        (complete..=begun).contains(&&found[0]),
                        "value {} of a read that began when {complete} was complete",
                        found[0]
                    );
                }
            }
        }
        assert!(known > unknown, "{known} reads tell, {unknown} do not");
        for (whole, complete, begun) in moments.iter().filter(|moment| moment.1 == moment.2) {
            let found = Backup::new(whole, 5).value_unlocked();
            assert_eq!(found, Some(&[*complete; MAX][..]), "nobody writes value {begun}");
        }
    }

    #[test]
    fn a_value_of_an_earlier_use_is_none() {
        let mut slot = vec![0; slot_bytes(MAX)];
        apply(&mut slot, &first(b"old", 3), |_| true);
        assert_eq!(value(&slot, 5), None);
        apply(&mut slot, &first(b"new", 5), |_| true);
        assert_eq!(value(&slot, 5).as_deref(), Some(&b"new"[..]));
        assert_eq!(value(&slot, 3), None);
    }

    #[test]
    fn the_valid_bit_is_of_one_use() {
        let mut slot = vec![0; slot_bytes(MAX)];
        let presence = |slot: &[u8], counter| Backup::new(slot, counter).presence();
        assert_eq!(presence(&slot, 1), Presence::Unknown, "fresh memory");
        slot[..WORD_BYTES].copy_from_slice(&meta(3, true).to_ne_bytes());
        assert_eq!(presence(&slot, 3), Presence::Present);
        assert_eq!(presence(&slot, 5), Presence::Unknown, "an earlier use");
        assert_eq!(presence(&slot, 1), Presence::Over, "a later use");
        slot[..WORD_BYTES].copy_from_slice(&meta(3, false).to_ne_bytes());
        assert_eq!(presence(&slot, 3), Presence::Absent);
        assert_eq!(presence(&slot, 5), Presence::Unknown);
    }
}
