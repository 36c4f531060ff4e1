//! The request and the answer of `explain`, which are the same for every language of tests.

use mowgli::explain::VACUOUS;
use serde::{Deserialize, Serialize};

use super::graph::Graph;
use super::model::Named;

/// Most cycles that are drawn.
pub(super) const CYCLES_MAX: usize = 12;

#[derive(Deserialize)]
pub(crate) struct Request {
    pub(super) text: String,
    #[serde(flatten)]
    pub(super) model: Named,
    /// The outcome asked about. A client is asked about a condition instead.
    #[serde(default)]
    pub(super) formula: Option<String>,
    /// The number of the condition, from 0, if there is no formula.
    #[serde(default)]
    pub(super) query: usize,
}

#[derive(Default, Serialize)]
pub(crate) struct Answer {
    pub(super) title: String,
    pub(super) formula: String,
    /// `allowed`, `forbidden`, `vacuous`, or null if unknown.
    pub(super) verdict: Option<&'static str>,
    pub(super) limit: Option<String>,
    /// An execution that the model accepts.
    pub(super) witness: Option<Graph>,
    /// The numbers of the machine's steps to the outcome.
    pub(super) schedule: Option<Vec<usize>>,
    pub(super) cycles: Vec<CycleEntry>,
    /// The number of cycles. At most `CYCLES_MAX` of them are sent.
    pub(super) cycles_total: usize,
    /// Executions that would have the outcome.
    pub(super) candidates: u64,
    /// Single changes that would allow the outcome.
    pub(super) relaxations: Vec<String>,
    /// Changes that a limit left open.
    pub(super) undecided: Vec<String>,
    /// The answer as text, where a client or a vacuous test was asked about. The picture of a client is the witness or the
    /// only cycle.
    pub(super) words: Option<String>,
    /// Why there is no cycle to show, though the outcome is forbidden.
    pub(super) without_cycle: Option<String>,
}

impl Answer {
    /// Says why no cycle of a forbidden outcome is there, if none is. The verdict itself rests on a search that ended, whatever stopped
    /// the search for reasons.
    pub(super) fn say_if_without_cycle(&mut self) {
        if !self.cycles.is_empty() {
            return;
        }
        self.without_cycle = Some(match &self.limit {
            Some(limit) => format!(
                "No execution has this outcome: the search of all executions came to its end. The search for a reason did not. {limit}."
            ),
            None => {
                "No choice of sources gives these values: no execution has this outcome, whatever the orders."
                    .to_owned()
            }
        });
    }

    /// Says that the test has no execution.
    pub(super) fn set_vacuous(&mut self) {
        self.verdict = Some("vacuous");
        self.words = Some(VACUOUS.to_owned());
    }
}

#[derive(Serialize)]
pub(super) struct CycleEntry {
    pub(super) graph: Graph,
    pub(super) candidates: u64,
    /// The axiom of a model file that the cycle violates.
    pub(super) axiom: Option<String>,
    /// The rule of coreRMA that is broken, in words.
    pub(super) broken: Option<String>,
    pub(super) edges: Vec<EdgeEntry>,
}

#[derive(Serialize)]
pub(super) struct EdgeEntry {
    pub(super) from: usize,
    pub(super) to: usize,
    /// The order of the model that the edge belongs to.
    pub(super) order: &'static str,
    /// The relation, and the cell of the ordering table.
    pub(super) relation: String,
    pub(super) cell: Option<String>,
    pub(super) reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_not_a_reason() {
        let without = |limit: Option<&str>| {
            let mut answer = Answer {
                limit: limit.map(str::to_owned),
                ..Answer::default()
            };
            answer.say_if_without_cycle();
            answer.without_cycle.unwrap_or_default()
        };
        let words = without(Some("time limit reached"));
        assert!(
            words.contains("time limit reached") && !words.contains("No choice of sources"),
            "{words}"
        );
        assert!(without(None).contains("No choice of sources"));
    }
}
