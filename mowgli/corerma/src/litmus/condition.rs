//! Final conditions over values that may be undefined: those of [`mowgli::litmus`], over the outcomes and models of coreRMA.

use std::collections::BTreeMap;

use mowgli::litmus::{self, Names, Operand, State, Verdict};
use mowgli::program::ThreadId;

use crate::outcome::Outcome;
use crate::program::Program;
use crate::switches::Model;
use crate::value::Value;

/// A final condition with the verdicts that the test states.
pub type Query = litmus::Query<Operand, Value, Model>;

/// The verdicts that a query states, by model.
pub type Expected = BTreeMap<Model, Verdict>;

/// A quantifier over outcomes and a formula.
pub type Condition = litmus::Condition<Operand, Value>;

/// A formula over one outcome. The undefined value equals itself only.
pub type Formula = litmus::Formula<Operand, Value>;

impl State<Operand> for Outcome {
    type Value = Value;

    /// Returns the value of an operand. An operand that the outcome does not have reads 0; the parser builds no such
    /// operand.
    fn value(&self, operand: Operand) -> Value {
        let found = operand.find(&self.registers, &self.memory);
        found.unwrap_or(Value::Known(0))
    }
}

impl Names<Operand> for Program {
    fn name(&self, operand: Operand) -> String {
        let registers = |p: ThreadId| Some(self.processes.get(usize::from(p.0))?.registers.as_slice());
        operand.name_among(registers, &self.locations)
    }
}
