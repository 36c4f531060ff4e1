//! Searches for a consistent execution that is not sequentially consistent: one with a cycle in `po ∪ rf ∪ rb ∪ mo` (Robust'25 Def. 5).
//!
//! No execution is enumerated. A shortest such cycle either lies in one thread, where it is one access before another in program order
//! and after it in memory order, or it visits each of its threads once, in one event or in two that are in program order (proof
//! of Robust'25 Thm. 8), and one of these pairs is not ordered by the model. The search walks along such *critical cycles*. Each
//! edge between threads says which of two accesses to a location comes first. It is an edge of observed-before, so it is added to the
//! partial order of the model, and the walk turns back as soon as the model refuses it. When a cycle closes, the ordinary search completes
//! the execution: in every linear order that results, each read finds its source, and the edges are `rf`, `rb`, `mo` or
//! compositions of them. Reads-from is enumerated only for reads on which a branch depends.

use crate::event::{Event, Kind};
use crate::outcome::{Budget, Limit};

use super::graph::Solution;
use super::order::PartialOrder;
use super::problem::{Choice, Problem};
use super::search::{self, Detail, Goal};

/// The cycles that are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// The cycles that stay in one thread.
    OneThread,
    /// All cycles.
    Everywhere,
}

/// An edge from one access to another that conflicts with it.
struct Conflict {
    to: usize,
    /// The edges of the model's order that it stands for.
    edges: Vec<(u16, u16)>,
}

/// Searches one problem.
pub(super) fn solve<const W: usize>(
    problem: &mut Problem<'_>,
    reach: Reach,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Solution>, Limit> {
    let mut base = PartialOrder::<W>::new(problem.points);
    let consistent =
        problem.fixed.iter().all(|&(a, b)| base.add(a, b)) && saturate(&mut base, &problem.choices);
    if !consistent {
        return Ok(None);
    }
    // A choice of paths that no execution takes needs no cycles.
    if !problem.conditions.is_empty()
        && search::solve::<W>(problem, Goal::Any, Detail::Relevant, budget, states)?.is_none()
    {
        return Ok(None);
    }
    let conflicts = (0..problem.len()).map(|a| conflicts(problem, a)).collect();
    let mut walk = Walk {
        problem,
        conflicts,
        base,
        budget,
        states,
        anchor: 0,
        added: Vec::new(),
    };
    match walk.inside_threads()? {
        None if reach == Reach::Everywhere => walk.across_threads(),
        found => Ok(found),
    }
}

/// Collects the edges from `a` to the accesses of other threads that conflict with it.
fn conflicts(problem: &Problem<'_>, a: usize) -> Vec<Conflict> {
    (0..problem.len())
        .filter(|&b| problem.thread[a] != problem.thread[b])
        .filter_map(|b| conflict(problem, a, b).map(|edges| Conflict { to: b, edges }))
        .collect()
}

/// Returns the edges that say that `a` comes before `b` in `rf`, `rb`, `mo`, `rao` or a composition of them; `None` if no such relation
/// relates the two.
fn conflict(problem: &Problem<'_>, a: usize, b: usize) -> Option<Vec<(u16, u16)>> {
    let (first, second) = (problem.event(a), problem.event(b));
    let memory = first.loc.is_some() && first.loc == second.loc && (first.is_write() || second.is_write());
    let unit = problem.spec.orders_atomics()
        && first.rmw
        && first.peer == second.peer
        && second.kind == Kind::NicAtomicRead
        && matches!(first.kind, Kind::NicAtomicRead | Kind::NicRemoteWrite)
        && !first.same_instruction(second);
    if !memory && !unit {
        return None;
    }
    let mut edges = vec![(problem.observe[a], problem.observe[b])];
    if memory && !first.is_write() {
        // A read sees its own thread's buffered writes or newer ones, so it comes before `b` only if those writes do.
        let t = problem.thread[a];
        let own = (problem.first[t]..a).filter(|&w| {
            let event = problem.event(w);
            event.is_write() && event.loc == first.loc && problem.spec.forwards(event, first)
        });
        edges.extend(own.map(|w| (problem.observe[w], problem.observe[b])));
    }
    Some(edges)
}

/// Takes every choice that has one side left. Returns false on a contradiction.
fn saturate<const W: usize>(order: &mut PartialOrder<W>, choices: &[Choice]) -> bool {
    loop {
        let mut changed = false;
        for choice in choices {
            let possible = |order: &PartialOrder<W>, edges: &[(u16, u16)]| {
                edges.iter().all(|&(a, b)| a != b && !order.before(b, a))
            };
            let (this, that) = (choice.this.as_slice(), choice.that.as_slice());
            let left = match (possible(order, this), possible(order, that)) {
                (true, true) => continue,
                (true, false) => this,
                (false, true) => that,
                (false, false) => return false,
            };
            for &(a, b) in left {
                changed |= !order.before(a, b);
                if !order.add(a, b) {
                    return false;
                }
            }
        }
        if !changed {
            return true;
        }
    }
}

struct Walk<'w, 'a, const W: usize> {
    problem: &'w mut Problem<'a>,
    conflicts: Vec<Vec<Conflict>>,
    /// The order that every consistent execution has.
    base: PartialOrder<W>,
    budget: &'w Budget<'w>,
    states: &'w mut u64,
    /// The first event of the cycle.
    anchor: usize,
    /// The edges of the cycle so far.
    added: Vec<(u16, u16)>,
}

impl<const W: usize> Walk<'_, '_, W> {
    /// Looks for an access that takes effect after a later one of its thread, on one location.
    fn inside_threads(&mut self) -> Result<Option<Solution>, Limit> {
        for later in 0..self.problem.len() {
            for earlier in self.problem.first[self.problem.thread[later]]..later {
                let events = (self.problem.event(earlier), self.problem.event(later));
                // A read always sees its own thread's earlier writes, in the buffer or in memory.
                if self.problem.spec.forwards(events.0, events.1) || !same_location(events.0, events.1) {
                    continue;
                }
                let Some(edges) = conflict(self.problem, later, earlier) else {
                    continue;
                };
                let mut order = self.base.clone();
                if edges.iter().all(|&(a, b)| order.add(a, b)) {
                    self.added = edges;
                    if let Some(solution) = self.complete()? {
                        return Ok(Some(solution));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Looks for a cycle through several threads. Every such cycle has at least one pair in program order that the
    /// model does not order. The walk starts with such a pair in the first thread that has one.
    fn across_threads(&mut self) -> Result<Option<Solution>, Limit> {
        for earlier in 0..self.problem.len() {
            self.anchor = earlier;
            let thread = self.problem.thread[earlier];
            let end = self.end_of(thread);
            for later in earlier + 1..end {
                if !self.ordered(earlier, later) {
                    self.added.clear();
                    let found = self.leave(later, 1 << thread, self.base.clone())?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
        }
        Ok(None)
    }

    fn end_of(&self, thread: usize) -> usize {
        self.problem
            .first
            .get(thread + 1)
            .copied()
            .unwrap_or(self.problem.len())
    }

    /// Returns whether every consistent execution observes the two in this order.
    fn ordered(&self, a: usize, b: usize) -> bool {
        self.base.before(self.problem.observe[a], self.problem.observe[b])
    }

    /// Goes on from `from`, the last event of the cycle in its thread. `visited` has the threads of the cycle as bits.
    fn leave(
        &mut self,
        from: usize,
        visited: u32,
        order: PartialOrder<W>,
    ) -> Result<Option<Solution>, Limit> {
        *self.states += 1;
        if let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(limit);
        }
        let length = self.added.len();
        for i in 0..self.conflicts[from].len() {
            let to = self.conflicts[from][i].to;
            let thread = self.problem.thread[to];
            let closes = to == self.anchor;
            if !closes && visited >> thread & 1 == 1 {
                continue;
            }
            let mut next = order.clone();
            let edges = &self.conflicts[from][i].edges;
            if !edges.iter().all(|&(a, b)| next.add(a, b)) {
                continue;
            }
            self.added.extend_from_slice(edges);
            let found = if closes {
                self.complete()?
            } else {
                self.pass(to, visited | 1 << thread, &next)?
            };
            if found.is_some() {
                return Ok(found);
            }
            self.added.truncate(length);
        }
        Ok(None)
    }

    /// Passes through the thread of `at`: leaves it from `at` or from a later event.
    fn pass(&mut self, at: usize, visited: u32, order: &PartialOrder<W>) -> Result<Option<Solution>, Limit> {
        let thread = self.problem.thread[at];
        // A cycle with an unordered pair in an earlier thread was found from there.
        let settled = thread < self.problem.thread[self.anchor];
        for last in at..self.end_of(thread) {
            if last != at && settled && !self.ordered(at, last) {
                continue;
            }
            let found = self.leave(last, visited, order.clone())?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// Completes an execution that has the edges of the cycle.
    fn complete(&mut self) -> Result<Option<Solution>, Limit> {
        let length = self.problem.fixed.len();
        self.problem.fixed.extend_from_slice(&self.added);
        let found = search::solve::<W>(
            self.problem,
            Goal::Any,
            Detail::Relevant,
            self.budget,
            self.states,
        );
        self.problem.fixed.truncate(length);
        found
    }
}

fn same_location(a: &Event, b: &Event) -> bool {
    a.loc.is_some() && a.loc == b.loc
}
