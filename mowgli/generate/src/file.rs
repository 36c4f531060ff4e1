//! Model files as theories: the rules are the axioms and the named sets and relations of the file.

use std::collections::BTreeSet;

use mowgli::cat::{self, Includes, ModelFile};
use mowgli::model::RmwAtomicity;
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::Program;
use mowgli::syntax::Located;

use crate::complete::all;
use crate::language::{Language, Regions};
use crate::sketch::{Column, Op, Sketch};
use crate::theory::{Rule, Theory};

/// A model from a file.
#[derive(Clone, Debug)]
pub struct FromFile {
    name: String,
    model: ModelFile,
    atomicity: RmwAtomicity,
    rules: Vec<Without>,
}

/// A rule of a file, and the model without it.
#[derive(Clone, Debug)]
struct Without {
    name: String,
    is_axiom: bool,
    model: ModelFile,
    atomicity: RmwAtomicity,
}

impl FromFile {
    /// Parses a model file. `name` is its path, or the name by which reports call it.
    ///
    /// # Errors
    /// Returns everything that is wrong with the file.
    pub fn parse(
        name: &str,
        text: &str,
        includes: &dyn Includes,
        atomicity: RmwAtomicity,
    ) -> Result<FromFile, Vec<Located>> {
        let model = ModelFile::parse(name, text, includes)?;
        let axioms = model.axioms().iter().map(|axiom| (axiom.name.clone(), true));
        let terms = model.terms().iter().map(|term| (term.clone(), false));
        let mut rules: Vec<Without> = Vec::new();
        for (rule, is_axiom) in axioms.chain(terms) {
            // An axiom and the relation that it is about may have one name, and go together.
            if rules.iter().any(|known| known.name == rule) {
                continue;
            }
            // A definition whose type no longer fits is no rule.
            if let Ok(model) = ModelFile::parse_without(name, text, includes, &rule) {
                rules.push(Without {
                    name: rule,
                    is_axiom,
                    model,
                    atomicity,
                });
            }
        }
        Ok(FromFile {
            name: name.to_owned(),
            model,
            atomicity,
            rules,
        })
    }

    /// Returns whether the file's requirements admit programs with this instruction after a put.
    fn admits(&self, ops: &[Op]) -> bool {
        let sketch = Sketch {
            threads: vec![Column {
                ops: ops.to_vec(),
                ..Column::of(0)
            }],
            locations: vec![1, 0],
            relaxed: Vec::new(),
        };
        let program = sketch.program();
        cat::decide(&program, &self.model, self.atomicity, None, &Budget::default()).is_ok()
    }
}

impl Theory for FromFile {
    fn name(&self) -> &str {
        &self.name
    }

    fn language(&self, size: u8) -> Language {
        let put = Op::PutConst { dst: 0, work: 0 };
        let waited = [Op::PutConst { dst: 0, work: 1 }, Op::Wait(1)];
        let remote = self.admits(&[put]);
        Language {
            size,
            threads: 4,
            nodes: if remote { 3 } else { 1 },
            locations: 4,
            remote,
            constant_puts: remote,
            fences: self.admits(&[Op::Mfence]),
            remote_fences: self.admits(&[put, Op::Rfence(1)]),
            cas: self.admits(&[Op::Cas(1, crate::sketch::Expected::Initial)]),
            rmw: false,
            polls: remote && self.admits(&[put, Op::Poll(1)]),
            waits: remote && self.admits(&waited),
            strong: false,
            regions: Regions::Unknown,
            loopback: false,
            idle: false,
        }
    }

    fn outcomes(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
        all(cat::outcomes(program, &self.model, self.atomicity, budget))
    }

    fn rules(&self) -> Vec<Box<dyn Rule + '_>> {
        self.rules
            .iter()
            .map(|rule| Box::new(rule.clone()) as Box<dyn Rule>)
            .collect()
    }
}

impl Rule for Without {
    fn name(&self) -> &str {
        &self.name
    }

    fn summary(&self) -> String {
        match self.is_axiom {
            true => format!("axiom {}", self.name),
            false => format!("{} made empty", self.name),
        }
    }

    fn concerns(&self, _: &Program) -> bool {
        true
    }

    fn outcomes_without(&self, program: &Program, budget: &Budget<'_>) -> Result<BTreeSet<Outcome>, Limit> {
        all(cat::outcomes(program, &self.model, self.atomicity, budget))
    }
}
