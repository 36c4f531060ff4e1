//! The result of a test on a fabric, as a line of JSON (`docs/json.md`) and as a histogram in litmus7's format.
//!
//! A record holds the test's text, so that a file of records documents itself. Relies on `mowgli`'s language.
//! Used by [`crate::job`], the table and the inference.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use mowgli::counted::counted;
use mowgli::litmus::{self, Dialect, Litmus, Operand, Quantifier};
use mowgli::outcome::Outcome;
use mowgli::program::{Loc, Program, Reg, ThreadId, Value};
use serde::{Deserialize, Serialize};

use crate::allowed::Allowed;
use crate::test::Test;

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Format of the line.
    pub version: u32,
    /// Name of the test.
    pub test: String,
    /// The group of tests that it belongs to ([`Test::family`]).
    pub family: String,
    /// Fingerprint of program and conditions.
    pub hash: String,
    /// The test as text.
    pub source: String,
    /// The fabric.
    pub fabric: String,
    /// Number of nodes of the job.
    pub nodes: usize,
    /// The model that judged.
    pub model: String,
    /// Whether the model's search was complete. If not, states that it did not find are not judged.
    pub judged: bool,
    /// The stress: `none`, `default`, `auto`, or the switches.
    pub stress: String,
    /// Runs that were made, discarded ones included.
    pub runs: u64,
    /// Runs without a state: an `assume` failed or a loop met its bound.
    pub discarded: u64,
    /// The thread that hung at the deadline, if one did. The test was given up then.
    pub hung: Option<String>,
    /// Wall-clock time of the runs, without the model's.
    pub seconds: f64,
    /// The observed states, and the allowed states that were not observed.
    pub states: Vec<State>,
    /// The stress that showed the rarest states, if several were tried.
    pub best: Option<String>,
    /// For a test of coreRMA, how many of the values of a state are its *output* (coreRMA'16 section 7): the values of the
    /// registers. They come first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outputs: Option<usize>,
}

/// A final state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// The state as text: `0:a=1; [x]=2;`.
    pub state: String,
    /// How often it was seen.
    pub count: u64,
    /// How often in runs whose puts of constants were inlined ([`Constant::Inline`](crate::stress::Constant)). These runs
    /// are judged by the model of inlined puts.
    #[serde(default)]
    pub inlined: u64,
    /// The model's answer.
    pub verdict: Verdict,
    /// The values, registers first.
    pub values: Vec<Value>,
}

/// The model's answer about a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The model allows the state.
    Allowed,
    /// The model's search was not complete and did not find the state.
    Unknown,
    /// The model forbids the state.
    Forbidden,
}

/// The runs of a test whose constants were put in one way, with what the model allows of the program that was run.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Whether puts of constants were inlined.
    pub inlined: bool,
    /// The outcomes that the model allows of the program as it was run.
    pub allowed: &'a Allowed,
    /// How often each outcome was seen.
    pub counts: &'a BTreeMap<Outcome, u64>,
}

impl Part<'_> {
    fn verdict(&self, outcome: &Outcome) -> Verdict {
        match self.allowed.outcomes.contains(outcome) {
            true => Verdict::Allowed,
            false if self.allowed.complete => Verdict::Forbidden,
            false => Verdict::Unknown,
        }
    }

    fn count(&self, outcome: &Outcome) -> u64 {
        self.counts.get(outcome).copied().unwrap_or(0)
    }
}

impl Record {
    /// Judges the observed outcomes of each part of the runs. A state that was seen in several parts is forbidden if one of
    /// them forbids it.
    pub fn new(test: &Test, parts: &[Part<'_>]) -> Record {
        let program = &test.litmus.program;
        let operands = program.operands();
        let seen: BTreeSet<&Outcome> = parts.iter().flat_map(|part| part.counts.keys()).collect();
        let allowed: BTreeSet<&Outcome> = parts.iter().flat_map(|part| &part.allowed.outcomes).collect();
        let unseen = allowed.difference(&seen);
        let states = seen.iter().chain(unseen).map(|&outcome| {
            let count = |part: &Part<'_>| part.count(outcome);
            let inlined = parts.iter().filter(|part| part.inlined).map(count).sum();
            let verdicts = parts
                .iter()
                .filter(|part| count(part) > 0)
                .map(|part| part.verdict(outcome));
            let values: Vec<Value> = operands.iter().map(|o| o.value(outcome)).collect();
            let shown = operands.iter().zip(&values);
            let shown = shown.map(|(o, value)| format!("{}={value};", o.display(program)));
            State {
                state: shown.collect::<Vec<_>>().join(" "),
                count: parts.iter().map(count).sum(),
                inlined,
                verdict: verdicts.max().unwrap_or(Verdict::Allowed),
                values,
            }
        });
        Record {
            version: 1,
            test: test.name.clone(),
            family: test.family.clone(),
            hash: test.hash.clone(),
            source: test.litmus.print(),
            fabric: String::new(),
            nodes: 0,
            model: parts
                .first()
                .map_or(String::new(), |part| part.allowed.model.clone()),
            judged: parts.iter().all(|part| part.allowed.complete),
            stress: String::new(),
            runs: 0,
            discarded: 0,
            hung: None,
            seconds: 0.0,
            states: states.collect(),
            best: None,
            outputs: test
                .corerma
                .is_some()
                .then(|| program.threads.iter().map(|t| t.registers.len()).sum()),
        }
    }

    /// Returns whether a state was seen that the model forbids.
    pub fn is_violated(&self) -> bool {
        self.violations().next().is_some()
    }

    /// Returns the states that were seen and that the model forbids.
    pub fn violations(&self) -> impl Iterator<Item = &State> {
        let seen = |state: &&State| state.count > 0 && state.verdict == Verdict::Forbidden;
        self.states.iter().filter(seen)
    }

    /// Returns how many allowed states there are, and how many of them were seen. Of a test of coreRMA, these are outputs.
    pub fn allowed(&self) -> (usize, usize) {
        let allowed = self.states.iter().filter(|s| s.verdict == Verdict::Allowed);
        // States with the same output are one.
        let shown = |s: &State| match self.outputs {
            Some(values) => s.values.iter().take(values).copied().collect(),
            None => s.values.clone(),
        };
        let seen: BTreeSet<Vec<Value>> = allowed.clone().filter(|s| s.count > 0).map(shown).collect();
        let allowed: BTreeSet<Vec<Value>> = allowed.map(shown).collect();
        (allowed.len(), seen.len())
    }

    /// Parses the test again.
    ///
    /// # Errors
    /// Fails if the text is no test.
    pub fn litmus(&self) -> Result<Litmus, litmus::ParseError> {
        litmus::parse(&self.source).map(|parsed| parsed.litmus)
    }

    /// Returns a state as an outcome of the test's program.
    pub fn outcome(program: &Program, state: &State) -> Outcome {
        let mut outcome = Outcome {
            registers: program
                .threads
                .iter()
                .map(|t| vec![0; t.registers.len()])
                .collect(),
            memory: vec![0; program.locations.len()],
        };
        for (operand, &value) in program.operands().iter().zip(&state.values) {
            match *operand {
                Operand::Reg(ThreadId(t), Reg(r)) => {
                    outcome.registers[usize::from(t)][usize::from(r)] = value
                }
                Operand::Loc(Loc(l)) => outcome.memory[usize::from(l)] = value,
            }
        }
        outcome
    }

    /// Returns for each condition of the test how many runs satisfied its formula, and how many did not.
    pub fn witnesses(&self, litmus: &Litmus) -> Vec<(u64, u64)> {
        let tally = |query: &litmus::Query| {
            let holds = |s: &&State| {
                query
                    .condition
                    .formula
                    .holds(&Record::outcome(&litmus.program, s))
            };
            let positive: u64 = self.states.iter().filter(holds).map(|s| s.count).sum();
            let all: u64 = self.states.iter().map(|s| s.count).sum();
            (positive, all - positive)
        };
        litmus.queries.iter().map(tally).collect()
    }

    /// Writes the histogram as litmus7 does, with the model's verdict behind each state.
    ///
    /// # Errors
    /// Fails if the record's text is no test.
    pub fn histogram(&self) -> Result<String, litmus::ParseError> {
        let litmus = self.litmus()?;
        let seen = self.states.iter().filter(|s| s.count > 0).count();
        let mut out = String::new();
        let kind = if self.is_violated() {
            "Forbidden"
        } else {
            "Allowed"
        };
        let _ = writeln!(out, "Test {} {kind}", self.test);
        let _ = writeln!(out, "Histogram ({})", counted(seen, "state"));
        let first = &litmus.queries[0].condition;
        for state in &self.states {
            let holds = first.formula.holds(&Record::outcome(&litmus.program, state));
            let mark = if holds { "*" } else { ":" };
            let inlined = match state.inlined {
                0 => String::new(),
                n => format!(", {} with inlined constants", counted(n, "time")),
            };
            let verdict = match (state.verdict, state.count) {
                (Verdict::Allowed, 0) => "allowed, never seen".to_owned(),
                (Verdict::Allowed, n) => format!("allowed, seen {}", counted(n, "time")),
                (Verdict::Forbidden, _) => format!("FORBIDDEN by {} but seen", self.model),
                (Verdict::Unknown, _) => format!("not judged by {}", self.model),
            };
            let _ = writeln!(
                out,
                "{:<8}{mark}>{}  {verdict}{inlined}",
                state.count, state.state
            );
        }
        let witnesses = self.witnesses(&litmus);
        for (index, (query, &(positive, negative))) in litmus.queries.iter().zip(&witnesses).enumerate() {
            let validated = match query.condition.quantifier {
                Quantifier::Exists => positive > 0,
                Quantifier::NotExists => positive == 0,
                Quantifier::Forall => negative == 0,
            };
            let ok = if validated { "Ok" } else { "No" };
            let is = if validated {
                "is validated"
            } else {
                "is NOT validated"
            };
            let when = match (positive, negative) {
                (0, _) => "Never",
                (_, 0) => "Always",
                _ => "Sometimes",
            };
            let name = litmus.query_name(index);
            let condition = query.condition.display(&litmus.program);
            let _ = writeln!(
                out,
                "{ok}\n\nWitnesses\nPositive: {positive}, Negative: {negative}"
            );
            let _ = writeln!(out, "Condition {condition} {is}");
            let _ = writeln!(out, "Observation {name} {when} {positive} {negative}");
        }
        if let Some(thread) = &self.hung {
            let _ = writeln!(
                out,
                "Hung: {thread} did not end by the deadline; the test was given up"
            );
        }
        if self.discarded > 0 {
            let _ = writeln!(out, "Discarded: {}", self.discarded);
        }
        let _ = writeln!(out, "Hash={}", self.hash);
        let _ = writeln!(out, "Time {} {:.2}", self.test, self.seconds);
        Ok(out)
    }
}
