//! Strict partial orders that can grow: rows of bits that stay transitively closed.

/// The most subevents of an execution.
pub const SUBEVENTS_MAX: usize = 128;

/// A transitively closed relation on at most [`SUBEVENTS_MAX`] elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Order {
    /// `after[a]`: the elements after `a`.
    after: Vec<u128>,
}

impl Order {
    /// Returns the order without pairs on `n` elements.
    pub fn empty(n: usize) -> Order {
        Order { after: vec![0; n] }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// Adds a pair without closing the order. [`Order::close`] must follow.
    pub fn put(&mut self, a: usize, b: usize) {
        self.after[a] |= 1 << b;
    }

    /// Closes the order transitively. Returns whether the result is irreflexive.
    pub fn close(&mut self) -> bool {
        for k in 0..self.after.len() {
            let row = self.after[k];
            for a in &mut self.after {
                if *a >> k & 1 == 1 {
                    *a |= row;
                }
            }
        }
        self.after.iter().enumerate().all(|(a, row)| row >> a & 1 == 0)
    }

    /// Returns whether `a` is before `b`.
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.after[a] >> b & 1 == 1
    }

    /// Returns the elements after `a`, as bits.
    pub fn after(&self, a: usize) -> u128 {
        self.after[a]
    }

    /// Adds a pair and closes the order. Returns false and changes nothing if that would close a cycle.
    pub fn add(&mut self, a: usize, b: usize) -> bool {
        if a == b || self.has(b, a) {
            return false;
        }
        if self.has(a, b) {
            return true;
        }
        let new = self.after[b] | 1 << b;
        let bit = 1 << a;
        for (x, row) in self.after.iter_mut().enumerate() {
            if x == a || *row & bit != 0 {
                *row |= new;
            }
        }
        true
    }

    /// Copies another order with the same number of elements, without allocating.
    pub fn copy_from(&mut self, other: &Order) {
        self.after.copy_from_slice(&other.after);
    }
}

/// Returns the positions of the bits that are set.
pub fn bits(mut set: u128) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        if set == 0 {
            return None;
        }
        let at = set.trailing_zeros() as usize;
        set &= set - 1;
        Some(at)
    })
}
