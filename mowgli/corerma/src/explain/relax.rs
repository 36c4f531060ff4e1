//! Single changes that would allow a forbidden outcome: a rule left out, another model, or a statement removed.

use mowgli::outcome::{Budget, Limit};

use super::{Reason, find};
use crate::action::Action;
use crate::execution::Problem;
use crate::litmus::{Formula, statement};
use crate::outcome::actions_under;
use crate::program::{Program, Statement};
use crate::rules::{Rule, orders};
use crate::switches::Model;

/// A single change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A rule that orders actions of the program, left out everywhere.
    Rule(Rule),
    /// Another model.
    Model(Model),
    /// A statement taken out of the program.
    Remove {
        /// Index of its process.
        process: usize,
        /// Index of the statement.
        index: usize,
        /// The statement as text.
        text: String,
    },
}

impl Change {
    /// Returns the kind of change in JSON: rule, model or remove.
    pub const fn kind(&self) -> &'static str {
        match self {
            Change::Rule(_) => "rule",
            Change::Model(_) => "model",
            Change::Remove { .. } => "remove",
        }
    }

    /// Describes the change: what stands after "It would be allowed".
    pub fn text(&self) -> String {
        match self {
            Change::Rule(rule) => format!("without {rule}: {}", rule.meaning()),
            Change::Model(model) => format!("under {model} ({})", model.summary()),
            Change::Remove { process, text, .. } => format!("without `{text}` of P{process}"),
        }
    }
}

/// Tries each change, and adds to the reason those that allow `wanted` and those that a limit left open.
pub(super) fn relax(
    program: &Program,
    of: &[Action],
    model: Model,
    wanted: &Formula,
    reason: &mut Reason,
    budget: &Budget<'_>,
) {
    let home = |p: u8| program.processes[usize::from(p)].node;
    let switches = model.switches();
    let fixed = orders(of, home, switches);
    let mut note = |change: Change, found: Result<bool, Limit>| match found {
        Ok(true) => reason.relaxations.push(change),
        Ok(false) => {}
        Err(_) => reason.undecided.push(change),
    };
    let mut rules: Vec<Rule> = fixed.iter().map(|o| o.rule).collect();
    rules.sort_unstable();
    rules.dedup();
    for rule in rules {
        let problem = Problem::new(of, home, switches.with_rules(switches.rules.without(rule)));
        let found = find(program, &problem, wanted, budget).map(|w| w.is_some());
        note(Change::Rule(rule), found);
    }
    for other in Model::ALL.into_iter().filter(|&m| m != model) {
        let of = actions_under(program, other.switches());
        let problem = Problem::new(&of, home, other.switches());
        let found = find(program, &problem, wanted, budget).map(|w| w.is_some());
        note(Change::Model(other), found);
    }
    for (process, code) in program.processes.iter().map(|p| &p.code).enumerate() {
        for (index, gone) in code.iter().enumerate() {
            // A flush orders and moves no value; without another statement, the outcome would be about another program.
            if !matches!(gone, Statement::Flush { .. }) {
                continue;
            }
            let mut shorter = program.clone();
            shorter.processes[process].code.remove(index);
            let actions = actions_under(&shorter, switches);
            let problem = Problem::new(&actions, home, switches);
            let found = find(&shorter, &problem, wanted, budget).map(|w| w.is_some());
            let change = Change::Remove {
                process,
                index,
                text: statement(program, &program.processes[process], gone),
            };
            note(change, found);
        }
    }
}
