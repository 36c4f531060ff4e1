//! Finds the outcomes of clients under libraries and implementations (LOCO'26 Defs. 3.6 and 3.10).

use std::collections::BTreeSet;

use mowgli::outcome::{Budget, Completeness, Limit};

use crate::client::outcome::{Outcome, Outcomes};
use crate::client::{Client, Library};
use crate::event::Event;
use crate::execution::{Flow, Graph, State};
use crate::implementation::Rules;
use crate::justified::{Justified, Watch, product};
use crate::library::{Libraries, Specification};
use crate::plain::{Plain, ThreadRun, runs};
use crate::value::Value;

/// Returns the outcomes of a client.
pub fn outcomes(client: &Client, rules: &Rules<'_>, budget: Budget<'_>) -> Outcomes {
    let (found, _) = search(client, rules, budget, &BTreeSet::new(), false);
    found
}

/// Returns outcomes of a client that are not among `known`: all of them, or only one. Executions with a known
/// outcome are not judged. That saves most of the work where an implementation refines its specification.
pub fn outcomes_beyond(
    client: &Client,
    rules: &Rules<'_>,
    budget: Budget<'_>,
    known: &BTreeSet<Outcome>,
    first: bool,
) -> (Outcomes, Option<Vec<Event>>) {
    search(client, rules, budget, known, first)
}

fn search(
    client: &Client,
    rules: &Rules<'_>,
    budget: Budget<'_>,
    known: &BTreeSet<Outcome>,
    first: bool,
) -> (Outcomes, Option<Vec<Event>>) {
    let plain = runs(client, rules, budget);
    let mut limit = plain.limit.clone();
    let mut out = BTreeSet::new();
    let mut witness = None;
    let mut executions = 0;
    let observes = !client.observed_words.is_empty();
    // Set when the search has found its goal or used up its budget.
    let mut ended = false;
    let watch = Watch::new(budget);
    let _ = Justified::new(client, &plain, &watch).each_ending(&mut |ending| {
        let mut outcome = Outcome {
            registers: ending.registers(),
            words: Vec::new(),
        };
        if !observes && known.contains(&outcome) {
            return Flow::Continue;
        }
        ending.each(&mut |chosen| {
            if let Some(reached) = budget.exceeded(executions) {
                limit = Some(reached);
                ended = true;
                return Flow::Stop;
            }
            executions += 1;
            let events: Vec<Event> = chosen.iter().flat_map(|run| run.events.iter().cloned()).collect();
            let mut stop = false;
            let mut found = false;
            let reached = consistent(
                client,
                &rules.libraries,
                events.clone(),
                budget,
                &mut |_, state| {
                    outcome.words.clone_from(&state.words);
                    found = true;
                    if !known.contains(&outcome) && out.insert(outcome.clone()) {
                        witness.get_or_insert_with(|| events.clone());
                        stop = first;
                    }
                    if observes && !stop {
                        Flow::Continue
                    } else {
                        Flow::Stop
                    }
                },
            );
            if let Err(reached) = reached {
                limit = Some(reached);
            }
            // Without observed words, all runs that end so have the one outcome.
            ended = stop;
            if stop || found && !observes {
                Flow::Stop
            } else {
                Flow::Continue
            }
        });
        if ended { Flow::Stop } else { Flow::Continue }
    });
    let limit = limit.or_else(|| watch.limit());
    let outcomes = Outcomes {
        outcomes: out,
        completeness: limit.map_or(Completeness::Complete, Completeness::Incomplete),
        executions,
    };
    (outcomes, witness)
}

/// Calls `visit` with every choice of one run for each thread.
pub fn each_combination(plain: &Plain, visit: &mut dyn FnMut(&[&ThreadRun]) -> Flow) -> Flow {
    product(&plain.runs, &mut Vec::new(), visit)
}

/// Returns the libraries that have events. Those whose order is forced come first.
fn involved<'l>(libraries: &Libraries<'l>, events: &[Event]) -> Option<Vec<&'l dyn Specification>> {
    let mut used: Vec<Library> = events.iter().map(|e| e.method.library()).collect();
    used.sort_unstable();
    used.dedup();
    let memories = [
        Library::RdmaWait,
        Library::SharedVariable,
        Library::MixedSize,
        Library::MixedVariable,
    ];
    used.sort_by_key(|l| memories.contains(l));
    used.into_iter().map(|l| libraries.get(l)).collect()
}

/// Calls `visit` with every consistent execution of these events (Def. 3.6), until it stops. The executions
/// have `hb = (ppo ∪ so)⁺`; by monotonicity this is enough.
///
/// # Errors
///
/// Returns the limit that was reached.
pub fn consistent<'g>(
    client: &'g Client,
    libraries: &Libraries<'_>,
    events: Vec<Event>,
    budget: Budget<'_>,
    visit: &mut dyn FnMut(&Graph<'g>, &mut State<'_>) -> Flow,
) -> Result<(), Limit> {
    search_order(client, libraries, events, budget, Asked::default(), visit).map(|_| ())
}

/// The requests to a search besides consistent executions.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked {
    /// The most refused edges to collect, if any.
    pub(crate) conflicts: Option<usize>,
    /// True if modification orders must be total.
    pub(crate) total: bool,
}

/// Searches as [`consistent`] does, with further requests.
pub(crate) fn search_order<'g>(
    client: &'g Client,
    libraries: &Libraries<'_>,
    events: Vec<Event>,
    budget: Budget<'_>,
    asked: Asked,
    visit: &mut dyn FnMut(&Graph<'g>, &mut State<'_>) -> Flow,
) -> Result<(Option<Graph<'g>>, Vec<crate::execution::Conflict>), Limit> {
    let Some(involved) = involved(libraries, &events) else {
        return Ok((None, Vec::new()));
    };
    let mut refused = false;
    let graph = Graph::new(client, libraries.network, events, |e| {
        let stamps = libraries
            .get(e.method.library())
            .and_then(|l| l.stamps(client, e));
        refused |= stamps.is_none();
        stamps.unwrap_or_default()
    })?;
    if refused {
        return Ok((None, Vec::new()));
    }
    let mut state = State::new(&graph, budget);
    state.total = asked.total;
    state.conflicts = asked.conflicts.map(|most| (Vec::new(), most));
    next_library(&graph, &involved, 0, &mut state, visit);
    if let Some(limit) = state.limit.take() {
        return Err(limit);
    }
    let conflicts = state.conflicts.take().map_or_else(Vec::new, |(found, _)| found);
    Ok((Some(graph), conflicts))
}

fn next_library<'g>(
    g: &Graph<'g>,
    libraries: &[&dyn Specification],
    at: usize,
    state: &mut State<'_>,
    visit: &mut dyn FnMut(&Graph<'g>, &mut State<'_>) -> Flow,
) -> Flow {
    match libraries.get(at) {
        Some(library) => library.order(g, state, &mut |state| {
            next_library(g, libraries, at + 1, state, visit)
        }),
        None if libraries.iter().all(|l| l.accepts(g, &state.hb)) => {
            if state.words.is_empty() && !g.client.observed_words.is_empty() {
                // There is no event of RDMA^WAIT, so its words keep their initial values.
                let words = g.client.observed_words.iter();
                state.words = words
                    .map(|&w| crate::library::initial(g.client, crate::event::Loc::of(g.client, w)))
                    .collect::<Vec<Value>>();
            }
            visit(g, state)
        }
        None => Flow::Continue,
    }
}
