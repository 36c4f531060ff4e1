//! The values of a partial execution of the search, and the outcome and execution that they make.

use super::matrix::has;
use super::partial::UNDECIDED;
use super::search::Search;
use crate::declarative::graph;
use crate::declarative::problem::INIT;
use crate::event::Execution;
use crate::litmus::Operand;
use crate::outcome::Outcome;
use crate::program::Value;

impl<const W: usize> Search<'_, '_, W> {
    /// Propagates values along reads-from. Returns false if a condition fails.
    pub(super) fn evaluate_values(&mut self, depth: usize) -> bool {
        let problem = self.problem;
        loop {
            let mut changed = false;
            for e in 0..problem.len() {
                let node = &self.pool[depth];
                if node.value[e].is_some() || !problem.event(e).is_read() {
                    continue;
                }
                let value = match (problem.event(e).loc, node.source[e]) {
                    // The source of a constant put.
                    (None, _) => self.written(depth, e),
                    (Some(_), UNDECIDED) => None,
                    (Some(loc), INIT) => Some(self.initial(usize::from(loc.0))),
                    (Some(_), w) => self.written(depth, usize::from(w)),
                };
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

    fn initial(&self, loc: usize) -> Value {
        self.problem.program.locations[loc].init
    }

    /// Returns the value of an event's own expression, once known.
    fn written(&self, depth: usize, e: usize) -> Option<Value> {
        let first = self.problem.first[self.problem.thread[e]];
        let node = &self.pool[depth];
        self.problem.sym(e)?.eval(&|i| node.value[first + i])
    }

    /// Returns the values of the operands, or of all registers and then all locations, if they are known.
    pub(super) fn shown(&self, depth: usize, operands: Option<&[Operand]>) -> Option<Vec<Value>> {
        let (problem, node) = (self.problem, &self.pool[depth]);
        let register = |t: usize, r: usize| {
            let sym = problem.paths.get(t)?.registers.get(r)?;
            sym.eval(&|i| node.value[problem.first[t] + i])
        };
        let location = |loc: usize| match *node.last.get(loc)? {
            INIT => Some(self.initial(loc)),
            w => self.written(depth, usize::from(w)),
        };
        match operands {
            Some(operands) => operands
                .iter()
                .map(|o| match o {
                    Operand::Reg(t, r) => register(usize::from(t.0), usize::from(r.0)),
                    Operand::Loc(l) => location(usize::from(l.0)),
                })
                .collect(),
            None => {
                let paths = problem.paths.iter().enumerate();
                let registers = paths.flat_map(|(t, p)| (0..p.registers.len()).map(move |r| (t, r)));
                registers
                    .map(|(t, r)| register(t, r))
                    .chain((0..node.last.len()).map(location))
                    .collect()
            }
        }
    }

    /// Makes an outcome of the values of all registers and locations.
    pub(super) fn outcome(&self, values: &[Value]) -> Outcome {
        let mut rest = values.iter().copied();
        let mut take = |count: usize| rest.by_ref().take(count).collect::<Vec<Value>>();
        let registers = self
            .problem
            .paths
            .iter()
            .map(|p| take(p.registers.len()))
            .collect();
        let memory = take(self.problem.writes.len());
        Outcome { registers, memory }
    }

    pub(super) fn execution(&self, depth: usize) -> Execution {
        let node = &self.pool[depth];
        let base = self.base;
        let source = |&s: &u16| if s == UNDECIDED { INIT } else { s };
        let sources: Vec<u16> = node.source.iter().map(source).collect();
        graph::build(
            self.problem,
            &sources,
            |a, b| has(&node.mo[base + a], base + b) || has(&node.rao[base + a], base + b),
            |read, write| has(&node.nfo[base + read], base + write),
        )
    }
}
