//! Searches for consistent executions of one path for every thread.
//!
//! Three ideas keep the search small. *Acyclicity is incremental*: a decision adds edges to a closed partial order and fails at
//! once on a cycle. Choices with one side left are taken without branching (saturation). *Only values that matter are
//! enumerated*: reads-from is decided for reads whose value reaches a register, a condition or final memory. Any other
//! read finds a source in every linear order that results, so it constrains nothing. For the same reason modification order is
//! decided only against the reads that matter and for the last write. *One execution for each outcome*: once an outcome is
//! known, the branches that lead to it again stop before their order is completed.

use std::collections::BTreeSet;

use rustc_hash::FxHashSet;

use crate::litmus::Operand;
use crate::outcome::{Budget, Limit, Outcome};
use crate::program::{Loc, Reg, ThreadId, Value};

use super::graph::{self, Solution};
use super::order::PartialOrder;
use super::problem::{Choice, Condition, Edges, INIT, Problem};

/// The goal of a search.
pub(super) enum Goal<'a> {
    /// Adds every outcome that is not in this set yet.
    Outcomes(&'a mut Known),
    /// Any consistent execution.
    Any,
    /// A consistent execution with this final memory (registers are conditions of the problem).
    Memory(&'a [Value]),
}

impl Goal<'_> {
    fn asks_register(&self, thread: usize, register: usize) -> bool {
        match self {
            Goal::Outcomes(known) => known.asks_register(thread, register),
            Goal::Any => false,
            Goal::Memory(_) => true,
        }
    }

    fn asks_location(&self, loc: usize) -> bool {
        match self {
            Goal::Outcomes(known) => known.asks_location(loc),
            Goal::Any => false,
            Goal::Memory(_) => true,
        }
    }
}

/// The outcomes found so far. Two outcomes are different if the operands asked for differ.
#[derive(Default)]
pub(super) struct Known {
    /// The operands asked for; all registers and locations if `None`.
    pub(super) operands: Option<Vec<Operand>>,
    /// The values of the operands in their order. Not used if all registers and locations are asked for.
    seen: FxHashSet<Vec<Value>>,
    /// One outcome for each combination of values.
    pub(super) outcomes: BTreeSet<Outcome>,
}

impl Known {
    /// Makes an empty set of outcomes for these operands.
    pub(super) fn by(operands: &[Operand]) -> Known {
        Known {
            operands: Some(operands.to_vec()),
            ..Known::default()
        }
    }

    fn asks_register(&self, thread: usize, register: usize) -> bool {
        let operand = Operand::Reg(ThreadId(thread as u8), Reg(register as u16));
        self.operands.as_ref().is_none_or(|all| all.contains(&operand))
    }

    fn asks_location(&self, loc: usize) -> bool {
        let operand = Operand::Loc(Loc(loc as u16));
        self.operands.as_ref().is_none_or(|all| all.contains(&operand))
    }
}

/// The reads and writes that are decided by enumeration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The reads and writes that matter to the outcome.
    Relevant,
    /// Every read and all of modification order.
    Everything,
}

/// Runs the search. Returns `Ok(Some)` when the goal (`Any` or `Memory`) was found.
pub(super) fn solve<const W: usize>(
    problem: &Problem<'_>,
    goal: Goal<'_>,
    detail: Detail,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Solution>, Limit> {
    let mut order = PartialOrder::<W>::new(problem.points);
    for &(a, b) in &problem.fixed {
        if !order.add(a, b) {
            return Ok(None);
        }
    }
    let mut root = Partial {
        order,
        rf: vec![UNDECIDED; problem.len()],
        value: vec![None; problem.len()],
        open: problem.choices.clone(),
        last: vec![UNDECIDED; problem.writes.len()],
        needed: [0; W],
    };
    for e in 0..problem.len() {
        // Only its own put reads the source of a constant put, so its value is its own expression.
        if detail == Detail::Everything && problem.is_sourced_read(e) {
            root.need(e);
        }
    }
    for Condition { thread, sym, .. } in &problem.conditions {
        sym.each_read(&mut |i| root.need(problem.first[*thread] + i));
    }
    for (t, path) in problem.paths.iter().enumerate() {
        for (r, sym) in path.registers.iter().enumerate() {
            if goal.asks_register(t, r) {
                sym.each_read(&mut |i| root.need(problem.first[t] + i));
            }
        }
    }
    if detail == Detail::Everything {
        for writes in &problem.writes {
            for (i, &a) in writes.iter().enumerate() {
                for &b in &writes[i + 1..] {
                    let (a, b) = (usize::from(a), usize::from(b));
                    root.open.push(Choice {
                        this: problem.mo_edges(a, b),
                        that: problem.mo_edges(b, a),
                    });
                }
            }
        }
    }
    for (loc, writes) in problem.writes.iter().enumerate() {
        if writes.is_empty() || !goal.asks_location(loc) {
            root.last[loc] = INIT;
        }
    }
    let mut search = Search {
        problem,
        goal,
        budget,
        states,
        pool: vec![root],
        found: None,
    };
    search.explore(0)?;
    Ok(search.found)
}

/// Stands for a source that has not been decided.
const UNDECIDED: u16 = u16::MAX - 1;

/// A partial execution.
#[derive(Clone)]
struct Partial<const W: usize> {
    order: PartialOrder<W>,
    /// Source of each read: a write, `INIT` or `UNDECIDED`.
    rf: Vec<u16>,
    /// Value of each read, once it follows from `rf`.
    value: Vec<Option<Value>>,
    /// Choices not made yet.
    open: Vec<Choice>,
    /// Last write of each location.
    last: Vec<u16>,
    /// Reads whose value matters.
    needed: [u64; W],
}

impl<const W: usize> Partial<W> {
    fn need(&mut self, e: usize) {
        self.needed[e / 64] |= 1 << (e % 64);
    }

    fn is_needed(&self, e: usize) -> bool {
        self.needed[e / 64] >> (e % 64) & 1 == 1
    }

    fn copy_from(&mut self, other: &Partial<W>) {
        self.order.copy_from(&other.order);
        self.rf.clone_from(&other.rf);
        self.value.clone_from(&other.value);
        self.open.clone_from(&other.open);
        self.last.clone_from(&other.last);
        self.needed = other.needed;
    }

    fn add_all(&mut self, edges: &Edges) -> bool {
        edges.as_slice().iter().all(|&(a, b)| self.order.add(a, b))
    }

    /// Returns whether the order already contains all edges, or excludes one of them.
    fn status(&self, edges: &Edges) -> Status {
        let mut status = Status::Implied;
        for &(a, b) in edges.as_slice() {
            if a == b || self.order.before(b, a) {
                return Status::Impossible;
            }
            if !self.order.before(a, b) {
                status = Status::Possible;
            }
        }
        status
    }

    /// Takes every choice that has one side left, until there is none. Returns false on a contradiction.
    fn saturate(&mut self) -> bool {
        loop {
            let mut changed = false;
            let mut i = 0;
            while i < self.open.len() {
                let choice = self.open[i];
                let (this, that) = (self.status(&choice.this), self.status(&choice.that));
                match (this, that) {
                    (Status::Impossible, Status::Impossible) => return false,
                    (Status::Implied, _) | (_, Status::Implied) => {}
                    (Status::Impossible, Status::Possible) => {
                        if !self.add_all(&choice.that) {
                            return false;
                        }
                        changed = true;
                    }
                    (Status::Possible, Status::Impossible) => {
                        if !self.add_all(&choice.this) {
                            return false;
                        }
                        changed = true;
                    }
                    (Status::Possible, Status::Possible) => {
                        i += 1;
                        continue;
                    }
                }
                self.open.swap_remove(i);
            }
            if !changed {
                return true;
            }
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Implied,
    Possible,
    Impossible,
}

struct Search<'s, 'a, const W: usize> {
    problem: &'s Problem<'a>,
    goal: Goal<'s>,
    budget: &'s Budget<'s>,
    states: &'s mut u64,
    /// One node for each depth; their memory is reused.
    pool: Vec<Partial<W>>,
    found: Option<Solution>,
}

impl<const W: usize> Search<'_, '_, W> {
    /// Explores the node at `depth`.
    fn explore(&mut self, depth: usize) -> Result<(), Limit> {
        self.tick()?;
        if !self.pool[depth].saturate() || !self.evaluate(depth) {
            return Ok(());
        }
        if let Some(read) = self.next_read(depth) {
            let Some((read, sources)) = read else {
                return Ok(());
            };
            for source in sources {
                self.push(depth);
                if self.assign(depth + 1, read, source) {
                    self.explore(depth + 1)?;
                }
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

    /// Looks whether the rest can be decided too, once everything that matters is decided.
    fn conclude(&mut self, depth: usize) -> Result<(), Limit> {
        let mut shown = None;
        let mut outcome = None;
        match &self.goal {
            Goal::Any => {}
            Goal::Outcomes(Known {
                operands: Some(operands),
                seen,
                ..
            }) => match self.shown(depth, operands) {
                Some(values) if !seen.contains(&values) => shown = Some(values),
                _ => return Ok(()),
            },
            Goal::Outcomes(Known { outcomes, .. }) => match self.outcome(depth) {
                Some(found) if !outcomes.contains(&found) => outcome = Some(found),
                _ => return Ok(()),
            },
            Goal::Memory(memory) => match self.outcome(depth) {
                Some(found) if found.memory == **memory => {}
                _ => return Ok(()),
            },
        }
        let Some(order) = self.complete(depth)? else {
            return Ok(());
        };
        if let (Goal::Outcomes(known), Some(outcome)) = (&mut self.goal, outcome) {
            known.outcomes.insert(outcome);
            return Ok(());
        }
        let rf = self.pool[depth].rf.iter();
        let solution = Solution {
            rf: rf.map(|&w| (w != UNDECIDED).then_some(w)).collect(),
            line: order.linear_extension(),
        };
        match (&mut self.goal, shown) {
            (Goal::Outcomes(known), Some(values)) => {
                known.seen.insert(values);
                let execution = graph::execution(self.problem, &solution);
                known.outcomes.insert(execution.outcome);
            }
            _ => self.found = Some(solution),
        }
        Ok(())
    }

    /// Returns the values of the operands if all of them are known.
    fn shown(&self, depth: usize, operands: &[Operand]) -> Option<Vec<Value>> {
        let (problem, node) = (self.problem, &self.pool[depth]);
        let value = |operand: &Operand| match operand {
            Operand::Reg(t, r) => {
                let t = usize::from(t.0);
                let path = problem.paths.get(t)?;
                let sym = path.registers.get(usize::from(r.0))?;
                sym.eval(&|i| node.value[problem.first[t] + i])
            }
            Operand::Loc(l) => {
                let loc = usize::from(l.0);
                self.source_value(depth, *node.last.get(loc)?, loc)
            }
        };
        operands.iter().map(value).collect()
    }

    /// Makes the choices that are still open. Returns the order if all of them can be made.
    fn complete(&mut self, depth: usize) -> Result<Option<PartialOrder<W>>, Limit> {
        self.tick()?;
        if !self.pool[depth].saturate() {
            return Ok(None);
        }
        let Some(choice) = self.pool[depth].open.pop() else {
            return Ok(Some(self.pool[depth].order.clone()));
        };
        for side in [choice.this, choice.that] {
            self.push(depth);
            if self.pool[depth + 1].add_all(&side)
                && let Some(order) = self.complete(depth + 1)?
            {
                return Ok(Some(order));
            }
        }
        Ok(None)
    }

    /// Decides that `read` reads from `source`. Returns false on a contradiction.
    fn assign(&mut self, depth: usize, read: usize, source: u16) -> bool {
        let problem = self.problem;
        let node = &mut self.pool[depth];
        node.rf[read] = source;
        if source != INIT {
            let write = usize::from(source);
            if !node.add_all(&problem.rf_edges(write, read)) {
                return false;
            }
            if let Some(sym) = problem.sym(write) {
                let first = problem.first[problem.thread[write]];
                sym.each_read(&mut |i| node.need(first + i));
            }
        }
        let loc = problem.event(read).loc.map_or(0, |l| usize::from(l.0));
        for &other in &problem.writes[loc] {
            if other == source {
                continue;
            }
            let after = problem.rb_edges(read, source, usize::from(other));
            if source == INIT {
                if !node.add_all(&after) {
                    return false;
                }
            } else {
                node.open.push(Choice {
                    this: problem.mo_edges(usize::from(other), usize::from(source)),
                    that: after,
                });
            }
        }
        true
    }

    /// Decides that `last` is the last write of the location. Returns false on a contradiction.
    fn finish_with(&mut self, depth: usize, loc: usize, last: u16) -> bool {
        let problem = self.problem;
        let node = &mut self.pool[depth];
        node.last[loc] = last;
        if let Some(sym) = problem.sym(usize::from(last)) {
            let first = problem.first[problem.thread[usize::from(last)]];
            sym.each_read(&mut |i| node.need(first + i));
        }
        problem.writes[loc]
            .iter()
            .filter(|&&w| w != last)
            .all(|&w| node.add_all(&problem.mo_edges(usize::from(w), usize::from(last))))
    }

    /// Propagates values along reads-from. Returns false if a condition fails.
    fn evaluate(&mut self, depth: usize) -> bool {
        let problem = self.problem;
        loop {
            let mut changed = false;
            for e in 0..problem.len() {
                let node = &self.pool[depth];
                if node.value[e].is_some() || node.rf[e] == UNDECIDED {
                    continue;
                }
                let value =
                    self.source_value(depth, node.rf[e], problem.event(e).loc.map_or(0, |l| l.0.into()));
                if value.is_some() {
                    self.pool[depth].value[e] = value;
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let node = &self.pool[depth];
        problem.conditions.iter().all(|c| {
            let first = problem.first[c.thread];
            c.sym
                .eval(&|i| node.value[first + i])
                .is_none_or(|v| c.wanted.admits(v))
        })
    }

    /// Returns the value that a write, or the initial write, puts at a location.
    fn source_value(&self, depth: usize, source: u16, loc: usize) -> Option<Value> {
        if source == INIT {
            return Some(self.problem.program.locations[loc].init);
        }
        let write = usize::from(source);
        let first = self.problem.first[self.problem.thread[write]];
        let node = &self.pool[depth];
        self.problem.sym(write)?.eval(&|i| node.value[first + i])
    }

    /// Finds the undecided read with the fewest possible sources, and these sources. Returns `Some(None)` if a read has none.
    #[allow(clippy::type_complexity)]
    fn next_read(&self, depth: usize) -> Option<Option<(usize, Vec<u16>)>> {
        let node = &self.pool[depth];
        let mut best: Option<(usize, Vec<u16>)> = None;
        for e in 0..self.problem.len() {
            if !node.is_needed(e) || node.rf[e] != UNDECIDED || !self.problem.is_sourced_read(e) {
                continue;
            }
            let sources = self.sources(node, e);
            if sources.is_empty() {
                return Some(None);
            }
            if best.as_ref().is_none_or(|(_, s)| sources.len() < s.len()) {
                let single = sources.len() == 1;
                best = Some((e, sources));
                if single {
                    break;
                }
            }
        }
        best.map(Some)
    }

    /// Lists the writes that `read` could still read from.
    fn sources(&self, node: &Partial<W>, read: usize) -> Vec<u16> {
        let problem = self.problem;
        let loc = problem.event(read).loc.map_or(0, |l| usize::from(l.0));
        let writes = problem.writes[loc].iter().copied();
        let mut sources: Vec<u16> = writes
            .filter(|&w| usize::from(w) != read)
            .filter(|&w| {
                let edges = problem.rf_edges(usize::from(w), read);
                node.status(&edges) != Status::Impossible
            })
            .collect();
        let overwritten = |&w: &u16| {
            let edges = problem.rb_edges(read, INIT, usize::from(w));
            node.status(&edges) == Status::Impossible
        };
        if !problem.writes[loc].iter().any(overwritten) {
            sources.push(INIT);
        }
        sources
    }

    /// Returns the outcome if all values that it shows are known.
    fn outcome(&self, depth: usize) -> Option<Outcome> {
        let problem = self.problem;
        let node = &self.pool[depth];
        let registers = problem.paths.iter().zip(&problem.first).map(|(path, first)| {
            path.registers
                .iter()
                .map(|sym| sym.eval(&|i| node.value[first + i]))
                .collect()
        });
        let last = node.last.iter().enumerate();
        Some(Outcome {
            registers: registers.collect::<Option<_>>()?,
            memory: last
                .map(|(loc, &w)| self.source_value(depth, w, loc))
                .collect::<Option<_>>()?,
        })
    }

    /// Makes the node at `depth + 1` a copy of the one at `depth`.
    fn push(&mut self, depth: usize) {
        if self.pool.len() == depth + 1 {
            let copy = self.pool[depth].clone();
            self.pool.push(copy);
        } else {
            let (head, tail) = self.pool.split_at_mut(depth + 1);
            tail[0].copy_from(&head[depth]);
        }
    }

    fn tick(&mut self) -> Result<(), Limit> {
        *self.states += 1;
        let look = self.states.is_multiple_of(256) || self.budget.states_max.is_some();
        if look && let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(limit);
        }
        Ok(())
    }
}
