//! A strict partial order that grows by one edge at a time and refuses cycles.
//!
//! The transitive closure is kept as a bit matrix of `W` words a row, so that asking whether two points are ordered is one
//! bit test and adding an edge is a few word operations a row. The search copies it at every branch.

/// A transitively closed, irreflexive relation on the points `0..n`, for `n` up to `64 * W`.
#[derive(Clone, Debug)]
pub(crate) struct PartialOrder<const W: usize> {
    rows: Vec<[u64; W]>,
}

impl<const W: usize> PartialOrder<W> {
    /// Makes the empty order on `n` points.
    pub(crate) fn new(n: usize) -> PartialOrder<W> {
        debug_assert!(n <= 64 * W, "more points than the rows hold");
        PartialOrder {
            rows: vec![[0; W]; n],
        }
    }

    /// Returns the number of points.
    pub(crate) fn len(&self) -> usize {
        self.rows.len()
    }

    /// Returns whether `a` is before `b`.
    #[inline]
    pub(crate) fn before(&self, a: u16, b: u16) -> bool {
        self.rows[usize::from(a)][usize::from(b / 64)] >> (b % 64) & 1 == 1
    }

    /// Orders `a` before `b` and closes the order transitively. Returns false and changes nothing if that would close a cycle.
    #[must_use]
    pub(crate) fn add(&mut self, a: u16, b: u16) -> bool {
        if a == b || self.before(b, a) {
            return false;
        }
        if self.before(a, b) {
            return true;
        }
        let mut after = self.rows[usize::from(b)];
        after[usize::from(b / 64)] |= 1 << (b % 64);
        let (word, bit) = (usize::from(a / 64), a % 64);
        for (x, row) in self.rows.iter_mut().enumerate() {
            if row[word] >> bit & 1 == 1 || x == usize::from(a) {
                for w in 0..W {
                    row[w] |= after[w];
                }
            }
        }
        true
    }

    /// Makes `self` equal to `other`, reusing its memory.
    pub(crate) fn copy_from(&mut self, other: &PartialOrder<W>) {
        self.rows.clone_from(&other.rows);
    }

    /// Extends this order to a total order of the points. Among the points that may come next, the least index comes first.
    pub(crate) fn linear_extension(&self) -> Vec<u16> {
        let n = self.len();
        let mut placed = vec![false; n];
        let mut line = Vec::with_capacity(n);
        while line.len() < n {
            // The order is irreflexive and transitive, so some unplaced point has no unplaced predecessor.
            let next =
                (0..n).find(|&p| !placed[p] && (0..n).all(|q| placed[q] || !self.before(q as u16, p as u16)));
            let Some(next) = next else {
                unreachable!("a finite strict partial order has a minimum");
            };
            placed[next] = true;
            line.push(next as u16);
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_edges_keeps_the_closure_and_refuses_cycles() {
        let mut order = PartialOrder::<2>::new(100);
        assert!(order.add(0, 70) && order.add(70, 99) && order.add(3, 0));
        assert!(order.before(3, 99) && !order.before(99, 3));
        assert!(!order.add(99, 3) && !order.add(5, 5));
        let line = order.linear_extension();
        let at = |p: u16| line.iter().position(|&x| x == p);
        assert!(at(3) < at(0) && at(0) < at(70) && at(70) < at(99));
    }
}
