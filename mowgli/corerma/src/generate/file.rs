//! A generated test as a file: its pivot in the description, its outputs as conditions.
//!
//! The first condition says that every output is one of those listed, the others say that each of them is possible. So
//! `mowgli check` on the file finds an output that is missing as well as one too many.

use std::collections::BTreeMap;

use mowgli::litmus::{Operand, Quantifier, Relation, Verdict, fingerprint_of};
use mowgli::program::{Reg, ThreadId};

use super::{Output, Test};
use crate::action::actions;
use crate::execution::LeftOut;
use crate::litmus::{Condition, Formula, Litmus, Query, program_text, statement};
use crate::program::Program;
use crate::rules::Rule;
use crate::switches::Model;

impl Test {
    /// Returns the test as a litmus test that states its pivot and its outputs. Its name is made from rule, processes, size
    /// and program, so that it does not depend on the run that made it.
    pub fn litmus(&self, model: Model, rule: Rule) -> Litmus {
        let program = &self.program;
        let mark = fingerprint_of(&program_text(program));
        let name = format!(
            "{rule}-P{}-S{:02}-{}",
            program.processes.len(),
            self.size,
            &mark[..16]
        );
        let description = format!(
            "pivot {rule}: {}; size {}; generated from {model}",
            pair(program, self.pivot),
            self.size
        );
        let mut states: Vec<Formula> = self.outputs.iter().map(state).collect();
        let mut queries = Vec::new();
        if states.len() > 1 {
            for state in &states {
                queries.push(query(Quantifier::Exists, state.clone(), model, Verdict::Allowed));
            }
        }
        let all = match states.len() {
            1 => states.remove(0),
            _ => Formula::Or(states),
        };
        queries.insert(0, query(Quantifier::Forall, all, model, Verdict::Required));
        Litmus {
            name,
            description: Some(description),
            program: program.clone(),
            observed: Vec::new(),
            queries,
            stated: Vec::new(),
        }
    }
}

fn query(quantifier: Quantifier, formula: Formula, model: Model, verdict: Verdict) -> Query {
    Query {
        condition: Condition { quantifier, formula },
        expected: BTreeMap::from([(model, verdict)]),
    }
}

/// Returns the formula that only this output satisfies.
fn state(output: &Output) -> Formula {
    let atoms = output.iter().enumerate().flat_map(|(p, registers)| {
        registers.iter().enumerate().map(move |(r, &value)| {
            let operand = Operand::Reg(ThreadId(p as u8), Reg(r as u16));
            Formula::Atom(operand, Relation::Eq, value)
        })
    });
    Formula::all(atoms.collect())
}

/// Writes the pair of an application: each action as its type, its process and its statement.
fn pair(program: &Program, left_out: LeftOut) -> String {
    let actions = actions(program);
    let (from, to) = left_out.pair();
    let action = |at: usize| {
        let action = &actions[at];
        let process = &program.processes[usize::from(action.process)];
        let text = statement(program, process, &process.code[usize::from(action.statement)]);
        // A compare and swap has two actions of one type: the location tells them apart, or their number.
        let number = at - usize::from(action.first) + 1;
        let loc = action.loc.map_or("", |loc| program.location(loc).name.as_str());
        match action.kind.name() {
            "flush" => format!("P{} {text}", action.process),
            kind => format!("P{} {text} [{number}: {kind} {loc}]", action.process),
        }
    };
    format!("{} -> {}", action(from), action(to))
}
