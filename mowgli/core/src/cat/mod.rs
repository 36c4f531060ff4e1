//! Models as files: a language for axiomatic models in the manner of herd7's `cat` (`docs/models.md`).
//!
//! A file defines sets and relations of the events of RDMA-TSO'24 Defs. 4.1 to 4.3 and states axioms: `acyclic`, `irreflexive`, `empty`.
//! [`ModelFile::parse`] checks it; [`outcomes`] finds the outcomes of a program that have an execution which satisfies every axiom.
//! Relies on [`crate::declarative`] for paths, events and values. Used by the command and by `mowgli-generate`.

mod ast;
mod embedded;
mod eval;
mod graph;
mod guards;
mod matrix;
mod parser;
mod partial;
mod plan;
mod predefined;
mod repeats;
mod resolve;
mod resolve_expr;
mod resolver;
mod robust;
mod search;
mod values;

pub mod explain;
pub mod limits;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::{Arc, OnceLock};

pub use ast::Test;
pub use embedded::{Embedded, FILES, Included, Includes, find};
pub use predefined::{RELATIONS, Rel, SETS, Set};
pub use resolver::Axiom;
pub use robust::{strong, weak_execution};

use crate::declarative::problem::Problem;
use crate::declarative::unfold::{self, End, Path, Repeats};
use crate::declarative::{Choices, loop_beyond_bound, reference};
use crate::event::Execution;
use crate::litmus::Operand;
use crate::model::{Model, RmwAtomicity, Tier};
use crate::models::{Parts, Spec};
use crate::outcome::{Budget, Completeness, Growth, Limit, Outcome, Search};
use crate::program::Program;
use crate::syntax::{Located, Severity, Source};

use graph::{Flags, Graph, NodeId};
use plan::Plan;
use search::{Goal, Known, Stop};

/// The embedded file whose definitions every model file can use.
const PRELUDE: &str = "stdlib.cat";

/// A model from a file.
#[derive(Clone, Debug)]
pub struct ModelFile {
    name: String,
    title: Option<String>,
    graph: Graph,
    flags: Flags,
    plan: Plan,
    axioms: Vec<Axiom>,
    terms: Vec<String>,
    requirements: Vec<Axiom>,
    shows: Vec<(String, NodeId)>,
    warnings: Vec<Located>,
    /// Whether an execution stays one when events are left out.
    is_closed: bool,
    /// Whether iterations of loops may be left out, once somebody has asked: for programs without polls and waits, with polls, with waits,
    /// with both.
    leaves_out: [OnceLock<bool>; 4],
}

impl ModelFile {
    /// Parses and checks a model. `name` is the path or name by which diagnostics and reports call it.
    ///
    /// # Errors
    /// Returns everything that is wrong with the file and those that it includes, in the order of the texts.
    pub fn parse(name: &str, text: &str, includes: &dyn Includes) -> Result<ModelFile, Vec<Located>> {
        ModelFile::read(name, text, includes, None)
    }

    /// Parses a model without one of its rules: the axioms of that name are left out, and the sets and relations of that name are
    /// empty. Names are those of [`Self::axioms`] and [`Self::terms`]. Used to see what a rule is for.
    ///
    /// # Errors
    /// Returns the errors of [`Self::parse`].
    pub fn parse_without(
        name: &str,
        text: &str,
        includes: &dyn Includes,
        rule: &str,
    ) -> Result<ModelFile, Vec<Located>> {
        ModelFile::read(name, text, includes, Some(rule))
    }

    fn read(
        name: &str,
        text: &str,
        includes: &dyn Includes,
        without: Option<&str>,
    ) -> Result<ModelFile, Vec<Located>> {
        let source = Arc::new(Source {
            name: name.to_owned(),
            text: text.to_owned(),
        });
        let prelude = Arc::new(Source {
            name: PRELUDE.to_owned(),
            text: find(PRELUDE).unwrap_or_default().to_owned(),
        });
        let resolved = resolve::resolve(&source, &prelude, includes, without);
        let is_error = |d: &Located| d.severity() == Severity::Error;
        if resolved.diagnostics.iter().any(is_error) {
            return Err(resolved.diagnostics);
        }
        Ok(ModelFile {
            name: name.to_owned(),
            title: resolved.title,
            flags: resolved.graph.flags(),
            plan: plan::compile(&resolved.graph, &resolved.axioms, &resolved.requirements),
            is_closed: repeats::is_closed(&resolved.graph, &resolved.axioms),
            graph: resolved.graph,
            axioms: resolved.axioms,
            terms: resolved.terms,
            requirements: resolved.requirements,
            shows: resolved.shows,
            warnings: resolved.diagnostics,
            leaves_out: Default::default(),
        })
    }

    /// Returns the embedded file that defines a built-in model.
    ///
    /// # Panics
    /// Never: a test parses every embedded file.
    pub fn of(model: Model) -> ModelFile {
        let name = format!("{}.cat", model.name());
        let text = find(&name).unwrap_or_default();
        match ModelFile::parse(&name, text, &Embedded) {
            Ok(file) => file,
            Err(errors) => unreachable!("{name} is embedded and has no error: {errors:?}"),
        }
    }

    /// Returns the path or name given to [`Self::parse`].
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the title at the head of the file.
    pub fn title(&self) -> Option<&str> {
        self.title.as_deref()
    }

    /// Returns the axioms, in the order of the texts.
    pub fn axioms(&self) -> &[Axiom] {
        &self.axioms
    }

    /// Returns the names of the sets and relations that the file and its includes define, in the order of the texts.
    pub fn terms(&self) -> &[String] {
        &self.terms
    }

    /// Returns the warnings about the file.
    pub fn warnings(&self) -> &[Located] {
        &self.warnings
    }

    /// Decides whether an execution satisfies every axiom, by the plain reading of the language.
    pub fn is_consistent(&self, execution: &Execution) -> bool {
        let values = eval::Values::new(&self.graph, execution);
        self.axioms.iter().all(|axiom| values.satisfies(axiom))
    }

    /// Checks the requirements against the text of a program: all its instructions, whether or not an execution reaches them. So a model
    /// applies or not whatever a search finds, as with built-in models ([`crate::check::applicable`]).
    fn meets(&self, program: &Program, atomicity: RmwAtomicity) -> Result<(), Stop> {
        if self.requirements.is_empty() {
            return Ok(());
        }
        let spec = self.candidates(atomicity);
        let threads = 0..program.threads.len();
        let outlines = threads.map(|thread| unfold::outline(program, thread, &spec));
        let outlines = outlines.collect::<Result<Vec<Path>, Limit>>()?;
        let choice: Vec<&Path> = outlines.iter().collect();
        let problem = Problem::new(program, &spec, &choice);
        solve(self, &problem, Goal::Requirements, &Budget::default(), &mut 0).map(drop)
    }

    /// Returns the data from which executions are made for this model: those of RDMA^TSO, whose events are the same in every model,
    /// without the orders that the file does not mention, and without axioms.
    fn candidates(&self, atomicity: RmwAtomicity) -> Spec {
        let uses = |rel| {
            let stated = self.axioms.iter().chain(&self.requirements).map(|a| a.expr);
            let shown = self.shows.iter().map(|&(_, node)| node);
            self.graph.use_of(stated.chain(shown), rel)
        };
        let bus = uses(Rel::Bus);
        // On a tier whose network reorders, the order of the bus is a choice.
        let tier = if bus { Tier::OooAll } else { Tier::Ibta };
        let model = Model::RdmaTso.on(tier).unwrap_or(Model::RdmaTso);
        Spec {
            flushes: bus || uses(Rel::Nfo),
            ib: Parts::default(),
            ob: Parts::default(),
            ..Spec::of(model, atomicity)
        }
    }
}

/// Says that a model has no meaning for a program, because the program does not meet a `requires` of the file.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{model} does not apply: it requires {requirement}")]
pub struct NotApplicable {
    /// The name of the model.
    pub model: String,
    /// The name of the requirement.
    pub requirement: String,
}

crate::debug_as_display!(NotApplicable);

/// Finds every outcome of a program that has an execution which satisfies the axioms of a model.
///
/// A program that does not meet a `requires` of the file is refused with [`Limit::TooLarge`]; [`decide`] tells such a
/// program apart from one that is too large.
pub fn outcomes(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    budget: &Budget<'_>,
) -> Search {
    match decide(program, model, atomicity, None, budget) {
        Ok(search) => search,
        Err(reason) => Search::refused(Limit::TooLarge(reason.to_string())),
    }
}

/// Finds the combinations of values that `operands` can have at the end and one outcome for each; without operands, every outcome.
///
/// # Errors
/// Fails if the program does not meet a requirement of the model.
pub fn decide(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    operands: Option<&[Operand]>,
    budget: &Budget<'_>,
) -> Result<Search, NotApplicable> {
    let mut known = Known {
        operands: operands.map(<[Operand]>::to_vec),
        ..Known::default()
    };
    let mut states = 0;
    let result = every_outcome(program, model, atomicity, &mut known, budget, &mut states);
    Ok(Search {
        completeness: match result {
            Ok(completeness) => completeness,
            Err(stop) => Completeness::Incomplete(model.limit(stop)?),
        },
        outcomes: known.outcomes,
        states,
    })
}

/// Finds an execution that satisfies the axioms and whose outcome satisfies `wanted`; `Ok(Ok(None))` if there is none.
///
/// # Errors
/// Fails if the program does not meet a requirement of the model. The inner error is the limit at which the search
/// stopped without an answer.
pub fn witness(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    wanted: &dyn Fn(&Outcome) -> bool,
    budget: &Budget<'_>,
) -> Result<Result<Option<Execution>, Limit>, NotApplicable> {
    let spec = model.candidates(atomicity);
    let mut states = 0;
    let mut search = || {
        model.meets(program, atomicity)?;
        let threads = model.unfold(program, &spec, Repeats::Outcomes, budget)?;
        for choice in Choices::new(&threads, |end| end == End::Complete) {
            let problem = Problem::new(program, &spec, &choice);
            let goal = Goal::Execution(wanted);
            if let Some(found) = solve(model, &problem, goal, budget, &mut states)? {
                return Ok(Some(found));
            }
        }
        match exceeded_loop(program, model, &spec, &threads, budget, &mut states)? {
            Completeness::Complete => Ok(None),
            Completeness::Incomplete(limit) => Err(Stop::Limit(limit)),
        }
    };
    match search() {
        Ok(found) => Ok(Ok(found)),
        Err(stop) => Ok(Err(model.limit(stop)?)),
    }
}

/// Returns whether the model accepts no execution of the program at all.
///
/// # Errors
/// Fails as [`witness`] does.
pub fn is_vacuous(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    budget: &Budget<'_>,
) -> Result<Result<bool, Limit>, NotApplicable> {
    let found = witness(program, model, atomicity, &|_| true, budget)?;
    Ok(found.map(|execution| execution.is_none()))
}

/// Finds the outcomes by plain enumeration of all executions and [`ModelFile::is_consistent`]. This is slow; tests
/// compare [`outcomes`] with it. Does not look at requirements.
pub fn outcomes_by_enumeration(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    budget: &Budget<'_>,
) -> Search {
    let mut search = Search {
        outcomes: BTreeSet::new(),
        completeness: Completeness::Complete,
        states: 0,
    };
    let spec = model.candidates(atomicity);
    let result = reference::each_execution(program, &spec, budget, |execution| {
        search.states += 1;
        if !search.outcomes.contains(&execution.outcome) && model.is_consistent(execution) {
            search.outcomes.insert(execution.outcome.clone());
        }
        ControlFlow::Continue(())
    });
    if let Err(limit) = result {
        search.completeness = Completeness::Incomplete(limit);
    }
    search
}

fn every_outcome(
    program: &Program,
    model: &ModelFile,
    atomicity: RmwAtomicity,
    known: &mut Known,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Completeness, Stop> {
    model.meets(program, atomicity)?;
    let spec = model.candidates(atomicity);
    let threads = model.unfold(program, &spec, Repeats::Outcomes, budget)?;
    for choice in Choices::new(&threads, |end| end == End::Complete) {
        let problem = Problem::new(program, &spec, &choice);
        solve(model, &problem, Goal::Outcomes(known), budget, states)?;
    }
    exceeded_loop(program, model, &spec, &threads, budget, states)
}

/// Looks for an exceeded loop, as [`loop_beyond_bound`] does, by this module's search. Where the model does not permit to leave out
/// iterations, that is why the loop is not decided. Where an execution may need events that come later, one that has come to a bound may go
/// on though it is no execution yet.
fn exceeded_loop(
    program: &Program,
    model: &ModelFile,
    spec: &Spec,
    threads: &[Vec<Path>],
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Completeness, Stop> {
    let mut limits = threads.iter().enumerate().flat_map(|(thread, paths)| {
        let ends = paths.iter().map(move |path| path.end.limit(thread));
        ends.flatten()
    });
    let at_a_bound = match model.is_closed {
        true => None,
        false => limits.next(),
    };
    if let Some(mut limit) = at_a_bound {
        blame_the_model(&mut limit);
        return Ok(Completeness::Incomplete(limit));
    }
    let mut completeness = loop_beyond_bound(program, spec, threads, |problem| {
        let found = solve(model, problem, Goal::Any, budget, states)?;
        Ok::<bool, Stop>(found.is_some())
    })?;
    if let Completeness::Incomplete(limit) = &mut completeness
        && !model.leaves_out_iterations(program)
    {
        blame_the_model(limit);
    }
    Ok(completeness)
}

/// Says of a limit of a loop that the model does not permit to leave out iterations.
fn blame_the_model(limit: &mut Limit) {
    if let Limit::LoopBound { at: Some(at), .. } = limit {
        at.growth = Growth::Model;
    }
}

/// Runs the search on rows of the least width that has room for all events.
fn solve(
    model: &ModelFile,
    problem: &Problem<'_>,
    goal: Goal<'_>,
    budget: &Budget<'_>,
    states: &mut u64,
) -> Result<Option<Execution>, Stop> {
    match problem.program.locations.len() + problem.len() {
        0..=64 => search::solve::<1>(model, problem, goal, budget, states),
        65..=128 => search::solve::<2>(model, problem, goal, budget, states),
        129..=EVENTS_MAX => search::solve::<8>(model, problem, goal, budget, states),
        events => Err(Stop::Limit(Limit::TooLarge(format!(
            "{events} events, at most {EVENTS_MAX}"
        )))),
    }
}

/// Most events of one execution under a model file, initial writes among them.
pub const EVENTS_MAX: usize = 512;

impl From<Limit> for Stop {
    fn from(limit: Limit) -> Stop {
        Stop::Limit(limit)
    }
}

impl ModelFile {
    /// Returns the limit at which a search stopped.
    fn limit(&self, stop: Stop) -> Result<Limit, NotApplicable> {
        match stop {
            Stop::Limit(limit) => Ok(limit),
            Stop::Unmet(at) => Err(NotApplicable {
                model: self.name.clone(),
                requirement: self.requirements[at].name.clone(),
            }),
        }
    }
}
