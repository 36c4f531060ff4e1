//! Explains why an outcome of a client is allowed or forbidden. The explanation is an execution, or a
//! short cycle that attempts run into: the shortest of those that were looked at. It goes through libraries as LOCO'26 appendix D does by hand
//! for Fig. 23.

use std::fmt::Write as _;

use mowgli::explain::Drawing;
use mowgli::outcome::{Budget, Limit};

use crate::client::outcome::Outcome;
use crate::client::{Client, Formula};
use crate::draw::drawing;
use crate::event::Event;
use crate::execution::{Edge, Flow, Graph, path};
use crate::implementation::Rules;
use crate::outcomes::{Asked, consistent, each_combination, search_order};
use crate::plain::runs;

/// The most refused edges that are examined for each plain execution.
const CONFLICTS_MAX: usize = 64;

/// The reason for the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// A consistent execution has the outcome: its events, and the edges of `so`, in words.
    Allowed(String),
    /// No consistent execution has the outcome. The reason is the shortest cycle that was looked at of the plain executions that
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
    explain_drawn(client, rules, formula, budget).map(|(reason, _)| reason)
}

/// Explains as [`explain`] does, and draws the execution or the cycle, if there is one.
///
/// # Errors
///
/// Returns the limit that was reached before the answer was known.
pub fn explain_drawn(
    client: &Client,
    rules: &Rules<'_>,
    formula: &Formula,
    budget: Budget<'_>,
) -> Result<(Reason, Option<Drawing>), Limit> {
    let plain = runs(client, rules, budget);
    let mut executions = 0;
    let mut shortest: Option<(usize, String, Drawing)> = None;
    let mut allowed = None;
    let mut limit = plain.limit.clone();
    let by_words = !client.observed_words.is_empty();
    let asked = Asked {
        conflicts: Some(CONFLICTS_MAX),
        total: false,
    };
    each_combination(&plain, &mut |chosen| {
        if let Some(reached) = budget.exceeded(executions) {
            limit = Some(reached);
            return Flow::Stop;
        }
        let mut outcome = Outcome {
            registers: chosen.iter().map(|run| run.registers.clone()).collect(),
            words: Vec::new(),
        };
        if !by_words && !formula.holds(client, &outcome) {
            return Flow::Continue;
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
                allowed = Some((execution(g, &state.edges), drawing(g, &state.edges, None)));
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
                    if shortest.as_ref().is_none_or(|(length, ..)| cycle.len() < *length) {
                        let drawn = drawing(&g, &[], Some(&cycle));
                        shortest = Some((cycle.len(), render(&g, &cycle), drawn));
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
        (Some((text, drawn)), _) => Ok((Reason::Allowed(text), Some(drawn))),
        (None, Some(limit)) => Err(limit),
        (None, None) => {
            let (cycle, drawn) = shortest.map(|(_, text, drawn)| (text, drawn)).unzip();
            Ok((Reason::Forbidden { executions, cycle }, drawn))
        }
    }
}

/// Draws a consistent execution of these events that has the outcome, as a failing refinement has them. `None` if there is
/// none.
///
/// # Errors
///
/// Returns the limit that was reached.
pub fn draw_events(
    client: &Client,
    rules: &Rules<'_>,
    events: &[Event],
    outcome: &Outcome,
    budget: Budget<'_>,
) -> Result<Option<Drawing>, Limit> {
    let mut drawn = None;
    consistent(
        client,
        &rules.libraries,
        events.to_vec(),
        budget,
        &mut |g, state| {
            if state.words != outcome.words {
                return Flow::Continue;
            }
            drawn = Some(drawing(g, &state.edges, None));
            Flow::Stop
        },
    )?;
    Ok(drawn)
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
