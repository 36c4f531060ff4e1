//! Finds the shortest cycle of an inconsistent execution, with the reason for each edge.

use std::collections::VecDeque;

use serde::Serialize;

use crate::event::{Event, Execution, Kind};
use crate::model::Model;
use crate::models::tables::Cell;
use crate::models::{Derived, Part, Spec};

/// The order that an edge belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub enum Side {
    /// `ib`: between issues.
    Issue,
    /// `ob` (or `hb`): between observations.
    Observe,
}

/// An edge of a cycle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Edge {
    /// Earlier event, an index into the execution's events.
    pub from: usize,
    /// Later event.
    pub to: usize,
    /// The order that it belongs to.
    pub side: Side,
    /// The term of `ib` or `ob` that contains it.
    pub part: Part,
    /// The table cell, for edges of program order.
    pub cell: Option<CellRef>,
    /// For an edge of `nfo`: the edges of `ib`, from `from` to `to`, that rule out the other direction. They are program order
    /// and polls, so they hold in every execution. Empty if the execution chose the direction.
    pub forced_by: Vec<Edge>,
}

/// A cell of an ordering table.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CellRef {
    /// Kind of the earlier event, as the papers write it.
    pub earlier: &'static str,
    /// Kind of the later event.
    pub later: &'static str,
    /// The figure's name for the cell (`G8`).
    pub name: String,
}

impl CellRef {
    /// Returns the cell as the model's figure names it.
    pub(super) fn new(spec: &Spec, cell: Cell) -> CellRef {
        CellRef {
            earlier: cell.earlier.label(),
            later: cell.later.label(),
            name: match spec.model.base() {
                Model::RdmaSc => cell.name_in_fig4(),
                _ => cell.to_string(),
            },
        }
    }
}

/// A cycle: each edge ends where the next begins, and the last ends where the first begins. At an event, an
/// edge of `ib` may be followed by one of `ob`, because the event is issued before it is observed. An edge of
/// `ob` may be followed by one of `ib` only at an event whose issue and observation coincide.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// The edges, none implied by the others.
    pub edges: Vec<Edge>,
}

impl Cycle {
    /// Returns what the cycle teaches.
    pub fn lesson(&self, execution: &Execution) -> Lesson {
        let edge = |e: &Edge| {
            let apart = !execution.events[e.from].same_instruction(&execution.events[e.to]);
            let ordered = matches!(e.part, Part::Po | Part::Ippo | Part::Oppo | Part::Nfo | Part::Rao);
            (e.from, e.to, apart && ordered)
        };
        let edges: Vec<_> = self.edges.iter().map(edge).collect();
        match (Lesson::of(execution, &edges), self.contest(execution)) {
            // That one of two read-modify-writes comes second is more than coherence: it is what a lock rests on.
            (Lesson::Coherence, Some((a, _))) if execution.events[a].kind.is_cpu() => Lesson::Threads,
            (Lesson::Coherence, Some(_)) => Lesson::Network,
            (lesson, _) => lesson,
        }
    }

    /// Returns the two instructions of read-modify-writes on the cycle that read the same write, by an event of each, if there are such.
    /// They may be the acquisitions of a lock.
    pub fn contest(&self, execution: &Execution) -> Option<(usize, usize)> {
        let events = &execution.events;
        // The event of the instruction that reads, and its source.
        let read = |e: usize| {
            let is_of_rmw = events[e].rmw || events[e].kind == Kind::Cas;
            let reads = |&o: &usize| {
                matches!(events[o].kind, Kind::Cas | Kind::NicAtomicRead)
                    && events[o].same_instruction(&events[e])
            };
            let read = (0..execution.len()).find(reads).filter(|_| is_of_rmw)?;
            let source = (0..execution.len()).find(|&w| execution.rf.contains(w, read))?;
            Some((read, source))
        };
        let reads: Vec<(usize, usize)> = self.edges.iter().filter_map(|e| read(e.from)).collect();
        let pairs = reads.iter().flat_map(|&a| reads.iter().map(move |&b| (a, b)));
        let rivals = |&(a, b): &((usize, usize), (usize, usize))| a.0 < b.0 && a.1 == b.1;
        pairs.filter(rivals).map(|(a, b)| (a.0, b.0)).min()
    }
}

/// The lesson of a cycle: whose orders it shows. The lessons that come first teach more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Lesson {
    /// The network keeps an order: the cycle has an edge between the card's events of two operations.
    Network,
    /// Threads and their completions keep an order.
    Threads,
    /// The processors alone keep an order.
    Cpu,
    /// A thread that has polled an operation sees its result.
    OwnPoll,
    /// One location is coherent: all events access it.
    Coherence,
}

impl Lesson {
    /// Returns what a cycle of these edges teaches. An edge is two events and whether an order between operations puts it there:
    /// program order, the flush order or the order of atomics.
    pub(crate) fn of(execution: &Execution, edges: &[(usize, usize, bool)]) -> Lesson {
        let event = |e: usize| &execution.events[e];
        let all = |holds: &dyn Fn(&Event) -> bool| edges.iter().all(|&(from, ..)| holds(event(from)));
        let Some(first) = edges.first().map(|&(from, ..)| event(from)) else {
            return Lesson::Threads;
        };
        let of_card = |&(a, b, ordered): &(usize, usize, bool)| {
            ordered && !event(a).kind.is_cpu() && !event(b).kind.is_cpu()
        };
        let polls = |&(from, ..): &(usize, usize, bool)| event(from).kind == Kind::Poll;
        if edges.iter().any(of_card) {
            Lesson::Network
        } else if first.loc.is_some() && all(&|e| e.loc == first.loc) {
            Lesson::Coherence
        } else if all(&|e| e.thread == first.thread) && edges.iter().any(polls) {
            Lesson::OwnPoll
        } else if all(&|e| e.kind.is_cpu()) {
            Lesson::Cpu
        } else {
            Lesson::Threads
        }
    }
}

/// The reason for an edge between two points; `None` for the step from issue to observation of one event.
type Label = Option<(Part, Side)>;

/// The points of an execution with every edge that the model's definition puts between them.
pub(super) struct Graph<'a> {
    execution: &'a Execution,
    spec: &'a Spec,
    edges: Vec<(usize, usize, Label)>,
    /// Edge numbers that leave each point.
    out: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    pub(super) fn new(execution: &'a Execution, spec: &'a Spec) -> Graph<'a> {
        let derived = Derived::new(execution, spec);
        let mut graph = Graph {
            execution,
            spec,
            edges: Vec::new(),
            out: vec![Vec::new(); 2 * execution.len()],
        };
        // Observation comes first, because it says more about an edge between two instantaneous events.
        for (parts, side) in [(spec.ob, Side::Observe), (spec.ib, Side::Issue)] {
            for part in parts.iter() {
                for (a, b) in derived.part(part, side == Side::Issue).pairs() {
                    graph.push(graph.point(a, side), graph.point(b, side), Some((part, side)));
                }
            }
        }
        if spec.joint {
            for (e, event) in execution.events.iter().enumerate() {
                if !spec.is_instantaneous(event) {
                    graph.push(2 * e, 2 * e + 1, None);
                }
            }
        }
        graph
    }

    /// Returns whether this execution has every edge of the cycle. Both must be of the same events.
    pub(super) fn has(&self, cycle: &Cycle) -> bool {
        cycle.edges.iter().all(|e| {
            let ends = (self.point(e.from, e.side), self.point(e.to, e.side));
            self.out[ends.0]
                .iter()
                .any(|&i| self.edges[i].1 == ends.1 && self.edges[i].2 == Some((e.part, e.side)))
        })
    }

    /// Returns the cycle of these edges: two events, the term, and whether it is one of `ib`. The first edge leaves the event of the
    /// smallest number, so that equal cycles are written alike.
    pub(super) fn cycle(&self, edges: impl Iterator<Item = (usize, usize, Part, bool)>) -> Cycle {
        let events = &self.execution.events;
        let edge = |(from, to, part, is_issue)| Edge {
            from,
            to,
            side: if is_issue { Side::Issue } else { Side::Observe },
            part,
            cell: cell(self.spec, part, &events[from], &events[to]),
            forced_by: match part {
                Part::Nfo => self.forced(from, to),
                _ => Vec::new(),
            },
        };
        let mut edges: Vec<Edge> = edges.map(edge).collect();
        let first = (0..edges.len())
            .min_by_key(|&at| (edges[at].from, edges[at].to))
            .unwrap_or(0);
        edges.rotate_left(first);
        Cycle { edges }
    }

    /// Returns a cycle with the fewest labelled edges, found by a search from every point in which the step from issue to
    /// observation is free.
    pub(super) fn shortest_cycle(&self) -> Option<Cycle> {
        let mut best: Option<Vec<usize>> = None;
        for start in 0..self.out.len() {
            let bound = best.as_ref().map_or(usize::MAX, Vec::len);
            if let Some(path) = self.path_back(start, bound) {
                best = Some(path);
            }
        }
        let mut edges: Vec<Edge> = best?.iter().filter_map(|&i| self.labelled(i)).collect();
        for edge in edges.iter_mut().filter(|e| e.part == Part::Nfo) {
            edge.forced_by = self.forced(edge.from, edge.to);
        }
        Some(Cycle { edges })
    }

    /// Returns a shortest way from one event's issue to another's by edges of `ib` that the program fixes; empty if there is none.
    fn forced(&self, from: usize, to: usize) -> Vec<Edge> {
        let fixed = |label: Label| {
            matches!(
                label,
                Some((
                    Part::Po | Part::Ippo | Part::Iso | Part::Pf | Part::PfGet | Part::PfPut,
                    Side::Issue
                ))
            )
        };
        let (start, end) = (self.point(from, Side::Issue), self.point(to, Side::Issue));
        let mut came_by: Vec<Option<usize>> = vec![None; self.out.len()];
        let mut queue = VecDeque::from([start]);
        while let Some(at) = queue.pop_front() {
            for &i in &self.out[at] {
                let (_, next, label) = self.edges[i];
                if fixed(label) && next != start && came_by[next].is_none() {
                    came_by[next] = Some(i);
                    queue.push_back(next);
                }
            }
        }
        let mut path = Vec::new();
        let mut at = end;
        while let Some(i) = came_by[at] {
            path.extend(self.labelled(i));
            at = self.edges[i].0;
        }
        path.reverse();
        path
    }

    /// Returns the labelled edges of a shortest way from `start` back to it, if shorter than `bound`.
    fn path_back(&self, start: usize, bound: usize) -> Option<Vec<usize>> {
        let mut distance = vec![usize::MAX; self.out.len()];
        let mut came_by = vec![usize::MAX; self.out.len()];
        let mut queue = VecDeque::from([(start, 0)]);
        let mut back: Option<(usize, usize)> = None;
        while let Some((at, cost)) = queue.pop_front() {
            let stale = at != start && distance[at] < cost;
            if stale || cost >= bound || back.is_some_and(|(_, best)| cost >= best) {
                continue;
            }
            for &i in &self.out[at] {
                let (_, to, label) = self.edges[i];
                let next = cost + usize::from(label.is_some());
                if to == start {
                    if next < bound && back.is_none_or(|(_, best)| next < best) {
                        back = Some((i, next));
                    }
                } else if next < distance[to] {
                    distance[to] = next;
                    came_by[to] = i;
                    match label {
                        Some(_) => queue.push_back((to, next)),
                        None => queue.push_front((to, next)),
                    }
                }
            }
        }
        let (mut edge, _) = back?;
        let mut path = Vec::new();
        loop {
            if self.edges[edge].2.is_some() {
                path.push(edge);
            }
            let from = self.edges[edge].0;
            if from == start {
                break;
            }
            edge = came_by[from];
        }
        path.reverse();
        Some(path)
    }

    fn labelled(&self, i: usize) -> Option<Edge> {
        let (from, to, label) = self.edges[i];
        let (part, side) = label?;
        let (from, to) = (from / 2, to / 2);
        let events = &self.execution.events;
        Some(Edge {
            from,
            to,
            side,
            part,
            cell: cell(self.spec, part, &events[from], &events[to]),
            forced_by: Vec::new(),
        })
    }

    /// Returns the point of an event: `2e` is its issue, `2e + 1` its observation. An instantaneous event has only the first.
    fn point(&self, e: usize, side: Side) -> usize {
        let merged = self.spec.joint && self.spec.is_instantaneous(&self.execution.events[e]);
        2 * e + usize::from(side == Side::Observe && !merged)
    }

    fn push(&mut self, from: usize, to: usize, label: Label) {
        self.out[from].push(self.edges.len());
        self.edges.push((from, to, label));
    }
}

/// Returns the table cell behind an edge of program order.
fn cell(spec: &Spec, part: Part, earlier: &Event, later: &Event) -> Option<CellRef> {
    let cell = Cell {
        earlier: earlier.kind,
        later: later.kind,
    };
    matches!(part, Part::Ippo | Part::Oppo).then(|| CellRef::new(spec, cell))
}
