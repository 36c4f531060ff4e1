//! A list that grows at one end and shares its past: positions of a search are cloned at every move.

use std::sync::Arc;

/// A persistent list. Cloning shares; pushing adds one element.
#[derive(Debug)]
pub(crate) struct Trail<T> {
    last: Option<Arc<Link<T>>>,
}

#[derive(Debug)]
struct Link<T> {
    item: T,
    len: usize,
    before: Trail<T>,
}

impl<T> Clone for Trail<T> {
    fn clone(&self) -> Self {
        Trail {
            last: self.last.clone(),
        }
    }
}

impl<T> Default for Trail<T> {
    fn default() -> Self {
        Trail { last: None }
    }
}

impl<T: Clone> Trail<T> {
    pub(crate) fn push(&mut self, item: T) {
        let before = std::mem::take(self);
        let len = before.len() + 1;
        self.last = Some(Arc::new(Link { item, len, before }));
    }

    pub(crate) fn len(&self) -> usize {
        self.last.as_ref().map_or(0, |link| link.len)
    }

    /// Oldest first.
    pub(crate) fn to_vec(&self) -> Vec<T> {
        let mut items = Vec::with_capacity(self.len());
        let mut at = &self.last;
        while let Some(link) = at {
            items.push(link.item.clone());
            at = &link.before.last;
        }
        items.reverse();
        items
    }
}

impl<T> Drop for Trail<T> {
    fn drop(&mut self) {
        // One by one: a long chain must not be dropped recursively.
        let mut at = self.last.take();
        while let Some(link) = at {
            at = Arc::try_unwrap(link)
                .ok()
                .and_then(|mut link| link.before.last.take());
        }
    }
}
