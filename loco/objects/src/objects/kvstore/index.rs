//! A node's index, which maps each key to the place of its value.
//!
//! The index is a hash table of buckets. A bucket is one cache line and has room for three keys, so that a lookup
//! costs one cache miss and compares the three without a branch. A key whose bucket is full is in the next bucket that
//! has room. Where many keys are looked up, a call of [`touch`](Index::touch) for each of them first lets the CPU fetch
//! several buckets at a time. The hash has no random seed, so that a run under a model is repeatable.
//!
//! A bucket has one word of each key. The word of a key with an encoding of at most eight bytes, always of the same
//! length, is the encoding itself. Of other keys it is the hash, and the keys themselves are in a list beside the buckets.

use std::mem::MaybeUninit;

use loco_fabric::NodeId;
use xxhash_rust::xxh3::xxh3_64;

use super::slot::{COUNTER_BITS, Location, WORD_BYTES};
use super::value::Encode;

/// The number of keys of a bucket.
const WAYS: usize = 3;
/// The number of buckets at first. The number is always a power of two.
const BUCKETS_MIN: usize = 8;
/// An odd number without a pattern. It is not the golden ratio, by which callers may have made their keys.
const SPREAD: u64 = 0xf135_7aea_2e62_a9c5;

/// A map from keys to locations.
pub(super) struct Index<K> {
    buckets: Vec<Bucket>,
    /// The keys, where their words are hashes: those of bucket `b` from `b * WAYS`. Empty for other keys.
    keys: Vec<Option<K>>,
    len: usize,
    /// Hints that a table will be accessed in no order: [`Fabric::prefer_large_pages`](loco_fabric::Fabric::prefer_large_pages).
    prefer_large_pages: PreferLargePages,
}

type PreferLargePages = fn(&[MaybeUninit<Bucket>]);

/// The words of up to [`WAYS`] keys, and the keys' locations.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(super) struct Bucket {
    words: [u64; WAYS],
    slots: [u32; WAYS],
    counters_low: [u32; WAYS],
    counters_high: [u16; WAYS],
    nodes: [NodeId; WAYS],
    /// Bit `i` is set if the way `i` has a key.
    used: u8,
}

const _: () = assert!(size_of::<Bucket>() == 64 && COUNTER_BITS == 48);

impl Bucket {
    const EMPTY: Bucket = Bucket {
        words: [0; WAYS],
        slots: [0; WAYS],
        counters_low: [0; WAYS],
        counters_high: [0; WAYS],
        nodes: [NodeId(0); WAYS],
        used: 0,
    };
    const ALL: u8 = (1 << WAYS) - 1;

    fn is_full(&self) -> bool {
        self.used == Bucket::ALL
    }

    /// Returns the ways whose key has this word, as bits.
    #[inline]
    fn with_word(&self, word: u64) -> u8 {
        let mut ways = 0;
        for way in 0..WAYS {
            ways |= u8::from(self.words[way] == word) << way;
        }
        ways & self.used
    }

    #[inline]
    fn location(&self, way: usize) -> Location {
        Location {
            node: self.nodes[way],
            slot: self.slots[way],
            counter: u64::from(self.counters_high[way]) << 32 | u64::from(self.counters_low[way]),
        }
    }

    #[allow(clippy::cast_possible_truncation)] // The counter has 48 bits, which are cut in two here.
    fn set(&mut self, way: usize, word: u64, at: Location) {
        debug_assert_eq!(at.counter >> COUNTER_BITS, 0, "a counter has {COUNTER_BITS} bits");
        self.words[way] = word;
        self.slots[way] = at.slot;
        self.counters_low[way] = at.counter as u32;
        self.counters_high[way] = (at.counter >> 32) as u16;
        self.nodes[way] = at.node;
        self.used |= 1 << way;
    }
}

/// The place of a key in the index.
#[derive(Clone, Copy)]
struct Place {
    bucket: usize,
    way: usize,
}

impl Place {
    /// Returns the place of the key in [`Index::keys`].
    fn number(self) -> usize {
        self.bucket * WAYS + self.way
    }
}

impl<K: Encode + Eq> Index<K> {
    /// Set if the word of a key is its encoding.
    const BY_WORD: bool = matches!(K::BYTES, Some(bytes) if bytes <= WORD_BYTES);

    pub(super) fn new(prefer_large_pages: PreferLargePages) -> Index<K> {
        let mut index = Index {
            buckets: Vec::new(),
            keys: Vec::new(),
            len: 0,
            prefer_large_pages,
        };
        index.clear(BUCKETS_MIN);
        index
    }

    /// Makes the index empty, with this number of buckets.
    fn clear(&mut self, buckets: usize) {
        assert!(buckets.is_power_of_two(), "a mask finds the bucket: {buckets}");
        self.buckets = Vec::with_capacity(buckets);
        (self.prefer_large_pages)(self.buckets.spare_capacity_mut());
        self.buckets.resize(buckets, Bucket::EMPTY);
        if !Self::BY_WORD {
            self.keys = std::iter::repeat_with(|| None).take(buckets * WAYS).collect();
        }
        self.len = 0;
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline(always)] // See `places::Places`.
    pub(super) fn get(&self, key: &K) -> Option<Location> {
        let found = self.find(key, word(key))?;
        Some(self.buckets[found.bucket].location(found.way))
    }

    /// Loads from the bucket that a lookup of `key` looks at first, and returns true if it is full. No later step of
    /// the program waits for the result, so the CPU can fetch many buckets at a time.
    #[inline]
    pub(super) fn touch(&self, key: &K) -> bool {
        self.buckets[self.first(word(key))].is_full()
    }

    pub(super) fn insert(&mut self, key: K, location: Location) {
        let word = word(&key);
        if let Some(found) = self.find(&key, word) {
            self.buckets[found.bucket].set(found.way, word, location);
            return;
        }
        // Three quarters at most are in use, so that few keys are in another bucket than their first.
        if (self.len + 1) * 4 > self.buckets.len() * WAYS * 3 {
            self.grow();
        }
        self.add(word, location, (!Self::BY_WORD).then_some(key));
    }

    /// Removes `key` if it is at `location`.
    pub(super) fn remove(&mut self, key: &K, location: Location) {
        if let Some(found) = self.find(key, word(key))
            && self.buckets[found.bucket].location(found.way) == location
        {
            self.take_out(found);
        }
    }

    /// Returns the keys and their locations, in no particular order.
    pub(super) fn entries(&self) -> impl Iterator<Item = (Location, K)> {
        let ways = self.buckets.iter().enumerate().flat_map(|(at, bucket)| {
            let used = (0..WAYS).filter(move |&way| bucket.used & (1 << way) != 0);
            used.map(move |way| (bucket, Place { bucket: at, way }))
        });
        ways.filter_map(|(bucket, place)| {
            let key = if Self::BY_WORD {
                K::from_bytes(&bucket.words[place.way].to_ne_bytes()[..K::BYTES?])?
            } else {
                self.keys[place.number()].clone()?
            };
            Some((bucket.location(place.way), key))
        })
    }

    #[inline(always)]
    fn find(&self, key: &K, word: u64) -> Option<Place> {
        let mut bucket = self.first(word);
        loop {
            let at = &self.buckets[bucket];
            let mut ways = at.with_word(word);
            while ways != 0 {
                let found = Place {
                    bucket,
                    way: ways.trailing_zeros() as usize,
                };
                if Self::BY_WORD || self.keys[found.number()].as_ref() == Some(key) {
                    return Some(found);
                }
                ways &= ways - 1;
            }
            // A bucket with room always comes, because not all of them are ever full.
            if !at.is_full() {
                return None;
            }
            bucket = self.after(bucket);
        }
    }

    /// Adds a key that is absent. There is room.
    fn add(&mut self, word: u64, location: Location, key: Option<K>) {
        debug_assert!(self.len < self.buckets.len() * WAYS, "some bucket has room");
        debug_assert_eq!(
            key.is_none(),
            Self::BY_WORD,
            "a key is kept where its word does not tell it"
        );
        let mut bucket = self.first(word);
        while self.buckets[bucket].is_full() {
            bucket = self.after(bucket);
        }
        let way = (!self.buckets[bucket].used).trailing_zeros() as usize;
        self.buckets[bucket].set(way, word, location);
        if key.is_some() {
            self.keys[Place { bucket, way }.number()] = key;
        }
        self.len += 1;
    }

    /// Takes out the key at `gap`. Later keys that could not be found past the gap move into it.
    fn take_out(&mut self, mut gap: Place) {
        debug_assert!(
            self.buckets[gap.bucket].used & (1 << gap.way) != 0,
            "there is a key"
        );
        self.len -= 1;
        let mut next = gap.bucket;
        loop {
            let was_full = self.buckets[next].is_full();
            if next != gap.bucket {
                // A key whose first bucket is the gap's or before it passed the gap.
                let mask = self.buckets.len() - 1;
                let from_gap = next.wrapping_sub(gap.bucket) & mask;
                let passed = (0..WAYS).find(|&way| {
                    let (bucket, first) = (&self.buckets[next], self.first(self.buckets[next].words[way]));
                    bucket.used & (1 << way) != 0 && next.wrapping_sub(first) & mask >= from_gap
                });
                if let Some(way) = passed {
                    let moved = Place { bucket: next, way };
                    let (word, location) = (self.buckets[next].words[way], self.buckets[next].location(way));
                    self.buckets[gap.bucket].set(gap.way, word, location);
                    if !Self::BY_WORD {
                        self.keys.swap(gap.number(), moved.number());
                    }
                    gap = moved;
                }
            }
            // No key goes past a bucket with room.
            if !was_full {
                break;
            }
            next = self.after(next);
        }
        self.buckets[gap.bucket].used &= !(1 << gap.way);
        if !Self::BY_WORD {
            self.keys[gap.number()] = None;
        }
    }

    /// Returns the bucket at which a lookup of a key with this word begins. The key is in a later bucket only if this
    /// one was full.
    #[inline]
    fn first(&self, word: u64) -> usize {
        // The bits from 40 on, which depend on most bits of the word, and which spread keys in a row evenly.
        #[allow(clippy::cast_possible_truncation)] // The bits that are cut off do not matter.
        let spread = word.wrapping_mul(SPREAD).rotate_left(24) as usize;
        spread & (self.buckets.len() - 1)
    }

    #[inline]
    fn after(&self, bucket: usize) -> usize {
        (bucket + 1) & (self.buckets.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let (buckets, mut keys) = (std::mem::take(&mut self.buckets), std::mem::take(&mut self.keys));
        self.clear(buckets.len() * 2);
        for (at, bucket) in buckets.iter().enumerate() {
            for way in (0..WAYS).filter(|way| bucket.used & (1 << way) != 0) {
                let key = keys.get_mut(at * WAYS + way).and_then(Option::take);
                self.add(bucket.words[way], bucket.location(way), key);
            }
        }
    }
}

/// Returns the word of a key.
#[inline]
fn word<K: Encode + Eq>(key: &K) -> u64 {
    let bytes = key.bytes();
    if !Index::<K>::BY_WORD {
        return xxh3_64(bytes);
    }
    let mut word = [0; WORD_BYTES];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_ne_bytes(word)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::fmt::Debug;
    use std::hash::Hash;

    use proptest::prelude::*;

    use super::super::value::Bytes;
    use super::*;

    fn location(slot: u32) -> Location {
        Location {
            node: NodeId(7),
            slot,
            counter: (1 << 40) + 3,
        }
    }

    /// Compares the index with a map while keys come and go. `key` makes keys of numbers.
    fn is_a_map<K: Encode + Eq + Hash + Ord + Debug>(steps: &[(u8, u8, u32)], key: impl Fn(u8) -> K) {
        let mut index = Index::new(|_| {});
        let mut map = HashMap::new();
        for &(step, number, slot) in steps {
            let key = key(number);
            match step {
                0 | 1 => {
                    index.insert(key.clone(), location(slot));
                    map.insert(key.clone(), location(slot));
                }
                2 => {
                    index.remove(&key, location(slot));
                    if map.get(&key) == Some(&location(slot)) {
                        map.remove(&key);
                    }
                }
                _ => {
                    let _ = index.touch(&key);
                }
            }
            assert_eq!(index.get(&key), map.get(&key).copied());
            assert_eq!(index.len(), map.len());
        }
        for number in 0..=u8::MAX {
            assert_eq!(index.get(&key(number)), map.get(&key(number)).copied());
        }
        let mut keys: Vec<K> = index.entries().map(|(_, key)| key).collect();
        keys.sort_unstable();
        let mut expected: Vec<K> = map.keys().cloned().collect();
        expected.sort_unstable();
        assert_eq!(keys, expected);
    }

    /// Returns a word whose first bucket is the last one or the last but one of an index of any size, different for each
    /// number. Buckets overflow then, and run over the end.
    fn meeting(number: u8) -> u64 {
        // Odd numbers have inverses modulo powers of two; each step doubles the bits that are right.
        let step = |inverse: u64, _| inverse.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(inverse)));
        let inverse = (0..6).fold(SPREAD, step);
        let spread = u64::from(number) << 32 | 0xffff_fffe | u64::from(number % 2);
        spread.rotate_right(24).wrapping_mul(inverse)
    }

    #[test]
    fn meeting_words_meet() {
        let index = Index::<u64>::new(|_| {});
        assert_eq!(index.first(meeting(4)), BUCKETS_MIN - 2);
        assert_eq!(index.first(meeting(9)), BUCKETS_MIN - 1);
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..4_u8, any::<u8>(), 0..4_u32), 0..400)) {
            is_a_map(&steps, |number| number);
            is_a_map(&steps, |number| u64::from(number) << 40);
            is_a_map(&steps, |number| [u64::from(number), 1]);
            is_a_map(&steps, |number| Bytes(vec![number; usize::from(number)]));
        }

        #[test]
        fn it_is_a_map_where_buckets_overflow(
            steps in proptest::collection::vec((0..3_u8, 0..24_u8, 0..2_u32), 0..400),
        ) {
            is_a_map(&steps, meeting);
        }
    }
}
