//! Turns a solution of the search into an execution graph.
//!
//! The search leaves reads that do not matter without a source. A linear order of all points gives each such read its source: the
//! newest write in its own buffer that is issued and not yet observed, or else the last write observed.

use crate::event::{Event, Execution, Kind};
use crate::outcome::Outcome;
use crate::program::{Location, Value};
use crate::relation::Relation;

use super::problem::{INIT, Problem};

/// Reads-from and points of a consistent execution; reads that did not matter have no source yet.
#[derive(Clone, Debug)]
pub(super) struct Solution {
    pub(super) rf: Vec<Option<u16>>,
    pub(super) line: Vec<u16>,
}

/// Builds the execution of a solution.
pub(super) fn execution(problem: &Problem<'_>, solution: &Solution) -> Execution {
    let mut time = vec![0; problem.points];
    for (at, &point) in solution.line.iter().enumerate() {
        time[usize::from(point)] = at;
    }
    let builder = Builder {
        problem,
        issued: problem.issue.iter().map(|&p| time[usize::from(p)]).collect(),
        observed: problem.observe.iter().map(|&p| time[usize::from(p)]).collect(),
    };
    let rf: Vec<u16> = (0..problem.len())
        .map(|e| match solution.rf[e] {
            Some(source) => source,
            None if problem.is_sourced_read(e) => builder.source(e),
            None => INIT,
        })
        .collect();
    builder.finish(&rf)
}

struct Builder<'b, 'a> {
    problem: &'b Problem<'a>,
    issued: Vec<usize>,
    observed: Vec<usize>,
}

impl Builder<'_, '_> {
    fn writes_to(&self, read: usize) -> impl Iterator<Item = usize> + '_ {
        let loc = self.problem.event(read).loc.map_or(0, |l| usize::from(l.0));
        self.problem.writes[loc].iter().map(|&w| usize::from(w))
    }

    /// Finds the write whose value a read gets in the linear order.
    fn source(&self, read: usize) -> u16 {
        let p = self.problem;
        let at = self.observed[read];
        let buffered = self.writes_to(read).filter(|&w| {
            p.spec.forwards(p.event(w), p.event(read)) && self.issued[w] < at && at < self.observed[w]
        });
        if let Some(newest) = buffered.max_by_key(|&w| self.issued[w]) {
            return newest as u16;
        }
        self.writes_to(read)
            .filter(|&w| w != read && self.observed[w] < at)
            .max_by_key(|&w| self.observed[w])
            .map_or(INIT, |w| w as u16)
    }

    fn finish(self, rf: &[u16]) -> Execution {
        let p = self.problem;
        let order = |a: usize, b: usize| self.observed[a] < self.observed[b];
        build(p, rf, order, |read, write| {
            self.observed[read] < self.observed[write]
        })
    }
}

/// Builds the execution of a problem with this reads-from. `observed` orders writes and atomics. `flushed` says whether a NIC
/// read comes before a write of its queue pair.
pub(crate) fn build(
    p: &Problem<'_>,
    rf: &[u16],
    observed: impl Fn(usize, usize) -> bool,
    flushed: impl Fn(usize, usize) -> bool,
) -> Execution {
    let locations = &p.program.locations;
    // Initial writes come first.
    let (base, n) = (locations.len(), locations.len() + p.len());
    let (read, written) = values(p, rf);
    let event = |e: usize| p.event(e);
    let source = |e: usize| match rf[e] {
        INIT => event(e).loc.map_or(0, |l| usize::from(l.0)),
        w => base + usize::from(w),
    };
    let sourced = (0..p.len()).filter(|&e| p.is_sourced_read(e));
    let mut mo = Relation::empty(n);
    let mut last: Vec<Value> = locations.iter().map(|l| l.init).collect();
    for (loc, writes) in p.writes.iter().enumerate() {
        for &a in writes {
            let a = usize::from(a);
            mo.insert(loc, base + a);
            let mut is_last = true;
            for &b in writes {
                let b = usize::from(b);
                if a != b && observed(a, b) {
                    mo.insert(base + a, base + b);
                    is_last = false;
                }
            }
            if is_last {
                last[loc] = written[a].unwrap_or_default();
            }
        }
    }
    let mut nfo = Relation::empty(n);
    let mut rao = Relation::empty(n);
    for a in 0..p.len() {
        for b in 0..p.len() {
            if p.spec.flush_pair(event(a), event(b)) {
                let (first, second) = if flushed(a, b) { (a, b) } else { (b, a) };
                nfo.insert(base + first, base + second);
            }
            let kinds = (event(a).kind, event(b).kind);
            let atomics = p.spec.orders_atomics() && kinds == (Kind::NicAtomicRead, Kind::NicAtomicRead);
            if atomics && a != b && event(a).peer == event(b).peer && observed(a, b) {
                rao.insert(base + a, base + b);
            }
        }
    }
    let pf = p.paths.iter().zip(&p.first).flat_map(|(path, first)| {
        let pairs = path.pf.iter();
        pairs.map(move |&(w, poll)| (base + first + w, base + first + poll))
    });
    let all = (0..n).map(|i| match i.checked_sub(base) {
        None => initial(i),
        Some(e) => event(e).clone(),
    });
    let initial_values = |l: &Location| Some(l.init);
    Execution {
        events: all.collect(),
        reads: vec![None; base].into_iter().chain(read.iter().copied()).collect(),
        writes: locations
            .iter()
            .map(initial_values)
            .chain(written.iter().copied())
            .collect(),
        po: Relation::from_fn(n, |a, b| match (a.checked_sub(base), b.checked_sub(base)) {
            (None, Some(_)) => true,
            (Some(a), Some(b)) => a < b && p.thread[a] == p.thread[b],
            _ => false,
        }),
        rf: Relation::from_pairs(n, sourced.map(|e| (source(e), base + e))),
        mo,
        pf: Relation::from_pairs(n, pf),
        nfo,
        rao,
        outcome: Outcome {
            registers: p
                .paths
                .iter()
                .zip(&p.first)
                .map(|(path, first)| {
                    let value = |i: usize| read[first + i];
                    let registers = path.registers.iter();
                    registers
                        .map(|sym| sym.eval(&value).unwrap_or_default())
                        .collect()
                })
                .collect(),
            memory: last,
        },
    }
}

/// Computes the values read and written by following reads-from until nothing more becomes known.
fn values(p: &Problem<'_>, rf: &[u16]) -> (Vec<Option<Value>>, Vec<Option<Value>>) {
    let mut read: Vec<Option<Value>> = vec![None; p.len()];
    let eval = |e: usize, read: &[Option<Value>]| {
        let first = p.first[p.thread[e]];
        p.sym(e)?.eval(&|i| read[first + i])
    };
    loop {
        let mut changed = false;
        for e in 0..p.len() {
            if read[e].is_some() || !p.event(e).is_read() {
                continue;
            }
            let value = match (p.event(e).loc, rf[e]) {
                (None, _) => eval(e, &read),
                (Some(loc), INIT) => Some(p.program.locations[usize::from(loc.0)].init),
                (Some(_), w) => eval(usize::from(w), &read),
            };
            changed |= value.is_some();
            read[e] = value;
        }
        if !changed {
            break;
        }
    }
    let written = (0..p.len())
        .map(|e| {
            if p.event(e).is_write() {
                eval(e, &read)
            } else {
                None
            }
        })
        .collect();
    (read, written)
}

/// Returns the initial write of a location.
pub(crate) fn initial(loc: usize) -> Event {
    Event {
        thread: None,
        kind: Kind::LocalWrite,
        loc: Some(crate::program::Loc(loc as u16)),
        peer: None,
        work: None,
        rmw: false,
        inlined: false,
        strong: false,
        relaxed: false,
        announces: false,
        writes: true,
        instance: 0,
        path: Vec::new(),
    }
}
