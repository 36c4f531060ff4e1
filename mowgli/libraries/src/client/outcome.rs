//! The outcomes of clients.
//!
//! All code that runs clients answers in these types: the specifications, implementations under them, and
//! shipped objects. An implementation refines a specification if its outcomes are among the specification's
//! (LOCO'26 Def. 3.10).

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

pub use mowgli::outcome::{Budget, Completeness, Limit};

use crate::client::Client;
use crate::value::Value;

/// A final state, in which every thread has finished.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Outcome {
    /// `registers[t][r]` is the last value of register `r` of thread `t`, and [`Value::Int`] 0 if nothing was
    /// assigned.
    pub registers: Vec<Vec<Value>>,
    /// The last values of the words in [`Client::observed_words`], in that order, after everything has been
    /// placed.
    pub words: Vec<Value>,
}

impl Outcome {
    /// Prints the outcome as `0:a=true 1:b=bot [z]=0`: every register, then the observed words.
    pub fn display(&self, client: &Client) -> String {
        let mut parts = Vec::new();
        for (t, (thread, values)) in client.threads.iter().zip(&self.registers).enumerate() {
            for (name, value) in thread.registers.iter().zip(values) {
                parts.push(format!("{t}:{name}={value}"));
            }
        }
        for (&word, value) in client.observed_words.iter().zip(&self.words) {
            parts.push(format!("[{}]={value}", client.object(word).name));
        }
        parts.join(" ")
    }
}

/// The outcomes that were found, and whether these are all outcomes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcomes {
    /// The final states, each of which is possible.
    pub outcomes: BTreeSet<Outcome>,
    /// The completeness of the search. If it was incomplete, an outcome that is missing here may be possible.
    pub completeness: Completeness,
    /// The number of executions that were considered.
    pub executions: u64,
}

impl Outcomes {
    /// Returns whether every execution was considered.
    pub fn is_complete(&self) -> bool {
        self.completeness == Completeness::Complete
    }
}
