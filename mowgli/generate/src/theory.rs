//! The interface that a memory model must offer for tests to be generated for it.
//!
//! A [`Theory`] gives the outcomes of a program and names the *rules* that can be taken from it. [`BuiltIn`] is a model of
//! [`mowgli::models`] as data; its rules are the cells of its tables and the terms of its relations ([`crate::faults`] lists them).
//! The command adds theories for model files and for coreRMA.

use std::collections::BTreeSet;

use mowgli::declarative;
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::{Parts, Spec, rdma_tso};
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::Program;

use crate::complete::all;
use crate::faults::{self, Change, Features};
use crate::language::Language;

/// A memory model.
pub trait Theory: Sync {
    /// Returns the model's name as options and files write it.
    fn name(&self) -> &str;

    /// Returns the instructions that have a meaning under the model, for programs up to a size.
    fn language(&self, size: u8) -> Language;

    /// Returns whether regions of relaxed ordering make a difference to the model.
    fn knows_regions(&self) -> bool {
        false
    }

    /// Returns whether the program has a meaning under the model. Programs of [`Self::language`] that have none are passed over.
    fn applies(&self, _: &Program) -> bool {
        true
    }

    /// Finds every outcome of a program that the model allows.
    ///
    /// # Errors
    /// Returns the limit that stopped the search.
    fn outcomes(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit>;

    /// Returns the rules of the model: what can be taken from it, so that it allows more.
    fn rules(&self) -> Vec<Box<dyn Rule + '_>>;
}

/// A rule of a model, and the model without it.
pub trait Rule: Sync {
    /// Returns the rule's name, which options and files use.
    fn name(&self) -> &str;

    /// Says in a few words what the rule is.
    fn summary(&self) -> String;

    /// Returns false if the model without the rule surely has the outcomes of the model for this program.
    fn concerns(&self, program: &Program) -> bool;

    /// Finds every outcome that the model without the rule allows.
    ///
    /// # Errors
    /// Returns the limit that stopped the search.
    fn outcomes_without(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit>;
}

/// A built-in model, or a changed one.
#[derive(Clone, Debug)]
pub struct BuiltIn {
    spec: Spec,
}

impl BuiltIn {
    /// Takes a built-in model.
    pub fn new(model: Model, atomicity: RmwAtomicity) -> BuiltIn {
        BuiltIn {
            spec: Spec::of(model, atomicity),
        }
    }

    /// Returns the model's data.
    pub fn spec(&self) -> &Spec {
        &self.spec
    }
}

impl Theory for BuiltIn {
    fn name(&self) -> &str {
        self.spec.model.name()
    }

    fn language(&self, size: u8) -> Language {
        Language::of(self.spec.model, size)
    }

    fn knows_regions(&self) -> bool {
        self.spec.tier().has_relaxed_regions()
    }

    fn outcomes(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
        all(declarative::outcomes_under(program, &self.spec, budget))
    }

    fn rules(&self) -> Vec<Box<dyn Rule + '_>> {
        let removed = faults::changes(&self.spec).into_iter().filter(Change::removes);
        removed
            .map(|change| {
                Box::new(Removal {
                    name: change.to_string(),
                    spec: &self.spec,
                    changed: change.apply(&self.spec),
                    change,
                }) as Box<dyn Rule>
            })
            .collect()
    }
}

/// A cell or term of a built-in model, and the model without it.
struct Removal<'a> {
    name: String,
    change: Change,
    spec: &'a Spec,
    changed: Spec,
}

impl Rule for Removal<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> String {
        self.change.summary()
    }

    fn concerns(&self, program: &Program) -> bool {
        let features = Features::of(program, self.spec, &Budget::default());
        features.concern(&self.change, self.spec, &self.changed)
    }

    fn outcomes_without(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
        self.change.outcomes(&self.changed, program, budget)
    }
}

/// Finds the outcomes of all executions of a program, which no axiom restricts: every read may read from every write to its location, and
/// every write may be the last one.
///
/// # Errors
/// Returns the limit that stopped the search.
pub fn candidates(program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
    let free = Spec {
        ib: Parts::of(&[]),
        ob: Parts::of(&[]),
        joint: false,
        flushes: false,
        ..rdma_tso::spec(RmwAtomicity::Hca)
    };
    all(declarative::outcomes_under(program, &free, budget))
}
