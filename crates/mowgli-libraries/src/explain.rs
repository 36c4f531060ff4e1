//! Explains why an outcome of a client is allowed or forbidden. The explanation is an execution, or the
//! smallest cycle that every attempt runs into. It goes through libraries as LOCO'26 appendix D does by hand
//! for Fig. 23.

use std::fmt::Write as _;

use mowgli::outcome::{Budget, Limit};

use crate::client::outcome::Outcome;
use crate::client::{Client, Formula};
use crate::event::Event;
use crate::execution::{Edge, Flow, Graph, path};
use crate::implementation::Rules;
use crate::outcomes::{Asked, each_combination, search_order};
use crate::plain::runs;

/// The most refused edges that are examined for each plain execution.
const CONFLICTS_MAX: usize = 64;

/// The reason for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A consistent execution has the outcome: its events, and the edges of `so`, in words.
    Allowed(String),
    /// No consistent execution has the outcome. The reason is the smallest cycle of the plain executions that
    /// would have it, if one of them runs into any.
    Forbidden {
        /// The number of plain executions that would have the outcome.
        executions: u64,
        /// The cycle, with one edge in each line.
        cycle: Option<String>,
    },
}

/// Explains why a formula is satisfied by some outcome, or by none.
///
/// # Errors
///
/// Returns the limit that was reached before the answer was known.
pub fn explain(
    client: &Client,
    rules: &Rules<'_>,
    formula: &Formula,
    budget: Budget<'_>,
) -> Result<Reason, Limit> {
    let plain = runs(client, rules);
    let mut executions = 0;
    let mut shortest: Option<(usize, String)> = None;
    let mut allowed = None;
    let mut limit = plain.limit.clone();
    let by_words = !client.observed_words.is_empty();
    let asked = Asked {
        conflicts: Some(CONFLICTS_MAX),
        total: false,
    };
    each_combination(&plain, &mut |chosen| {
        let mut outcome = Outcome {
            registers: chosen.iter().map(|run| run.registers.clone()).collect(),
            words: Vec::new(),
        };
        if !by_words && !formula.holds(client, &outcome) {
            return Flow::Continue;
        }
        if let Some(reached) = budget.exceeded(executions) {
            limit = Some(reached);
            return Flow::Stop;
        }
        executions += 1;
        let events: Vec<Event> = chosen.iter().flat_map(|run| run.events.iter().cloned()).collect();
        let found = search_order(
            client,
            &rules.libraries,
            events,
            budget,
            asked,
            &mut |g, state| {
                outcome.words.clone_from(&state.words);
                if !formula.holds(client, &outcome) {
                    return Flow::Continue;
                }
                allowed = Some(execution(g, &state.edges));
                Flow::Stop
            },
        );
        match found {
            Err(reached) => limit = Some(reached),
            Ok((Some(g), conflicts)) => {
                for conflict in conflicts {
                    let mut cycle = path(&g, &conflict.edges, conflict.edge.to, conflict.edge.from);
                    if conflict.edge.to != conflict.edge.from && cycle.is_empty() {
                        continue;
                    }
                    cycle.insert(0, conflict.edge);
                    if shortest.as_ref().is_none_or(|(length, _)| cycle.len() < *length) {
                        shortest = Some((cycle.len(), render(&g, &cycle)));
                    }
                }
            }
            Ok((None, _)) => {}
        }
        if allowed.is_some() || limit.is_some() {
            Flow::Stop
        } else {
            Flow::Continue
        }
    });
    match (allowed, limit) {
        (Some(text), _) => Ok(Reason::Allowed(text)),
        (None, Some(limit)) => Err(limit),
        (None, None) => Ok(Reason::Forbidden {
            executions,
            cycle: shortest.map(|(_, text)| text),
        }),
    }
}

/// Prints events by thread, then the edges of `so`.
fn execution(g: &Graph<'_>, edges: &[Edge]) -> String {
    let mut out = String::new();
    for event in &g.events {
        let _ = writeln!(out, "  {}", event.display(g.client));
    }
    out.push_str("synchronisation order:\n");
    for edge in edges {
        let _ = writeln!(out, "{}", line(g, edge));
    }
    out
}

fn render(g: &Graph<'_>, cycle: &[Edge]) -> String {
    let mut out = String::new();
    for edge in cycle {
        let _ = writeln!(out, "{}", line(g, edge));
    }
    out
}

fn line(g: &Graph<'_>, edge: &Edge) -> String {
    let why = match edge.why {
        "ppo" => "ppo".to_owned(),
        why => format!("{why} of {}", g.library(edge.to).name()),
    };
    format!("  {}  --{why}-->  {}", g.display(edge.from), g.display(edge.to))
}

/// Prints the events of an implementation's execution, indented below the calls that they serve.
pub fn implementation_execution(client: &Client, events: &[Event]) -> String {
    let mut out = String::new();
    for (t, thread) in client.threads.iter().enumerate() {
        let _ = writeln!(out, "P{t} on node {}", thread.node);
        let mut serves = None;
        for event in events.iter().filter(|e| usize::from(e.thread) == t) {
            if serves != Some(event.serves) {
                serves = Some(event.serves);
                let _ = writeln!(out, "  call {}", event.serves + 1);
            }
            let _ = writeln!(out, "    {}", event.display(client));
        }
    }
    out
}
