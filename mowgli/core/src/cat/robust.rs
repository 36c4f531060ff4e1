//! Searches for an execution that satisfies the axioms of a model file and is not sequentially consistent (Robust'25 Def. 5).
//!
//! A shortest cycle of `po ∪ rf ∪ rb ∪ mo ∪ rao` either stays in one thread, with one edge against program order, or visits each of its
//! threads once, in one event or in two. That is a property of the relations and not of a model, so it holds for every file. The search
//! walks along such cycles. Each edge between two events is a decision of the ordinary search ([`super::search`]), which propagates it and
//! turns back as soon as the axioms refuse it. Where a cycle closes, the ordinary search decides the rest.
//!
//! [`crate::declarative::weak_execution`] does the like for built-in models, whose theory says more about the cycles. Used by
//! [`crate::robust`].

use super::ModelFile;
use super::partial::UNDECIDED;
use super::predefined::Rel;
use super::search::{Goal, Search, Stop};
use super::{NotApplicable, solve};
use crate::declarative::Choices;
use crate::declarative::problem::Problem;
use crate::declarative::unfold::{End, Repeats};
use crate::event::{Event, Execution, Kind};
use crate::model::{Model, RmwAtomicity};
use crate::models::{Part, Spec};
use crate::outcome::{Budget, Completeness, Limit};
use crate::program::Program;

/// Finds an execution that satisfies the axioms and has a cycle of [`strong`]; `Ok(Ok(None))` if there is none.
///
/// # Errors
/// Fails if the program does not meet a requirement of the model. The inner error is the limit at which the search
/// stopped without an answer.
pub fn weak_execution(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    budget: &Budget<'_>,
) -> Result<Result<Option<Execution>, Limit>, NotApplicable> {
    let spec = model.candidates(atomicity);
    let mut states = 0;
    let mut search = || {
        model.meets(program, atomicity)?;
        let threads = model.unfold(program, &spec, Repeats::Cycles, budget)?;
        for choice in Choices::new(&threads, |end| end == End::Complete) {
            let problem = Problem::new(program, &spec, &choice);
            let goal = Goal::Weak(strong(model, atomicity).ob.contains(Part::Rao));
            if let Some(found) = solve(model, &problem, goal, budget, &mut states)? {
                return Ok(Some(found));
            }
        }
        match super::exceeded_loop(program, model, &spec, &threads, budget, &mut states)? {
            Completeness::Complete => Ok(None),
            Completeness::Incomplete(limit) => Err(Stop::Limit(limit)),
        }
    };
    match search() {
        Ok(found) => Ok(Ok(found)),
        Err(stop) => Ok(Err(model.limit(stop)?)),
    }
}

/// Returns sequential consistency for executions of a model: Robust'25 Def. 5, with `rao`, the order of remote
/// read-modify-writes at a node, if the file mentions `rao`. A file that does not mention `rao` leaves that order
/// open, which no program can see.
pub fn strong(model: &ModelFile, atomicity: RmwAtomicity) -> Spec {
    let mut spec = Spec::of(Model::Sc, atomicity);
    let stated = model.axioms.iter().map(|a| a.expr);
    if !model.graph.use_of(stated, Rel::Rao) {
        spec.ib = spec.ib.without(Part::Rao);
        spec.ob = spec.ob.without(Part::Rao);
    }
    spec
}

/// A relation that can relate two events of a cycle, other than program order.
#[derive(Clone, Copy, Debug)]
enum Edge {
    ReadsFrom,
    ReadsBefore,
    Order(Rel),
}

/// A walk along a cycle that has come so far.
#[derive(Clone, Copy)]
struct Walk {
    /// The first event of the cycle. Its thread is the first of those that the cycle visits.
    anchor: usize,
    /// The last event of the cycle in the thread where the walk is.
    from: usize,
    /// The threads that it has visited, as bits.
    visited: u32,
}

impl<const W: usize> Search<'_, '_, W> {
    /// Walks along every possible cycle until an execution with such a cycle is found.
    pub(super) fn walk(&mut self, atomics: bool) -> Result<(), Stop> {
        if !self.propagate(0)? {
            return Ok(());
        }
        for anchor in 0..self.problem.len() {
            let visited = 1 << self.problem.thread[anchor];
            for from in anchor..self.end_of(anchor) {
                let walk = Walk {
                    anchor,
                    from,
                    visited,
                };
                self.leave(0, walk, atomics)?;
                if self.found.is_some() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Returns the first event after those of the thread of `event`.
    fn end_of(&self, event: usize) -> usize {
        let next = self.problem.first.get(self.problem.thread[event] + 1);
        next.copied().unwrap_or(self.problem.len())
    }

    /// Goes on from the last event of the cycle in its thread.
    fn leave(&mut self, depth: usize, walk: Walk, atomics: bool) -> Result<(), Stop> {
        let problem = self.problem;
        for to in 0..problem.len() {
            let thread = problem.thread[to];
            let closes = to == walk.anchor && walk.from != to;
            let enters = thread > problem.thread[walk.anchor] && walk.visited >> thread & 1 == 0;
            if !closes && !enters {
                continue;
            }
            for edge in edges(self.problem, atomics, walk.from, to) {
                // A read has one source for each way in which it comes before a write.
                for source in self.sources_of(depth, edge, walk.from) {
                    self.push(depth);
                    if !self.decide(depth + 1, edge, source, walk.from, to) || !self.propagate(depth + 1)? {
                        continue;
                    }
                    if closes {
                        if let Some(at) = self.complete(depth + 1)? {
                            self.found = Some(self.execution(at));
                        }
                    } else {
                        for from in to..self.end_of(to) {
                            let visited = walk.visited | 1 << thread;
                            let next = Walk {
                                from,
                                visited,
                                ..walk
                            };
                            self.leave(depth + 1, next, atomics)?;
                            if self.found.is_some() {
                                break;
                            }
                        }
                    }
                    if self.found.is_some() {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    /// Lists what `from` can read from if the edge depends on it; one entry without a meaning otherwise.
    fn sources_of(&self, depth: usize, edge: Edge, from: usize) -> Vec<u16> {
        match (edge, self.pool[depth].source[from]) {
            (Edge::ReadsBefore, UNDECIDED) => self.sources(depth, from),
            (_, decided) => vec![decided],
        }
    }

    /// Makes the decisions that put the edge there. Returns false if others contradict them.
    fn decide(&mut self, depth: usize, edge: Edge, source: u16, from: usize, to: usize) -> bool {
        let (base, decided) = (self.base, self.pool[depth].source[to]);
        match edge {
            Edge::ReadsFrom if decided == UNDECIDED => {
                self.assign(depth, to, from as u16);
                true
            }
            Edge::ReadsFrom => usize::from(decided) == from,
            Edge::ReadsBefore => {
                if self.pool[depth].source[from] == UNDECIDED {
                    self.assign(depth, from, source);
                }
                let written = self.source_event(from, source);
                written != base + to && self.pool[depth].order(Rel::Mo, written, base + to)
            }
            Edge::Order(rel) => {
                let problem = self.problem;
                // The atomics of the two instructions.
                let atomic = |e: usize| {
                    if rel != Rel::Rao {
                        return e;
                    }
                    let own = (problem.first[problem.thread[e]]..=e).rev().find(|&r| {
                        let event = problem.event(r);
                        event.kind == Kind::NicAtomicRead && event.same_instruction(problem.event(e))
                    });
                    own.unwrap_or(e)
                };
                self.pool[depth].order(rel, base + atomic(from), base + atomic(to))
            }
        }
    }
}

/// Lists the relations by which `a` can come before `b`.
fn edges(problem: &Problem<'_>, atomics: bool, a: usize, b: usize) -> Vec<Edge> {
    let (first, second): (&Event, &Event) = (problem.event(a), problem.event(b));
    let mut found = Vec::new();
    if first.loc.is_some() && first.loc == second.loc {
        if first.is_write() && problem.is_sourced_read(b) {
            found.push(Edge::ReadsFrom);
        }
        if problem.is_sourced_read(a) && second.is_write() {
            found.push(Edge::ReadsBefore);
        }
        if first.is_write() && second.is_write() {
            found.push(Edge::Order(Rel::Mo));
        }
    }
    // The read and the write of an atomic come before the next atomic at the node (docs/rmw.md).
    let unit = atomics
        && problem.spec.orders_atomics()
        && first.rmw
        && first.peer == second.peer
        && second.kind == Kind::NicAtomicRead
        && matches!(first.kind, Kind::NicAtomicRead | Kind::NicRemoteWrite)
        && !first.same_instruction(second);
    if unit {
        found.push(Edge::Order(Rel::Rao));
    }
    found
}
