//! Explains why an outcome is allowed or forbidden.
//!
//! An allowed outcome gets a *witness* ([`allowed`]): an execution graph that the model accepts. A forbidden outcome gets a
//! *reason* ([`forbidden`]): every execution with that outcome has a cycle in the model's orders. The reason lists
//! these cycles, those that teach most first ([`Reason::cases`]), for each edge the table cell or definition that puts it
//! there, and the single changes that would allow the outcome. Everything is plain data (serde) with renderings as text, DOT and SVG. Used by `mowgli explain` and by the graphs of
//! `loco-sim`.

mod cycle;
mod dot;
mod drawing;
mod grid;
mod layout;
mod refute;
mod relax;
mod svg;
mod text;

use std::cmp::Reverse;
use std::ops::Range;

use serde::Serialize;

pub use cycle::{CellRef, Cycle, Edge, Lesson, Side};
pub use drawing::{Arrow, Drawing, Mark, NodeBox, Place, Style};
pub use relax::{Change, Relaxation};
pub use text::{heading, opening};

use crate::check;
use crate::declarative;
use crate::event::Execution;
use crate::litmus::{Formula, Setting};
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit};
use crate::program::Program;

/// Most branches that [`forbidden`] looks at if the budget does not say.
pub const CANDIDATES_MAX: u64 = 200_000;

/// Most states of the search that tries one relaxation.
pub const RELAXATION_STATES_MAX: u64 = 200_000;

/// An execution that shows an outcome to be allowed.
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// The execution, which the model accepts.
    pub execution: Execution,
}

/// The reason why no execution with the outcome is consistent.
#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    /// The ways to the outcome that were refuted: choices of sources and orders, as far as they matter. Executions that agree on them
    /// count as one.
    pub candidates: u64,
    /// The number of contrary candidates. Their only fault is to order memory (`mo`, `nfo`, `rao`), or to
    /// read from a later write, against program order within a thread, whatever the outcome. They explain nothing unless
    /// there are no others, so they are counted separately.
    pub contrary: u64,
    /// The limit that kept some candidates from being examined, or some cycles from being shown, if one did. The cycles are real
    /// either way.
    pub limit: Option<Limit>,
    /// Cycles such that every execution with the outcome has one of them; no two are written alike. If a
    /// bounded search finds no execution to show one in (`refute`), that cycle is left out, and `limit` says so. The cycles that teach most come
    /// first, by [`Lesson`]: an order of the network, then other orders between threads, then the processors alone, then a thread's
    /// own poll, then the coherence of one location. Among these come first the cycles that show two read-modify-writes which
    /// cannot read the same write, such as two acquisitions of a lock, then shorter cycles, then more frequent ones, then those whose
    /// events come first in the program. So the order is the same in every run. The list is empty if no choice of sources gives the
    /// values.
    pub cases: Vec<Case>,
    /// Single changes to program or model that would allow the outcome.
    pub relaxations: Vec<Relaxation>,
    /// Changes that a limit left undecided. They might allow the outcome.
    pub undecided: Vec<Change>,
}

/// A cycle with a candidate execution that has it.
#[derive(Clone, Debug, Serialize)]
pub struct Case {
    /// A candidate execution.
    pub execution: Execution,
    /// Its cycle.
    pub cycle: Cycle,
    /// Candidates explained by this cycle and by none found before it.
    pub candidates: u64,
}

/// Returns a witness for an outcome that satisfies `wanted`; `None` if there is none.
///
/// # Errors
/// Returns the limit at which the search stopped without an answer.
pub fn allowed(
    program: &Program,
    setting: Setting,
    wanted: &Formula,
    budget: &Budget<'_>,
) -> Result<Option<Witness>, Limit> {
    let spec = Spec::of(setting.model, setting.rmw);
    let found = declarative::outcomes_of(program, &spec, &wanted.operands(), budget);
    let limit = found.completeness.limit().cloned();
    let search = check::with_loops(program, setting, found, budget);
    match search.outcomes.iter().find(|o| wanted.holds(o)) {
        Some(outcome) => {
            let found = declarative::witness(program, setting.model, setting.rmw, outcome, budget)?;
            match (found, limit) {
                // The machine has found it, with more iterations of a loop than are unfolded.
                (None, Some(limit)) => Err(limit),
                (found, _) => Ok(found.map(|execution| Witness { execution })),
            }
        }
        None => match search.completeness {
            Completeness::Complete => Ok(None),
            Completeness::Incomplete(limit) => Err(limit),
        },
    }
}

/// Tells the reader of a report that a program is [vacuous](is_vacuous).
pub const VACUOUS: &str =
    "No execution reaches the end of the program, so that no outcome can be asked about.";

/// Returns whether the model accepts no execution of the program at all, as with an `assume` that never holds. There is
/// nothing to explain about the outcomes of such a program. For model files there is [`cat::is_vacuous`](crate::cat::is_vacuous).
///
/// # Errors
/// Returns the limit at which the search stopped without an answer.
pub fn is_vacuous(program: &Program, setting: Setting, budget: &Budget<'_>) -> Result<bool, Limit> {
    let spec = Spec::of(setting.model, setting.rmw);
    let found = declarative::outcomes_of(program, &spec, &[], budget);
    let search = check::with_loops(program, setting, found, budget);
    match search.completeness {
        _ if !search.outcomes.is_empty() => Ok(false),
        Completeness::Complete => Ok(true),
        Completeness::Incomplete(limit) => Err(limit),
    }
}

/// Says why no consistent execution satisfies `wanted`. The result is meaningful only if that is so, which
/// [`allowed`] decides.
pub fn forbidden(program: &Program, setting: Setting, wanted: &Formula, budget: &Budget<'_>) -> Reason {
    forbidden_within(program, setting, wanted, budget, refute::TRIES_MAX)
}

/// Says what [`forbidden`] says, with so many `tries` to show each cycle.
fn forbidden_within(
    program: &Program,
    setting: Setting,
    wanted: &Formula,
    budget: &Budget<'_>,
    tries: u32,
) -> Reason {
    let spec = Spec::of(setting.model, setting.rmw);
    let capped = Budget {
        states_max: Some(budget.states_max.unwrap_or(CANDIDATES_MAX)),
        ..*budget
    };
    let (mut found, limit) = refute::refute(program, &spec, wanted, &capped, tries);
    let is_contrary = |found: &refute::Found| found.contrary;
    let all = found.iter().map(|found| found.branches).sum::<u64>();
    // Contrary cases are the reason if there are no others.
    if !found.iter().all(is_contrary) {
        found.retain(|found| !found.contrary);
    }
    let candidates = found.iter().map(|found| found.branches).sum();
    let cases = found.into_iter().map(|found| Case {
        execution: found.execution,
        cycle: found.cycle,
        candidates: found.branches,
    });
    let text = |case: &Case| text::cycle(program, &spec, &case.execution, &case.cycle);
    let mut cases = one_of_each(cases, text, |known, case| known.candidates += case.candidates);
    cases.sort_by_cached_key(Case::rank);
    let (relaxations, undecided) = relax::relaxations(program, setting, wanted, &cases, budget);
    Reason {
        candidates,
        contrary: all - candidates,
        limit,
        cases,
        relaxations,
        undecided,
    }
}

/// Keeps the first of the cases that are written alike, and adds the others to it.
pub(crate) fn one_of_each<C>(
    cases: impl IntoIterator<Item = C>,
    text: impl Fn(&C) -> String,
    add: impl Fn(&mut C, C),
) -> Vec<C> {
    let mut all: Vec<(String, C)> = Vec::new();
    for case in cases {
        let text = text(&case);
        match all.iter_mut().find(|(known, _)| *known == text) {
            Some((_, known)) => add(known, case),
            None => all.push((text, case)),
        }
    }
    all.into_iter().map(|(_, case)| case).collect()
}

/// Returns a shortest cycle of an execution in the orders of a model; `None` if the model accepts the execution.
pub fn shortest_cycle(execution: &Execution, spec: &Spec) -> Option<Cycle> {
    cycle::Graph::new(execution, spec).shortest_cycle()
}

impl Case {
    /// Returns a rank that is smaller for cycles that teach more; see [`Reason::cases`].
    fn rank(&self) -> (Lesson, bool, usize, Reverse<u64>, Vec<(usize, usize)>) {
        let edges = &self.cycle.edges;
        let is_no_contest = self.cycle.contest(&self.execution).is_none();
        let ends = edges.iter().map(|e| (e.from, e.to)).collect();
        let lesson = self.cycle.lesson(&self.execution);
        (lesson, is_no_contest, edges.len(), Reverse(self.candidates), ends)
    }
}

impl Witness {
    /// Returns the execution graph, ready to draw.
    pub fn drawing(&self, program: &Program) -> Drawing {
        Drawing::new(program, &self.execution, None)
    }

    /// Returns the execution as text: events by thread, then relations.
    pub fn render(&self, program: &Program) -> String {
        text::execution(program, &self.execution)
    }
}

impl Reason {
    /// Returns the graph of the execution of case `index`, its cycle marked; `None` if there is no such case.
    pub fn drawing(&self, program: &Program, index: usize) -> Option<Drawing> {
        let case = self.cases.get(index)?;
        Some(Drawing::new(program, &case.execution, Some(&case.cycle)))
    }

    /// Returns the reason as text, with the cycles of the cases in `shown`.
    pub fn render(&self, program: &Program, setting: Setting, shown: Range<usize>) -> String {
        text::reason(program, &Spec::of(setting.model, setting.rmw), self, shown)
    }

    /// Returns whether every candidate and every change was looked at.
    pub fn is_complete(&self) -> bool {
        self.limit.is_none() && self.undecided.is_empty()
    }
}

/// Says in words why an edge of a cycle is there, with its source.
pub fn edge_reason(program: &Program, setting: Setting, execution: &Execution, edge: &Edge) -> String {
    text::edge_reason(program, execution, &Spec::of(setting.model, setting.rmw), edge)
}

/// Describes a change in words.
pub fn change_text(program: &Program, setting: Setting, change: &Change) -> String {
    text::change(program, &Spec::of(setting.model, setting.rmw), change)
}
