//! Tests that separate two models, the smallest first.
//!
//! A test separates two models if one forbids its condition and the other allows it. The list keeps the tests whose
//! condition is least and in which every instruction is needed: no variant ([`crate::minimal`]) separates the two
//! models in the same way. Used by `mowgli distinguish`.

use mowgli::litmus::Dialect;
use mowgli::outcome::{Budget, Limit};
use mowgli::program::Program;

use crate::condition::{Condition, least_forbidden};
use crate::enumerate::{Unit, programs};
use crate::language::Language;
use crate::minimal::Variants;
use crate::theory::Theory;

/// A test that separates two models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Separator {
    /// The program.
    pub program: Program,
    /// Number of its instructions.
    pub size: usize,
    /// The condition.
    pub condition: Condition,
    /// Whether the first model forbids the condition and the second allows it, and not the other way round.
    pub first_forbids: bool,
}

/// The separators of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The tests, in the order of the programs.
    pub tests: Vec<Separator>,
    /// Number of programs of the unit.
    pub programs: u64,
}

/// Finds the tests of a unit that separate two models.
///
/// # Errors
/// Returns the limit that stopped a search.
pub fn separators(
    first: &dyn Theory,
    second: &dyn Theory,
    language: &Language,
    unit: &Unit,
    budget: &Budget<'_>,
) -> Result<Found, Limit> {
    let mut found = Found::default();
    let mut failed = None;
    programs(language, unit, &mut |sketch| {
        found.programs += 1;
        let program = sketch.program();
        if failed.is_none()
            && first.applies(&program)
            && second.applies(&program)
            && let Err(limit) = compare(first, second, &program, sketch.size(), budget, &mut found.tests)
        {
            failed = Some(limit);
        }
    });
    failed.map_or(Ok(found), Err)
}

fn compare(
    first: &dyn Theory,
    second: &dyn Theory,
    program: &Program,
    size: usize,
    budget: &Budget<'_>,
    tests: &mut Vec<Separator>,
) -> Result<(), Limit> {
    let outcomes = [
        first.outcomes(program, budget)?,
        second.outcomes(program, budget)?,
    ];
    if outcomes[0] == outcomes[1] {
        return Ok(());
    }
    let theories = [first, second];
    for (strong, weak) in [(0, 1), (1, 0)] {
        let forbidden = outcomes[weak].difference(&outcomes[strong]);
        let variants = Variants::new(theories[strong], Some(theories[weak]), program, budget);
        for condition in least_forbidden(&program.operands(), &outcomes[strong], forbidden) {
            if variants.none_forbids(&condition)? {
                tests.push(Separator {
                    program: program.clone(),
                    size,
                    condition,
                    first_forbids: strong == 0,
                });
            }
        }
    }
    Ok(())
}
