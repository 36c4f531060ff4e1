//! A list that grows at one end. Copies share their common beginning, because a search clones its position at
//! every choice.

use std::sync::Arc;

use crate::state::copies::share_any;

/// The number of elements of a block. More elements mean fewer allocations, and more to copy in a clone.
const BLOCK: usize = 32;

/// A persistent list. Cloning shares all but the newest elements.
#[derive(Debug)]
pub(crate) struct Trail<T> {
    before: Past<T>,
    /// The newest elements, at most a block.
    recent: Vec<T>,
}

type Past<T> = Option<Arc<Block<T>>>;

#[derive(Debug)]
struct Block<T> {
    items: Vec<T>,
    /// The number of elements up to the end of this block.
    len: usize,
    before: Past<T>,
}

impl<T: Clone> Clone for Trail<T> {
    fn clone(&self) -> Self {
        Trail {
            before: self.before.clone(),
            recent: self.recent.clone(),
        }
    }

    fn clone_from(&mut self, source: &Self) {
        share_any(&mut self.before, &source.before);
        self.recent.clone_from(&source.recent);
    }
}

impl<T> Default for Trail<T> {
    fn default() -> Self {
        Trail {
            before: None,
            recent: Vec::new(),
        }
    }
}

impl<T: Clone> Trail<T> {
    pub(crate) fn push(&mut self, item: T) {
        if self.recent.len() == BLOCK {
            let len = self.len();
            let items = std::mem::replace(&mut self.recent, Vec::with_capacity(BLOCK));
            let before = self.before.take();
            self.before = Some(Arc::new(Block { items, len, before }));
        }
        self.recent.push(item);
    }

    /// Returns the newest element.
    pub(crate) fn last(&self) -> Option<&T> {
        // The newest block is never empty, except at the beginning.
        self.recent.last()
    }

    pub(crate) fn len(&self) -> usize {
        self.before.as_ref().map_or(0, |block| block.len) + self.recent.len()
    }

    /// Returns all elements, oldest first.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        let mut blocks = vec![&self.recent];
        let mut at = &self.before;
        while let Some(block) = at {
            blocks.push(&block.items);
            at = &block.before;
        }
        blocks.into_iter().rev().flatten().cloned().collect()
    }
}

impl<T: Clone + PartialEq> Trail<T> {
    /// Returns the elements that come after those of `earlier`, if this list has grown from it or from a copy of it. The answer is
    /// `None` too if both began alike but do not share their beginning.
    pub(crate) fn since(&self, earlier: &Trail<T>) -> Option<Vec<T>> {
        let shared = earlier.before.as_ref().map_or(0, |block| block.len);
        let mut pieces = vec![&self.recent];
        let mut at = &self.before;
        while let Some(block) = at
            && block.len > shared
        {
            pieces.push(&block.items);
            at = &block.before;
        }
        let same = match (at, &earlier.before) {
            (Some(mine), Some(theirs)) => Arc::ptr_eq(mine, theirs),
            (mine, theirs) => mine.is_none() && theirs.is_none(),
        };
        let first = pieces.pop()?;
        let after = first.strip_prefix(&earlier.recent[..]).filter(|_| same)?;
        Some(
            after
                .iter()
                .chain(pieces.into_iter().rev().flatten())
                .cloned()
                .collect(),
        )
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        // Free the blocks one by one: dropping a long chain recursively would overflow the stack.
        let mut at = self.before.take();
        while let Some(block) = at {
            at = Arc::try_unwrap(block)
                .ok()
                .and_then(|mut block| block.before.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_copy_keeps_what_it_had() {
        let mut trail = Trail::default();
        let mut copies = Vec::new();
        for item in 0..100 {
            copies.push(trail.clone());
            trail.push(item);
        }
        for (len, copy) in copies.iter_mut().enumerate() {
            assert_eq!(copy.len(), len);
            assert_eq!(copy.to_vec(), (0..len).collect::<Vec<_>>());
            copy.push(1_000);
        }
        assert_eq!(trail.to_vec(), (0..100).collect::<Vec<_>>());
        trail.clone_from(&copies[40]);
        assert_eq!(trail.to_vec().last(), Some(&1_000));
    }

    #[test]
    fn what_is_new_since_a_copy_is_found() {
        let mut trail = Trail::default();
        let mut copies = vec![trail.clone()];
        for item in 0..100 {
            trail.push(item);
            copies.push(trail.clone());
        }
        for (len, copy) in copies.iter().enumerate() {
            assert_eq!(trail.since(copy), Some((len..100).collect()), "{len}");
            assert_eq!(copy.since(&trail), (len == 100).then(Vec::new), "{len}");
        }
        // Another list, from the fortieth element on.
        let mut other = copies[40].clone();
        for item in 0..100 {
            other.push(item + 1_000);
        }
        assert_eq!(other.since(&copies[40]).map(|new| new.len()), Some(100));
        for copy in &copies[41..] {
            assert_eq!(other.since(copy), None);
        }
    }

    #[test]
    fn a_long_trail_is_dropped_without_recursion() {
        let mut trail = Trail::default();
        for item in 0..3_000_000 {
            trail.push(item);
        }
        drop(trail);
    }
}
