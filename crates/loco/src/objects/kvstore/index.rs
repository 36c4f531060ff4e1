//! A node's index, which maps each key to the place of its value.
//!
//! The index is a hash table with open addressing and linear probing. Entries are side by side, so that a lookup
//! costs one cache miss. Where many keys are looked up, a call of [`touch`](Index::touch) for each of them
//! first lets the CPU fetch several at a time. The hash has no random seed, so that a run under a model is
//! repeatable.

use std::hash::{BuildHasher, BuildHasherDefault, Hash};

use loco_fabric::NodeId;
use rustc_hash::FxHasher;

use super::slot::Location;

/// The number of entries at first. The number is always a power of two.
const ENTRIES_MIN: usize = 16;

/// A map from keys to locations.
pub(super) struct Index<K> {
    entries: Box<[Option<Entry<K>>]>,
    len: usize,
}

/// A key and its location. The fields are spelled out so that `Option` finds room for its tag.
struct Entry<K> {
    key: K,
    counter: u64,
    slot: u32,
    node: NodeId,
    /// A field whose invalid bool values serve as the tag of `Option`.
    _used: bool,
}

impl<K> Entry<K> {
    fn new(key: K, at: Location) -> Entry<K> {
        Entry {
            key,
            counter: at.counter,
            slot: at.slot,
            node: at.node,
            _used: true,
        }
    }

    #[inline]
    fn location(&self) -> Location {
        Location {
            node: self.node,
            slot: self.slot,
            counter: self.counter,
        }
    }
}

impl<K: Hash + Eq> Index<K> {
    pub(super) fn new() -> Index<K> {
        Index {
            entries: empty(ENTRIES_MIN),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<Location> {
        let mut at = self.first(key);
        loop {
            match &self.entries[at] {
                Some(entry) if entry.key == *key => return Some(entry.location()),
                Some(_) => at = self.after(at),
                // There always is one, because the table is never full.
                None => return None,
            }
        }
    }

    /// Loads the entry that a lookup of `key` looks at first. Nothing waits for its contents.
    #[inline]
    pub(super) fn touch(&self, key: &K) -> bool {
        self.entries[self.first(key)].is_some()
    }

    pub(super) fn insert(&mut self, key: K, location: Location) {
        // The table is at most two thirds full.
        if (self.len + 1) * 3 > self.entries.len() * 2 {
            self.grow();
        }
        let mut at = self.first(&key);
        loop {
            match &mut self.entries[at] {
                Some(entry) if entry.key == key => {
                    *entry = Entry::new(key, location);
                    return;
                }
                Some(_) => at = self.after(at),
                free => {
                    *free = Some(Entry::new(key, location));
                    self.len += 1;
                    return;
                }
            }
        }
    }

    /// Removes `key` if it is at `location`.
    pub(super) fn remove(&mut self, key: &K, location: Location) {
        let mut at = self.first(key);
        loop {
            match &self.entries[at] {
                Some(entry) if entry.key == *key => {
                    if entry.location() != location {
                        return;
                    }
                    break;
                }
                Some(_) => at = self.after(at),
                None => return,
            }
        }
        self.entries[at] = None;
        self.len -= 1;
        // Later entries that could not be found past the gap move into it.
        let (mut gap, mut next) = (at, self.after(at));
        while let Some(entry) = &self.entries[next] {
            let mask = self.entries.len() - 1;
            let (from_first, from_gap) = (
                next.wrapping_sub(self.first(&entry.key)) & mask,
                next.wrapping_sub(gap) & mask,
            );
            if from_first >= from_gap {
                self.entries.swap(gap, next);
                gap = next;
            }
            next = self.after(next);
        }
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = &K> {
        self.entries.iter().flatten().map(|entry| &entry.key)
    }

    #[inline]
    fn first(&self, key: &K) -> usize {
        let hash = BuildHasherDefault::<FxHasher>::new().hash_one(key);
        // The bits that are cut off do not matter: the low bits are the good ones.
        #[allow(clippy::cast_possible_truncation)]
        let hash = hash as usize;
        hash & (self.entries.len() - 1)
    }

    #[inline]
    fn after(&self, at: usize) -> usize {
        (at + 1) & (self.entries.len() - 1)
    }

    #[cold]
    fn grow(&mut self) {
        let larger = empty(self.entries.len() * 2);
        let smaller = std::mem::replace(&mut self.entries, larger);
        self.len = 0;
        for entry in smaller.into_iter().flatten() {
            let location = entry.location();
            self.insert(entry.key, location);
        }
    }
}

fn empty<T>(len: usize) -> Box<[Option<T>]> {
    std::iter::repeat_with(|| None).take(len).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn location(slot: u32) -> Location {
        Location {
            node: NodeId(0),
            slot,
            counter: 1,
        }
    }

    #[test]
    fn an_entry_of_a_small_key_is_small() {
        assert_eq!(size_of::<Option<Entry<u64>>>(), 24);
    }

    /// A key whose hash the test chooses, so that keys collide.
    #[derive(Clone, PartialEq, Eq, Debug)]
    struct Meeting(u8);

    impl Hash for Meeting {
        fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
            (self.0 % 4).hash(state);
        }
    }

    proptest! {
        #[test]
        fn it_is_a_map(steps in proptest::collection::vec((0..3_u8, any::<u8>(), 0..4_u32), 0..400)) {
            let mut index = Index::new();
            let mut map = HashMap::new();
            for (step, key, slot) in steps {
                match step {
                    0 => {
                        index.insert(Meeting(key), location(slot));
                        map.insert(key, location(slot));
                    }
                    1 => {
                        index.remove(&Meeting(key), location(slot));
                        if map.get(&key) == Some(&location(slot)) {
                            map.remove(&key);
                        }
                    }
                    _ => {
                        let _ = index.touch(&Meeting(key));
                    }
                }
                prop_assert_eq!(index.get(&Meeting(key)), map.get(&key).copied());
                prop_assert_eq!(index.len(), map.len());
            }
            for key in 0..=u8::MAX {
                prop_assert_eq!(index.get(&Meeting(key)), map.get(&key).copied());
            }
            let mut keys: Vec<u8> = index.keys().map(|key| key.0).collect();
            keys.sort_unstable();
            let mut expected: Vec<u8> = map.keys().copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(keys, expected);
        }
    }
}
