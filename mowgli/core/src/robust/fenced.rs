//! The condition *fenced* (Robust'25 Def. 8, under TSO Def. 13): other threads can see no reordering.
//!
//! A pair of public events must be guaranteed-before if other threads connect the nodes of its two locations. Initial writes belong to
//! no thread, so they are not public events and open no pair.

use super::clauses::Clause;
use super::network::Network;
use super::reason::{Pair, Reason};
use super::trace::Trace;

/// Returns every pair of a trace that other threads of the network could see reordered.
pub fn violations(network: &Network<'_>, trace: &Trace) -> Vec<Reason> {
    let pairs = pairs(network, trace).into_iter();
    pairs.filter_map(|(a, b)| reason(network, trace, a, b)).collect()
}

/// Returns the same pairs by their indices in the trace.
pub(super) fn pairs(network: &Network<'_>, trace: &Trace) -> Vec<(usize, usize)> {
    let clauses = network.clauses();
    let thread = trace.thread;
    let public: Vec<bool> = trace
        .events
        .iter()
        .map(|e| network.is_public(thread, e) || !clauses.contains(Clause::FencedPublic))
        .collect();
    let connected = network.connected_without(thread);
    let linked = |a: usize, b: usize| {
        let nodes = (
            network.memory_of(&trace.events[a]),
            network.memory_of(&trace.events[b]),
        );
        match nodes {
            (Some(a), Some(b)) => {
                connected[usize::from(a.0)] >> b.0 & 1 == 1 || !clauses.contains(Clause::FencedConnected)
            }
            _ => false,
        }
    };
    if !clauses.contains(Clause::FencedOrdered) {
        return Vec::new();
    }
    trace
        .po()
        .filter(|&(a, b)| public[a] && public[b])
        .filter(|&(a, b)| !trace.gb.contains(a, b) && linked(a, b))
        .collect()
}

fn reason(network: &Network<'_>, trace: &Trace, a: usize, b: usize) -> Option<Reason> {
    let (earlier, later) = (&trace.events[a], &trace.events[b]);
    let ends = (network.memory_of(later)?, network.memory_of(earlier)?);
    Some(Reason::Unfenced {
        pair: Pair::new(network.spec(), trace, a, b)?,
        sees_later: network.observers(trace.thread, later),
        way: network.way(trace.thread, ends.0, ends.1).unwrap_or_default(),
        sees_earlier: network.observers(trace.thread, earlier),
    })
}
