//! Finds fair circles in the graph of a system: rounds of moves that can be repeated for ever although everybody who could move does.
//!
//! Fairness is strong: an agent that can move somewhere in the round moves in it. The algorithm is that for Streett automata
//! (Emerson and Lei, Science of Computer Programming 8, 1987). A strongly connected component in which some agent can move, but never
//! within the component, loses the states in which that agent can move; what is left is taken apart again.
//!
//! Relies on nothing. `loco-sim` builds the graph and checks that the round can really be repeated.

use std::collections::VecDeque;

use rustc_hash::{FxHashMap, FxHashSet};

/// A step of a graph to another state.
#[derive(Clone, Debug)]
pub struct Edge {
    /// The state after the step.
    pub to: usize,
    /// The agent that makes the step. `None` stands for a step that never has to happen, such as a fault.
    pub agent: Option<u32>,
}

/// A fair circle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Circle {
    /// A state on it.
    pub start: usize,
    /// The steps of one round from there: the state before each, and the number of the step among those of this state.
    pub round: Vec<(usize, usize)>,
}

/// Returns a fair circle of the graph, or `None` if it has none. The graph has the steps of each state, by number.
pub fn fair_circle(graph: &[Vec<Edge>]) -> Option<Circle> {
    let mut parts = vec![(0..graph.len()).collect::<Vec<_>>()];
    let mut places = vec![None; graph.len()];
    while let Some(part) = parts.pop() {
        let inside: FxHashSet<usize> = part.iter().copied().collect();
        for component in components(graph, &part, &inside, &mut places) {
            let own: FxHashSet<usize> = component.iter().copied().collect();
            let steps = || component.iter().flat_map(|&state| &graph[state]);
            let moving: FxHashSet<u32> = steps()
                .filter(|edge| own.contains(&edge.to))
                .filter_map(|edge| edge.agent)
                .collect();
            if moving.is_empty() {
                continue;
            }
            let starves = |edge: &Edge| edge.agent.is_some_and(|agent| !moving.contains(&agent));
            if !steps().any(starves) {
                return Some(round(graph, &component, &own, moving));
            }
            let left = component
                .into_iter()
                .filter(|&state| !graph[state].iter().any(starves));
            parts.push(left.collect());
        }
    }
    None
}

/// The number of a state in the order of a search for components, and the least number that it leads back to.
#[derive(Clone, Copy)]
struct Place {
    number: usize,
    low: usize,
    /// Set until the component of the state is known.
    is_open: bool,
}

/// Returns the strongly connected components of a part of the graph (Tarjan), without recursion: graphs are deep.
///
/// `places` is storage with an element for each state.
fn components(
    graph: &[Vec<Edge>],
    part: &[usize],
    inside: &FxHashSet<usize>,
    places: &mut [Option<Place>],
) -> Vec<Vec<usize>> {
    for &state in part {
        places[state] = None;
    }
    let (mut count, mut open, mut found) = (0, Vec::new(), Vec::new());
    for &root in part {
        if places[root].is_some() {
            continue;
        }
        // The states on the way, each with its next step.
        let mut way = vec![(root, 0)];
        while let Some((state, next)) = way.last_mut() {
            let state = *state;
            let place = *places[state].get_or_insert_with(|| {
                open.push(state);
                count += 1;
                Place {
                    number: count,
                    low: count,
                    is_open: true,
                }
            });
            let step = graph[state].get(*next);
            *next += 1;
            match step {
                Some(edge) if !inside.contains(&edge.to) => {}
                Some(edge) => match places[edge.to] {
                    None => way.push((edge.to, 0)),
                    Some(other) if other.is_open => lower(places, state, other.number),
                    Some(_) => {}
                },
                None => {
                    way.pop();
                    if let Some(&(before, _)) = way.last() {
                        lower(places, before, place.low);
                    }
                    if place.low == place.number {
                        let first = open.iter().rposition(|&other| other == state).unwrap_or(0);
                        let component = open.split_off(first);
                        for &of in &component {
                            if let Some(place) = &mut places[of] {
                                place.is_open = false;
                            }
                        }
                        found.push(component);
                    }
                }
            }
        }
    }
    return found;

    fn lower(places: &mut [Option<Place>], state: usize, to: usize) {
        if let Some(place) = &mut places[state] {
            place.low = place.low.min(to);
        }
    }
}

/// Returns a round through the component in which each of the agents moves.
fn round(
    graph: &[Vec<Edge>],
    component: &[usize],
    own: &FxHashSet<usize>,
    mut agents: FxHashSet<u32>,
) -> Circle {
    // States are numbered as they were found, so the first is the one nearest to the beginning.
    let start = component.iter().copied().min().unwrap_or_default();
    let mut round = Vec::new();
    let mut at = start;
    while !agents.is_empty() {
        let moves = |edge: &Edge| edge.agent.is_some_and(|agent| agents.contains(&agent));
        let Some(way) = way(graph, own, at, moves) else {
            break;
        };
        for &(state, step) in &way {
            if let Some(agent) = graph[state][step].agent {
                agents.remove(&agent);
            }
        }
        at = way.last().map_or(at, |&(state, step)| graph[state][step].to);
        round.extend(way);
    }
    if at != start {
        round.extend(way(graph, own, at, |edge| edge.to == start).unwrap_or_default());
    }
    Circle { start, round }
}

/// Returns the shortest way from a state that ends with such a step.
fn way(
    graph: &[Vec<Edge>],
    own: &FxHashSet<usize>,
    from: usize,
    ends: impl Fn(&Edge) -> bool,
) -> Option<Vec<(usize, usize)>> {
    let mut before: FxHashMap<usize, (usize, usize)> = FxHashMap::default();
    let mut queue = VecDeque::from([from]);
    while let Some(state) = queue.pop_front() {
        for (step, edge) in graph[state].iter().enumerate() {
            if !own.contains(&edge.to) {
                continue;
            }
            if ends(edge) {
                let mut way = vec![(state, step)];
                let mut at = state;
                while at != from {
                    let last = before[&at];
                    way.push(last);
                    at = last.0;
                }
                way.reverse();
                return Some(way);
            }
            if edge.to != from && !before.contains_key(&edge.to) {
                before.insert(edge.to, (state, step));
                queue.push_back(edge.to);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds a graph of steps: from, to, agent.
    fn graph(states: usize, steps: &[(usize, usize, u32)]) -> Vec<Vec<Edge>> {
        let mut graph = vec![Vec::new(); states];
        for &(from, to, agent) in steps {
            let agent = Some(agent);
            graph[from].push(Edge { to, agent });
        }
        graph
    }

    #[test]
    fn a_graph_without_circles_has_no_fair_one() {
        assert_eq!(fair_circle(&graph(3, &[(0, 1, 0), (0, 2, 1), (1, 2, 1)])), None);
    }

    /// Agent 0 spins until agent 1 moves, which it can all the time.
    #[test]
    fn a_circle_in_which_somebody_who_can_move_does_not_is_unfair() {
        let spins = [(0, 0, 0), (0, 1, 1), (1, 2, 0)];
        assert_eq!(fair_circle(&graph(3, &spins)), None);
    }

    /// Agent 1 can move in every other state of the circle only.
    #[test]
    fn an_agent_that_can_move_again_and_again_has_to() {
        let mut steps = vec![(0, 1, 0), (1, 0, 0), (1, 2, 1)];
        assert_eq!(fair_circle(&graph(3, &steps)), None);
        // There it gets nowhere.
        steps.push((1, 0, 1));
        let circle = fair_circle(&graph(3, &steps)).expect("both move");
        assert_eq!(circle.start, 0);
    }

    /// What is left of a component without the states in which an agent starves has a fair circle of its own.
    #[test]
    fn a_fair_circle_within_an_unfair_component_is_found() {
        let steps = [
            (0, 1, 0),
            (1, 0, 0),
            (1, 2, 0),
            (2, 1, 0),
            // Agent 1 can move in state 2, and ends everything.
            (2, 3, 1),
        ];
        let circle = fair_circle(&graph(4, &steps)).expect("states 0 and 1");
        assert_eq!(circle.round, [(0, 0), (1, 0)]);
    }

    #[test]
    fn every_agent_moves_in_the_round_and_the_round_closes() {
        let steps = [(0, 1, 0), (1, 2, 1), (2, 0, 2), (1, 1, 3), (2, 2, 4)];
        let graph = graph(3, &steps);
        let circle = fair_circle(&graph).expect("one component");
        let mut at = circle.start;
        let mut agents = FxHashSet::default();
        for (state, step) in circle.round {
            assert_eq!(state, at);
            let edge = &graph[state][step];
            agents.extend(edge.agent);
            at = edge.to;
        }
        assert_eq!(at, circle.start);
        assert_eq!(agents.len(), 5);
    }

    #[test]
    fn a_step_that_never_has_to_happen_is_nobodys_turn() {
        let mut graph = graph(2, &[(0, 0, 0)]);
        graph[0].push(Edge { to: 1, agent: None });
        assert!(fair_circle(&graph).is_some());
    }

    #[test]
    fn a_deep_graph_needs_no_deep_stack() {
        let states = 300_000;
        let mut steps: Vec<_> = (1..states).map(|state| (state - 1, state, 0)).collect();
        steps.push((states - 1, 0, 1));
        let circle = fair_circle(&graph(states, &steps)).expect("one large circle");
        assert_eq!(circle.round.len(), states);
    }
}
