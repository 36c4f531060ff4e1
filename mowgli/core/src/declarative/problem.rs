//! Compiles one path for every thread to an order problem, which the search solves.
//!
//! Every event becomes a point in time; a buffered event becomes two, its issue and its observation. The terms of `ib` order
//! issue points, the terms of `ob` order observation points, and an event is issued before it is observed. An execution
//! is consistent exactly if this graph is acyclic. A cycle among issue points is a cycle of `ib`, a cycle among observation points
//! is a cycle of `ob`. A mixed cycle passes from issue to observation at any event, but back only at instantaneous events, which
//! is condition (3) of RDMA-TSO'24 Def. 4.4. Program order does not fix all edges: modification order against a read, flush order, and the
//! order of atomics are *choices* between two sets of edges.

use std::sync::Arc;

use crate::event::{Event, Kind};
use crate::models::{Part, Spec};
use crate::program::{Program, Value};

use super::sym::Sym;
use super::unfold::Path;

/// Stands for the initial write of a location where the index of a write is expected.
pub(crate) const INIT: u16 = u16::MAX;

/// A few edges between points.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Edges {
    len: u8,
    edges: [(u16, u16); 6],
}

impl Edges {
    fn push(&mut self, edge: (u16, u16)) {
        if !self.as_slice().contains(&edge) {
            self.edges[usize::from(self.len)] = edge;
            self.len += 1;
        }
    }

    pub(crate) fn as_slice(&self) -> &[(u16, u16)] {
        &self.edges[..usize::from(self.len)]
    }
}

/// Either these edges or those.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    pub(crate) this: Edges,
    pub(crate) that: Edges,
}

/// A value that must be zero, non-zero, or exactly this.
#[derive(Clone, Debug)]
pub(crate) struct Condition {
    pub(crate) thread: usize,
    pub(crate) sym: Arc<Sym>,
    pub(crate) wanted: Wanted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wanted {
    True,
    False,
    Exactly(Value),
}

impl Wanted {
    pub(crate) fn admits(self, value: Value) -> bool {
        match self {
            Wanted::True => value != 0,
            Wanted::False => value == 0,
            Wanted::Exactly(wanted) => value == wanted,
        }
    }
}

/// The order problem.
pub(crate) struct Problem<'a> {
    pub(crate) program: &'a Program,
    pub(crate) spec: &'a Spec,
    pub(crate) paths: Vec<&'a Path>,
    /// Index of the first event of each thread.
    pub(crate) first: Vec<usize>,
    /// Thread of each event.
    pub(crate) thread: Vec<usize>,
    /// Issue point of each event.
    pub(crate) issue: Vec<u16>,
    /// Observation point of each event.
    pub(crate) observe: Vec<u16>,
    /// Point that carries modification order; the observation point unless `mo` is not in `ob`.
    place: Vec<u16>,
    /// Number of points.
    pub(crate) points: usize,
    /// Edges that every execution has.
    pub(crate) fixed: Vec<(u16, u16)>,
    /// Choices that every execution makes, whatever its reads-from.
    pub(crate) choices: Vec<Choice>,
    /// Writes to each location.
    pub(crate) writes: Vec<Vec<u16>>,
    /// Conditions on values.
    pub(crate) conditions: Vec<Condition>,
}

impl<'a> Problem<'a> {
    /// Compiles one path for every thread.
    pub(crate) fn new(program: &'a Program, spec: &'a Spec, paths: &[&'a Path]) -> Problem<'a> {
        let mut p = Problem {
            program,
            spec,
            paths: paths.to_vec(),
            first: Vec::with_capacity(paths.len()),
            thread: Vec::new(),
            issue: Vec::new(),
            observe: Vec::new(),
            place: Vec::new(),
            points: 0,
            fixed: Vec::new(),
            choices: Vec::new(),
            writes: vec![Vec::new(); program.locations.len()],
            conditions: Vec::new(),
        };
        for (thread, path) in paths.iter().enumerate() {
            p.first.push(p.issue.len());
            for event in &path.events {
                p.add_event(thread, event);
            }
            p.conditions
                .extend(path.conditions.iter().map(|(sym, holds)| Condition {
                    thread,
                    sym: sym.clone(),
                    wanted: if *holds { Wanted::True } else { Wanted::False },
                }));
        }
        for thread in 0..paths.len() {
            p.order_thread(thread);
        }
        p.order_atomics();
        p
    }

    /// Returns the number of events.
    pub(crate) fn len(&self) -> usize {
        self.issue.len()
    }

    /// Returns an event.
    pub(crate) fn event(&self, e: usize) -> &'a Event {
        let t = self.thread[e];
        &self.paths[t].events[e - self.first[t]]
    }

    /// Returns the symbolic value of an event (see [`Path::values`]).
    pub(crate) fn sym(&self, e: usize) -> Option<&'a Arc<Sym>> {
        let t = self.thread[e];
        self.paths[t].values[e - self.first[t]].as_ref()
    }

    /// Returns whether the event reads a location that the program names.
    pub(crate) fn is_sourced_read(&self, e: usize) -> bool {
        self.event(e).is_read() && self.event(e).loc.is_some()
    }

    /// Collects the edges that follow when `read` reads from `write`.
    pub(crate) fn rf_edges(&self, write: usize, read: usize) -> Edges {
        let mut edges = Edges::default();
        let spec = self.spec;
        if spec.ib.contains(Part::Rf) {
            edges.push((self.issue[write], self.issue[read]));
        }
        let external =
            spec.ob.contains(Part::RfExternal) && !spec.forwards(self.event(write), self.event(read));
        if spec.ob.contains(Part::Rf) || external {
            edges.push((self.observe[write], self.observe[read]));
        }
        edges
    }

    /// Collects the edges that follow when modification order places the first write before the second.
    pub(crate) fn mo_edges(&self, first: usize, second: usize) -> Edges {
        let mut edges = Edges::default();
        self.push_mo(&mut edges, first, second);
        edges
    }

    /// Collects the edges that follow when `read` reads from `source` and `write` comes after `source` in modification order.
    pub(crate) fn rb_edges(&self, read: usize, source: u16, write: usize) -> Edges {
        let mut edges = Edges::default();
        if source != INIT {
            self.push_mo(&mut edges, usize::from(source), write);
        }
        if read == write {
            return edges;
        }
        let spec = self.spec;
        let buffered = spec.forwards(self.event(write), self.event(read));
        if spec.ib.contains(Part::Rb) || (spec.ib.contains(Part::RbBuffer) && buffered) {
            edges.push((self.issue[read], self.issue[write]));
        }
        if spec.ob.contains(Part::Rb) {
            edges.push((self.observe[read], self.observe[write]));
        }
        edges
    }

    fn push_mo(&self, edges: &mut Edges, first: usize, second: usize) {
        if self.spec.ib.contains(Part::Mo) {
            edges.push((self.issue[first], self.issue[second]));
        }
        edges.push((self.place[first], self.place[second]));
    }

    fn add_event(&mut self, thread: usize, event: &Event) {
        let e = self.issue.len();
        let mut point = || {
            self.points += 1;
            (self.points - 1) as u16
        };
        let issue = point();
        let merged = self.spec.joint && self.spec.is_instantaneous(event);
        let observe = if merged { issue } else { point() };
        let mo_ordered = self.spec.ob.contains(Part::Mo);
        let place = if mo_ordered || !event.is_write() {
            observe
        } else {
            point()
        };
        if !merged && self.spec.joint {
            self.fixed.push((issue, observe));
        }
        self.thread.push(thread);
        self.issue.push(issue);
        self.observe.push(observe);
        self.place.push(place);
        if let (true, Some(loc)) = (event.is_write(), event.loc) {
            self.writes[usize::from(loc.0)].push(e as u16);
        }
    }

    /// Adds program order, polls-from and flush order of one thread.
    fn order_thread(&mut self, thread: usize) {
        let (spec, first) = (self.spec, self.first[thread]);
        let path = self.paths[thread];
        let in_issue = |a: &Event, b: &Event| {
            spec.ib
                .iter()
                .any(|part| spec.preserves(part, a, b) || part == Part::Iso && spec.iso_issue(a, b))
        };
        let in_observe = |a: &Event, b: &Event| {
            spec.ob
                .iter()
                .any(|part| spec.preserves(part, a, b) || part == Part::Iso && spec.iso_observe(a, b))
        };
        for (j, later) in path.events.iter().enumerate() {
            for (i, earlier) in path.events[..j].iter().enumerate() {
                let (a, b) = (first + i, first + j);
                if in_issue(earlier, later) {
                    self.fixed.push((self.issue[a], self.issue[b]));
                }
                if in_observe(earlier, later) {
                    self.fixed.push((self.observe[a], self.observe[b]));
                }
                for (read, write, events) in [(a, b, (earlier, later)), (b, a, (later, earlier))] {
                    if spec.flush_pair(events.0, events.1) {
                        let choice = Choice {
                            this: self.both(Part::Nfo, &[(read, write)]),
                            that: self.both(Part::Nfo, &[(write, read)]),
                        };
                        self.choices.push(choice);
                    }
                }
            }
        }
        for &(write, poll) in &path.pf {
            let get = path.events[write].kind == Kind::NicLocalWrite;
            let (w, p) = (first + write, first + poll);
            let part = if get { Part::PfGet } else { Part::PfPut };
            if spec.ib.contains(Part::Pf) || spec.ib.contains(part) {
                self.fixed.push((self.issue[w], self.issue[p]));
            }
            if spec.ob.contains(Part::Pf) || spec.ob.contains(part) {
                self.fixed.push((self.observe[w], self.observe[p]));
            }
        }
    }

    /// Adds `rao`: two atomics at one node are in one order or the other and do not overlap.
    fn order_atomics(&mut self) {
        if !self.spec.orders_atomics() {
            return;
        }
        let atomics: Vec<usize> = (0..self.len())
            .filter(|&e| self.event(e).kind == Kind::NicAtomicRead)
            .collect();
        let end = |e: usize| match e + 1 < self.len() {
            true if self.event(e + 1).rmw && self.event(e + 1).kind == Kind::NicRemoteWrite => e + 1,
            _ => e,
        };
        let mut choices = Vec::new();
        for (i, &a) in atomics.iter().enumerate() {
            for &b in &atomics[i + 1..] {
                if self.event(a).peer == self.event(b).peer {
                    choices.push(Choice {
                        this: self.both(Part::Rao, &[(end(a), b), (a, b)]),
                        that: self.both(Part::Rao, &[(end(b), a), (b, a)]),
                    });
                }
            }
        }
        self.choices.extend(choices);
    }

    /// Collects the edges between two events in `ib`, in `ob` or in both, wherever the part is a term.
    fn both(&self, part: Part, pairs: &[(usize, usize)]) -> Edges {
        let mut edges = Edges::default();
        for &(a, b) in pairs {
            if self.spec.ib.contains(part) {
                edges.push((self.issue[a], self.issue[b]));
            }
            if self.spec.ob.contains(part) {
                edges.push((self.observe[a], self.observe[b]));
            }
        }
        edges
    }
}
