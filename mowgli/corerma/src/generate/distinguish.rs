//! Tests that separate two models: one forbids what the other allows.
//!
//! Every program of `sketch` up to a size is looked at. From one whose outputs differ, statements are taken out as long as the
//! outputs still differ in the same way, so that nothing can be left out of a test in the list. Used by `mowgli distinguish`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};

use mowgli::litmus::{Operand, Quantifier, Relation, Verdict, fingerprint_of};
use mowgli::outcome::Budget;
use mowgli::program::{Reg, ThreadId};

use super::{Output, PROCESSES_MAX, SIZE_MAX, Sketch, Space, Step, UNIT_DEPTH, Unusable, program};
use crate::litmus::{Condition, Formula, Litmus, Query, program_text};
use crate::switches::Model;
use crate::value::Value;

/// The search for the tests that separate two models, over programs of so many processes.
#[derive(Clone, Debug)]
pub struct Separators {
    space: Space,
    units: Vec<Vec<Step>>,
    models: [Model; 2],
}

/// A test that separates two models.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Separator {
    /// Its actions, initial writes among them.
    pub size: usize,
    /// Its statements.
    pub sketch: Sketch,
    /// Whether the first model forbids what the second allows, and not the other way round.
    pub first_forbids: bool,
}

/// The tests of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// The tests, the smallest first. Several units can find one test.
    pub tests: BTreeSet<Separator>,
    /// Programs that were looked at.
    pub programs: u64,
}

impl Separators {
    /// Prepares the search over programs of `processes` processes and at most `size` actions.
    ///
    /// # Errors
    ///
    /// Fails when a bound is out of range.
    pub fn new(models: [Model; 2], processes: usize, size: usize) -> Result<Separators, Unusable> {
        if !(1..=PROCESSES_MAX).contains(&processes) {
            return Err(Unusable::Processes);
        }
        if size > SIZE_MAX {
            return Err(Unusable::Size);
        }
        let space = Space::new(processes, size);
        Ok(Separators {
            units: space.prefixes(UNIT_DEPTH),
            space,
            models,
        })
    }

    /// Returns the number of units, which do not depend on one another.
    pub fn units(&self) -> usize {
        self.units.len()
    }

    /// Finds the tests of a unit. Returns `None` if `cancel` was set meanwhile.
    pub fn unit(&self, unit: usize, cancel: &AtomicBool) -> Option<Found> {
        let mut found = Found::default();
        let complete = self.space.visit(&self.units[unit], &mut |sketch| {
            if sketch.is_connected() && sketch.is_canonical(&self.space) {
                found.programs += 1;
                let outputs = self.outputs(sketch);
                for first_forbids in [true, false] {
                    if separates(&outputs, first_forbids) {
                        found.tests.insert(self.least(sketch, first_forbids));
                    }
                }
            }
            // Relaxed: the flag publishes no other data.
            !cancel.load(Ordering::Relaxed)
        });
        complete.then_some(found)
    }

    /// Finds the outputs of a program under both models.
    fn outputs(&self, sketch: &Sketch) -> [BTreeSet<Output>; 2] {
        let program = program(sketch, &self.space);
        self.models.map(|model| {
            let outcomes = model.outcomes(&program, &Budget::default()).outcomes;
            outcomes.into_iter().map(|o| o.registers).collect()
        })
    }

    /// Takes out statements as long as the models stay apart in the same way.
    fn least(&self, sketch: &Sketch, first_forbids: bool) -> Separator {
        let mut least = sketch.clone();
        let mut place = (0, 0);
        while let Some(code) = least.code.get(place.0) {
            if place.1 == code.len() {
                place = (place.0 + 1, 0);
                continue;
            }
            let mut shorter = least.clone();
            shorter.code[place.0].remove(place.1);
            if separates(&self.outputs(&shorter), first_forbids) {
                // A statement that was needed before may be needless now, so start again.
                (least, place) = (shorter, (0, 0));
            } else {
                place.1 += 1;
            }
        }
        // Numbers decide initial values, so that another numbering need not separate the models.
        let mut renumbered = least.variants(&self.space);
        renumbered.retain(|sketch| separates(&self.outputs(sketch), first_forbids));
        let sketch = renumbered.into_iter().min().unwrap_or(least);
        Separator {
            size: sketch.size(&self.space),
            sketch,
            first_forbids,
        }
    }

    /// Returns a test as a litmus test, which states the verdicts of both models.
    pub fn litmus(&self, separator: &Separator) -> Litmus {
        let program = program(&separator.sketch, &self.space);
        let (strong, weak) = match separator.first_forbids {
            true => (0, 1),
            false => (1, 0),
        };
        let outputs = self.outputs(&separator.sketch);
        let condition = Condition {
            quantifier: Quantifier::Exists,
            formula: condition(&outputs[strong], &outputs[weak]),
        };
        let [first, second] = self.models;
        let mark = fingerprint_of(&format!(
            "{}{}",
            program_text(&program),
            condition.display(&program)
        ));
        let (strong, weak) = (self.models[strong], self.models[weak]);
        Litmus {
            name: format!("{first}-{second}-S{:02}-{}", separator.size, &mark[..16]),
            description: Some(format!("minimal: forbidden by {strong}, allowed by {weak}")),
            program,
            observed: Vec::new(),
            queries: vec![Query {
                condition,
                expected: BTreeMap::from([(strong, Verdict::Forbidden), (weak, Verdict::Allowed)]),
            }],
            stated: Vec::new(),
        }
    }
}

/// Returns whether an output is one of the second model only, or of the first only.
fn separates([first, second]: &[BTreeSet<Output>; 2], first_forbids: bool) -> bool {
    match first_forbids {
        true => !second.is_subset(first),
        false => !first.is_subset(second),
    }
}

/// Returns a condition that no output of `strong` satisfies and some output of `weak` does. It needs each of the values that it names, and
/// names as few as any condition found so.
fn condition(strong: &BTreeSet<Output>, weak: &BTreeSet<Output>) -> Formula {
    type Atom = (Operand, Value);
    let atoms = |output: &Output| -> Vec<Atom> {
        let registers = output.iter().enumerate().flat_map(|(p, values)| {
            let operand = move |r: usize| Operand::Reg(ThreadId(p as u8), Reg(r as u16));
            values
                .iter()
                .enumerate()
                .map(move |(r, &value)| (operand(r), value))
        });
        registers.collect()
    };
    let others: Vec<Vec<Atom>> = strong.iter().map(atoms).collect();
    let is_forbidden = |wanted: &[Atom]| !others.iter().any(|has| wanted.iter().all(|a| has.contains(a)));
    let needed = |output: &Output| {
        let mut wanted = atoms(output);
        let mut at = 0;
        while at < wanted.len() {
            let gone = wanted.remove(at);
            if !is_forbidden(&wanted) {
                wanted.insert(at, gone);
                at += 1;
            }
        }
        wanted
    };
    let found = weak.difference(strong).map(needed).min_by_key(Vec::len);
    let atom = |(operand, value)| Formula::Atom(operand, Relation::Eq, value);
    Formula::all(found.unwrap_or_default().into_iter().map(atom).collect())
}
