//! The condition *tree-fenced* (Robust'25 Def. 9, under TSO Def. 14): a network without a second way needs few fences.

use crate::event::Kind;
use crate::models::tables::Cell;
use crate::program::Node;

use super::clauses::Clause;
use super::network::{Network, is_remote};
use super::reason::{EventRef, Pair, Reason};
use super::trace::Trace;

/// Returns what breaks clauses (1) and (2) of Def. 9, and clause (2) of Def. 14, in one trace.
pub fn violations(network: &Network<'_>, trace: &Trace) -> Vec<Reason> {
    let clauses = network.clauses();
    let mut reasons = Vec::new();
    if clauses.contains(Clause::TreePrivate) {
        reasons.extend(public_copies(network, trace));
    }
    if clauses.contains(Clause::TreeGetInOrder) {
        reasons.extend(gets_overtaken(network, trace));
    }
    if clauses.contains(Clause::TreeStoreBuffer) {
        reasons.extend(reads_early(network, trace));
    }
    reasons
}

/// Checks (1): local locations of remote operations are private.
fn public_copies(network: &Network<'_>, trace: &Trace) -> Vec<Reason> {
    let local = |kind| matches!(kind, Kind::NicLocalRead | Kind::NicLocalWrite);
    (0..trace.events.len())
        .filter(|&i| local(trace.events[i].kind) && network.is_public(trace.thread, &trace.events[i]))
        .map(|i| Reason::NotPrivate {
            event: EventRef::new(trace, i),
            others: network.observers(trace.thread, &trace.events[i]),
        })
        .collect()
}

/// Checks (2): each get is fenced or polled before the next remote operation of its queue pair. A remote read-modify-write counts as a
/// next operation (ours); it need not be fenced itself, because it is not delayed past later operations (`docs/rmw.md`).
fn gets_overtaken(network: &Network<'_>, trace: &Trace) -> Vec<Reason> {
    let events = &trace.events;
    let clauses = network.clauses();
    let fenced = |a: usize, b: usize| {
        clauses.contains(Clause::TreeGetByFence)
            && (a..b).any(|f| events[f].kind == Kind::NicFence && events[f].same_queue_pair(&events[a]))
    };
    let polled = |a: usize, b: usize| {
        clauses.contains(Clause::TreeGetByPoll)
            && trace
                .pf
                .iter()
                .any(|&(write, poll)| poll < b && events[write].same_instruction(&events[a]))
    };
    trace
        .po()
        .filter(|&(a, b)| events[a].kind == Kind::NicRemoteRead && is_remote(events[b].kind))
        .filter(|&(a, b)| events[a].same_queue_pair(&events[b]) && !fenced(a, b) && !polled(a, b))
        .filter_map(|(a, b)| Pair::new(network.spec(), trace, a, b))
        .map(|pair| Reason::Overtaken { pair })
        .collect()
}

/// Checks Def. 14 (2): a memory fence or compare-and-swap stands between a CPU write and a later CPU read, if both are public. A model
/// that keeps the two in order asks for nothing.
fn reads_early(network: &Network<'_>, trace: &Trace) -> Vec<Reason> {
    let cell = Cell {
        earlier: Kind::LocalWrite,
        later: Kind::LocalRead,
    };
    if network.spec().oppo.get(cell) == crate::models::tables::Order::Yes {
        return Vec::new();
    }
    let events = &trace.events;
    let public = |i: usize| network.is_public(trace.thread, &events[i]);
    let fences =
        |kind| kind == Kind::Fence || kind == Kind::Cas && network.clauses().contains(Clause::TreeByCas);
    trace
        .po()
        .filter(|&(a, b)| (events[a].kind, events[b].kind) == (Kind::LocalWrite, Kind::LocalRead))
        .filter(|&(a, b)| public(a) && public(b) && !(a..b).any(|f| fences(events[f].kind)))
        .filter_map(|(a, b)| Pair::new(network.spec(), trace, a, b))
        .map(|pair| Reason::StoreBuffer { pair })
        .collect()
}

/// Returns what breaks clause (3) of Def. 9: at most one way between any two nodes, by all events.
pub fn shape(network: &Network<'_>) -> Vec<Reason> {
    let clauses = network.clauses();
    let mut reasons = Vec::new();
    if clauses.contains(Clause::TreeOneWay) {
        reasons.extend(both_ways(network));
    }
    if clauses.contains(Clause::TreeSingle) {
        reasons.extend(two_queue_pairs(network));
    }
    if clauses.contains(Clause::TreeAcyclic) {
        reasons.extend(circle(network));
    }
    reasons
}

/// Checks (3b): no two threads have queue pairs towards each other's node. A thread with a queue pair towards its own
/// node counts as such a pair with itself.
fn both_ways(network: &Network<'_>) -> Option<Reason> {
    let threads = &network.program().threads;
    let towards = |from: usize, to: usize| network.peers(from) >> threads[to].node.0 & 1 == 1;
    (0..threads.len())
        .flat_map(|b| (0..=b).map(move |a| (a, b)))
        .find(|&(a, b)| towards(a, b) && towards(b, a))
        .map(|threads| Reason::BothWays { threads })
}

/// Checks (3c): no two threads of a node have queue pairs towards one remote node.
fn two_queue_pairs(network: &Network<'_>) -> Option<Reason> {
    let threads = &network.program().threads;
    (0..threads.len())
        .flat_map(|b| (0..b).map(move |a| (a, b)))
        .filter(|&(a, b)| threads[a].node == threads[b].node)
        .find_map(|(a, b)| {
            let common = network.peers(a) & network.peers(b);
            (common != 0).then(|| Reason::TwoQueuePairs {
                threads: (a, b),
                peer: Node(common.trailing_zeros() as u8),
            })
        })
}

/// Checks (3a): no circle of three or more nodes. Adds the links between different nodes one by one; the first whose ends are
/// connected already closes a circle.
fn circle(network: &Network<'_>) -> Option<Reason> {
    let nodes = usize::from(network.program().nodes);
    let mut neighbours = vec![0u32; nodes];
    for (thread, code) in network.program().threads.iter().enumerate() {
        let home = code.node;
        for peer in (0..nodes as u8).map(Node) {
            let linked = network.peers(thread) >> peer.0 & 1 == 1;
            let known = neighbours[usize::from(home.0)] >> peer.0 & 1 == 1;
            if !linked || known || peer == home {
                continue;
            }
            if let Some(nodes) = walk(&neighbours, home, peer) {
                return Some(Reason::Circle { nodes });
            }
            neighbours[usize::from(home.0)] |= 1 << peer.0;
            neighbours[usize::from(peer.0)] |= 1 << home.0;
        }
    }
    None
}

/// Finds the way between two nodes of a forest; `None` if they are not connected.
fn walk(neighbours: &[u32], from: Node, to: Node) -> Option<Vec<Node>> {
    let mut stack = vec![vec![from]];
    while let Some(way) = stack.pop() {
        let at = *way.last()?;
        if at == to {
            return Some(way);
        }
        for next in (0..neighbours.len() as u8).map(Node) {
            if neighbours[usize::from(at.0)] >> next.0 & 1 == 1 && !way.contains(&next) {
                let mut longer = way.clone();
                longer.push(next);
                stack.push(longer);
            }
        }
    }
    None
}
