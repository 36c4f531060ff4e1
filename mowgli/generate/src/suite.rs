//! The minimal tests of a model: what it forbids, why every instruction is needed, and which of its rules forbid it.
//!
//! [`Generator`] takes the programs of [`crate::enumerate`] and keeps those conditions that the model forbids, that are least
//! ([`crate::condition`]), that need every instruction ([`crate::minimal`]), and that the model without one of its rules allows. The
//! list is complete up to the size: every test with these four properties whose program is in the language is in it. Used by
//! `mowgli generate`.

use std::collections::BTreeSet;

use mowgli::litmus::Dialect;
use mowgli::outcome::{Budget, Limit, Outcome};
use mowgli::program::Program;

use crate::condition::{Condition, least_forbidden};
use crate::enumerate::{Unit, programs};
use crate::language::Language;
use crate::minimal::Variants;
use crate::theory::{Rule, Theory, candidates};

/// A test that the model forbids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Test {
    /// The program.
    pub program: Program,
    /// Number of its instructions.
    pub size: usize,
    /// The condition, which the model forbids.
    pub condition: Condition,
    /// Names of the rules without which the model allows it, in the order of the model's rules.
    pub rules: Vec<String>,
}

/// Makes the tests of a model.
pub struct Generator<'a> {
    theory: &'a dyn Theory,
    language: Language,
    /// The rules of the model, or the one that is the pivot.
    rules: Vec<Box<dyn Rule + 'a>>,
    pivot: bool,
}

/// The error for a rule that a model does not have.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{model} has no rule '{rule}'{}", nearest.as_ref().map(|n| format!(" (did you mean {n}?)")).unwrap_or_default())]
pub struct NoSuchRule {
    /// The model.
    pub model: String,
    /// The name.
    pub rule: String,
    /// A rule with a similar name.
    pub nearest: Option<String>,
}

mowgli::debug_as_display!(NoSuchRule);

impl<'a> Generator<'a> {
    /// Prepares the tests of a model whose programs are in `language`; with a `pivot`, those that this rule forbids.
    ///
    /// # Errors
    /// Fails if the model has no rule of that name.
    pub fn new(
        theory: &'a dyn Theory,
        language: Language,
        pivot: Option<&str>,
    ) -> Result<Generator<'a>, NoSuchRule> {
        let mut rules = theory.rules();
        if let Some(name) = pivot {
            let names: Vec<String> = rules.iter().map(|r| r.name().to_owned()).collect();
            rules.retain(|rule| rule.name() == name);
            if rules.is_empty() {
                let names = names.iter().map(String::as_str);
                return Err(NoSuchRule {
                    model: theory.name().to_owned(),
                    rule: name.to_owned(),
                    nearest: mowgli::syntax::nearest(name, names).map(str::to_owned),
                });
            }
        }
        Ok(Generator {
            theory,
            language,
            rules,
            pivot: pivot.is_some(),
        })
    }

    /// Makes the tests of a unit of the language.
    ///
    /// # Errors
    /// Returns the limit that stopped a search.
    pub fn tests(&self, unit: &Unit, budget: &Budget<'_>) -> Result<Found, Limit> {
        let mut found = Found::default();
        let mut failed = None;
        programs(&self.language, unit, &mut |sketch| {
            found.programs += 1;
            let program = sketch.program();
            if failed.is_none()
                && self.theory.applies(&program)
                && let Err(limit) = self.tests_of(&program, sketch.size(), budget, &mut found.tests)
            {
                failed = Some(limit);
            }
        });
        failed.map_or(Ok(found), Err)
    }

    fn tests_of(
        &self,
        program: &Program,
        size: usize,
        budget: &Budget<'_>,
        tests: &mut Vec<Test>,
    ) -> Result<(), Limit> {
        let concerned: Vec<&dyn Rule> = self
            .rules
            .iter()
            .map(AsRef::as_ref)
            .filter(|r| r.concerns(program))
            .collect();
        if concerned.is_empty() {
            return Ok(());
        }
        let allowed = self.theory.outcomes(program, budget)?;
        let wider: BTreeSet<Outcome> = match concerned.as_slice() {
            [only] if self.pivot => only.outcomes_without(program, budget)?,
            _ => candidates(program, budget)?,
        };
        let conditions = least_forbidden(&program.operands(), &allowed, wider.difference(&allowed));
        let variants = Variants::new(self.theory, None, program, budget);
        let mut minimal = Vec::new();
        for condition in conditions {
            if variants.none_forbids(&condition)? {
                minimal.push((condition, Vec::new()));
            }
        }
        if minimal.is_empty() {
            return Ok(());
        }
        for rule in concerned {
            let without = rule.outcomes_without(program, budget)?;
            for (condition, rules) in &mut minimal {
                if without.iter().any(|o| condition.holds(o)) {
                    rules.push(rule.name().to_owned());
                }
            }
        }
        let known = minimal.into_iter().filter(|(_, rules)| !rules.is_empty());
        tests.extend(known.map(|(condition, rules)| Test {
            program: program.clone(),
            size,
            condition,
            rules,
        }));
        Ok(())
    }
}

/// The tests of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The tests, in the order of the programs.
    pub tests: Vec<Test>,
    /// Number of programs of the unit.
    pub programs: u64,
}
