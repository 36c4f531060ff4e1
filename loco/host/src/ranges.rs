//! The bytes of an arena that are in use. Allocation is best fit over free ranges that coalesce at once.
//!
//! This is plain bookkeeping over offsets; no memory is touched here. Used by [`arenas`](super::arenas) under
//! its lock.

use std::collections::{BTreeMap, BTreeSet};

/// The unit of offsets and lengths. It is two cache lines, so that two allocations never share a line, nor a
/// pair of lines, which processors prefetch together.
pub const GRANULE: usize = 128;

/// The free ranges of one arena.
#[derive(Debug)]
pub struct Ranges {
    /// Free ranges: offset to length. No two touch.
    by_offset: BTreeMap<usize, usize>,
    /// The free ranges as (length, offset). The best fit is the first that is long enough.
    by_len: BTreeSet<(usize, usize)>,
    /// The offset from which on nothing was ever allocated. Those bytes are as zero as the system delivered
    /// them.
    fresh: usize,
}

/// An allocated range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// The offset of the first byte.
    pub offset: usize,
    /// The number of bytes, a multiple of [`GRANULE`].
    pub len: usize,
    /// The number of bytes at the beginning that were in use before and must be zeroed.
    pub used_before: usize,
}

impl Ranges {
    /// Returns `len` bytes, all free and fresh. A remainder above a multiple of [`GRANULE`] is left out.
    pub fn new(len: usize) -> Ranges {
        let len = len / GRANULE * GRANULE;
        let mut ranges = Ranges {
            by_offset: BTreeMap::new(),
            by_len: BTreeSet::new(),
            fresh: 0,
        };
        if len > 0 {
            ranges.insert(0, len);
        }
        ranges
    }

    /// Takes at least `len` bytes (at least one granule) from the shortest free range that has them.
    pub fn allocate(&mut self, len: usize) -> Option<Range> {
        let len = len.max(1).checked_next_multiple_of(GRANULE)?;
        let &(free, offset) = self.by_len.range((len, 0)..).next()?;
        self.remove(offset, free);
        if free > len {
            self.insert(offset + len, free - len);
        }
        let used_before = self.fresh.saturating_sub(offset).min(len);
        self.fresh = self.fresh.max(offset + len);
        Some(Range {
            offset,
            len,
            used_before,
        })
    }

    /// Takes back a range that [`allocate`](Ranges::allocate) returned.
    pub fn free(&mut self, offset: usize, len: usize) {
        let (mut start, mut end) = (offset, offset + len);
        if let Some((&before, &before_len)) = self.by_offset.range(..offset).next_back() {
            debug_assert!(before + before_len <= offset, "freed twice: {offset}");
            if before + before_len == offset {
                self.remove(before, before_len);
                start = before;
            }
        }
        if let Some(&after_len) = self.by_offset.get(&end) {
            self.remove(end, after_len);
            end += after_len;
        }
        self.insert(start, end - start);
    }

    fn insert(&mut self, offset: usize, len: usize) {
        self.by_offset.insert(offset, len);
        self.by_len.insert((len, offset));
    }

    fn remove(&mut self, offset: usize, len: usize) {
        self.by_offset.remove(&offset);
        self.by_len.remove(&(len, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ARENA: usize = 64 * GRANULE;

    #[derive(Clone, Debug)]
    enum Step {
        Allocate(usize),
        /// Frees the live range at this position, modulo their number.
        Free(usize),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            (0..ARENA / 4).prop_map(Step::Allocate),
            any::<usize>().prop_map(Step::Free),
        ];
        proptest::collection::vec(step, 0..200)
    }

    proptest! {
        /// Ranges behave as a byte map does: no overlap, alignment, zeroing covers what was used, free ranges
        /// are coalesced, failure only when no free range is long enough, and everything comes back.
        #[test]
        fn ranges_behave_as_a_byte_map(steps in steps()) {
            let mut ranges = Ranges::new(ARENA + 17);
            let mut in_use = vec![false; ARENA];
            let mut ever_used = vec![false; ARENA];
            let mut live: Vec<Range> = Vec::new();
            for step in steps {
                match step {
                    Step::Allocate(len) => {
                        let longest = in_use.chunk_by(|a, b| a == b).filter(|c| !c[0]).map(<[bool]>::len).max();
                        if let Some(range) = ranges.allocate(len) {
                            prop_assert!(range.len >= len && range.offset % GRANULE == 0);
                            for at in range.offset..range.offset + range.len {
                                prop_assert!(!in_use[at], "overlap at {at}");
                                prop_assert!(!ever_used[at] || at < range.offset + range.used_before);
                                in_use[at] = true;
                                ever_used[at] = true;
                            }
                            live.push(range);
                        } else {
                            prop_assert!(longest.unwrap_or(0) < len.max(1).next_multiple_of(GRANULE));
                        }
                    }
                    Step::Free(choice) if !live.is_empty() => {
                        let range = live.swap_remove(choice % live.len());
                        ranges.free(range.offset, range.len);
                        in_use[range.offset..range.offset + range.len].fill(false);
                    }
                    Step::Free(_) => {}
                }
                let free: Vec<_> = ranges.by_offset.iter().map(|(&o, &l)| (o, l)).collect();
                prop_assert!(free.windows(2).all(|w| w[0].0 + w[0].1 < w[1].0), "not coalesced: {free:?}");
                prop_assert_eq!(free.iter().map(|f| f.1).sum::<usize>(), in_use.iter().filter(|u| !**u).count());
                prop_assert_eq!(ranges.by_len.len(), free.len());
            }
            for range in live {
                ranges.free(range.offset, range.len);
            }
            prop_assert_eq!(ranges.by_offset, BTreeMap::from([(0, ARENA)]));
        }
    }

    #[test]
    fn the_best_fit_is_taken() {
        let mut ranges = Ranges::new(ARENA);
        let wide = ranges.allocate(4 * GRANULE).unwrap();
        let _wall = ranges.allocate(1).unwrap();
        let narrow = ranges.allocate(2 * GRANULE).unwrap();
        let _wall = ranges.allocate(1).unwrap();
        ranges.free(wide.offset, wide.len);
        ranges.free(narrow.offset, narrow.len);
        let taken = ranges.allocate(2 * GRANULE).unwrap();
        assert_eq!((taken.offset, taken.used_before), (narrow.offset, 2 * GRANULE));
    }

    #[test]
    fn absurd_lengths_are_refused() {
        let mut ranges = Ranges::new(ARENA);
        assert_eq!(ranges.allocate(usize::MAX), None);
        assert_eq!(ranges.allocate(ARENA + 1), None);
        assert!(ranges.allocate(ARENA).is_some());
        assert_eq!(ranges.allocate(0), None);
    }
}
