//! Decides soundness by bounded refinement (LOCO'26 Def. 3.10). For every client up to a size, the outcomes
//! under an implementation are among those that the specification allows.

use mowgli::outcome::{Budget, Limit};

use crate::client::Client;
use crate::client::outcome::Outcome;
use crate::event::Event;
use crate::implementation::Rules;
use crate::outcomes::{outcomes, outcomes_beyond};

/// The implementation and the specification to compare.
pub struct Refinement<'a> {
    /// The implementation, with the libraries that it uses.
    pub implementation: &'a Rules<'a>,
    /// The specification.
    pub specification: &'a Rules<'a>,
}

/// An outcome that the specification does not allow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The client.
    pub client: Client,
    /// The outcome.
    pub outcome: Outcome,
    /// The implementation's execution with this outcome.
    pub events: Vec<Event>,
}

/// The finding about a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Every outcome is allowed.
    Refines,
    /// Some outcome is not allowed.
    Fails(Box<Failure>),
    /// A limit was reached, and no forbidden outcome was found.
    Unknown(Limit),
}

impl Refinement<'_> {
    /// Compares the outcomes of a client.
    pub fn check(&self, client: &Client, budget: Budget<'_>) -> Found {
        let allowed = outcomes(client, self.specification, budget);
        let (found, witness) = outcomes_beyond(client, self.implementation, budget, &allowed.outcomes, true);
        let limit = |o: &crate::client::outcome::Outcomes| o.completeness.limit().cloned();
        if let Some(limit) = limit(&allowed) {
            return Found::Unknown(limit);
        }
        match (found.outcomes.iter().next(), witness, limit(&found)) {
            (Some(outcome), Some(events), _) => Found::Fails(Box::new(Failure {
                client: client.clone(),
                outcome: outcome.clone(),
                events,
            })),
            (_, _, Some(limit)) => Found::Unknown(limit),
            _ => Found::Refines,
        }
    }

    /// Returns the smallest client below this one that still fails. It leaves calls out as long as the client
    /// fails.
    pub fn shrink(&self, failure: Failure, budget: Budget<'_>) -> Failure {
        let mut smallest = failure;
        'again: loop {
            for t in 0..smallest.client.threads.len() {
                for at in 0..smallest.client.threads[t].body.len() {
                    let mut client = smallest.client.clone();
                    client.threads[t].body.remove(at);
                    if client.threads.iter().any(|thread| thread.body.is_empty()) && client.threads.len() > 1
                    {
                        continue;
                    }
                    if let Found::Fails(smaller) = self.check(&client, budget) {
                        smallest = *smaller;
                        continue 'again;
                    }
                }
            }
            return smallest;
        }
    }
}
