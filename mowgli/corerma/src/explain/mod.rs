//! Says why the rules allow or forbid an outcome of coreRMA.
//!
//! An outcome is allowed if an execution has it: [`allowed`] returns one. Otherwise every [`Candidate`] with the outcome breaks a rule:
//! happens-before has a cycle, or a read returns what the rules no-C and C do not give. [`forbidden`] returns what is broken, and the single
//! changes that would allow the outcome. `text` and `drawing` show both. Used by `mowgli explain`.

mod candidate;
mod cycle;
mod drawing;
mod relax;
mod text;

use std::cmp::Reverse;
use std::ops::ControlFlow;

use mowgli::explain::CANDIDATES_MAX;
use mowgli::outcome::{Budget, Limit};
use mowgli::program::Loc;

pub use candidate::Candidate;
pub use drawing::Graph;
pub use relax::Change;

use crate::action::{ACTIONS_MAX, Action};
use crate::closure::Closure;
use crate::execution::{Execution, Next, Problem, Source};
use crate::litmus::Formula;
use crate::outcome::{actions_within, outcome_of};
use crate::program::Program;
use crate::rules::{Order, Rule, orders};
use crate::switches::{Model, Switches};
use crate::values::{Origin, Origins, Values};
use candidate::Claimed;

/// An execution that the rules allow: the choices that it makes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Witness {
    /// The choices, and the origins of all values.
    pub candidate: Candidate,
}

/// A rule that a candidate breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Violation {
    /// Happens-before has this cycle; each pair leads to the next.
    Cycle(Vec<Order>),
    /// A read, or the last value of a location, is not what the rules no-C and C give.
    Value {
        /// The read, or the location.
        of: ValueOf,
        /// The candidate's value.
        claimed: Origin,
        /// The value that the rules give.
        given: Origin,
        /// An access that conflicts with it, or with the write that it reads from.
        conflict: Option<u8>,
    },
}

/// A value of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueOf {
    /// A value that an action reads.
    Read(u8),
    /// The last value of a location.
    Last(Loc),
}

/// A violation with a candidate that has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// The candidate.
    pub candidate: Candidate,
    /// The rule that it breaks.
    pub violation: Violation,
    /// Candidates that break this, and none of the cases found before it.
    pub candidates: u64,
}

/// The reason why no execution has an outcome.
#[derive(Clone, Debug)]
pub struct Reason {
    /// Candidates with the outcome, without the contrary ones.
    pub candidates: u64,
    /// Candidates that only order writes against program order, whatever the outcome. They explain nothing, and are left out unless there
    /// are no others.
    pub contrary: u64,
    /// The limit that kept some candidates from being examined, if one did.
    pub limit: Option<Limit>,
    /// The rules that the candidates break; the one that teaches most comes first.
    pub cases: Vec<Case>,
    /// Single changes that would allow the outcome.
    pub relaxations: Vec<Change>,
    /// Changes that a limit left undecided.
    pub undecided: Vec<Change>,
}

impl Violation {
    /// Lists the rules that it is about, each once, in the order of [`Rule::ALL`].
    pub fn rules(&self) -> Vec<Rule> {
        let has = |rule: &Rule| match self {
            Violation::Cycle(pairs) => pairs.iter().any(|o| o.rule == *rule),
            Violation::Value { given, .. } => match given {
                Origin::Undefined => *rule == Rule::C,
                _ => *rule == Rule::NoC,
            },
        };
        Rule::ALL.into_iter().filter(has).collect()
    }
}

/// Returns an execution with an outcome that satisfies `wanted`; `None` if there is none.
///
/// # Errors
///
/// Returns the limit at which the search stopped without an answer.
pub fn allowed(
    program: &Program,
    model: Model,
    wanted: &Formula,
    budget: &Budget<'_>,
) -> Result<Option<Witness>, Limit> {
    let actions = actions_of(program, model.switches())?;
    let home = |p: u8| program.processes[usize::from(p)].node;
    let problem = Problem::new(&actions, home, model.switches());
    find(program, &problem, wanted, budget)
}

/// Finds an execution of a problem whose outcome satisfies `wanted`.
fn find(
    program: &Program,
    problem: &Problem<'_>,
    wanted: &Formula,
    budget: &Budget<'_>,
) -> Result<Option<Witness>, Limit> {
    let (mut found, mut limit, mut executions) = (None, None, 0);
    problem.visit(&mut |execution| {
        executions += 1;
        limit = budget.exceeded(executions);
        if limit.is_some() {
            return Next::Stop;
        }
        let mut values = Values::new(execution, &program.locations);
        if wanted.holds(&outcome_of(program, &mut values)) {
            found = Some(Witness {
                candidate: chosen(program, execution),
            });
            return Next::Stop;
        }
        Next::Continue
    });
    match (found, limit) {
        (None, Some(limit)) => Err(limit),
        (found, _) => Ok(found),
    }
}

/// Returns the choices of an execution.
fn chosen(program: &Program, execution: Execution<'_>) -> Candidate {
    let problem = execution.problem;
    let locations = || (0..program.locations.len()).map(|l| Loc(l as u16));
    let orders = locations().map(|loc| {
        let writes = problem.actions.iter().enumerate();
        let of = |a: &Action| a.writes() && a.atomic && a.loc == Some(loc);
        let mut writes: Vec<u8> = writes.filter(|(_, a)| of(a)).map(|(at, _)| at as u8).collect();
        // WS is total, so the number of writes before it is the place of each.
        let all = writes.clone();
        let before = |w: u8, v: u8| problem.is_before(execution.before, usize::from(w), usize::from(v));
        writes.sort_by_key(|&w| all.iter().filter(|&&v| v != w && before(v, w)).count());
        writes
    });
    Candidate {
        orders: orders.collect(),
        sources: execution.sources.to_vec(),
        reads: (0..problem.actions.len())
            .map(|at| match problem.actions[at].reads() {
                true => execution.of_read(at),
                false => Origin::Init,
            })
            .collect(),
        last: locations().map(|loc| execution.of_last(loc)).collect(),
    }
}

/// Says why no execution has an outcome that satisfies `wanted`. The result is meaningful only if that is so, which [`allowed`] decides.
pub fn forbidden(program: &Program, model: Model, wanted: &Formula, budget: &Budget<'_>) -> Reason {
    let mut reason = Reason {
        candidates: 0,
        contrary: 0,
        limit: None,
        cases: Vec::new(),
        relaxations: Vec::new(),
        undecided: Vec::new(),
    };
    let actions = match actions_of(program, model.switches()) {
        Ok(actions) => actions,
        Err(limit) => {
            reason.limit = Some(limit);
            return reason;
        }
    };
    let capped = Budget {
        states_max: Some(budget.states_max.unwrap_or(CANDIDATES_MAX)),
        ..*budget
    };
    let home = |p: u8| program.processes[usize::from(p)].node;
    let fixed = orders(&actions, home, model.switches());
    let problem = Problem::new(&actions, home, model.switches());
    let (mut contrary, mut looked_at): (Vec<Case>, u64) = (Vec::new(), 0);
    let result = candidate::each(&problem, program.locations.len(), &mut |candidate| {
        looked_at += 1;
        if let Some(limit) = capped.exceeded(looked_at) {
            return ControlFlow::Break(limit);
        }
        let claimed = Claimed {
            actions: &actions,
            candidate,
        };
        let mut values = Values::new(claimed, &program.locations);
        if !wanted.holds(&outcome_of(program, &mut values)) {
            return ControlFlow::Continue(());
        }
        let pairs = cycle::pairs(&problem, &program.locations, &fixed, candidate);
        let Some(violation) = violation(&problem, &pairs, candidate) else {
            return ControlFlow::Continue(());
        };
        let against = matches!(&violation, Violation::Cycle(pairs) if is_contrary(pairs));
        let cases = if against { &mut contrary } else { &mut reason.cases };
        match cases.iter_mut().find(|case| case.violation == violation) {
            Some(case) => case.candidates += 1,
            None => cases.push(Case {
                candidate: candidate.clone(),
                violation,
                candidates: 1,
            }),
        }
        ControlFlow::Continue(())
    });
    reason.limit = result.break_value();
    if reason.cases.is_empty() {
        reason.cases = std::mem::take(&mut contrary);
    }
    reason.contrary = contrary.iter().map(|c| c.candidates).sum();
    reason.candidates = reason.cases.iter().map(|c| c.candidates).sum();
    reason.cases.sort_by_key(|case| case.rank(&actions));
    relax::relax(program, &actions, model, wanted, &mut reason, budget);
    reason
}

/// Returns what a candidate breaks; `None` if the rules allow it.
fn violation(problem: &Problem<'_>, pairs: &[Order], candidate: &Candidate) -> Option<Violation> {
    if let Some(cycle) = cycle::shortest(problem, pairs) {
        return Some(Violation::Cycle(cycle));
    }
    let mut before = Closure::new(problem.actions.len());
    for pair in pairs {
        problem.add(&mut before, pair.from, pair.to);
    }
    let execution = Execution {
        problem,
        before: &before,
        sources: &candidate.sources,
    };
    let differs = |of: ValueOf, claimed: Origin, given: Origin, conflict: Option<u8>| {
        (claimed != given).then_some(Violation::Value {
            of,
            claimed,
            given,
            conflict,
        })
    };
    for (at, action) in problem.actions.iter().enumerate() {
        let (true, Some(loc)) = (action.reads(), action.loc) else {
            continue;
        };
        let given = execution.of_read(at);
        let conflict = execution.conflict(at).or_else(|| match candidate.reads[at] {
            Origin::Write(w) => execution.conflict(usize::from(w)),
            _ => None,
        });
        let wrong = differs(ValueOf::Read(at as u8), candidate.reads[at], given, conflict);
        if wrong.is_some() {
            return wrong;
        }
        // An atomic read may name any source; what happens-before leaves visible decides, unless there is a conflict.
        if action.atomic
            && problem.has_plain()
            && problem.switches().reads_are_coherent()
            && given != Origin::Undefined
        {
            let visible = execution.latest(loc, Some(at));
            let has_source = match candidate.sources[at] {
                Source::Init => visible.is_empty(),
                Source::Write(w) => visible.contains(&w),
                Source::Plain => true,
            };
            if !has_source {
                let given = visible.first().map_or(Origin::Init, |&w| Origin::Write(w));
                return differs(ValueOf::Read(at as u8), candidate.reads[at], given, None);
            }
        }
    }
    let last = candidate.last.iter().enumerate();
    last.map(|(l, &claimed)| (Loc(l as u16), claimed))
        .find_map(|(loc, claimed)| differs(ValueOf::Last(loc), claimed, execution.of_last(loc), None))
}

/// Returns whether a cycle only orders writes against the order that the program gives.
fn is_contrary(cycle: &[Order]) -> bool {
    let chosen = |o: &&Order| matches!(o.rule, Rule::Ws);
    let by_execution = |o: &&Order| matches!(o.rule, Rule::Ws | Rule::R1 | Rule::R2);
    cycle.iter().filter(chosen).count() == 1 && cycle.iter().filter(by_execution).count() == 1
}

impl Case {
    /// Returns a rank that is smaller for cases that teach more: cycles of one location teach least, and short ones
    /// most.
    fn rank(&self, actions: &[Action]) -> (bool, usize, Reverse<u64>) {
        let (one_place, length) = match &self.violation {
            Violation::Cycle(pairs) => {
                let loc = |o: &Order| actions[usize::from(o.from)].loc;
                (pairs.iter().all(|o| loc(o) == loc(&pairs[0])), pairs.len())
            }
            Violation::Value { .. } => (false, 1),
        };
        (one_place, length, Reverse(self.candidates))
    }
}

impl Reason {
    /// Returns whether every candidate and every change was looked at.
    pub fn is_complete(&self) -> bool {
        self.limit.is_none() && self.undecided.is_empty()
    }
}

fn actions_of(program: &Program, switches: Switches) -> Result<Vec<Action>, Limit> {
    let words = || format!("the program has more than {ACTIONS_MAX} actions (ACTIONS_MAX)");
    actions_within(program, switches).ok_or_else(|| Limit::TooLarge(words()))
}
