//! Values of clients, which are in registers, arguments and results (`Val` of LOCO'26 3.1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `()`: the result of a call that returns nothing.
    Unit,
    /// A truth value.
    Bool(bool),
    /// A number of 64 bits.
    Int(i64),
    /// A message or a mixed-size value of several words. A message of one word is a [`Value::Int`], never a
    /// tuple of one. Equal messages are therefore equal values. Build messages with [`Value::message`].
    Tuple(Vec<i64>),
    /// `⊥`, written `bot`: the result of a receive that found no message, a read that found torn data, or a
    /// lookup of an absent key.
    Bottom(Bottom),
}

/// The value `⊥`. It has a type of its own so that its JSON is the text `"bot"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bottom {
    /// The one value.
    #[serde(rename = "bot")]
    Bottom,
}

/// The value `⊥`.
pub const BOTTOM: Value = Value::Bottom(Bottom::Bottom);

impl Value {
    /// Makes the message of these words.
    pub fn message(words: &[i64]) -> Value {
        match words {
            [one] => Value::Int(*one),
            _ => Value::Tuple(words.to_vec()),
        }
    }

    /// Returns the words of a message. A truth value is the word 0 or 1; `()` and `⊥` have no words.
    pub fn words(&self) -> Vec<i64> {
        match self {
            Value::Unit | Value::Bottom(_) => Vec::new(),
            Value::Bool(b) => vec![i64::from(*b)],
            Value::Int(n) => vec![*n],
            Value::Tuple(words) => words.clone(),
        }
    }

    /// Returns the value as a number. A truth value counts as 0 or 1; `()`, `⊥` and tuples count as 0.
    pub fn number(&self) -> i64 {
        match self {
            Value::Bool(b) => i64::from(*b),
            Value::Int(n) => *n,
            Value::Unit | Value::Bottom(_) | Value::Tuple(_) => 0,
        }
    }

    /// Returns the value as a truth value. A number is true unless it is 0, a tuple is true, and `()` and `⊥`
    /// are false.
    pub fn truth(&self) -> bool {
        match self {
            Value::Unit | Value::Bottom(_) => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Tuple(_) => true,
        }
    }
}

impl From<i64> for Value {
    fn from(n: i64) -> Value {
        Value::Int(n)
    }
}

impl From<bool> for Value {
    fn from(b: bool) -> Value {
        Value::Bool(b)
    }
}

impl fmt::Display for Value {
    /// Prints the value as in client texts: `1`, `true`, `bot`, `[1, 2]`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Unit => f.write_str("()"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Int(n) => write!(f, "{n}"),
            Value::Bottom(_) => f.write_str("bot"),
            Value::Tuple(words) => {
                f.write_str("[")?;
                for (i, word) in words.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}{word}")?;
                }
                f.write_str("]")
            }
        }
    }
}
