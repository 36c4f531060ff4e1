//! Binary relations on events, as bit matrices.
//!
//! Memory models are relational expressions (RDMA-TSO'24 section 4, *Notation*), and this type computes them. A row is a
//! run of 64-bit words. Nearly all litmus tests have at most 64 events and so one word for each row. Used by [`crate::models`] and
//! [`crate::explain`]. The search uses the closure of fixed width in [`crate::declarative`] instead.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A relation on the events `0..len`.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Relation {
    len: usize,
    /// Words in a row.
    stride: usize,
    /// `len` rows of `stride` words; bits at `len` and above stay 0.
    bits: Vec<u64>,
}

impl Relation {
    /// Makes the empty relation on `len` events.
    pub fn empty(len: usize) -> Relation {
        let stride = len.div_ceil(64);
        Relation {
            len,
            stride,
            bits: vec![0; len * stride],
        }
    }

    /// Makes the relation `{ (a, b) | holds(a, b) }`.
    pub fn from_fn(len: usize, mut holds: impl FnMut(usize, usize) -> bool) -> Relation {
        let mut r = Relation::empty(len);
        for a in 0..len {
            for b in 0..len {
                if holds(a, b) {
                    r.insert(a, b);
                }
            }
        }
        r
    }

    /// Makes the relation of these pairs.
    pub fn from_pairs(len: usize, pairs: impl IntoIterator<Item = (usize, usize)>) -> Relation {
        let mut r = Relation::empty(len);
        for (a, b) in pairs {
            r.insert(a, b);
        }
        r
    }

    /// Makes `[A]`, the identity on the events for which `member` holds.
    pub fn identity(len: usize, mut member: impl FnMut(usize) -> bool) -> Relation {
        Relation::from_pairs(len, (0..len).filter(|&e| member(e)).map(|e| (e, e)))
    }

    /// Returns the number of events the relation ranges over.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether no pair is related.
    pub fn is_empty(&self) -> bool {
        self.bits.iter().all(|&w| w == 0)
    }

    /// Adds `(a, b)`.
    pub fn insert(&mut self, a: usize, b: usize) {
        assert!(a < self.len && b < self.len, "event outside the relation");
        self.bits[a * self.stride + b / 64] |= 1 << (b % 64);
    }

    /// Returns whether `(a, b)` is in the relation.
    pub fn contains(&self, a: usize, b: usize) -> bool {
        debug_assert!(a < self.len && b < self.len, "event outside the relation");
        self.bits[a * self.stride + b / 64] >> (b % 64) & 1 == 1
    }

    /// Returns every pair, by row then column.
    pub fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.len).flat_map(move |a| self.successors(a).map(move |b| (a, b)))
    }

    /// Returns every `b` with `(a, b)` in the relation, ascending.
    pub fn successors(&self, a: usize) -> impl Iterator<Item = usize> + '_ {
        self.row(a).iter().enumerate().flat_map(|(w, &word)| {
            let mut rest = word;
            std::iter::from_fn(move || {
                if rest == 0 {
                    return None;
                }
                let bit = rest.trailing_zeros() as usize;
                rest &= rest - 1;
                Some(w * 64 + bit)
            })
        })
    }

    /// Returns `self ∪ other`.
    #[must_use]
    pub fn union(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a | b)
    }

    /// Returns `self ∩ other`.
    #[must_use]
    pub fn intersection(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & b)
    }

    /// Returns `self \ other`.
    #[must_use]
    pub fn minus(&self, other: &Relation) -> Relation {
        self.zip(other, |a, b| a & !b)
    }

    /// Returns the inverse, `self⁻¹`.
    #[must_use]
    pub fn inverse(&self) -> Relation {
        Relation::from_pairs(self.len, self.pairs().map(|(a, b)| (b, a)))
    }

    /// Returns the composition, `self ; other`.
    #[must_use]
    pub fn then(&self, other: &Relation) -> Relation {
        assert_eq!(self.len, other.len, "relations over different events");
        let mut result = Relation::empty(self.len);
        for a in 0..self.len {
            for c in self.successors(a) {
                for w in 0..self.stride {
                    result.bits[a * self.stride + w] |= other.bits[c * self.stride + w];
                }
            }
        }
        result
    }

    /// Returns the transitive closure, `self⁺` (Warshall's algorithm by rows).
    #[must_use]
    pub fn plus(&self) -> Relation {
        let mut r = self.clone();
        let mut via = vec![0; r.stride];
        for k in 0..r.len {
            via.copy_from_slice(r.row(k));
            for a in 0..r.len {
                if r.contains(a, k) {
                    for (w, &word) in via.iter().enumerate() {
                        r.bits[a * r.stride + w] |= word;
                    }
                }
            }
        }
        r
    }

    /// Returns whether no event is related to itself.
    pub fn is_irreflexive(&self) -> bool {
        (0..self.len).all(|a| !self.contains(a, a))
    }

    /// Returns whether `self⁺` is irreflexive.
    pub fn is_acyclic(&self) -> bool {
        self.plus().is_irreflexive()
    }

    /// Returns whether every pair of `self` is in `other`.
    pub fn is_subset(&self, other: &Relation) -> bool {
        self.minus(other).is_empty()
    }

    fn row(&self, a: usize) -> &[u64] {
        &self.bits[a * self.stride..(a + 1) * self.stride]
    }

    fn zip(&self, other: &Relation, mut op: impl FnMut(u64, u64) -> u64) -> Relation {
        assert_eq!(self.len, other.len, "relations over different events");
        let bits = self
            .bits
            .iter()
            .zip(&other.bits)
            .map(|(&a, &b)| op(a, b))
            .collect();
        Relation { bits, ..*self }
    }
}

impl fmt::Debug for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.pairs()).finish()
    }
}
