//! Refutes an outcome: finds cycles such that every execution with the outcome has one of them. A cycle that it cannot show is a limit.
//!
//! The search decides sources of reads and orders of memory one by one, the most constrained first, and stops at the first cycle of a
//! branch. So it need not list executions, of which a program with a lock has millions: that two acquisitions read the same write is
//! refuted once, whatever the rest of the program does. Each edge carries the decisions on which it depends. If a branch fails for
//! reasons that do not depend on its decision, the other branches fail for the same ones and are left out. The exceptions are reads that
//! decide where a thread goes, such as the acquisition of a lock: what was found about their other sources is kept, because it says
//! what the program relies on. A cycle is shown in an execution, for which a search tries at most [`complete::TRIES_MAX`] choices of sources
//! from each of the first [`KEPT`] ends of branches that have the cycle, and again from the decisions alone on which the cycle depends. If
//! these have no execution with the outcome, the cycle is not to be shown. If none is found within the bounds, the cycle is left out
//! too, and [`Limit::Unshown`] says so, because there may be executions that have this cycle alone. Relies on [`crate::declarative`] for paths and events. Used by [`super::forbidden`].

mod complete;
mod links;
mod state;

pub(super) use complete::TRIES_MAX;

use std::ops::ControlFlow;

use crate::declarative::problem::Problem;
use crate::declarative::unfold::{End, Repeats};
use crate::declarative::{Choices, POINTS_MAX, exceeded_loop, unfold_all};
use crate::event::Execution;
use crate::litmus::Formula;
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit};
use crate::program::Program;

use super::cycle::{Cycle, Graph};
use complete::Unshown;
use links::{Levels, Link, Step, close, is_contrary};
use state::{Alternative, Decision, State};

/// A cycle with an execution that has it.
pub(super) struct Found {
    pub(super) execution: Execution,
    pub(super) cycle: Cycle,
    /// The branches that ended with the cycle.
    pub(super) branches: u64,
    /// Whether it only orders memory against program order of one thread.
    pub(super) contrary: bool,
}

/// The most ends of branches of one cycle that are kept, to find one that is the beginning of an execution.
const KEPT: usize = 8;

/// The end of a branch, or several with one cycle.
#[derive(Clone)]
struct Leaf {
    steps: Vec<Step>,
    /// The states in which the first few of these branches ended, and the decisions on which the cycle depends there.
    states: Vec<(State, Levels)>,
    branches: u64,
}

/// The failure of an alternative.
struct Dead {
    needs: Levels,
    leaf: Option<Leaf>,
}

/// The refutation of a branch: the decisions that it depends on, and the cycles.
type Refuted = (Levels, Vec<Leaf>);

/// Finds the cycles. The limit that stopped the search or left a cycle out, if one did, is returned beside what was found until then.
/// At most `tries` choices of sources are made for each end of a branch.
pub(super) fn refute(
    program: &Program,
    spec: &Spec,
    wanted: &Formula,
    budget: &Budget<'_>,
    tries: u32,
) -> (Vec<Found>, Option<Limit>) {
    let mut found = Vec::new();
    let mut states = 0;
    let mut unshown = 0;
    let mut search = || {
        let threads = unfold_all(program, spec, Repeats::Outcomes, budget)?;
        for choice in Choices::new(&threads, |end| end == End::Complete) {
            let problem = Problem::new(program, spec, &choice);
            if problem.points > POINTS_MAX {
                return Err(Limit::TooLarge(format!("{} points in time", problem.points)));
            }
            let mut search = Search {
                problem: &problem,
                wanted,
                fixed: links::fixed(&problem),
                budget,
                states: &mut states,
                met: Vec::new(),
            };
            let result = search.all();
            let leaves = match &result {
                Ok(ControlFlow::Continue(())) | Err(_) => std::mem::take(&mut search.met),
                // An execution is consistent, so that there is nothing to refute.
                Ok(ControlFlow::Break(())) => Vec::new(),
            };
            for leaf in &leaves {
                match search.finish(leaf, tries) {
                    Ok(shown) => found.extend(shown),
                    Err(Unshown) => unshown += 1,
                }
            }
            let _answer = result?;
        }
        // Executions with more iterations of a loop were not looked at.
        match exceeded_loop(program, spec, &threads, budget, &mut states)? {
            Completeness::Complete => Ok(()),
            Completeness::Incomplete(limit) => Err(limit),
        }
    };
    let result: Result<(), Limit> = search();
    let left_out = (unshown > 0).then_some(Limit::Unshown(unshown));
    (found, result.err().or(left_out))
}

struct Search<'s, 'a> {
    problem: &'s Problem<'a>,
    wanted: &'s Formula,
    fixed: Vec<Link>,
    budget: &'s Budget<'s>,
    states: &'s mut u64,
    /// The ends of branches: all that were met while the search runs, those of the refutation when it is done.
    met: Vec<Leaf>,
}

impl Search<'_, '_> {
    /// Refutes the whole problem. Breaks if an execution is consistent.
    fn all(&mut self) -> Result<ControlFlow<()>, Limit> {
        let Some(root) = State::new(self.problem, self.wanted, &self.fixed) else {
            // The links that every execution has form a cycle: no thread can take this path.
            return Ok(ControlFlow::Continue(()));
        };
        Ok(match self.refute(&root, 0)? {
            Some((_, leaves)) => {
                self.met = leaves;
                ControlFlow::Continue(())
            }
            None => ControlFlow::Break(()),
        })
    }

    /// Refutes what remains open; `None` if nothing does, and so an execution is consistent.
    fn refute(&mut self, state: &State, level: usize) -> Result<Option<Refuted>, Limit> {
        *self.states += 1;
        if let Some(limit) = self.budget.exceeded(*self.states) {
            return Err(limit);
        }
        if let Some(needs) = state.contradiction(self.problem, self.wanted) {
            return Ok(Some((needs, Vec::new())));
        }
        let me = Levels::of(level)?;
        let mut best: Option<(Rank, Decision, Vec<Dead>, Vec<State>)> = None;
        for decision in state.open(self.problem) {
            let (mut dead, mut alive) = (Vec::new(), Vec::new());
            for alternative in state.alternatives(self.problem, decision) {
                match self.apply(state, decision, alternative, me) {
                    Ok(next) => alive.push(next),
                    Err(failure) => dead.push(failure),
                }
            }
            let rank = rank(state, decision, alive.len());
            if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
                let forced = alive.len() <= 1;
                best = Some((rank, decision, dead, alive));
                if forced && rank.1 == 0 {
                    break;
                }
            }
        }
        let Some((_, decision, dead, alive)) = best else {
            // Values that follow from themselves are known in no execution.
            let refuted = !state.is_known(self.problem);
            return Ok(refuted.then(|| (state.all_levels(), Vec::new())));
        };
        let mut failed = Levels::default();
        let mut leaves = Vec::new();
        for Dead { needs, leaf } in dead {
            failed = failed.and(needs);
            if let Some(leaf) = leaf {
                merge(&mut self.met, leaf.clone());
                merge(&mut leaves, leaf);
            }
        }
        for next in alive {
            let Some((needs, below)) = self.refute(&next, level + 1)? else {
                return Ok(None);
            };
            if !needs.has(me) {
                let is_told = matches!(decision, Decision::Source(e) if state.steers(e));
                let kept = if is_told { leaves } else { Vec::new() };
                return Ok(Some((needs, below.into_iter().fold(kept, merged))));
            }
            failed = failed.and(needs);
            leaves = below.into_iter().fold(leaves, merged);
        }
        Ok(Some((failed.without(me), leaves)))
    }

    /// Takes an alternative. Fails if values contradict the outcome or a condition, or if an edge closes a cycle.
    fn apply(
        &self,
        state: &State,
        decision: Decision,
        alternative: Alternative,
        me: Levels,
    ) -> Result<State, Dead> {
        let p = self.problem;
        let mut next = state.clone();
        let fail = |needs| Dead { needs, leaf: None };
        let links = next.take(p, decision, alternative, me).map_err(fail)?;
        if let Some(needs) = next.contradiction(p, self.wanted) {
            return Err(fail(needs));
        }
        let mut closed: Option<(Vec<Step>, Levels)> = None;
        for link in links {
            let (a, b) = link.ends();
            if next.order.add(a, b) {
                next.links.push(link);
                continue;
            }
            let Some((steps, needs)) = close(p.points, &[&self.fixed, &next.links], &link) else {
                continue;
            };
            if closed.as_ref().is_none_or(|(least, _)| steps.len() < least.len()) {
                closed = Some((steps, needs));
            }
        }
        match closed {
            None => Ok(next),
            Some((steps, needs)) => Err(Dead {
                needs,
                // An order of one sort against itself is no order, and so no execution has it.
                leaf: (!is_of_one_order(&steps)).then(|| Leaf {
                    steps,
                    states: vec![(next, needs)],
                    branches: 1,
                }),
            }),
        }
    }

    /// Completes one of the ends of branches to an execution. Returns `None` if no execution with the outcome takes the decisions on
    /// which the cycle depends.
    ///
    /// # Errors
    /// If no execution was found, and there may be one.
    fn finish(&self, leaf: &Leaf, tries: u32) -> Result<Option<Found>, Unshown> {
        let complete = |state: &State| complete::execution(self.problem, self.wanted, state, tries);
        let ends = leaf.states.iter().map(|(state, _)| state);
        if let Some(execution) = ends.filter_map(|state| complete(state).ok()?).next() {
            return self.found(leaf, execution).map(Some);
        }
        let mut is_all = leaf.branches == leaf.states.len() as u64;
        for (state, needs) in &leaf.states {
            // A decision on which the cycle does not depend may be what the end of the branch cannot be completed with.
            let state = state.only(self.problem, self.wanted, &self.fixed, *needs);
            match state.ok_or(Unshown).and_then(|state| complete(&state)) {
                Ok(None) => {}
                Ok(Some(execution)) => return self.found(leaf, execution).map(Some),
                Err(Unshown) => is_all = false,
            }
        }
        if is_all { Ok(None) } else { Err(Unshown) }
    }

    /// Returns the cycle of a leaf in an execution.
    ///
    /// # Errors
    /// If the execution does not have it.
    fn found(&self, leaf: &Leaf, execution: Execution) -> Result<Found, Unshown> {
        let graph = Graph::new(&execution, self.problem.spec);
        let base = self.problem.program.locations.len();
        let cycle = graph.cycle(leaf.steps.iter().map(|step| {
            let event = |e: u16| base + usize::from(e);
            (event(step.from), event(step.to), step.part, step.is_issue)
        }));
        if !graph.has(&cycle) {
            return Err(Unshown);
        }
        Ok(Found {
            cycle,
            branches: leaf.branches,
            contrary: is_contrary(&leaf.steps),
            execution,
        })
    }
}

/// The place of a decision in line: what is forced first, then sources before orders.
type Rank = (usize, usize, usize);

fn rank(state: &State, decision: Decision, alive: usize) -> Rank {
    let sort = match decision {
        Decision::Source(e) if state.steers(e) => 0,
        Decision::Source(_) => 1,
        Decision::Last(_) => 2,
        Decision::Mo(..) => 3,
        Decision::Rao(..) => 4,
        Decision::Nfo(..) => 5,
    };
    (alive.min(2), sort, alive)
}

/// Returns whether all steps are of one order of memory, which is then no order.
fn is_of_one_order(steps: &[Step]) -> bool {
    use crate::models::Part::{Mo, Rao};
    [Mo, Rao]
        .into_iter()
        .any(|part| steps.iter().all(|step| step.part == part))
}

/// Adds a leaf to those with other cycles, or to the one with the same cycle.
fn merge(leaves: &mut Vec<Leaf>, leaf: Leaf) {
    match leaves.iter_mut().find(|known| known.steps == leaf.steps) {
        None => leaves.push(leaf),
        Some(known) => {
            known.branches += leaf.branches;
            let room = KEPT.saturating_sub(known.states.len());
            known.states.extend(leaf.states.into_iter().take(room));
        }
    }
}

fn merged(mut leaves: Vec<Leaf>, leaf: Leaf) -> Vec<Leaf> {
    merge(&mut leaves, leaf);
    leaves
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::declarative::{outcomes_under, reference};
    use crate::explain::forbidden_within;
    use crate::generate::{self, Shape};
    use crate::litmus::{Operand, Relation, Setting};
    use crate::model::{Model, RmwAtomicity};
    use crate::outcome::Outcome;
    use crate::program::{Loc, Reg, ThreadId};

    /// Returns the formula that holds in this outcome alone.
    fn exactly(outcome: &Outcome) -> Formula {
        let registers = outcome.registers.iter().enumerate().flat_map(|(t, values)| {
            let operand = move |r: usize| Operand::Reg(ThreadId(t as u8), Reg(r as u16));
            let atom = move |(r, &value)| Formula::Atom(operand(r), Relation::Eq, value);
            values.iter().enumerate().map(atom)
        });
        let memory = outcome.memory.iter().enumerate();
        let memory =
            memory.map(|(l, &value)| Formula::Atom(Operand::Loc(Loc(l as u16)), Relation::Eq, value));
        Formula::And(
            [Formula::Const(true), Formula::Const(true)]
                .into_iter()
                .chain(registers)
                .chain(memory)
                .collect(),
        )
    }

    /// Cycles that are left out are a limit, and neither "no choice of sources" nor "every execution".
    #[test]
    fn a_cycle_that_is_not_shown_is_a_limit() {
        let (mut all_left_out, mut some_left_out) = (0, 0);
        for entry in crate::catalogue::entries() {
            let test = entry.parse().unwrap();
            let setting = Setting {
                model: Model::RdmaTso,
                rmw: RmwAtomicity::Hca,
            };
            let Some(query) = test.queries.first() else {
                continue;
            };
            let wanted = &query.condition.formula;
            let budget = Budget {
                states_max: Some(2_000),
                ..Budget::default()
            };
            let allowed = outcomes_under(&test.program, &Spec::of(setting.model, setting.rmw), &budget);
            if !allowed.is_complete() || allowed.outcomes.iter().any(|o| wanted.holds(o)) {
                continue;
            }
            let whole = forbidden_within(&test.program, setting, wanted, &budget, TRIES_MAX);
            if whole.limit.is_some() || whole.cases.is_empty() {
                continue;
            }
            for tries in 0..4 {
                let part = forbidden_within(&test.program, setting, wanted, &budget, tries);
                let text = part.render(&test.program, setting, 0..1);
                let left_out = part.candidates + part.contrary < whole.candidates + whole.contrary;
                let is_limit = matches!(part.limit, Some(Limit::Unshown(_)));
                assert!(is_limit || !left_out, "{} by {tries}: {text}", entry.name);
                if is_limit {
                    assert!(!part.is_complete());
                    assert!(!text.contains("no choice of sources"), "{}: {text}", entry.name);
                    assert!(!text.contains("outcome has"), "{}: {text}", entry.name);
                    assert!(text.contains("left out"), "{}: {text}", entry.name);
                }
                all_left_out += u32::from(is_limit && part.cases.is_empty());
                some_left_out += u32::from(is_limit && !part.cases.is_empty());
            }
        }
        assert!(
            all_left_out > 20 && some_left_out > 3,
            "{all_left_out}, {some_left_out}"
        );
    }

    /// By brute force: each candidate execution with a forbidden outcome has one of the cycles that are found for it.
    #[test]
    fn every_execution_with_the_outcome_has_one_of_the_cycles() {
        let budget = Budget {
            states_max: Some(4_000),
            ..Budget::default()
        };
        let shape = Shape {
            instructions: 5,
            rmw: true,
            ..Shape::SMALL
        };
        let (mut refuted, mut checked) = (0, 0);
        for seed in 0..250 {
            let program = generate::program(seed, &shape);
            let program = if seed % 2 == 0 { program } else { program.inlined() };
            for model in [Model::RdmaTso, Model::RdmaSc, Model::RdmaTsoNoPcie, Model::Sc] {
                let rmw = RmwAtomicity::ALL[seed as usize / 2 % 2];
                let spec = Spec::of(model, rmw);
                let allowed = outcomes_under(&program, &spec, &Budget::default());
                let mut executions = Vec::new();
                let listed = reference::each_execution(&program, &spec, &budget, |execution| {
                    executions.push(execution.clone());
                    ControlFlow::Continue(())
                });
                if !allowed.is_complete() || listed.is_err() {
                    continue;
                }
                let outcomes: BTreeSet<&Outcome> = executions.iter().map(|e| &e.outcome).collect();
                for outcome in outcomes
                    .into_iter()
                    .filter(|o| !allowed.outcomes.contains(o))
                    .take(3)
                {
                    let (found, limit) =
                        refute(&program, &spec, &exactly(outcome), &Budget::default(), TRIES_MAX);
                    assert_eq!(limit, None);
                    refuted += 1;
                    for execution in executions.iter().filter(|e| e.outcome == *outcome) {
                        let graph = Graph::new(execution, &spec);
                        let has = |f: &&Found| f.execution.events == execution.events && graph.has(&f.cycle);
                        assert!(
                            found.iter().any(|f| has(&f)),
                            "seed {seed}, {model}/{rmw}, {outcome:?}: {} cycles, none in\n{execution:#?}\n{program:#?}",
                            found.len()
                        );
                        checked += 1;
                    }
                    for f in &found {
                        assert!(Graph::new(&f.execution, &spec).has(&f.cycle));
                        assert_eq!(f.execution.outcome, *outcome);
                    }
                }
            }
        }
        println!("{refuted} outcomes, {checked} executions");
        assert!(refuted > 300 && checked > 1_000, "{refuted}, {checked}");
    }
}
