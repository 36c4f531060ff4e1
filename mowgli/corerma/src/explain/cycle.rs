//! Happens-before of a candidate as pairs with their rules, and its shortest cycle.

use std::collections::VecDeque;

use crate::action::Effect;
use crate::closure::Closure;
use crate::execution::{Problem, Source};
use crate::rules::{Order, Rule};
use crate::values::{Branch, Values};

use super::candidate::{Candidate, Claimed};
use mowgli::program::Location;

/// Lists the pairs that the rules ask for in a candidate: those of the program, and what WS, R1 and R2 add. `fixed` are the pairs of the
/// program.
pub(super) fn pairs(
    problem: &Problem<'_>,
    locations: &[Location],
    fixed: &[Order],
    candidate: &Candidate,
) -> Vec<Order> {
    let (actions, switches) = (problem.actions, problem.switches());
    let mut out: Vec<Order> = fixed.to_vec();
    let mut values = Values::new(Claimed { actions, candidate }, locations);
    for order in out.iter_mut().filter(|o| o.rule == Rule::CasT) {
        let first = usize::from(actions[usize::from(order.from)].first);
        let swap = (first..).find(|&at| actions[at].effect == Effect::CompareAndSwap);
        if swap.is_some_and(|at| values.branch(at) == Branch::Fails) {
            order.rule = Rule::CasF;
        }
    }
    let order = |from: u8, to: u8, rule: Rule| Order { from, to, rule };
    if switches.has(Rule::Ws) {
        for writes in &candidate.orders {
            for (at, &write) in writes.iter().enumerate() {
                let later = writes[at + 1..].iter();
                out.extend(later.map(|&later| order(write, later, Rule::Ws)));
            }
        }
    }
    for (at, action) in actions.iter().enumerate() {
        let (true, true, Some(loc)) = (action.reads(), action.atomic, action.loc) else {
            continue;
        };
        let read = at as u8;
        let writes = &candidate.orders[usize::from(loc.0)];
        let later = match candidate.sources[at] {
            Source::Plain => continue,
            Source::Init => writes.as_slice(),
            Source::Write(source) => {
                if switches.has(Rule::R2) {
                    out.push(order(source, read, Rule::R2));
                }
                let place = writes.iter().position(|&w| w == source);
                place.map_or(&[][..], |place| &writes[place + 1..])
            }
        };
        let others = later.iter().filter(|&&w| w != read);
        if switches.has(Rule::R1) && switches.has(Rule::Ws) {
            out.extend(others.map(|&w| order(read, w, Rule::R1)));
        }
    }
    if switches.has(Rule::R1) && !switches.has(Rule::Ws) {
        ordered_reads(problem, candidate, &mut out);
    }
    out
}

/// Adds what R1 asks for without WS: a read precedes the writes that happen after the one that it reads from. Each pair can make a write
/// later than another, so that R1 asks for more.
fn ordered_reads(problem: &Problem<'_>, candidate: &Candidate, out: &mut Vec<Order>) {
    loop {
        let mut before = Closure::new(problem.actions.len());
        let is_acyclic = out.iter().all(|o| problem.add(&mut before, o.from, o.to));
        let known = out.len();
        for (at, action) in problem.actions.iter().enumerate() {
            let (true, true, Some(loc)) = (action.reads(), action.atomic, action.loc) else {
                continue;
            };
            let read = at as u8;
            let writes = candidate.orders[usize::from(loc.0)].iter();
            for &write in writes.filter(|&&write| write != read) {
                let applies = match candidate.sources[at] {
                    Source::Plain => false,
                    Source::Init => true,
                    Source::Write(w) => problem.is_before(&before, usize::from(w), usize::from(write)),
                };
                let pair = Order {
                    from: read,
                    to: write,
                    rule: Rule::R1,
                };
                if applies && !out.contains(&pair) {
                    out.push(pair);
                }
            }
        }
        if out.len() == known || !is_acyclic {
            return;
        }
    }
}

/// Finds a shortest cycle: each of its pairs leads to the next, and the actions of an atomic get accumulate count as
/// one action. Among the shortest cycles it is the first in the order of `pairs`.
pub(super) fn shortest(problem: &Problem<'_>, pairs: &[Order]) -> Option<Vec<Order>> {
    let node = |action: u8| problem.node(action);
    // Inside one node only program order remains: a pair along it says nothing, a pair against it is a cycle by itself.
    let against = |o: &&Order| node(o.from) == node(o.to) && o.from >= o.to;
    if let Some(own) = pairs.iter().find(against) {
        return Some(vec![*own]);
    }
    let count = problem.actions.len();
    let mut leaving: Vec<Vec<&Order>> = vec![Vec::new(); count];
    for pair in pairs.iter().filter(|o| node(o.from) != node(o.to)) {
        leaving[usize::from(node(pair.from))].push(pair);
    }
    let mut best: Option<Vec<Order>> = None;
    for start in 0..count {
        let mut came_by: Vec<Option<Order>> = vec![None; count];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for pair in &leaving[at] {
                let to = usize::from(node(pair.to));
                if came_by[to].is_none() {
                    came_by[to] = Some(**pair);
                    queue.push_back(to);
                }
            }
        }
        let mut cycle = Vec::new();
        let mut at = start;
        while let Some(pair) = came_by[at] {
            cycle.push(pair);
            at = usize::from(node(pair.from));
            if at == start {
                break;
            }
        }
        cycle.reverse();
        if !cycle.is_empty() && best.as_ref().is_none_or(|b| cycle.len() < b.len()) {
            best = Some(cycle);
        }
    }
    best
}
