//! Final conditions over values that may be undefined.

use std::collections::BTreeMap;

use mowgli::litmus::{Quantifier, Relation, Verdict};
use mowgli::program::{Loc, Reg, ThreadId};
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::program::Program;
use crate::switches::Model;
use crate::value::Value;

/// A final condition with the verdicts that the test states.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query {
    /// The condition.
    pub condition: Condition,
    /// The verdicts stated for its formula.
    pub expected: Expected,
}

/// The verdicts that a query states, by model.
pub type Expected = BTreeMap<Model, Verdict>;

/// A quantifier over outcomes and a formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The quantifier.
    pub quantifier: Quantifier,
    /// The formula, which describes the outcomes asked about.
    pub formula: Formula,
}

/// A formula over one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Formula {
    /// `true` or `false`.
    Const(bool),
    /// `0:r=1`, `x!=T`.
    Atom(Operand, Relation, Value),
    /// `~ f`.
    Not(Box<Formula>),
    /// `f /\ g /\ ..`: at least two.
    And(Vec<Formula>),
    /// `f \/ g \/ ..`: at least two.
    Or(Vec<Formula>),
}

/// A register or location that a formula can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operand {
    /// A register's final value.
    Reg(ThreadId, Reg),
    /// A location's final value.
    Loc(Loc),
}

impl Operand {
    /// Reads its value in an outcome. An operand that the outcome does not have reads 0; the parser builds none.
    pub fn value(self, outcome: &Outcome) -> Value {
        match self {
            Operand::Reg(p, r) => outcome
                .registers
                .get(usize::from(p.0))
                .and_then(|registers| registers.get(usize::from(r.0))),
            Operand::Loc(l) => outcome.memory.get(usize::from(l.0)),
        }
        .copied()
        .unwrap_or(Value::Known(0))
    }

    /// Returns its name in conditions and states: `0:r` or `[x]`.
    pub fn display(self, program: &Program) -> String {
        match self {
            Operand::Reg(p, r) => {
                let process = program.processes.get(usize::from(p.0));
                let name = process.and_then(|process| process.registers.get(usize::from(r.0)));
                format!("{}:{}", p.0, name.map_or("?", String::as_str))
            }
            Operand::Loc(l) => {
                let location = program.locations.get(usize::from(l.0));
                format!("[{}]", location.map_or("?", |l| l.name.as_str()))
            }
        }
    }
}

impl Formula {
    /// Returns whether the outcome satisfies the formula. The undefined value equals itself only.
    pub fn holds(&self, outcome: &Outcome) -> bool {
        match self {
            Formula::Const(b) => *b,
            Formula::Atom(operand, relation, value) => {
                (operand.value(outcome) == *value) == (*relation == Relation::Eq)
            }
            Formula::Not(f) => !f.holds(outcome),
            Formula::And(fs) => fs.iter().all(|f| f.holds(outcome)),
            Formula::Or(fs) => fs.iter().any(|f| f.holds(outcome)),
        }
    }

    /// Lists its operands, each once.
    pub fn operands(&self) -> Vec<Operand> {
        let mut out = Vec::new();
        self.collect(&mut out);
        out
    }

    fn collect(&self, out: &mut Vec<Operand>) {
        match self {
            Formula::Const(_) => {}
            Formula::Atom(operand, ..) if out.contains(operand) => {}
            Formula::Atom(operand, ..) => out.push(*operand),
            Formula::Not(f) => f.collect(out),
            Formula::And(fs) | Formula::Or(fs) => fs.iter().for_each(|f| f.collect(out)),
        }
    }

    /// Prints the formula in the language's syntax.
    pub fn display(&self, program: &Program) -> String {
        let group = |f: &Formula| match f {
            Formula::And(_) | Formula::Or(_) => format!("({})", f.display(program)),
            _ => f.display(program),
        };
        let join = |fs: &[Formula], with: &str| fs.iter().map(group).collect::<Vec<_>>().join(with);
        match self {
            Formula::Const(b) => b.to_string(),
            Formula::Atom(operand, Relation::Eq, v) => format!("{}={v}", operand.display(program)),
            Formula::Atom(operand, Relation::Ne, v) => format!("{}!={v}", operand.display(program)),
            Formula::Not(f) => format!("~{}", group(f)),
            Formula::And(fs) => join(fs, " /\\ "),
            Formula::Or(fs) => join(fs, " \\/ "),
        }
    }
}

impl Condition {
    /// Prints the condition in the language's syntax.
    pub fn display(&self, program: &Program) -> String {
        format!(
            "{} ({})",
            self.quantifier.keyword(),
            self.formula.display(program)
        )
    }
}
