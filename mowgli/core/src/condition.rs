//! Final conditions: a quantifier over outcomes and a formula over registers and locations.
//!
//! As in herd7, the *formula* describes outcomes and the *quantifier* says what is asked about them. A [`Verdict`] is about the
//! formula alone, so that one file can serve models that disagree. Conditions of other dialects have the same form over other operands, values and
//! settings: the types are generic, with those of tests of RDMA as defaults. `syntax` reads their text; `litmus` makes them public.

use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::model::{Model, RmwAtomicity, UnknownName};
use crate::outcome::Outcome;
use crate::program::{Loc, Location, Program, Reg, ThreadId, Value};

/// A final condition with the verdicts that the test states, by what is asked: a model with its atomicity for tests of RDMA.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Query<O = Operand, V = Value, S: Ord = Setting> {
    /// The condition.
    pub condition: Condition<O, V>,
    /// The verdicts stated for its formula.
    pub expected: BTreeMap<S, Verdict>,
}

/// A final condition.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition<O = Operand, V = Value> {
    /// The quantifier.
    pub quantifier: Quantifier,
    /// The formula, which describes the outcomes asked about.
    pub formula: Formula<O, V>,
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

/// A formula over one final state, whose operands are `O` and whose values are `V`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Formula<O = Operand, V = Value> {
    /// `true` or `false`.
    Const(bool),
    /// `0:r=1`, `x!=2`.
    Atom(O, Relation, V),
    /// `~ f`.
    Not(Box<Formula<O, V>>),
    /// `f /\ g /\ ..`: at least two.
    And(Vec<Formula<O, V>>),
    /// `f \/ g \/ ..`: at least two.
    Or(Vec<Formula<O, V>>),
}

/// A final state, which gives each operand a value.
pub trait State<O> {
    /// The type of values.
    type Value;

    /// Returns the value of an operand.
    fn value(&self, operand: O) -> Self::Value;
}

impl<O, S: State<O>> State<O> for &S {
    type Value = S::Value;

    fn value(&self, operand: O) -> S::Value {
        (**self).value(operand)
    }
}

/// A program, which names each operand.
pub trait Names<O> {
    /// Returns the name in conditions and states.
    fn name(&self, operand: O) -> String;
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
    /// Reads its value in a final state.
    pub fn value<S: State<Operand>>(self, state: &S) -> S::Value {
        state.value(self)
    }

    /// Returns its name in conditions and states, as herd7 prints it: `0:r` or `[x]`.
    pub fn display(self, program: &impl Names<Operand>) -> String {
        program.name(self)
    }

    /// Looks the operand up among registers by thread and among locations.
    pub fn find<T>(self, registers: &[impl AsRef<[T]>], memory: &[T]) -> Option<T>
    where
        T: Copy,
    {
        match self {
            Operand::Reg(t, r) => {
                let registers = registers.get(usize::from(t.0))?.as_ref();
                registers.get(usize::from(r.0)).copied()
            }
            Operand::Loc(l) => memory.get(usize::from(l.0)).copied(),
        }
    }

    /// Writes `0:r` or `[x]`, given the names of a thread's registers and the program's locations.
    pub fn name_among<'a>(
        self,
        registers: impl FnOnce(ThreadId) -> Option<&'a [String]>,
        locations: &[Location],
    ) -> String {
        match self {
            Operand::Reg(t, r) => {
                let name = registers(t).and_then(|names| names.get(usize::from(r.0)));
                format!("{}:{}", t.0, name.map_or("?", String::as_str))
            }
            Operand::Loc(l) => {
                let location = locations.get(usize::from(l.0));
                format!("[{}]", location.map_or("?", |l| l.name.as_str()))
            }
        }
    }
}

impl State<Operand> for Outcome {
    type Value = Value;

    /// Returns the value of an operand. An operand that the outcome does not have reads 0; the parser builds no such
    /// operand.
    fn value(&self, operand: Operand) -> Value {
        operand.find(&self.registers, &self.memory).unwrap_or(0)
    }
}

impl Names<Operand> for Program {
    fn name(&self, operand: Operand) -> String {
        let registers = |t: ThreadId| Some(self.threads.get(usize::from(t.0))?.registers.as_slice());
        operand.name_among(registers, &self.locations)
    }
}

impl<O, V> Formula<O, V> {
    /// Returns the formula that all of these make: the one alone, or true if there is none.
    pub fn all(mut parts: Vec<Formula<O, V>>) -> Formula<O, V> {
        match parts.len() {
            0 => Formula::Const(true),
            1 => parts.remove(0),
            _ => Formula::And(parts),
        }
    }

    /// Returns whether the final state satisfies the formula.
    pub fn holds<S: State<O, Value = V>>(&self, state: &S) -> bool
    where
        O: Copy,
        V: PartialEq,
    {
        match self {
            Formula::Const(b) => *b,
            Formula::Atom(operand, relation, v) => {
                (state.value(*operand) == *v) == (*relation == Relation::Eq)
            }
            Formula::Not(f) => !f.holds(state),
            Formula::And(fs) => fs.iter().all(|f| f.holds(state)),
            Formula::Or(fs) => fs.iter().any(|f| f.holds(state)),
        }
    }

    /// Calls `visit` with the operand of every comparison, from left to right.
    pub(crate) fn each_operand(&self, visit: &mut dyn FnMut(&O)) {
        match self {
            Formula::Const(_) => {}
            Formula::Atom(operand, ..) => visit(operand),
            Formula::Not(f) => f.each_operand(visit),
            Formula::And(fs) | Formula::Or(fs) => fs.iter().for_each(|f| f.each_operand(visit)),
        }
    }

    /// Replaces each operand. Returns `None` if some operand has no replacement. Every operand is visited even then, so
    /// that every mistake is reported.
    pub fn resolve<P>(&self, operand: &mut dyn FnMut(&O) -> Option<P>) -> Option<Formula<P, V>>
    where
        V: Clone,
    {
        let mut all = |fs: &[Formula<O, V>]| {
            let parts: Vec<_> = fs.iter().map(|f| f.resolve(operand)).collect();
            parts.into_iter().collect::<Option<Vec<_>>>()
        };
        Some(match self {
            Formula::Const(b) => Formula::Const(*b),
            Formula::And(fs) => Formula::And(all(fs)?),
            Formula::Or(fs) => Formula::Or(all(fs)?),
            Formula::Not(f) => Formula::Not(Box::new(f.resolve(operand)?)),
            Formula::Atom(o, relation, v) => Formula::Atom(operand(o)?, *relation, v.clone()),
        })
    }
}

impl<O: Copy + PartialEq, V> Formula<O, V> {
    /// Lists its operands in the order in which it first mentions them.
    pub fn operands(&self) -> Vec<O> {
        let mut out = Vec::new();
        self.each_operand(&mut |operand| {
            if !out.contains(operand) {
                out.push(*operand);
            }
        });
        out
    }
}

impl<O: Copy, V: fmt::Display> Formula<O, V> {
    /// Prints the formula in the language's syntax.
    pub fn display(&self, program: &impl Names<O>) -> String {
        let group = |f: &Formula<O, V>| match f {
            Formula::And(_) | Formula::Or(_) => format!("({})", f.display(program)),
            _ => f.display(program),
        };
        let join = |fs: &[Formula<O, V>], with: &str| fs.iter().map(group).collect::<Vec<_>>().join(with);
        match self {
            Formula::Const(b) => b.to_string(),
            Formula::Atom(operand, Relation::Eq, v) => format!("{}={v}", program.name(*operand)),
            Formula::Atom(operand, Relation::Ne, v) => format!("{}!={v}", program.name(*operand)),
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

impl<O: Copy, V: fmt::Display> Condition<O, V> {
    /// Prints the condition in the language's syntax: `exists (0:r=1)`.
    pub fn display(&self, program: &impl Names<O>) -> String {
        format!(
            "{} ({})",
            self.quantifier.keyword(),
            self.formula.display(program)
        )
    }
}

impl<O: Copy, V: fmt::Display, S: Ord + fmt::Display> Query<O, V, S> {
    /// Prints the condition and the verdicts stated, each on a line of its own.
    pub fn print(&self, program: &impl Names<O>) -> String {
        let mut out = format!("{}\n", self.condition.display(program));
        for verdict in Verdict::ALL {
            let stated = self.expected.iter().filter(|(_, v)| **v == verdict);
            let names: Vec<String> = stated.map(|(s, _)| format!("{s};")).collect();
            if !names.is_empty() {
                let _ = writeln!(out, "{verdict} [{}]", names.join(" "));
            }
        }
        out
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
