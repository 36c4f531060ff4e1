//! Why an outcome is allowed or forbidden.
//!
//! An allowed outcome gets a *witness*: an execution graph that the model accepts ([`allowed`]). A forbidden one gets a
//! *reason* ([`forbidden`]): every candidate execution with that outcome has a cycle in the model's orders; the smallest
//! one is shown, each edge with the table cell or definition that puts it there, and the single changes that would allow
//! the outcome. Everything is plain data (serde) with renderings as text, DOT and SVG. Used by `mowgli explain`.

mod cycle;
mod dot;
mod drawing;
mod relax;
mod svg;
mod text;

use std::ops::ControlFlow;

use serde::Serialize;

pub use cycle::{CellRef, Cycle, Edge, Side};
pub use drawing::{Arrow, Drawing, NodeBox, Place, Style};
pub use relax::{Change, Relaxation};

use crate::declarative::{self, reference};
use crate::event::Execution;
use crate::litmus::{Formula, Setting};
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit};
use crate::program::Program;

/// Most candidate executions that [`forbidden`] looks at.
pub const CANDIDATES_MAX: u64 = 200_000;

/// Most states that the search may take to try one relaxation.
pub const RELAXATION_STATES_MAX: u64 = 200_000;

/// An execution that shows an outcome to be allowed.
#[derive(Clone, Debug, Serialize)]
pub struct Witness {
    /// The execution, which the model accepts.
    pub execution: Execution,
}

/// Why no execution with the outcome is consistent.
#[derive(Clone, Debug, Serialize)]
pub struct Reason {
    /// Candidate executions that have the outcome, save the contrary ones.
    pub candidates: u64,
    /// Contrary candidates: their only fault is to order memory (`mo`, `nfo`, `rao`) against program order within a thread,
    /// whatever the outcome. They explain nothing, so they are counted apart.
    pub contrary: u64,
    /// Why not every candidate was looked at, if so; the cycles shown are real either way.
    pub limit: Option<Limit>,
    /// The smallest cycle over all candidates, with its execution; `None` if no candidate has the outcome at all, because
    /// no choice of sources gives the values.
    pub smallest: Option<(Execution, Cycle)>,
    /// Cycles such that every candidate has one of them, with how many candidates each was found in first. The first is the
    /// smallest.
    pub cases: Vec<(Cycle, u64)>,
    /// Single changes to program or model that would allow the outcome.
    pub relaxations: Vec<Relaxation>,
}

/// A witness for an outcome that satisfies `wanted`; `None` if there is none.
///
/// # Errors
/// The limit at which the search stopped without an answer.
pub fn allowed(
    program: &Program,
    setting: Setting,
    wanted: &Formula,
    budget: &Budget<'_>,
) -> Result<Option<Witness>, Limit> {
    let spec = Spec::of(setting.model, setting.rmw);
    let search = declarative::outcomes_of(program, &spec, &wanted.operands(), budget);
    match search.outcomes.iter().find(|o| wanted.holds(o)) {
        Some(outcome) => {
            let found = declarative::witness(program, setting.model, setting.rmw, outcome, budget)?;
            Ok(found.map(|execution| Witness { execution }))
        }
        None => match search.completeness {
            Completeness::Complete => Ok(None),
            Completeness::Incomplete(limit) => Err(limit),
        },
    }
}

/// Why no consistent execution satisfies `wanted`. Meaningful only if that is so: [`allowed`] says.
pub fn forbidden(program: &Program, setting: Setting, wanted: &Formula, budget: &Budget<'_>) -> Reason {
    let spec = Spec::of(setting.model, setting.rmw);
    let mut cases: Vec<(Execution, Cycle, u64)> = Vec::new();
    let (mut candidates, mut contrary) = (0, 0);
    let capped = Budget {
        states_max: Some(budget.states_max.unwrap_or(u64::MAX).min(CANDIDATES_MAX)),
        ..*budget
    };
    let result = reference::each_execution(program, &spec, &capped, |execution| {
        if !wanted.holds(&execution.outcome) {
            return ControlFlow::Continue(());
        }
        let graph = cycle::Graph::new(execution, &spec);
        let Some(shortest) = graph.shortest_cycle() else {
            return ControlFlow::Continue(());
        };
        if graph.is_contrary(&shortest) {
            contrary += 1;
            return ControlFlow::Continue(());
        }
        candidates += 1;
        let known = cases
            .iter_mut()
            .find(|(other, cycle, _)| other.events == execution.events && graph.has(cycle));
        match known {
            // A candidate with a smaller cycle than the one it shares is a case of its own.
            Some((_, cycle, count)) if cycle.edges.len() <= shortest.edges.len() => *count += 1,
            _ => cases.push((execution.clone(), shortest, 1)),
        }
        ControlFlow::Continue(())
    });
    cases.sort_by_key(|(_, cycle, _)| cycle.edges.len());
    let relaxations = relax::relaxations(program, setting, wanted, &cases, budget);
    Reason {
        candidates,
        contrary,
        limit: result.err(),
        smallest: cases.first().map(|(e, c, _)| (e.clone(), c.clone())),
        cases: cases.into_iter().map(|(_, cycle, n)| (cycle, n)).collect(),
        relaxations,
    }
}

impl Witness {
    /// The execution graph, ready to draw.
    pub fn drawing(&self, program: &Program) -> Drawing {
        Drawing::new(program, &self.execution, None)
    }

    /// The execution as text: events by thread, then relations.
    pub fn render(&self, program: &Program) -> String {
        text::execution(program, &self.execution)
    }
}

impl Reason {
    /// The graph of the smallest cycle's execution, the cycle marked; `None` if no candidate has the outcome.
    pub fn drawing(&self, program: &Program) -> Option<Drawing> {
        let (execution, cycle) = self.smallest.as_ref()?;
        Some(Drawing::new(program, execution, Some(cycle)))
    }

    /// The reason as text.
    pub fn render(&self, program: &Program, setting: Setting) -> String {
        text::reason(program, &Spec::of(setting.model, setting.rmw), self)
    }
}
