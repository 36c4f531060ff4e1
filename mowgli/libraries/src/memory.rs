//! Chooses reads-from, modification order and NIC flush order, for the libraries that are memories.
//!
//! RDMA^WAIT (LOCO'26 F.2), mixed-size writes (G.11) and shared variables (Def. 3.8) share `rf` and `mo`. The
//! first two also have `nfo` and `ib`. Forced choices are derived, and others are tried. Two writes that no
//! read reads are left unordered, since any order of the two can be completed.

use crate::event::{Loc, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::Next;
use crate::order::{Order, bits};
use crate::value::Value;

/// A read or write subevent.
#[derive(Clone, Debug)]
pub struct Access {
    /// The subevent.
    pub sub: usize,
    /// The location that it accesses.
    pub loc: Loc,
    /// The value, if the event's label has it.
    pub value: Option<Value>,
    /// For a write that copies: the index of the read whose value it writes.
    pub source: Option<usize>,
}

/// The accesses of a library's events, and the terms of its definition that need no choice.
#[derive(Debug, Default)]
pub struct Memory {
    /// The reads, `R`.
    pub reads: Vec<Access>,
    /// The writes, `W`.
    pub writes: Vec<Access>,
    /// The initial values of locations that do not start at 0.
    pub init: Vec<(Loc, Value)>,
    /// The locations whose last value is asked for, in the order of the client's observed words.
    pub observed: Vec<Loc>,
    /// The forced terms of `so`: `iso`, `pf`, `pfg`.
    pub so: Vec<(usize, usize, &'static str)>,
    /// The forced terms of `ib`, not closed, where the library has `ib`.
    pub ib: Option<Order>,
    /// The remote read-modify-writes at each node: the node, the atomic read, and the subevent with which the operation
    /// ends there. They are in a total order (`rao` of `docs/rmw.md`, ours).
    pub atomics: Vec<(u8, usize, usize)>,
    /// True if copies never go back. If two copying writes go to one location, the later one has not read an
    /// older write than the earlier one. This is not in the papers.
    pub forward_only: bool,
}

/// The choices made so far.
struct Choice {
    /// The source of each read: not chosen yet, the initial value, or a write.
    rf: Vec<Option<Option<usize>>>,
    /// The value of each read, where it is known.
    values: Vec<Option<Value>>,
    ib: Option<Order>,
}

impl Memory {
    /// Tries all choices.
    pub fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        state.attempt(|state| {
            let mut choice = Choice {
                rf: vec![None; self.reads.len()],
                values: self.reads.iter().map(|r| r.value.clone()).collect(),
                ib: self.ib.clone(),
            };
            if let Some(ib) = &mut choice.ib {
                if !ib.close() {
                    return Flow::Continue;
                }
                // Only subevents of one library have edges: the others have empty rows.
                for a in 0..ib.len() {
                    if is_instantaneous(g, a) {
                        for b in bits(ib.after(a)) {
                            if !state.order(a, b, "ib") {
                                return Flow::Continue;
                            }
                        }
                    }
                }
            }
            for &(a, b, why) in &self.so {
                if !state.order(a, b, why) {
                    return Flow::Continue;
                }
            }
            let atomics = &self.atomics;
            let pairs: Vec<(usize, usize)> = (0..atomics.len())
                .flat_map(|a| (a + 1..atomics.len()).map(move |b| (a, b)))
                .filter(|&(a, b)| atomics[a].0 == atomics[b].0)
                .collect();
            self.choose_rao(g, state, &mut choice, &pairs, next)
        })
    }

    /// Orders the remote read-modify-writes at each node: one has ended before the next one reads.
    fn choose_rao(
        &self,
        g: &Graph<'_>,
        state: &mut State<'_>,
        choice: &mut Choice,
        pairs: &[(usize, usize)],
        next: Next<'_>,
    ) -> Flow {
        let Some((&(a, b), rest)) = pairs.split_first() else {
            return self.choose_rf(g, state, choice, next);
        };
        for ((_, first, end), (_, second, _)) in [
            (self.atomics[a], self.atomics[b]),
            (self.atomics[b], self.atomics[a]),
        ] {
            let saved = choice.ib.clone();
            let flow = state.attempt(|state| {
                let ordered = state.order(first, second, "rao")
                    && state.order(end, second, "rao")
                    && issue(g, state, choice, first, second)
                    && issue(g, state, choice, end, second);
                if ordered {
                    self.choose_rao(g, state, choice, rest, next)
                } else {
                    Flow::Continue
                }
            });
            choice.ib = saved;
            if flow == Flow::Stop {
                return flow;
            }
        }
        Flow::Continue
    }

    fn init(&self, loc: Loc) -> Value {
        let found = self.init.iter().find(|(l, _)| *l == loc);
        found.map_or(Value::Int(0), |(_, value)| value.clone())
    }

    fn written<'c>(&'c self, choice: &'c Choice, w: usize) -> Option<&'c Value> {
        match self.writes[w].source {
            Some(r) => choice.values[r].as_ref(),
            None => self.writes[w].value.as_ref(),
        }
    }

    /// Returns whether a thread's CPU writes, and reads later in program order. Such a read may take the value from the
    /// thread's store buffer, before the write is placed: `rf` of the two is not in `so` (Defs. 3.8 and F.2).
    fn is_buffered(&self, g: &Graph<'_>, w: usize, r: usize) -> bool {
        let (write, read) = (self.writes[w].sub, self.reads[r].sub);
        g.is(write, StampKind::Cw) && g.is(read, StampKind::Cr) && g.po_sub(write, read)
    }

    /// Returns the sources that a read may read from, given the present orders.
    fn sources(&self, g: &Graph<'_>, state: &State<'_>, choice: &Choice, r: usize) -> Vec<Option<usize>> {
        let read = &self.reads[r];
        let wanted = choice.values[r].as_ref();
        let hb = &state.hb;
        let mut out = Vec::new();
        let at = |w: usize| self.writes[w].sub;
        let same = |w: &usize| self.writes[*w].loc == read.loc && at(*w) != read.sub;
        for w in (0..self.writes.len()).filter(same) {
            let fits = match (wanted, self.written(choice, w)) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            // A write that another overwrites before the read cannot be read, nor one that happens after the read, unless
            // the read takes it from the store buffer.
            let hidden = (0..self.writes.len())
                .filter(same)
                .any(|v| v != w && hb.has(at(w), at(v)) && hb.has(at(v), read.sub));
            let later = hb.has(read.sub, at(w)) && !self.is_buffered(g, w, r);
            if fits && !later && !hidden {
                out.push(Some(w));
            }
        }
        let fits = wanted.is_none_or(|v| *v == self.init(read.loc));
        if fits
            && !(0..self.writes.len())
                .filter(same)
                .any(|w| hb.has(at(w), read.sub))
        {
            out.push(None);
        }
        out
    }

    fn choose_rf(&self, g: &Graph<'_>, state: &mut State<'_>, choice: &mut Choice, next: Next<'_>) -> Flow {
        let mut best: Option<(usize, Vec<Option<usize>>)> = None;
        for r in (0..self.reads.len()).filter(|&r| choice.rf[r].is_none()) {
            let sources = self.sources(g, state, choice, r);
            if sources.is_empty() {
                self.blame(g, state, r);
                return Flow::Continue;
            }
            if best.as_ref().is_none_or(|(_, b)| sources.len() < b.len()) {
                best = Some((r, sources));
            }
        }
        let Some((r, sources)) = best else {
            let pairs = self.open_pairs(choice, state.total || self.forward_only);
            return self.choose_mo(g, state, choice, &pairs, 0, next);
        };
        for source in sources {
            let saved = (choice.values.clone(), choice.ib.clone());
            let flow = state.attempt(|state| {
                if self.read_from(g, state, choice, r, source) {
                    self.choose_rf(g, state, choice, next)
                } else {
                    Flow::Continue
                }
            });
            choice.rf[r] = None;
            (choice.values, choice.ib) = saved;
            if flow == Flow::Stop {
                return flow;
            }
        }
        Flow::Continue
    }

    /// Records the edges that leave a read without a source, for explanations: the refused edges of each
    /// write.
    fn blame(&self, g: &Graph<'_>, state: &mut State<'_>, r: usize) {
        if state.conflicts.is_none() {
            return;
        }
        let read = &self.reads[r];
        let wanted = read.value.clone();
        for (number, w) in self.writes.iter().enumerate() {
            if w.loc != read.loc || w.sub == read.sub {
                continue;
            }
            let ordered = !self.is_buffered(g, number, r);
            if wanted.is_some() && w.value == wanted && ordered && state.hb.has(read.sub, w.sub) {
                state.order(w.sub, read.sub, "rf");
            } else if w.value != wanted && state.hb.has(w.sub, read.sub) {
                state.order(read.sub, w.sub, "rb");
            }
        }
    }

    /// Sets `rf(r) = source`, and adds its edges and the values that follow.
    fn read_from(
        &self,
        g: &Graph<'_>,
        state: &mut State<'_>,
        choice: &mut Choice,
        r: usize,
        source: Option<usize>,
    ) -> bool {
        choice.rf[r] = Some(source);
        let read = &self.reads[r];
        let value = match source {
            None => Some(self.init(read.loc)),
            Some(w) => self.written(choice, w).cloned(),
        };
        if !self.know(choice, r, value) {
            return false;
        }
        let Some(w) = source else {
            // The initial value is read, so the read comes before every write of the location.
            return (0..self.writes.len())
                .filter(|&w| self.writes[w].loc == read.loc && self.writes[w].sub != read.sub)
                .all(|w| self.reads_before(g, state, choice, r, w));
        };
        let write = self.writes[w].sub;
        if !self.is_buffered(g, w, r) && !state.order(write, read.sub, "rf") {
            return false;
        }
        issue(g, state, choice, write, read.sub)
    }

    /// Notes the read's value, if it is known. It is then also the value of everything that copies it and of
    /// its origin.
    fn know(&self, choice: &mut Choice, r: usize, value: Option<Value>) -> bool {
        let value = match (value, &choice.values[r]) {
            (Some(a), Some(b)) => return a == *b,
            (None, None) => return true,
            (Some(value), None) => value,
            (None, Some(value)) => {
                // The read's label has a value, and its source does not know it yet.
                let value = value.clone();
                let Some(Some(Some(w))) = choice.rf.get(r) else {
                    return true;
                };
                let Some(from) = self.writes[*w].source else {
                    return true;
                };
                return self.know(choice, from, Some(value));
            }
        };
        choice.values[r] = Some(value.clone());
        // Go upwards: the write that it reads from copies the same value.
        if let Some(Some(w)) = choice.rf[r] {
            if let Some(from) = self.writes[w].source {
                if !self.know(choice, from, Some(value.clone())) {
                    return false;
                }
            } else if self.writes[w].value.as_ref() != Some(&value) {
                return false;
            }
        } else if choice.rf[r] == Some(None) && self.init(self.reads[r].loc) != value {
            return false;
        }
        // Go downwards: some reads have chosen a write with this source.
        for other in 0..self.reads.len() {
            if let Some(Some(w)) = choice.rf[other]
                && self.writes[w].source == Some(r)
                && !self.know(choice, other, Some(value.clone()))
            {
                return false;
            }
        }
        true
    }

    /// Adds `(r, w) ∈ rb`.
    fn reads_before(
        &self,
        g: &Graph<'_>,
        state: &mut State<'_>,
        choice: &mut Choice,
        r: usize,
        w: usize,
    ) -> bool {
        let (read, write) = (self.reads[r].sub, self.writes[w].sub);
        let local = g.is(read, StampKind::Cr) && g.is(write, StampKind::Cw);
        if local && g.po_sub(write, read) {
            // The thread's own store is newer. Def. 3.8 forbids this, and in RDMA^WAIT it is a cycle of `ib`.
            state.order(read, write, "rb");
            return false;
        }
        if !state.order(read, write, "rb") {
            return false;
        }
        !(local && g.po_sub(read, write)) || issue(g, state, choice, read, write)
    }

    /// Returns the pairs of writes to one location whose order matters, because one of the two is read or the
    /// location is observed.
    fn open_pairs(&self, choice: &Choice, all: bool) -> Vec<(usize, usize)> {
        let read = |w: usize| choice.rf.contains(&Some(Some(w)));
        let mut out = Vec::new();
        for a in 0..self.writes.len() {
            for b in a + 1..self.writes.len() {
                let loc = self.writes[a].loc;
                if loc == self.writes[b].loc && (all || read(a) || read(b) || self.observed.contains(&loc)) {
                    out.push((a, b));
                }
            }
        }
        out
    }

    fn choose_mo(
        &self,
        g: &Graph<'_>,
        state: &mut State<'_>,
        choice: &mut Choice,
        pairs: &[(usize, usize)],
        at: usize,
        next: Next<'_>,
    ) -> Flow {
        let Some(&(a, b)) = pairs.get(at) else {
            return self.choose_nfo(g, state, choice, &self.flush_pairs(g), 0, next);
        };
        for (first, second) in [(a, b), (b, a)] {
            if state.hb.has(self.writes[second].sub, self.writes[first].sub) {
                continue;
            }
            let saved = choice.ib.clone();
            let flow = state.attempt(|state| {
                let ordered = state.order(self.writes[first].sub, self.writes[second].sub, "mo")
                    && (0..self.reads.len())
                        .filter(|&r| {
                            choice.rf[r] == Some(Some(first)) && self.reads[r].sub != self.writes[second].sub
                        })
                        .collect::<Vec<_>>()
                        .into_iter()
                        .all(|r| self.reads_before(g, state, choice, r, second));
                if ordered {
                    self.choose_mo(g, state, choice, pairs, at + 1, next)
                } else {
                    Flow::Continue
                }
            });
            choice.ib = saved;
            if flow == Flow::Stop {
                return flow;
            }
        }
        Flow::Continue
    }

    /// Returns the pairs that `nfo` orders ([`crate::network::Network::flushes`]), of one thread towards one node.
    fn flush_pairs(&self, g: &Graph<'_>) -> Vec<(usize, usize)> {
        if self.ib.is_none() {
            return Vec::new();
        }
        let mut out = Vec::new();
        for first in self.reads.iter().chain(&self.writes) {
            for second in &self.writes {
                let (a, b) = (g.subevents[first.sub], g.subevents[second.sub]);
                let thread = g.events[a.event].thread == g.events[b.event].thread;
                let call = (a.event == b.event, g.po(a.event, b.event));
                if thread
                    && a.stamp.node == b.stamp.node
                    && g.network.flushes(a.stamp.kind, b.stamp.kind, call.0, call.1)
                {
                    out.push((first.sub, second.sub));
                }
            }
        }
        out
    }

    fn choose_nfo(
        &self,
        g: &Graph<'_>,
        state: &mut State<'_>,
        choice: &mut Choice,
        pairs: &[(usize, usize)],
        at: usize,
        next: Next<'_>,
    ) -> Flow {
        let Some(&(first, second)) = pairs.get(at) else {
            return if self.forward_only && self.goes_back(state, choice) {
                Flow::Continue
            } else {
                self.finish(state, next)
            };
        };
        // The order of posting is tried first, because it works most often.
        let posted = if g.po_sub(first, second) {
            (first, second)
        } else {
            (second, first)
        };
        for (a, b) in [posted, (posted.1, posted.0)] {
            let back = state.hb.has(b, a) || choice.ib.as_ref().is_some_and(|ib| ib.has(b, a));
            if back {
                continue;
            }
            let saved = choice.ib.clone();
            let flow = state.attempt(|state| {
                if state.order(a, b, "nfo") && issue(g, state, choice, a, b) {
                    self.choose_nfo(g, state, choice, pairs, at + 1, next)
                } else {
                    Flow::Continue
                }
            });
            choice.ib = saved;
            if flow == Flow::Stop {
                return flow;
            }
        }
        Flow::Continue
    }

    /// Returns whether some copy goes back. Modification orders must be total here.
    fn goes_back(&self, state: &State<'_>, choice: &Choice) -> bool {
        let read_by = |w: usize| self.writes[w].source.and_then(|r| choice.rf[r]);
        (0..self.writes.len()).any(|a| {
            (0..self.writes.len()).any(|b| {
                let (first, second) = (&self.writes[a], &self.writes[b]);
                if first.loc != second.loc || !state.hb.has(first.sub, second.sub) {
                    return false;
                }
                match (read_by(a), read_by(b)) {
                    (Some(Some(newer)), Some(Some(older))) => {
                        state.hb.has(self.writes[older].sub, self.writes[newer].sub)
                    }
                    // The later of the two copies has read the initial value.
                    (Some(Some(_)), Some(None)) => true,
                    _ => false,
                }
            })
        })
    }

    fn finish(&self, state: &mut State<'_>, next: Next<'_>) -> Flow {
        state.attempt(|state| {
            for &loc in &self.observed {
                let writes = || self.writes.iter().filter(|w| w.loc == loc);
                let last = writes().find(|w| writes().all(|v| v.sub == w.sub || state.hb.has(v.sub, w.sub)));
                state.words.push(match last {
                    None => self.init(loc),
                    // Every read has chosen, so every copied value is known where it matters; see `values`.
                    Some(w) => self.final_value(w, state),
                });
            }
            next(state)
        })
    }

    fn final_value(&self, write: &Access, state: &State<'_>) -> Value {
        // Follow the chain of copies along the chosen `rf` edges.
        let mut at = write;
        for _ in 0..=self.reads.len() {
            let Some(r) = at.source else {
                return at.value.clone().unwrap_or(Value::Unit);
            };
            let read = self.reads[r].sub;
            let from = state
                .edges
                .iter()
                .find(|e| e.to == read && e.why == "rf")
                .map(|e| e.from);
            match from.and_then(|from| self.writes.iter().find(|w| w.sub == from)) {
                Some(w) => at = w,
                None => return self.init(self.reads[r].loc),
            }
        }
        Value::Unit
    }
}

/// Returns whether a subevent starts and finishes at the same time (`Inst` of LOCO'26 F.2).
pub fn is_instantaneous(g: &Graph<'_>, sub: usize) -> bool {
    !matches!(
        g.subevents[sub].stamp.kind,
        StampKind::Cw | StampKind::Nlw | StampKind::Nrw
    )
}

/// Adds an edge to `ib`, and the edges that follow by `[Inst]; ib` to `so`. Returns false if either would
/// have a cycle.
fn issue(g: &Graph<'_>, state: &mut State<'_>, choice: &mut Choice, a: usize, b: usize) -> bool {
    let Some(ib) = &mut choice.ib else {
        return true;
    };
    let before: Vec<u128> = (0..ib.len()).map(|x| ib.after(x)).collect();
    if !ib.add(a, b) {
        return false;
    }
    for (x, old) in before.into_iter().enumerate() {
        if is_instantaneous(g, x) {
            for y in bits(ib.after(x) & !old) {
                if !state.order(x, y, "ib") {
                    return false;
                }
            }
        }
    }
    true
}
