//! Final states of coreRMA programs, and the search for all of them.

use std::collections::BTreeSet;

use mowgli::outcome::{Budget, Completeness, Limit};
use mowgli::program::{Loc, Value as Number};
use serde::{Deserialize, Serialize};

use crate::action::{ACTIONS_MAX, Action, Effect, actions};
use crate::execution::{Execution, Next, Problem};
use crate::program::Program;
use crate::switches::{Model, Switches};
use crate::value::Value;
use crate::values::{Origins, Values};

/// A final state.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// `registers[p][r]`: final value of register `r` of process `p`.
    pub registers: Vec<Vec<Value>>,
    /// `memory[l]`: final value of location `l`, that of the write which no other follows in happens-before. Writes that
    /// are not ordered leave it undefined.
    pub memory: Vec<Value>,
}

impl Outcome {
    /// Returns the outcome as those of [`mowgli`]'s models, unless a value is undefined.
    pub fn known(&self) -> Option<mowgli::outcome::Outcome> {
        let numbers = |values: &Vec<Value>| values.iter().map(|v| v.known()).collect::<Option<Vec<Number>>>();
        Some(mowgli::outcome::Outcome {
            registers: self.registers.iter().map(numbers).collect::<Option<_>>()?,
            memory: numbers(&self.memory)?,
        })
    }
}

/// The result of a search: its states are the executions that were considered.
pub type Search = mowgli::outcome::Search<Outcome>;

impl Model {
    /// Finds all final states of a program under the model.
    pub fn outcomes(self, program: &Program, budget: &Budget<'_>) -> Search {
        outcomes(program, &self.switches(), budget)
    }
}

/// Finds all final states of a program.
pub fn outcomes(program: &Program, switches: &Switches, budget: &Budget<'_>) -> Search {
    let actions = actions_within(program, *switches);
    let mut search = Search {
        outcomes: BTreeSet::new(),
        completeness: Completeness::Complete,
        states: 0,
    };
    let Some(actions) = actions else {
        let words = format!("the program has more than {ACTIONS_MAX} actions (ACTIONS_MAX)");
        return Search::refused(Limit::TooLarge(words));
    };
    let problem = Problem::new(&actions, |p| program.processes[usize::from(p)].node, *switches);
    problem.visit(&mut |execution| {
        search.states += 1;
        if let Some(limit) = budget.exceeded(search.states) {
            search.completeness = Completeness::Incomplete(limit);
            return Next::Stop;
        }
        search.outcomes.insert(outcome(program, execution));
        Next::Continue
    });
    search
}

/// Returns the actions of a program, unless there are too many.
pub(crate) fn actions_within(program: &Program, switches: Switches) -> Option<Vec<Action>> {
    // A statement has one action at least and four at most: the count is bounded before the list is made.
    let statements: usize = program.processes.iter().map(|p| p.code.len()).sum();
    if statements > ACTIONS_MAX {
        return None;
    }
    Some(actions_under(program, switches)).filter(|actions| actions.len() <= ACTIONS_MAX)
}

/// Returns the actions of a program, with their accesses as the switches take them.
pub(crate) fn actions_under(program: &Program, switches: Switches) -> Vec<Action> {
    let mut actions = actions(program);
    for action in actions.iter_mut().filter(|a| a.loc.is_some()) {
        action.atomic |= switches.all_atomic;
    }
    actions
}

/// Returns the final state of an execution.
fn outcome(program: &Program, execution: Execution<'_>) -> Outcome {
    outcome_of(program, &mut Values::new(execution, &program.locations))
}

/// Returns the final state with these values.
pub fn outcome_of<'a>(program: &Program, values: &mut Values<'a, impl Origins<'a>>) -> Outcome {
    Outcome {
        // Locations are bounded by LOCATIONS_MAX, far below u16::MAX.
        memory: (0..program.locations.len())
            .map(|l| values.last(Loc(l as u16)))
            .collect(),
        registers: registers_of(program, values),
    }
}

/// Returns the final values of the registers of each process.
pub fn register_values(program: &Program, execution: Execution<'_>) -> Vec<Vec<Value>> {
    registers_of(program, &mut Values::new(execution, &program.locations))
}

fn registers_of<'a>(program: &Program, values: &mut Values<'a, impl Origins<'a>>) -> Vec<Vec<Value>> {
    let mut registers: Vec<Vec<Value>> = program
        .processes
        .iter()
        .map(|p| vec![Value::Known(0); p.registers.len()])
        .collect();
    for (at, action) in values.actions().iter().enumerate() {
        if let Effect::ReadInto(reg) = action.effect {
            registers[usize::from(action.process)][usize::from(reg.0)] = values.read(at);
        }
    }
    registers
}
