//! A partial execution of the search: what is decided, and what is open.

use super::matrix::{Row, has, insert};
use super::predefined::Rel;
use crate::declarative::problem::{INIT, Problem};
use crate::event::{Event, Kind};
use crate::litmus::Operand;
use crate::program::{Loc, Reg, ThreadId, Value};

/// Stands for a source that has not been decided.
pub(super) const UNDECIDED: u16 = u16::MAX - 1;

/// Two events that the relation has yet to order, one way or the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Choice {
    pub(super) rel: Rel,
    pub(super) a: usize,
    pub(super) b: usize,
}

/// A partial execution. Events are numbered as in [`Execution`], initial writes first. `source` and `value` have no
/// entries for the initial writes.
#[derive(Clone)]
pub(super) struct Partial<const W: usize> {
    pub(super) source: Vec<u16>,
    pub(super) value: Vec<Option<Value>>,
    pub(super) rf: Vec<Row<W>>,
    pub(super) mo: Vec<Row<W>>,
    pub(super) nfo: Vec<Row<W>>,
    pub(super) rao: Vec<Row<W>>,
    pub(super) open: Vec<Choice>,
    /// Last write of each location.
    pub(super) last: Vec<u16>,
    pub(super) needed: Row<W>,
}

impl<const W: usize> Partial<W> {
    /// Returns the execution in which nothing is decided. `events` begin with `base` initial writes; `asks` says whether an
    /// operand matters.
    pub(super) fn root(
        p: &Problem<'_>,
        events: &[Event],
        base: usize,
        asks: impl Fn(Operand) -> bool,
    ) -> Partial<W> {
        let n = events.len();
        let none = || vec![[0; W]; n];
        let mut root = Partial {
            source: vec![UNDECIDED; p.len()],
            value: vec![None; p.len()],
            rf: none(),
            mo: none(),
            nfo: none(),
            rao: none(),
            open: Vec::new(),
            last: vec![UNDECIDED; p.writes.len()],
            needed: [0; W],
        };
        for condition in &p.conditions {
            let first = p.first[condition.thread];
            condition
                .sym
                .each_read(&mut |i| insert(&mut root.needed, first + i));
        }
        for (t, path) in p.paths.iter().enumerate() {
            for (r, sym) in path.registers.iter().enumerate() {
                let asked = Operand::Reg(ThreadId(t as u8), Reg(r as u16));
                if asks(asked) {
                    sym.each_read(&mut |i| insert(&mut root.needed, p.first[t] + i));
                }
            }
        }
        for (loc, writes) in p.writes.iter().enumerate() {
            let asked = asks(Operand::Loc(Loc(loc as u16)));
            if writes.is_empty() || !asked {
                root.last[loc] = INIT;
            }
            for (i, &a) in writes.iter().enumerate() {
                let a = base + usize::from(a);
                insert(&mut root.mo[loc], a);
                for &b in &writes[i + 1..] {
                    let b = base + usize::from(b);
                    root.open.push(Choice { rel: Rel::Mo, a, b });
                }
            }
        }
        for a in base..n {
            for b in base..n {
                let (x, y) = (&events[a], &events[b]);
                if p.spec.flush_pair(x, y) {
                    let (a, b) = (a.min(b), a.max(b));
                    root.open.push(Choice { rel: Rel::Nfo, a, b });
                }
                let atomics = (x.kind, y.kind) == (Kind::NicAtomicRead, Kind::NicAtomicRead);
                if p.spec.orders_atomics() && atomics && a < b && x.peer == y.peer {
                    root.open.push(Choice { rel: Rel::Rao, a, b });
                }
            }
        }
        root
    }

    pub(super) fn copy_from(&mut self, other: &Partial<W>) {
        self.source.clone_from(&other.source);
        self.value.clone_from(&other.value);
        self.rf.clone_from(&other.rf);
        self.mo.clone_from(&other.mo);
        self.nfo.clone_from(&other.nfo);
        self.rao.clone_from(&other.rao);
        self.open.clone_from(&other.open);
        self.last.clone_from(&other.last);
        self.needed = other.needed;
    }

    pub(super) fn rows(&mut self, rel: Rel) -> &mut Vec<Row<W>> {
        match rel {
            Rel::Mo => &mut self.mo,
            Rel::Nfo => &mut self.nfo,
            _ => &mut self.rao,
        }
    }

    /// Orders `a` before `b`, in a transitive relation with all that follows. Returns false if they have the other order.
    pub(super) fn order(&mut self, rel: Rel, a: usize, b: usize) -> bool {
        let rows = self.rows(rel);
        if has(&rows[b], a) {
            return false;
        }
        if has(&rows[a], b) {
            return true;
        }
        if rel == Rel::Nfo {
            insert(&mut rows[a], b);
            return true;
        }
        let mut after = rows[b];
        insert(&mut after, b);
        for (e, row) in rows.iter_mut().enumerate() {
            if e == a || has(row, a) {
                for w in 0..W {
                    row[w] |= after[w];
                }
            }
        }
        true
    }
}
