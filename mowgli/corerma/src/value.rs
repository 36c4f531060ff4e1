//! Values of coreRMA: numbers, and the undefined value of a conflict.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value of a register or location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// A number.
    Known(i64),
    /// `⊤`, written `T`: the value that rule C gives to a read that takes part in a conflict, or that reads from a write
    /// that does (coreRMA'16 section 5.3). The hardware may return anything.
    Undefined(Undefined),
}

/// The value `⊤`. It has a type of its own so that its JSON is the text `"T"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Undefined {
    /// The one value.
    #[serde(rename = "T")]
    Undefined,
}

/// The undefined value.
pub const UNDEFINED: Value = Value::Undefined(Undefined::Undefined);

impl Value {
    /// Returns the number, unless the value is undefined.
    pub fn known(self) -> Option<i64> {
        match self {
            Value::Known(n) => Some(n),
            Value::Undefined(_) => None,
        }
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Known(n)
    }
}

impl fmt::Display for Value {
    /// Prints the value as in litmus texts: `1`, `T`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Known(n) => write!(f, "{n}"),
            Value::Undefined(_) => f.write_str("T"),
        }
    }
}
