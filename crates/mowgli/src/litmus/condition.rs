//! Final conditions: a quantifier over outcomes and a formula over registers and locations.
//!
//! As in herd7, the *formula* describes outcomes and the *quantifier* says what is asked about them. A [`Verdict`] is about the
//! formula alone, so that one file can serve models that disagree.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{Model, RmwAtomicity, UnknownName};
use crate::outcome::Outcome;
use crate::program::{Loc, Program, Reg, ThreadId, Value};

/// A final condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The quantifier.
    pub quantifier: Quantifier,
    /// The formula, which describes the outcomes asked about.
    pub formula: Formula,
}

/// The question that a condition asks about its formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Quantifier {
    /// `exists`: some outcome satisfies the formula.
    Exists,
    /// `~exists`: no outcome satisfies the formula.
    NotExists,
    /// `forall`: every outcome satisfies the formula.
    Forall,
}

/// A formula over one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Formula {
    /// `true` or `false`.
    Const(bool),
    /// `0:r=1`, `x!=2`.
    Atom(Operand, Relation, Value),
    /// `~ f`.
    Not(Box<Formula>),
    /// `f /\ g /\ ..`: at least two.
    And(Vec<Formula>),
    /// `f \/ g \/ ..`: at least two.
    Or(Vec<Formula>),
}

/// The comparison of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Relation {
    /// `=`.
    Eq,
    /// `!=` (also written `<>`).
    Ne,
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
            Operand::Reg(t, r) => outcome
                .registers
                .get(usize::from(t.0))
                .and_then(|regs| regs.get(usize::from(r.0)))
                .copied(),
            Operand::Loc(l) => outcome.memory.get(usize::from(l.0)).copied(),
        }
        .unwrap_or(0)
    }

    /// Returns its name in conditions and states, as herd7 prints it: `0:r` or `[x]`.
    pub fn display(self, program: &Program) -> String {
        match self {
            Operand::Reg(t, r) => {
                let thread = program.threads.get(usize::from(t.0));
                let name = thread.and_then(|t| t.registers.get(usize::from(r.0)));
                format!("{}:{}", t.0, name.map_or("?", String::as_str))
            }
            Operand::Loc(l) => {
                let location = program.locations.get(usize::from(l.0));
                format!("[{}]", location.map_or("?", |l| l.name.as_str()))
            }
        }
    }
}

impl Formula {
    /// Returns whether the outcome satisfies the formula.
    pub fn holds(&self, outcome: &Outcome) -> bool {
        match self {
            Formula::Const(b) => *b,
            Formula::Atom(operand, Relation::Eq, v) => operand.value(outcome) == *v,
            Formula::Atom(operand, Relation::Ne, v) => operand.value(outcome) != *v,
            Formula::Not(f) => !f.holds(outcome),
            Formula::And(fs) => fs.iter().all(|f| f.holds(outcome)),
            Formula::Or(fs) => fs.iter().any(|f| f.holds(outcome)),
        }
    }

    /// Lists its operands in the order in which it first mentions them.
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

impl Quantifier {
    /// Returns the keyword.
    pub const fn keyword(self) -> &'static str {
        match self {
            Quantifier::Exists => "exists",
            Quantifier::NotExists => "~exists",
            Quantifier::Forall => "forall",
        }
    }
}

impl Condition {
    /// Prints the condition in the language's syntax: `exists (0:r=1)`.
    pub fn display(&self, program: &Program) -> String {
        format!(
            "{} ({})",
            self.quantifier.keyword(),
            self.formula.display(program)
        )
    }
}

/// The answer of a model about a formula.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Some outcome satisfies it.
    Allowed,
    /// No outcome satisfies it.
    Forbidden,
    /// Every outcome satisfies it.
    Required,
}

impl Verdict {
    /// Every verdict.
    pub const ALL: [Verdict; 3] = [Verdict::Allowed, Verdict::Forbidden, Verdict::Required];

    /// Returns the keyword that files and reports use.
    pub const fn keyword(self) -> &'static str {
        match self {
            Verdict::Allowed => "allowed",
            Verdict::Forbidden => "forbidden",
            Verdict::Required => "required",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.keyword())
    }
}

/// A model with an atomicity of remote read-modify-writes, for which a test states its verdicts. Written `rdma-tso` (atomicity
/// `hca`) or `rdma-tso/glob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Setting {
    /// The model.
    pub model: Model,
    /// The atomicity.
    pub rmw: RmwAtomicity,
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.rmw {
            RmwAtomicity::Hca => f.pad(self.model.name()),
            RmwAtomicity::Glob => f.pad(&format!("{}/glob", self.model)),
        }
    }
}

impl FromStr for Setting {
    type Err = UnknownName;

    fn from_str(s: &str) -> Result<Setting, UnknownName> {
        let (model, rmw) = s.split_once('/').unwrap_or((s, RmwAtomicity::Hca.name()));
        Ok(Setting {
            model: model.parse()?,
            rmw: rmw.parse()?,
        })
    }
}

/// The verdicts that a query states.
pub type Expected = BTreeMap<Setting, Verdict>;
