//! Final conditions of clients: formulas over registers and words, and the verdicts expected of settings.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use mowgli::litmus::{Quantifier, Relation, Verdict};
use mowgli::program::{Reg, ThreadId};
use serde::{Deserialize, Serialize};

use super::{Client, ObjectId};
use crate::client::outcome::Outcome;
use crate::value::Value;

/// A final condition with the verdicts expected on it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Query {
    /// The condition.
    pub condition: Condition,
    /// Expected verdicts on its formula.
    pub expected: Expected,
}

/// The expected verdicts, by setting.
pub type Expected = BTreeMap<Setting, Verdict>;

/// A quantifier over outcomes and a formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Condition {
    /// The question.
    pub quantifier: Quantifier,
    /// The outcomes that it asks about.
    pub formula: Formula,
}

/// A formula over one outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Formula {
    /// `true` or `false`.
    Const(bool),
    /// `0:a=true`, `[x]!=2`.
    Atom(Operand, Relation, Value),
    /// `~ f`.
    Not(Box<Formula>),
    /// `f /\ g /\ ..`.
    And(Vec<Formula>),
    /// `f \/ g \/ ..`.
    Or(Vec<Formula>),
}

/// A register or word that a formula can read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Operand {
    /// A register's last value.
    Reg(ThreadId, Reg),
    /// The last value of a word of RDMA^WAIT.
    Word(ObjectId),
}

impl Formula {
    /// Returns whether the outcome satisfies the formula.
    pub fn holds(&self, client: &Client, outcome: &Outcome) -> bool {
        match self {
            Formula::Const(b) => *b,
            Formula::Atom(operand, relation, value) => {
                (outcome.value(client, *operand) == *value) == (*relation == Relation::Eq)
            }
            Formula::Not(f) => !f.holds(client, outcome),
            Formula::And(fs) => fs.iter().all(|f| f.holds(client, outcome)),
            Formula::Or(fs) => fs.iter().any(|f| f.holds(client, outcome)),
        }
    }

    /// Visits every operand.
    pub fn for_each_operand(&self, visit: &mut impl FnMut(Operand)) {
        match self {
            Formula::Const(_) => {}
            Formula::Atom(operand, ..) => visit(*operand),
            Formula::Not(f) => f.for_each_operand(visit),
            Formula::And(fs) | Formula::Or(fs) => fs.iter().for_each(|f| f.for_each_operand(visit)),
        }
    }
}

/// The part of outcomes that conditions read.
impl Outcome {
    /// Returns the value of an operand of `client`'s conditions; `()` if the client has no such operand.
    pub fn value(&self, client: &Client, operand: Operand) -> Value {
        let found = match operand {
            Operand::Reg(thread, reg) => self
                .registers
                .get(usize::from(thread.0))
                .and_then(|registers| registers.get(usize::from(reg.0))),
            Operand::Word(object) => client
                .observed_words
                .iter()
                .position(|&word| word == object)
                .and_then(|at| self.words.get(at)),
        };
        found.cloned().unwrap_or(Value::Unit)
    }

    /// Returns the formula that this outcome satisfies, and no other.
    pub fn formula(&self, client: &Client) -> Formula {
        let mut operands = Vec::new();
        for (t, registers) in self.registers.iter().enumerate() {
            operands.extend((0..registers.len()).map(|r| Operand::Reg(ThreadId(t as u8), Reg(r as u16))));
        }
        operands.extend(client.observed_words.iter().map(|&word| Operand::Word(word)));
        let atom = |operand| Formula::Atom(operand, Relation::Eq, self.value(client, operand));
        Formula::And(operands.into_iter().map(atom).collect())
    }
}

/// The rules that a verdict is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Setting {
    /// The specifications of all libraries.
    Spec,
    /// The specifications, with barriers that fence all nodes, not only those of participants (LOCO'26 4.3).
    TransitiveBarrier,
    /// The specifications, with the weaker ring buffers of LOCO'26 5.1.
    WeakRing,
    /// The specifications, with ring buffers as printed in LOCO'26 Def. 5.2. No writer that reads its own
    /// ring satisfies it.
    PaperRing,
    /// I_W below words (LOCO'26 Fig. 24), other libraries by specification.
    ImplWait,
    /// I_SV below shared variables (LOCO'26 3.5).
    ImplSv,
    /// I_BAL below barriers (LOCO'26 Fig. 11).
    ImplBarrier,
    /// I_RBL below ring buffers (LOCO'26 Fig. 14).
    ImplRing,
    /// I_MSW below mixed-size locations (LOCO'26 Fig. 28).
    ImplMixedSize,
    /// I_MSV below mixed-size shared variables (LOCO'26 G.6.1).
    ImplMixedVariable,
    /// The shipped objects under the model.
    Shipped,
}

impl Setting {
    /// Every setting.
    pub const ALL: [Setting; 11] = [
        Setting::Spec,
        Setting::TransitiveBarrier,
        Setting::WeakRing,
        Setting::PaperRing,
        Setting::ImplWait,
        Setting::ImplSv,
        Setting::ImplBarrier,
        Setting::ImplRing,
        Setting::ImplMixedSize,
        Setting::ImplMixedVariable,
        Setting::Shipped,
    ];

    /// Returns the setting's name in texts.
    pub const fn name(self) -> &'static str {
        match self {
            Setting::Spec => "spec",
            Setting::TransitiveBarrier => "transitive-barrier",
            Setting::WeakRing => "weak-ring",
            Setting::PaperRing => "paper-ring",
            Setting::ImplWait => "I_W",
            Setting::ImplSv => "I_SV",
            Setting::ImplBarrier => "I_BAL",
            Setting::ImplRing => "I_RBL",
            Setting::ImplMixedSize => "I_MSW",
            Setting::ImplMixedVariable => "I_MSV",
            Setting::Shipped => "shipped",
        }
    }
}

impl fmt::Display for Setting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A setting that does not exist.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown setting `{name}`; settings are {known}", known = Setting::ALL.map(Setting::name).join(", "))]
pub struct UnknownSetting {
    /// The name that was given.
    pub name: String,
}

mowgli::debug_as_display!(UnknownSetting);

impl FromStr for Setting {
    type Err = UnknownSetting;

    fn from_str(name: &str) -> Result<Setting, UnknownSetting> {
        let found = Setting::ALL.into_iter().find(|s| s.name() == name);
        found.ok_or_else(|| UnknownSetting {
            name: name.to_owned(),
        })
    }
}
