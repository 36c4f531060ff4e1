//! A transitive relation over at most 64 actions, kept closed while pairs are added.

use smallvec::SmallVec;

/// Happens-before as far as it is known: transitive and acyclic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Closure {
    /// Bit `b` of `after[a]`: `a` happens before `b`.
    after: SmallVec<[u64; 16]>,
}

impl Closure {
    /// Returns the empty relation over `count` actions.
    pub fn new(count: usize) -> Closure {
        Closure {
            after: SmallVec::from_elem(0, count),
        }
    }

    /// Returns whether `a` happens before `b`.
    #[inline]
    pub fn has(&self, a: usize, b: usize) -> bool {
        self.after[a] >> b & 1 == 1
    }

    /// Adds `a` before `b` and all that follows. Returns whether the relation is still acyclic; otherwise it is unchanged.
    #[inline]
    pub fn add(&mut self, a: usize, b: usize) -> bool {
        if a == b || self.has(b, a) {
            return false;
        }
        if self.has(a, b) {
            return true;
        }
        let gained = self.after[b] | 1 << b;
        for (x, row) in self.after.iter_mut().enumerate() {
            if x == a || *row >> a & 1 == 1 {
                *row |= gained;
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_are_closed_and_cycles_refused() {
        let mut closure = Closure::new(4);
        assert!(closure.add(0, 1) && closure.add(2, 3) && closure.add(1, 2));
        assert!(closure.has(0, 3) && !closure.has(3, 0));
        let before = closure.clone();
        assert!(!closure.add(3, 0) && !closure.add(1, 1));
        assert_eq!(closure, before);
    }
}
