//! Runs the steps of a plan on bit matrices of fixed width.
//!
//! A relation is one row of `W` words for each event, a set is one row. All values stay in place between runs, so that a run allocates
//! nothing once the rows are there.

use super::ast::Test;
use super::plan::{Check, Step};
use super::predefined::Rel;
use crate::event::Event;

/// A set of events, or the successors of one event.
pub(super) type Row<const W: usize> = [u64; W];

pub(super) fn has<const W: usize>(row: &Row<W>, e: usize) -> bool {
    row[e / 64] >> (e % 64) & 1 == 1
}

pub(super) fn insert<const W: usize>(row: &mut Row<W>, e: usize) {
    row[e / 64] |= 1 << (e % 64);
}

/// Calls `f` on every member, ascending.
pub(super) fn each<const W: usize>(row: &Row<W>, mut f: impl FnMut(usize)) {
    for (w, &word) in row.iter().enumerate() {
        let mut rest = word;
        while rest != 0 {
            f(w * 64 + rest.trailing_zeros() as usize);
            rest &= rest - 1;
        }
    }
}

/// The relations of a partial execution that steps read.
pub(super) struct Given<'g, const W: usize> {
    pub(super) events: &'g [Event],
    pub(super) po: &'g [Row<W>],
    pub(super) pf: &'g [Row<W>],
    /// Reads-from, modification order, reads-before, NIC flush order and order of atomics.
    pub(super) chosen: [&'g [Row<W>]; 5],
}

/// Returns the position of a chosen relation in [`Given::chosen`].
pub(super) fn chosen(rel: Rel) -> Option<usize> {
    Some(match rel {
        Rel::Rf => 0,
        Rel::Mo => 1,
        Rel::Rb => 2,
        Rel::Nfo | Rel::Bus => 3,
        Rel::Rao => 4,
        _ => return None,
    })
}

/// The values of all slots.
#[derive(Debug)]
pub(super) struct Slots<const W: usize> {
    values: Vec<Vec<Row<W>>>,
    /// All events.
    universe: Row<W>,
    events: usize,
}

impl<const W: usize> Slots<W> {
    /// Makes slots for so many events.
    pub(super) fn new(is_set: &[bool], events: usize) -> Slots<W> {
        let mut universe = [0; W];
        (0..events).for_each(|e| insert(&mut universe, e));
        let rows = |&set: &bool| vec![[0; W]; if set { 1 } else { events }];
        Slots {
            values: is_set.iter().map(rows).collect(),
            universe,
            events,
        }
    }

    /// Returns the rows of a slot.
    pub(super) fn rows(&self, slot: usize) -> &[Row<W>] {
        &self.values[slot]
    }

    /// Returns whether a property holds.
    pub(super) fn satisfies(&self, check: &Check) -> bool {
        let rows = &self.values[check.slot];
        let holds = match check.test {
            Test::Empty => rows.iter().all(|r| *r == [0; W]),
            Test::Acyclic | Test::Irreflexive => rows.iter().enumerate().all(|(e, row)| !has(row, e)),
        };
        holds != check.negated
    }

    /// Runs steps in their order.
    pub(super) fn run(&mut self, steps: &[Step], given: &Given<'_, W>) {
        for step in steps {
            self.step(step, given);
        }
    }

    fn step(&mut self, step: &Step, given: &Given<'_, W>) {
        let to = match *step {
            Step::Solve {
                names,
                ref bodies,
                ref steps,
            } => return self.solve(names, bodies, steps, given),
            Step::Set { to, .. }
            | Step::Rel { to, .. }
            | Step::Nothing { to }
            | Step::Everything { to }
            | Step::Union { to, .. }
            | Step::Intersection { to, .. }
            | Step::Difference { to, .. }
            | Step::Complement { to, .. }
            | Step::Sequence { to, .. }
            | Step::From { to, .. }
            | Step::Into { to, .. }
            | Step::Inverse { to, .. }
            | Step::Plus { to, .. }
            | Step::Star { to, .. }
            | Step::Optional { to, .. }
            | Step::Identity { to, .. }
            | Step::Product { to, .. }
            | Step::Domain { to, .. }
            | Step::Range { to, .. }
            | Step::Copy { to, .. } => to,
        };
        // No step reads the slot that it writes.
        let mut out = std::mem::take(&mut self.values[to]);
        self.write(step, given, &mut out);
        self.values[to] = out;
    }

    fn write(&self, step: &Step, given: &Given<'_, W>, out: &mut [Row<W>]) {
        let v = &self.values;
        match *step {
            Step::Set { set, .. } => {
                out[0] = [0; W];
                for e in (0..self.events).filter(|&e| set.contains(given.events, e)) {
                    insert(&mut out[0], e);
                }
            }
            Step::Rel { rel, .. } => self.base(rel, given, out),
            Step::Nothing { .. } | Step::Solve { .. } => out.fill([0; W]),
            Step::Everything { .. } => out[0] = self.universe,
            Step::Union { ref of, .. } => {
                out.fill([0; W]);
                for &term in of {
                    each_word(out, &v[term], |x, y| *x |= y);
                }
            }
            Step::Intersection { ref of, .. } => {
                out.fill(self.universe);
                for &term in of {
                    each_word(out, &v[term], |x, y| *x &= y);
                }
            }
            Step::Difference { left, ref minus, .. } => {
                out.fill(self.universe);
                for &term in minus {
                    each_word(out, &v[term], |x, y| *x &= y);
                }
                each_word(out, &v[left], |x, y| *x = y & !*x);
            }
            Step::Complement { of, .. } => {
                out.fill(self.universe);
                each_word(out, &v[of], |x, y| *x &= !y);
            }
            Step::Sequence { left, right, .. } => {
                for (row, from) in out.iter_mut().zip(&v[left]) {
                    *row = [0; W];
                    each(from, |b| or(row, &v[right][b]));
                }
            }
            Step::From { set, of, .. } => {
                for (e, row) in out.iter_mut().enumerate() {
                    *row = if has(&v[set][0], e) { v[of][e] } else { [0; W] };
                }
            }
            Step::Into { of, set, .. } => {
                out.fill(v[set][0]);
                each_word(out, &v[of], |x, y| *x &= y);
            }
            Step::Inverse { of, .. } => {
                out.fill([0; W]);
                for (a, row) in v[of].iter().enumerate() {
                    each(row, |b| insert(&mut out[b], a));
                }
            }
            Step::Plus { of, .. } => {
                out.copy_from_slice(&v[of]);
                close(out);
            }
            Step::Star { of, .. } => {
                out.copy_from_slice(&v[of]);
                close(out);
                reflect(out);
            }
            Step::Optional { of, .. } => {
                out.copy_from_slice(&v[of]);
                reflect(out);
            }
            Step::Identity { of, .. } => {
                out.fill([0; W]);
                each(&v[of][0], |e| insert(&mut out[e], e));
            }
            Step::Product { left, right, .. } => {
                out.fill([0; W]);
                each(&v[left][0], |e| out[e] = v[right][0]);
            }
            Step::Domain { of, .. } => {
                out[0] = [0; W];
                for e in (0..self.events).filter(|&e| v[of][e] != [0; W]) {
                    insert(&mut out[0], e);
                }
            }
            Step::Range { of, .. } => {
                out[0] = [0; W];
                v[of].iter().for_each(|row| or(&mut out[0], row));
            }
            Step::Copy { of, .. } => out.copy_from_slice(&v[of]),
        }
    }

    fn base(&self, rel: Rel, given: &Given<'_, W>, out: &mut [Row<W>]) {
        if let Some(at) = chosen(rel) {
            return out.copy_from_slice(given.chosen[at]);
        }
        match rel {
            Rel::Po => out.copy_from_slice(given.po),
            Rel::Pf => out.copy_from_slice(given.pf),
            rel => {
                for (a, row) in out.iter_mut().enumerate() {
                    *row = [0; W];
                    for b in 0..self.events {
                        if rel.between(&given.events[a], &given.events[b], a == b) == Some(true) {
                            insert(row, b);
                        }
                    }
                }
            }
        }
    }

    fn solve(&mut self, names: usize, bodies: &[usize], steps: &[Step], given: &Given<'_, W>) {
        for at in 0..bodies.len() {
            self.values[names + at].fill([0; W]);
        }
        loop {
            self.run(steps, given);
            let mut changed = false;
            for (at, &body) in bodies.iter().enumerate() {
                let mut name = std::mem::take(&mut self.values[names + at]);
                // A body may be a name of the group, which is out of its place only now.
                let value = &self.values[body];
                if body != names + at && name != *value {
                    name.copy_from_slice(value);
                    changed = true;
                }
                self.values[names + at] = name;
            }
            if !changed {
                return;
            }
        }
    }
}

fn each_word<const W: usize>(out: &mut [Row<W>], from: &[Row<W>], f: impl Fn(&mut u64, u64)) {
    for (row, other) in out.iter_mut().zip(from) {
        for w in 0..W {
            f(&mut row[w], other[w]);
        }
    }
}

fn or<const W: usize>(row: &mut Row<W>, other: &Row<W>) {
    for w in 0..W {
        row[w] |= other[w];
    }
}

fn reflect<const W: usize>(rows: &mut [Row<W>]) {
    for (e, row) in rows.iter_mut().enumerate() {
        insert(row, e);
    }
}

/// Closes a relation transitively (Warshall's algorithm by rows).
fn close<const W: usize>(rows: &mut [Row<W>]) {
    for k in 0..rows.len() {
        let via = rows[k];
        if via == [0; W] {
            continue;
        }
        let (word, bit) = (k / 64, k % 64);
        for row in rows.iter_mut() {
            if row[word] >> bit & 1 == 1 {
                or(row, &via);
            }
        }
    }
}
