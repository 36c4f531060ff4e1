//! Says which axiom of a model file forbids an outcome, with the cycle in the names of the file.
//!
//! Every candidate execution with the outcome violates an axiom. Its reason is a cycle of the axiom's relation, taken apart into the
//! relations that the file names. Used by `mowgli explain --model FILE`.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt::Write;
use std::ops::{ControlFlow, Range};

use serde::Serialize;

use super::ast::Test;
use super::eval::Values;
use super::graph::{Graph, NodeId, Op, Type};
use super::predefined::Rel;
use super::{Axiom, ModelFile};
use crate::declarative::reference;
use crate::declarative::unfold::Repeats;
use crate::event::Execution;
use crate::explain::{CANDIDATES_MAX, Drawing, Lesson, Mark, heading, one_of_each, opening};
use crate::litmus::Formula;
use crate::model::RmwAtomicity;
use crate::outcome::{Budget, Limit};
use crate::program::Program;
use crate::relation::Relation;

/// A pair of a relation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Link {
    /// The first event, an index into the execution's events.
    pub from: usize,
    /// The second event.
    pub to: usize,
    /// The relation, as the file names or writes it.
    pub relation: String,
    /// Whether the program fixes the pair.
    #[serde(skip)]
    fixed: bool,
    /// Whether it is a pair of an order of memory (`mo`, `nfo`, `rao`) that the execution chose.
    #[serde(skip)]
    chosen: bool,
}

/// A violated axiom with a candidate execution that violates it.
#[derive(Clone, Debug)]
pub struct Case {
    /// A candidate execution.
    pub execution: Execution,
    /// The axiom that it violates, the first of the file.
    pub axiom: Axiom,
    /// The pairs that violate it: a cycle for `acyclic` and `irreflexive`, a member for `empty`. Empty for a negated axiom.
    pub links: Vec<Link>,
    /// Candidates with this reason.
    pub candidates: u64,
}

/// The reason why no execution with an outcome satisfies the axioms.
#[derive(Clone, Debug)]
pub struct Reason {
    /// Candidate executions that have the outcome, without the contrary ones.
    pub candidates: u64,
    /// Candidates that only order memory against program order of one thread, whatever the outcome. They explain nothing unless there
    /// are no others, so they are counted separately.
    pub contrary: u64,
    /// The limit that kept some candidates from being examined, if one did.
    pub limit: Option<Limit>,
    /// The reasons; those that teach most come first, as in [`crate::explain::Reason::cases`].
    pub cases: Vec<Case>,
}

/// Says why no execution that satisfies `wanted` satisfies the axioms. The result is meaningful only if there is no
/// such execution.
pub fn forbidden(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    wanted: &Formula,
    budget: &Budget<'_>,
) -> Reason {
    let spec = model.candidates(atomicity);
    let capped = Budget {
        states_max: Some(budget.states_max.unwrap_or(CANDIDATES_MAX)),
        ..*budget
    };
    // Contrary cases, and the others.
    let (mut against, mut cases): (Vec<Case>, Vec<Case>) = (Vec::new(), Vec::new());
    let repeats = model.repeats(program, Repeats::Outcomes);
    let result = reference::each_execution_of(program, &spec, repeats, &capped, |execution| {
        if !wanted.holds(&execution.outcome) {
            return ControlFlow::Continue(());
        }
        let Some((axiom, links)) = violation(model, execution) else {
            return ControlFlow::Continue(());
        };
        let chosen = links.iter().filter(|l| l.chosen).count();
        let is_contrary = chosen == 1 && links.iter().filter(|l| l.fixed).count() + 1 == links.len();
        let cases = if is_contrary { &mut against } else { &mut cases };
        let same = |case: &&mut Case| case.links == links && case.execution.events == execution.events;
        match cases.iter_mut().find(same) {
            Some(case) => case.candidates += 1,
            None => cases.push(Case {
                execution: execution.clone(),
                axiom: axiom.clone(),
                links,
                candidates: 1,
            }),
        }
        ControlFlow::Continue(())
    });
    // Contrary cases are the reason if there are no others.
    if cases.is_empty() {
        cases = std::mem::take(&mut against);
    }
    let count = |cases: &[Case]| cases.iter().map(|c| c.candidates).sum();
    Reason {
        candidates: count(&cases),
        contrary: count(&against),
        limit: result.err(),
        cases: once(program, cases),
    }
}

/// Makes one case of those that are written alike, and puts those first that teach most.
fn once(program: &Program, cases: Vec<Case>) -> Vec<Case> {
    let text = |case: &Case| {
        let mut text = String::new();
        case.write(&mut text, program);
        text
    };
    let mut cases = one_of_each(cases, text, |known, case| known.candidates += case.candidates);
    cases.sort_by_cached_key(Case::rank);
    cases
}

/// Returns the first axiom that an execution violates, with its cycle; `None` if it satisfies all.
pub fn violation<'m>(model: &'m ModelFile, execution: &Execution) -> Option<(&'m Axiom, Vec<Link>)> {
    let values = Values::new(&model.graph, execution);
    let axiom = model.axioms.iter().find(|a| !values.satisfies(a))?;
    let search = Links {
        graph: &model.graph,
        fixed: &model.flags.fixed,
        values: &values,
    };
    Some((axiom, search.of(axiom)))
}

struct Links<'a> {
    graph: &'a Graph,
    fixed: &'a [bool],
    values: &'a Values<'a>,
}

impl Links<'_> {
    fn of(&self, axiom: &Axiom) -> Vec<Link> {
        let id = axiom.expr;
        if axiom.negated {
            return Vec::new();
        }
        if self.graph.type_of(id) == Type::Set {
            let member = self.values.set(id).iter().position(|&m| m);
            return member.map_or_else(Vec::new, |e| vec![self.link(id, e, e)]);
        }
        let relation = self.values.relation(id);
        let events = 0..relation.len();
        let cycles: Vec<Vec<Link>> = match axiom.test {
            Test::Acyclic => events.filter_map(|e| self.path(id, e, e)).collect(),
            Test::Irreflexive => events
                .filter(|&e| relation.contains(e, e))
                .map(|e| self.why(id, e, e))
                .collect(),
            Test::Empty => relation
                .pairs()
                .take(1)
                .map(|(a, b)| self.why(id, a, b))
                .collect(),
        };
        cycles.into_iter().min_by_key(Vec::len).unwrap_or_default()
    }

    fn link(&self, id: NodeId, from: usize, to: usize) -> Link {
        let order = |rel| matches!(rel, Rel::Mo | Rel::Nfo | Rel::Bus | Rel::Rao);
        Link {
            from,
            to,
            relation: self.graph.text(id),
            fixed: self.fixed[id.index()],
            chosen: matches!(self.graph.ops[id.index()], Op::Rel(rel) if order(rel)),
        }
    }

    /// Takes a pair of a relation apart into pairs of relations that the file names, or that are no unions, sequences or closures.
    fn why(&self, id: NodeId, a: usize, b: usize) -> Vec<Link> {
        let contains = |id: NodeId| self.values.relation(id).contains(a, b);
        let whole = self.fixed[id.index()] && self.graph.name_of(id).is_some();
        match self.graph.ops[id.index()] {
            _ if whole => vec![self.link(id, a, b)],
            Op::Union(x, y) => self.why(if contains(x) { x } else { y }, a, b),
            Op::Plus(x) => self.path(x, a, b).unwrap_or_default(),
            Op::Star(_) | Op::Optional(_) if a == b => Vec::new(),
            Op::Star(x) => self.path(x, a, b).unwrap_or_default(),
            Op::Optional(x) => self.why(x, a, b),
            Op::Identity(_) => Vec::new(),
            Op::Sequence(x, y) => {
                let (left, right) = (self.values.relation(x), self.values.relation(y));
                let between = left.successors(a).filter(|&c| right.contains(c, b));
                let ways = between.map(|c| [self.why(x, a, c), self.why(y, c, b)].concat());
                ways.min_by_key(Vec::len).unwrap_or_default()
            }
            _ => vec![self.link(id, a, b)],
        }
    }

    /// Takes a shortest way from `a` to `b` apart; a way has at least one step.
    fn path(&self, id: NodeId, a: usize, b: usize) -> Option<Vec<Link>> {
        let relation = self.values.relation(id);
        let mut came_from = vec![None; relation.len()];
        let mut queue = VecDeque::from([a]);
        'search: while let Some(at) = queue.pop_front() {
            for next in relation.successors(at) {
                if came_from[next].is_none() {
                    came_from[next] = Some(at);
                    if next == b {
                        break 'search;
                    }
                    queue.push_back(next);
                }
            }
        }
        let mut steps = Vec::new();
        let mut at = b;
        loop {
            let before = came_from[at]?;
            steps.push((before, at));
            at = before;
            if at == a {
                break;
            }
        }
        steps.reverse();
        Some(steps.into_iter().flat_map(|(x, y)| self.why(id, x, y)).collect())
    }
}

impl Case {
    /// Returns a rank that is smaller for cycles that teach more, as in [`crate::explain::Reason::cases`].
    fn rank(&self) -> (Lesson, usize, Reverse<u64>, Vec<(usize, usize)>) {
        let events = &self.execution.events;
        let edge = |l: &Link| {
            let apart = !events[l.from].same_instruction(&events[l.to]);
            (l.from, l.to, apart && (l.fixed || l.chosen))
        };
        let edges: Vec<_> = self.links.iter().map(edge).collect();
        let ends = self.links.iter().map(|l| (l.from, l.to)).collect();
        let lesson = Lesson::of(&self.execution, &edges);
        (lesson, self.links.len(), Reverse(self.candidates), ends)
    }
}

impl Reason {
    /// Returns the reason as text, with the cases in `shown`.
    pub fn render(&self, program: &Program, shown: Range<usize>) -> String {
        let count = self.cases.len();
        let limit = self.limit.as_ref();
        let mut text = opening(
            count,
            self.candidates,
            limit,
            "violates an axiom",
            "violated axiom",
        );
        for (index, case) in self.cases.iter().enumerate() {
            if shown.contains(&index) {
                text.push_str(&heading("Reason", index, count, case.candidates));
                case.write(&mut text, program);
            }
        }
        if shown.len() < count {
            text.push_str("\n--all shows every reason, --cycle N one of them.\n");
        }
        text
    }

    /// Returns the graph of the execution of case `index`, its cycle marked, with the relations that the file shows.
    pub fn drawing(&self, program: &Program, model: &ModelFile, index: usize) -> Option<Drawing> {
        let case = self.cases.get(index)?;
        let mark = |l: &Link| Mark {
            from: l.from,
            to: l.to,
            label: l.relation.clone(),
        };
        let marks: Vec<Mark> = case.links.iter().map(mark).collect();
        let shown = model.shown(&case.execution);
        Some(Drawing::marked(program, &case.execution, Some(&marks), &shown))
    }
}

impl Case {
    fn write(&self, text: &mut String, program: &Program) {
        let labels = self.execution.labels(program);
        let full = |e: usize| match self.execution.events[e].thread {
            None => format!("init: {}", labels[e]),
            Some(t) => format!("{}: {}", program.threads[usize::from(t.0)].name, labels[e]),
        };
        let _ = writeln!(text, "\nIt violates {}.\n", self.axiom);
        for link in &self.links {
            let _ = writeln!(text, "  {}", full(link.from));
            let _ = writeln!(text, "    -> {}", link.relation);
        }
        if let Some(last) = self.links.last() {
            let _ = writeln!(text, "  {}", full(last.to));
        }
    }
}

impl ModelFile {
    /// Returns the relations that the file asks to show, on an execution.
    pub fn shown(&self, execution: &Execution) -> Vec<(String, Relation)> {
        if self.shows.is_empty() {
            return Vec::new();
        }
        let values = Values::new(&self.graph, execution);
        let shows = self.shows.iter();
        shows
            .map(|(name, id)| (name.clone(), values.relation(*id).clone()))
            .collect()
    }
}
