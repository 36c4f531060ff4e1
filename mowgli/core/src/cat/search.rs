//! Searches for executions of one path for every thread that satisfy the axioms of a model file.
//!
//! The search adds one decision at a time: the source of a read, the order of two writes, of a NIC read and a NIC write (`nfo`), of two
//! atomics (`rao`). After each it evaluates the axioms that can prune. Three ideas keep it small. *Forced choices*: where a decision would
//! put an edge into a closure against its order, the other side is taken without branching; which decisions put an edge there is read off
//! the expression once for each choice of paths. *Values first*: reads whose value matters to the outcome and the last writes are
//! decided first. *One execution for each outcome*: once an outcome is known, branches that lead to it again stop there.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use super::ModelFile;
use super::guards::Guard;
use super::matrix::{Given, Row, Slots, chosen, each, has, insert};
use super::partial::{Choice, Partial, UNDECIDED};
use super::plan::Step;
use super::predefined::Rel;
use crate::declarative::graph;
use crate::declarative::problem::{INIT, Problem};
use crate::event::{Event, Execution};
use crate::litmus::Operand;
use crate::outcome::{Budget, Limit, Outcome};
use crate::program::Value;

/// The goal of a search.
pub(super) enum Goal<'g> {
    /// Every outcome, or one outcome for each combination of values of some operands.
    Outcomes(&'g mut Known),
    /// An execution whose outcome satisfies a predicate.
    Execution(&'g dyn Fn(&Outcome) -> bool),
    /// Any execution.
    Any,
    /// An execution that is not sequentially consistent. With `true`, cycles may use the order of atomics
    /// ([`super::robust`]).
    Weak(bool),
    /// Nothing but whether the program meets the requirements of the model.
    Requirements,
}

impl Goal<'_> {
    /// Returns whether the goal tells executions apart by the value of `operand`.
    fn asks(&self, operand: Operand) -> bool {
        match self {
            Goal::Outcomes(known) => known.operands.as_ref().is_none_or(|all| all.contains(&operand)),
            Goal::Execution(_) => true,
            Goal::Any | Goal::Weak(_) | Goal::Requirements => false,
        }
    }
}

/// The outcomes found so far.
#[derive(Default)]
pub(super) struct Known {
    pub(super) operands: Option<Vec<Operand>>,
    pub(super) seen: FxHashSet<Vec<Value>>,
    pub(super) outcomes: BTreeSet<Outcome>,
}

/// Runs the search. Returns an execution if the goal is an execution and there is one.
pub(super) fn solve<const W: usize>(
    model: &ModelFile,
    problem: &Problem<'_>,
    goal: Goal<'_>,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Execution>, Stop> {
    let base = problem.program.locations.len();
    let n = base + problem.len();
    let events: Vec<Event> = (0..base)
        .map(graph::initial)
        .chain((0..problem.len()).map(|e| problem.event(e).clone()))
        .collect();
    let mut po = vec![[0; W]; n];
    let mut pf = vec![[0; W]; n];
    for (a, row) in po.iter_mut().enumerate() {
        for b in (a + 1).max(base)..n {
            if a < base || problem.thread[a - base] == problem.thread[b - base] {
                insert(row, b);
            }
        }
    }
    for (path, first) in problem.paths.iter().zip(&problem.first) {
        for &(write, poll) in &path.pf {
            insert(&mut pf[base + first + write], base + first + poll);
        }
    }
    let mut search = Search {
        model,
        problem,
        goal,
        budget,
        states,
        base,
        slots: Slots::new(&model.plan.is_set, n),
        rb: vec![[0; W]; n],
        guards: Vec::new(),
        events,
        po,
        pf,
        pool: Vec::new(),
        found: None,
    };
    search.start()?;
    Ok(search.found)
}

/// The reason why a search stops early.
#[derive(Debug)]
pub(super) enum Stop {
    /// A limit was reached.
    Limit(Limit),
    /// The program does not meet this requirement of the model.
    Unmet(usize),
}

/// The state of a search.
pub(super) struct Search<'s, 'a, const W: usize> {
    pub(super) model: &'s ModelFile,
    pub(super) problem: &'s Problem<'a>,
    pub(super) goal: Goal<'s>,
    pub(super) budget: &'s Budget<'s>,
    pub(super) states: &'s mut u64,
    /// Number of initial writes.
    pub(super) base: usize,
    pub(super) slots: Slots<W>,
    pub(super) rb: Vec<Row<W>>,
    pub(super) guards: Vec<Guard<W>>,
    pub(super) events: Vec<Event>,
    pub(super) po: Vec<Row<W>>,
    pub(super) pf: Vec<Row<W>>,
    /// One node for each depth; their memory is reused.
    pub(super) pool: Vec<Partial<W>>,
    pub(super) found: Option<Execution>,
}

impl<const W: usize> Search<'_, '_, W> {
    fn start(&mut self) -> Result<(), Stop> {
        let root = Partial::root(self.problem, &self.events, self.base, |operand| {
            self.goal.asks(operand)
        });
        self.pool.push(root);
        let model = self.model;
        let plan = &model.plan;
        self.run(&plan.fixed, 0);
        if let Goal::Requirements = self.goal {
            let unmet = plan.requirements.iter().find(|r| !self.slots.satisfies(r));
            return unmet.map_or(Ok(()), |unmet| Err(Stop::Unmet(unmet.axiom)));
        }
        for guard in &plan.guards {
            let guard = Guard::new(guard, model, &self.slots, self.events.len());
            self.guards.push(guard);
        }
        match self.goal {
            Goal::Weak(atomics) => self.walk(atomics),
            _ => self.explore(0),
        }
    }

    /// Runs steps on the partial execution at `depth`.
    fn run(&mut self, steps: &[Step], depth: usize) {
        let node = &self.pool[depth];
        let given = Given {
            events: &self.events,
            po: &self.po,
            pf: &self.pf,
            chosen: [&node.rf, &node.mo, &self.rb, &node.nfo, &node.rao],
        };
        self.slots.run(steps, &given);
    }

    /// Propagates values and forced choices and evaluates the axioms that prune, until nothing changes. Returns false if the partial
    /// execution cannot be completed.
    pub(super) fn propagate(&mut self, depth: usize) -> Result<bool, Stop> {
        loop {
            self.tick()?;
            if !self.evaluate_values(depth) {
                return Ok(false);
            }
            self.read_before(depth);
            let model = self.model;
            let plan = &model.plan;
            self.run(&plan.moving, depth);
            if !plan.pruning.iter().all(|c| self.slots.satisfies(c)) {
                return Ok(false);
            }
            match self.force(depth) {
                None => return Ok(false),
                Some(true) => {}
                Some(false) => return Ok(true),
            }
        }
    }

    /// Computes reads-before of the decided reads.
    fn read_before(&mut self, depth: usize) {
        let node = &self.pool[depth];
        for (e, &source) in node.source.iter().enumerate() {
            let read = self.base + e;
            self.rb[read] = [0; W];
            if source != UNDECIDED && self.problem.is_sourced_read(e) {
                let mut after = node.mo[self.source_event(e, source)];
                after[read / 64] &= !(1 << (read % 64));
                self.rb[read] = after;
            }
        }
    }

    /// Returns the event of a source: a write, or the initial write of the location that `read` reads.
    pub(super) fn source_event(&self, read: usize, source: u16) -> usize {
        match source {
            INIT => self.problem.event(read).loc.map_or(0, |l| usize::from(l.0)),
            w => self.base + usize::from(w),
        }
    }

    /// Takes every choice that has one side left. Returns whether there was one; `None` if a choice has no side left.
    fn force(&mut self, depth: usize) -> Option<bool> {
        let mut changed = false;
        let mut at = 0;
        while at < self.pool[depth].open.len() {
            let Choice { rel, a, b } = self.pool[depth].open[at];
            let rows = self.pool[depth].rows(rel);
            if has(&rows[a], b) || has(&rows[b], a) {
                self.pool[depth].open.swap_remove(at);
                continue;
            }
            let (forth, back) = (
                self.is_possible(depth, rel, a, b),
                self.is_possible(depth, rel, b, a),
            );
            match (forth, back) {
                (false, false) => return None,
                (true, true) => at += 1,
                (forth, _) => {
                    let (first, second) = if forth { (a, b) } else { (b, a) };
                    self.pool[depth].open.swap_remove(at);
                    if !self.pool[depth].order(rel, first, second) {
                        return None;
                    }
                    changed = true;
                }
            }
        }
        if changed {
            return Some(true);
        }
        for e in 0..self.problem.len() {
            let node = &self.pool[depth];
            if node.source[e] != UNDECIDED || !has(&node.needed, e) || !self.problem.is_sourced_read(e) {
                continue;
            }
            match self.sources(depth, e)[..] {
                [] => return None,
                [only] => {
                    self.assign(depth, e, only);
                    changed = true;
                }
                _ => {}
            }
        }
        Some(changed)
    }

    /// Returns whether no guard rules out `a` before `b`, as far as can be told at once.
    fn is_possible(&self, depth: usize, rel: Rel, a: usize, b: usize) -> bool {
        let Some(at) = chosen(rel) else {
            return true;
        };
        let against = |at: usize, x: usize, y: usize| {
            let ruled_out = |g: &Guard<W>| has(&g.masks[at][x], y) && has(&self.slots.rows(g.closure)[y], x);
            self.guards.iter().any(ruled_out)
        };
        if against(at, a, b) {
            return false;
        }
        let mut possible = true;
        if rel == Rel::Mo {
            // Reads of `a` come before `b` then.
            each(&self.pool[depth].rf[a], |read| {
                possible &= read == b || !against(2, read, b);
            });
        }
        possible
    }

    /// Lists the writes that a read could still read from.
    pub(super) fn sources(&self, depth: usize, read: usize) -> Vec<u16> {
        let node = &self.pool[depth];
        let loc = self.problem.event(read).loc.map_or(0, |l| usize::from(l.0));
        let writes = self.problem.writes[loc].iter().copied();
        let to = self.base + read;
        let possible = |&source: &u16| {
            let from = self.source_event(read, source);
            from != to
                && self.guards.iter().all(|g| {
                    let closure = self.slots.rows(g.closure);
                    let direct = has(&g.masks[0][from], to) && has(&closure[to], from);
                    let mut possible = !direct;
                    // The read comes before the writes that overwrite its source.
                    each(&node.mo[from], |after| {
                        possible &= after == to || !has(&g.masks[2][to], after) || !has(&closure[after], to);
                    });
                    possible
                })
        };
        writes.chain([INIT]).filter(possible).collect()
    }

    pub(super) fn assign(&mut self, depth: usize, read: usize, source: u16) {
        let from = self.source_event(read, source);
        let problem = self.problem;
        let node = &mut self.pool[depth];
        node.source[read] = source;
        insert(&mut node.rf[from], self.base + read);
        if source != INIT {
            let write = usize::from(source);
            // A read whose value does not matter makes no other read matter, whatever it reads.
            if let (Some(sym), true) = (problem.sym(write), has(&node.needed, read)) {
                let first = problem.first[problem.thread[write]];
                sym.each_read(&mut |i| insert(&mut node.needed, first + i));
            }
        }
    }

    fn explore(&mut self, depth: usize) -> Result<(), Stop> {
        if !self.propagate(depth)? {
            return Ok(());
        }
        if let Some((read, sources)) = self.next_read(depth, true) {
            for source in sources {
                self.push(depth);
                self.assign(depth + 1, read, source);
                self.explore(depth + 1)?;
                if self.found.is_some() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        if let Some(loc) = self.pool[depth].last.iter().position(|&w| w == UNDECIDED) {
            for &last in self.problem.writes[loc].iter().rev() {
                self.push(depth);
                if self.finish_with(depth + 1, loc, last) {
                    self.explore(depth + 1)?;
                }
                if self.found.is_some() {
                    return Ok(());
                }
            }
            return Ok(());
        }
        self.conclude(depth)
    }

    /// Returns the undecided read with the fewest sources, among those that matter or among all.
    fn next_read(&self, depth: usize, needed: bool) -> Option<(usize, Vec<u16>)> {
        let node = &self.pool[depth];
        let open = |&e: &usize| {
            let matters = !needed || has(&node.needed, e);
            matters && node.source[e] == UNDECIDED && self.problem.is_sourced_read(e)
        };
        let reads = (0..self.problem.len()).filter(open);
        reads
            .map(|e| (e, self.sources(depth, e)))
            .min_by_key(|(_, s)| s.len())
    }

    /// Decides that `last` is the last write of the location. Returns false if another is.
    fn finish_with(&mut self, depth: usize, loc: usize, last: u16) -> bool {
        let problem = self.problem;
        let (base, write) = (self.base, usize::from(last));
        let node = &mut self.pool[depth];
        node.last[loc] = last;
        if let Some(sym) = problem.sym(write) {
            let first = problem.first[problem.thread[write]];
            sym.each_read(&mut |i| insert(&mut node.needed, first + i));
        }
        problem.writes[loc]
            .iter()
            .filter(|&&w| w != last)
            .all(|&w| node.order(Rel::Mo, base + usize::from(w), base + write))
    }

    /// Looks whether the rest can be decided too, once everything that matters is decided.
    fn conclude(&mut self, depth: usize) -> Result<(), Stop> {
        let mut shown = None;
        match &self.goal {
            Goal::Any | Goal::Weak(_) | Goal::Requirements => {}
            Goal::Outcomes(known) => {
                let values = self.shown(depth, known.operands.as_deref());
                match values {
                    Some(values) if !known.seen.contains(&values) => shown = Some(values),
                    _ => return Ok(()),
                }
            }
            Goal::Execution(wanted) => match self.shown(depth, None) {
                Some(values) if wanted(&self.outcome(&values)) => {}
                _ => return Ok(()),
            },
        }
        let Some(at) = self.complete(depth)? else {
            return Ok(());
        };
        match (&self.goal, shown) {
            // The outcome is known without the execution if all of it was asked for.
            (Goal::Outcomes(Known { operands: None, .. }), Some(values)) => {
                let outcome = self.outcome(&values);
                if let Goal::Outcomes(known) = &mut self.goal {
                    known.seen.insert(values);
                    known.outcomes.insert(outcome);
                }
            }
            (_, shown) => {
                let execution = self.execution(at);
                match (&mut self.goal, shown) {
                    (Goal::Outcomes(known), Some(values)) => {
                        known.seen.insert(values);
                        known.outcomes.insert(execution.outcome);
                    }
                    _ => self.found = Some(execution),
                }
            }
        }
        Ok(())
    }

    /// Decides what is still open. Returns the depth of a complete execution that satisfies all axioms, if there is one.
    pub(super) fn complete(&mut self, depth: usize) -> Result<Option<usize>, Stop> {
        if !self.propagate(depth)? {
            return Ok(None);
        }
        if let Some((read, sources)) = self.next_read(depth, false) {
            for source in sources {
                self.push(depth);
                self.assign(depth + 1, read, source);
                if let Some(at) = self.complete(depth + 1)? {
                    return Ok(Some(at));
                }
            }
            return Ok(None);
        }
        if let Some(Choice { rel, a, b }) = self.pool[depth].open.pop() {
            for (first, second) in [(a, b), (b, a)] {
                self.push(depth);
                if self.pool[depth + 1].order(rel, first, second)
                    && let Some(at) = self.complete(depth + 1)?
                {
                    return Ok(Some(at));
                }
            }
            return Ok(None);
        }
        // A cycle of reads-from and data leaves values unknown. No execution has such a cycle.
        let node = &self.pool[depth];
        let known = |e: usize| node.value[e].is_some() || !self.problem.event(e).is_read();
        if !(0..self.problem.len()).all(known) {
            return Ok(None);
        }
        let model = self.model;
        let plan = &model.plan;
        self.run(&plan.late, depth);
        let consistent = plan.final_checks.iter().all(|c| self.slots.satisfies(c));
        Ok(consistent.then_some(depth))
    }

    /// Makes the node at `depth + 1` a copy of the one at `depth`.
    pub(super) fn push(&mut self, depth: usize) {
        if self.pool.len() == depth + 1 {
            let copy = self.pool[depth].clone();
            self.pool.push(copy);
        } else {
            let (head, tail) = self.pool.split_at_mut(depth + 1);
            tail[0].copy_from(&head[depth]);
        }
    }

    fn tick(&mut self) -> Result<(), Stop> {
        *self.states += 1;
        let look = self.states.is_multiple_of(256) || self.budget.states_max.is_some();
        if look && let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(Stop::Limit(limit));
        }
        Ok(())
    }
}
