//! Models as files: a language for axiomatic models in the manner of herd7's `cat` (`docs/models.md`).
//!
//! A file defines sets and relations of the events of RDMA-TSO'24 Defs. 4.1 to 4.3 and states axioms: `acyclic`, `irreflexive`, `empty`.
//! [`ModelFile::parse`] checks it; [`outcomes`] finds the outcomes of a program that have an execution which satisfies every axiom.
//! Relies on [`crate::declarative`] for paths, events and values. Used by the command and by `mowgli-generate`.

mod ast;
mod diagnostic;
mod embedded;
mod eval;
mod graph;
mod lexer;
mod parser;
mod predefined;
mod resolve;

pub mod limits;

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use ast::Test;
pub use diagnostic::{Diagnostic, Kind, Source};
pub use embedded::{Embedded, FILES, Included, Includes, find};
pub use predefined::{RELATIONS, Rel, SETS, Set};
pub use resolve::Axiom;

use crate::declarative::reference;
use crate::event::Execution;
use crate::litmus::Severity;
use crate::model::{Model, RmwAtomicity};
use crate::models::Spec;
use crate::outcome::{Budget, Completeness, Limit, Search};
use crate::program::Program;

use graph::{Graph, NodeId};

/// The embedded file whose definitions every model file can use.
const PRELUDE: &str = "stdlib.cat";

/// A model from a file.
#[derive(Clone, Debug)]
pub struct ModelFile {
    name: String,
    title: Option<String>,
    graph: Graph,
    axioms: Vec<Axiom>,
    requirements: Vec<Axiom>,
    shows: Vec<(String, NodeId)>,
    warnings: Vec<Diagnostic>,
}

impl ModelFile {
    /// Parses and checks a model. `name` is the path or name by which diagnostics and reports call it.
    ///
    /// # Errors
    /// Everything that is wrong with the file and those that it includes, in the order of the texts.
    pub fn parse(name: &str, text: &str, includes: &dyn Includes) -> Result<ModelFile, Vec<Diagnostic>> {
        let source = Arc::new(Source {
            name: name.to_owned(),
            text: text.to_owned(),
        });
        let prelude = Arc::new(Source {
            name: PRELUDE.to_owned(),
            text: find(PRELUDE).unwrap_or_default().to_owned(),
        });
        let resolved = resolve::resolve(&source, &prelude, includes);
        let is_error = |d: &Diagnostic| d.severity() == Severity::Error;
        if resolved.diagnostics.iter().any(is_error) {
            return Err(resolved.diagnostics);
        }
        Ok(ModelFile {
            name: name.to_owned(),
            title: resolved.title,
            graph: resolved.graph,
            axioms: resolved.axioms,
            requirements: resolved.requirements,
            shows: resolved.shows,
            warnings: resolved.diagnostics,
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

    /// Returns the warnings about the file.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Decides whether an execution satisfies every axiom, by the plain reading of the language.
    pub fn is_consistent(&self, execution: &Execution) -> bool {
        let values = eval::Values::new(&self.graph, execution);
        self.axioms.iter().all(|axiom| values.satisfies(axiom))
    }

    /// Returns the first requirement that the execution's program does not meet.
    fn unmet(&self, execution: &Execution) -> Option<&Axiom> {
        if self.requirements.is_empty() {
            return None;
        }
        let values = eval::Values::new(&self.graph, execution);
        self.requirements.iter().find(|r| !values.satisfies(r))
    }

    /// Returns the data from which executions are made for this model: those of RDMA^TSO, whose events are the same in every model,
    /// without the orders that the file does not mention.
    fn candidates(&self, atomicity: RmwAtomicity) -> Spec {
        Spec {
            flushes: self.graph.uses(Rel::Nfo),
            ..Spec::of(Model::RdmaTso, atomicity)
        }
    }
}

/// Finds every outcome of a program that has an execution which satisfies the axioms of a model.
///
/// A program that does not meet a `requires` of the file is refused with [`Limit::TooLarge`].
pub fn outcomes(
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
    let mut unmet = None;
    let spec = model.candidates(atomicity);
    let result = reference::each_execution(program, &spec, budget, |execution| {
        search.states += 1;
        if let Some(axiom) = model.unmet(execution) {
            unmet = Some(axiom.name.clone());
            return ControlFlow::Break(());
        }
        if !search.outcomes.contains(&execution.outcome) && model.is_consistent(execution) {
            search.outcomes.insert(execution.outcome.clone());
        }
        ControlFlow::Continue(())
    });
    match (result, unmet) {
        (Err(limit), _) => search.completeness = Completeness::Incomplete(limit),
        (Ok(()), Some(name)) => {
            let reason = format!("{} does not apply: {name}", model.name);
            return Search::refused(Limit::TooLarge(reason));
        }
        (Ok(()), None) => {}
    }
    search
}
