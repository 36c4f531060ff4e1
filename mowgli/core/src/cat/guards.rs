//! Finds which decisions of the search put an edge straight into a closure that must stay irreflexive.
//!
//! If the closure orders two events the other way, such a decision is ruled out before it is made.

use super::graph::{NodeId, Op};
use super::matrix::{Row, Slots, chosen, has, insert};
use super::{ModelFile, plan};

/// A closure that must stay irreflexive, and for each chosen relation the pairs that it takes over.
pub(super) struct Guard<const W: usize> {
    pub(super) closure: usize,
    pub(super) masks: [Vec<Row<W>>; 5],
}

impl<const W: usize> Guard<W> {
    /// Makes the guard of a planned closure for executions of `n` events. `slots` have the values of what is fixed.
    pub(super) fn new(planned: &plan::Guard, model: &ModelFile, slots: &Slots<W>, n: usize) -> Guard<W> {
        let none = || vec![[0; W]; n];
        let mut masks = [none(), none(), none(), none(), none()];
        let mut all = [0; W];
        (0..n).for_each(|e| insert(&mut all, e));
        let reader = Reader { model, slots };
        reader.taken_over(planned.expr, vec![all; n], &mut masks);
        Guard {
            closure: planned.closure,
            masks,
        }
    }
}

/// Reads off an expression which pairs it takes over.
struct Reader<'m, const W: usize> {
    model: &'m ModelFile,
    slots: &'m Slots<W>,
}

impl<const W: usize> Reader<'_, W> {
    /// Finds the pairs of chosen relations that are pairs of an expression by themselves, and adds them to the masks.
    fn taken_over(&self, id: NodeId, allowed: Vec<Row<W>>, masks: &mut [Vec<Row<W>>; 5]) {
        let graph = &self.model.graph;
        let fixed = |id: NodeId| self.model.flags.fixed[id.index()];
        let rows = |id: NodeId| self.slots.rows(id.index());
        let restricted = |other: &[Row<W>], keep: bool| {
            let mut out = allowed.clone();
            for (row, other) in out.iter_mut().zip(other) {
                for w in 0..W {
                    row[w] &= if keep { other[w] } else { !other[w] };
                }
            }
            out
        };
        if fixed(id) || allowed.iter().all(|row| *row == [0; W]) {
            return;
        }
        match graph.ops[id.index()] {
            Op::Rel(rel) => {
                if let Some(at) = chosen(rel) {
                    for (mask, row) in masks[at].iter_mut().zip(&allowed) {
                        for w in 0..W {
                            mask[w] |= row[w];
                        }
                    }
                }
            }
            Op::Union(a, b) => {
                self.taken_over(a, allowed.clone(), masks);
                self.taken_over(b, allowed, masks);
            }
            Op::Intersection(a, b) if fixed(b) => self.taken_over(a, restricted(rows(b), true), masks),
            Op::Intersection(a, b) if fixed(a) => self.taken_over(b, restricted(rows(a), true), masks),
            Op::Difference(a, b) => {
                if let [minus] = graph.subtrahends(a, b)[..]
                    && fixed(minus)
                {
                    self.taken_over(a, restricted(rows(minus), false), masks);
                }
            }
            Op::Sequence(a, b) => match (graph.ops[a.index()], graph.ops[b.index()]) {
                (Op::Identity(set), _) if fixed(set) => {
                    let members = rows(set)[0];
                    let none = |e: usize| if has(&members, e) { [!0; W] } else { [0; W] };
                    let from: Vec<Row<W>> = (0..allowed.len()).map(none).collect();
                    self.taken_over(b, restricted(&from, true), masks);
                }
                (_, Op::Identity(set)) if fixed(set) => {
                    let into = vec![rows(set)[0]; allowed.len()];
                    self.taken_over(a, restricted(&into, true), masks);
                }
                _ => {}
            },
            Op::Plus(a) | Op::Star(a) | Op::Optional(a) => self.taken_over(a, allowed, masks),
            _ => {}
        }
    }
}
