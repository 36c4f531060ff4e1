//! Values of clients: what registers hold, what calls take and return (`Val` of LOCO'26 3.1).

use std::fmt;

use serde::{Deserialize, Serialize};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Value {
    /// `()`: what a call returns that returns nothing.
    Unit,
    /// A truth value.
    Bool(bool),
    /// A number, 64 bits.
    Int(i64),
    /// A message or a mixed-size value of several words. A message of one word is [`Value::Int`], never a tuple of
    /// one, so that equal messages are equal values: build messages with [`Value::message`].
    Tuple(Vec<i64>),
    /// `⊥`, written `bot`: a receive that found no message, a read that found torn data, a key that is not there.
    Bottom(Bottom),
}

/// The value `⊥`. A type of its own so that its JSON is the text `"bot"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Bottom {
    /// The one value.
    #[serde(rename = "bot")]
    Bottom,
}

/// `⊥`.
pub const BOTTOM: Value = Value::Bottom(Bottom::Bottom);

impl Value {
    /// The message of these words.
    pub fn message(words: &[i64]) -> Value {
        match words {
            [one] => Value::Int(*one),
            _ => Value::Tuple(words.to_vec()),
        }
    }

    /// The words of a message. A truth value is the word 0 or 1; `()` and `⊥` have no words.
    pub fn words(&self) -> Vec<i64> {
        match self {
            Value::Unit | Value::Bottom(_) => Vec::new(),
            Value::Bool(b) => vec![i64::from(*b)],
            Value::Int(n) => vec![*n],
            Value::Tuple(words) => words.clone(),
        }
    }

    /// The value where a number is wanted: a truth value counts as 0 or 1, `()`, `⊥` and tuples as 0.
    pub fn number(&self) -> i64 {
        match self {
            Value::Bool(b) => i64::from(*b),
            Value::Int(n) => *n,
            Value::Unit | Value::Bottom(_) | Value::Tuple(_) => 0,
        }
    }

    /// The value where a truth value is wanted: a number is true unless it is 0, a tuple is true, `()` and `⊥` false.
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
    /// As in client texts: `1`, `true`, `bot`, `[1, 2]`.
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
