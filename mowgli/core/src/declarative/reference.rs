//! Enumerates executions plainly: every reads-from, modification order, flush order and order of atomics, one by one.
//!
//! Nothing is pruned by consistency, so the cost is exponential. Tests compare the search with this enumeration, and
//! [`crate::explain`] takes its inconsistent executions from here.

use std::ops::ControlFlow;

use crate::event::{Execution, Kind};
use crate::generate::Random;
use crate::models::Spec;
use crate::outcome::{Budget, Limit, Search};
use crate::program::Program;

use super::problem::{INIT, Problem};
use super::unfold::{End, Path, Repeats};
use super::{Choices, Completeness, graph, unfold_all};

/// Finds the outcomes by plain enumeration and the model's own predicate.
pub fn outcomes(program: &Program, spec: &Spec, budget: &Budget<'_>) -> Search {
    let mut search = Search {
        outcomes: Default::default(),
        completeness: Completeness::Complete,
        states: 0,
    };
    let result = each_execution(program, spec, budget, |execution| {
        search.states += 1;
        if !search.outcomes.contains(&execution.outcome) && spec.is_consistent(execution) {
            search.outcomes.insert(execution.outcome.clone());
        }
        ControlFlow::Continue(())
    });
    if let Err(limit) = result {
        search.completeness = Completeness::Incomplete(limit);
    }
    search
}

/// Calls `visit` on every execution of the program, consistent or not, with loops up to their bounds. In each, values follow reads-from,
/// conditions hold, and the relations satisfy RDMA-TSO'24 Defs. 4.2 and 4.3.
///
/// # Errors
/// Returns the limit at which the enumeration stopped.
pub fn each_execution(
    program: &Program,
    spec: &Spec,
    budget: &Budget<'_>,
    visit: impl FnMut(&Execution) -> ControlFlow<()>,
) -> Result<(), Limit> {
    each_execution_of(program, spec, Repeats::All, budget, visit)
}

/// Calls `visit` like [`each_execution`], on the executions with the iterations of loops that a question needs.
///
/// # Errors
/// Returns the limit at which the enumeration stopped.
pub fn each_execution_of(
    program: &Program,
    spec: &Spec,
    repeats: Repeats,
    budget: &Budget<'_>,
    mut visit: impl FnMut(&Execution) -> ControlFlow<()>,
) -> Result<(), Limit> {
    let threads = unfold_all(program, spec, repeats, budget)?;
    let mut states = 0;
    for choice in Choices::new(&threads, |end| end == End::Complete) {
        let problem = Problem::new(program, spec, &choice);
        let mut enumeration = Enumeration {
            problem: &problem,
            budget,
            states: &mut states,
            visit: &mut visit,
            rf: vec![INIT; problem.len()],
            rank: vec![0; problem.len()],
            flips: Vec::new(),
        };
        if enumeration.sources(0)?.is_break() {
            return Ok(());
        }
    }
    Ok(())
}

/// Calls `visit` on random executions of the program, consistent or not. Each of the `tries` draws paths, sources and orders, and
/// is dropped if they do not determine the values. This works for programs that are too large for [`each_execution`].
///
/// # Errors
/// Returns the limit at which the unfolding stopped.
pub fn sample_executions(
    program: &Program,
    spec: &Spec,
    seed: u64,
    tries: usize,
    mut visit: impl FnMut(&Execution),
) -> Result<(), Limit> {
    let budget = Budget::default();
    let threads = unfold_all(program, spec, Repeats::All, &budget)?;
    let ends: Vec<Vec<&Path>> = threads
        .iter()
        .map(|paths| paths.iter().filter(|p| p.end == End::Complete).collect())
        .collect();
    if ends.iter().any(Vec::is_empty) {
        return Ok(());
    }
    let mut random = Random::new(seed);
    for _ in 0..tries {
        let choice: Vec<&Path> = ends
            .iter()
            .map(|paths| paths[random.below(paths.len())])
            .collect();
        let problem = Problem::new(program, spec, &choice);
        let n = problem.len();
        let mut visit = |execution: &Execution| {
            visit(execution);
            ControlFlow::Continue(())
        };
        let mut one = Enumeration {
            rf: (0..n).map(|e| random_source(&problem, e, &mut random)).collect(),
            // Ties of random ranks are broken by the event, so every rank is a total order.
            rank: (0..n).map(|e| random.below(4 * n) * n + e).collect(),
            flips: Vec::new(),
            problem: &problem,
            budget: &budget,
            states: &mut 0,
            visit: &mut visit,
        };
        for (a, b) in (0..n).flat_map(|a| (0..n).map(move |b| (a, b))) {
            if spec.flush_pair(problem.event(a), problem.event(b)) {
                one.flips.push((a, b, random.below(2) == 0));
            }
        }
        let _ = one.visit()?; // Always goes on.
    }
    Ok(())
}

fn random_source(problem: &Problem<'_>, read: usize, random: &mut Random) -> u16 {
    if !problem.is_sourced_read(read) {
        return INIT;
    }
    let loc = problem.event(read).loc.map_or(0, |l| usize::from(l.0));
    let writes = problem.writes[loc].iter().copied();
    let sources: Vec<u16> = writes.filter(|&w| usize::from(w) != read).chain([INIT]).collect();
    sources[random.below(sources.len())]
}

struct Enumeration<'e, 'a, V> {
    problem: &'e Problem<'a>,
    budget: &'e Budget<'e>,
    states: &'e mut u64,
    visit: &'e mut V,
    rf: Vec<u16>,
    /// Place of each write in modification order, and of each atomic in `rao`.
    rank: Vec<usize>,
    /// For each pair of `nfo`, whether the read comes first.
    flips: Vec<(usize, usize, bool)>,
}

type Step = Result<ControlFlow<()>, Limit>;

impl<V: FnMut(&Execution) -> ControlFlow<()>> Enumeration<'_, '_, V> {
    /// Chooses the source of every read from `e` on.
    fn sources(&mut self, e: usize) -> Step {
        if e == self.problem.len() {
            return self.locations(0);
        }
        if !self.problem.is_sourced_read(e) {
            return self.sources(e + 1);
        }
        let loc = self.problem.event(e).loc.map_or(0, |l| usize::from(l.0));
        let writes = self.problem.writes[loc].iter().copied();
        for source in writes.filter(|&w| usize::from(w) != e).chain([INIT]) {
            self.rf[e] = source;
            if self.sources(e + 1)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Orders the writes of every location from `loc` on.
    fn locations(&mut self, loc: usize) -> Step {
        match self.problem.writes.get(loc) {
            None => self.atomics(0),
            Some(writes) => {
                let events = writes.iter().map(|&w| usize::from(w)).collect();
                self.permute(events, 0, &mut |s| s.locations(loc + 1))
            }
        }
    }

    /// Orders the atomics of every node from `node` on.
    fn atomics(&mut self, node: u8) -> Step {
        if node == self.problem.program.nodes || !self.problem.spec.orders_atomics() {
            return self.flushes(0, 0);
        }
        let events: Vec<usize> = (0..self.problem.len())
            .filter(|&e| {
                let event = self.problem.event(e);
                event.kind == Kind::NicAtomicRead && event.peer.is_some_and(|p| p.0 == node)
            })
            .collect();
        self.permute(events, 0, &mut |s| s.atomics(node + 1))
    }

    fn permute(
        &mut self,
        mut events: Vec<usize>,
        at: usize,
        then: &mut dyn FnMut(&mut Self) -> Step,
    ) -> Step {
        if at == events.len() {
            return then(self);
        }
        for i in at..events.len() {
            events.swap(at, i);
            self.rank[events[at]] = at;
            if self.permute(events.clone(), at + 1, then)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
            events.swap(at, i);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Orders every pair of `nfo` from `(a, b)` on.
    fn flushes(&mut self, a: usize, b: usize) -> Step {
        let n = self.problem.len();
        if a == n {
            return self.visit();
        }
        let (next_a, next_b) = if b + 1 == n { (a + 1, 0) } else { (a, b + 1) };
        if !self
            .problem
            .spec
            .flush_pair(self.problem.event(a), self.problem.event(b))
        {
            return self.flushes(next_a, next_b);
        }
        for read_first in [true, false] {
            self.flips.push((a, b, read_first));
            let step = self.flushes(next_a, next_b)?;
            self.flips.pop();
            if step.is_break() {
                return Ok(step);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn visit(&mut self) -> Step {
        *self.states += 1;
        if let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(limit);
        }
        let (rank, flips) = (&self.rank, &self.flips);
        let execution = graph::build(
            self.problem,
            &self.rf,
            |a, b| rank[a] < rank[b],
            |read, write| flips.contains(&(read, write, true)),
        );
        // A cycle of reads-from and data leaves values unknown. No execution has such a cycle: values do not come out of thin air.
        let known = execution
            .events
            .iter()
            .zip(execution.reads.iter().zip(&execution.writes))
            .all(|(e, (r, w))| (!e.is_read() || r.is_some()) && (!e.is_write() || w.is_some()));
        if !known || !self.conditions_hold(&execution) {
            return Ok(ControlFlow::Continue(()));
        }
        Ok((self.visit)(&execution))
    }

    fn conditions_hold(&self, execution: &Execution) -> bool {
        let base = self.problem.program.locations.len();
        self.problem.conditions.iter().all(|c| {
            let first = base + self.problem.first[c.thread];
            c.sym
                .eval(&|i| execution.reads[first + i])
                .is_some_and(|v| c.wanted.admits(v))
        })
    }
}
