//! Executions (LOCO'26 Defs. 3.2 and 3.3): events with stamps, and the orders on their subevents while they are chosen.

use mowgli::outcome::{Budget, Limit};

use crate::client::{Client, Library, Node};
use crate::event::{Event, Stamp, StampKind};
use crate::order::{Order, SUBEVENTS_MAX, bits};
use crate::value::Value;

/// A subevent: an event under one of its stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subevent {
    /// Index of the event.
    pub event: usize,
    /// The stamp.
    pub stamp: Stamp,
}

/// A plain execution with stamps: everything but `so` and `hb`.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    /// The client, for nodes and objects.
    pub client: &'a Client,
    /// Events, those of each thread together and in program order.
    pub events: Vec<Event>,
    /// Subevents, in the order of their events.
    pub subevents: Vec<Subevent>,
}

impl<'a> Graph<'a> {
    /// The graph of events whose stamps `stamps` gives; too large if there are more than [`SUBEVENTS_MAX`].
    ///
    /// # Errors
    ///
    /// The limit.
    pub fn new(
        client: &'a Client,
        events: Vec<Event>,
        mut stamps: impl FnMut(&Event) -> Vec<Stamp>,
    ) -> Result<Graph<'a>, Limit> {
        let mut subevents = Vec::new();
        for (event, e) in events.iter().enumerate() {
            subevents.extend(stamps(e).into_iter().map(|stamp| Subevent { event, stamp }));
        }
        if subevents.len() > SUBEVENTS_MAX {
            let what = format!("{} subevents; SUBEVENTS_MAX is {SUBEVENTS_MAX}", subevents.len());
            return Err(Limit::TooLarge(what));
        }
        Ok(Graph {
            client,
            events,
            subevents,
        })
    }

    /// Program order on events.
    pub fn po(&self, a: usize, b: usize) -> bool {
        a < b && self.events[a].thread == self.events[b].thread
    }

    /// Program order on the events of subevents.
    pub fn po_sub(&self, a: usize, b: usize) -> bool {
        self.po(self.subevents[a].event, self.subevents[b].event)
    }

    /// Preserved program order of two subevents (LOCO'26 3.1).
    pub fn ppo(&self, a: usize, b: usize) -> bool {
        self.po_sub(a, b) && self.subevents[a].stamp.before(self.subevents[b].stamp)
    }

    /// The node of an event's thread.
    pub fn node(&self, event: usize) -> Node {
        self.client.threads[usize::from(self.events[event].thread)].node
    }

    /// The subevent of an event under a stamp.
    pub fn subevent(&self, event: usize, stamp: Stamp) -> Option<usize> {
        self.subevents
            .iter()
            .position(|s| s.event == event && s.stamp == stamp)
    }

    /// The subevents of an event.
    pub fn of_event(&self, event: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.subevents.len()).filter(move |&s| self.subevents[s].event == event)
    }

    /// The events of a library.
    pub fn of_library(&self, library: Library) -> impl Iterator<Item = usize> + '_ {
        (0..self.events.len()).filter(move |&e| self.events[e].method.library() == library)
    }

    /// The library of a subevent.
    pub fn library(&self, subevent: usize) -> Library {
        self.events[self.subevents[subevent].event].method.library()
    }

    /// `P0: submit(q, 1) = true [aCW]`.
    pub fn display(&self, subevent: usize) -> String {
        let s = self.subevents[subevent];
        format!("{} [{}]", self.events[s.event].display(self.client), s.stamp)
    }

    /// Whether the kind of a subevent's stamp is this.
    pub fn is(&self, subevent: usize, kind: StampKind) -> bool {
        self.subevents[subevent].stamp.kind == kind
    }
}

/// An edge of `so` and the term of a definition that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier subevent.
    pub from: usize,
    /// The later subevent.
    pub to: usize,
    /// The term, as the papers call it.
    pub why: &'static str,
}

/// Whether a search goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// With the next choice.
    Continue,
    /// Not at all: what was looked for is found, or a limit is reached.
    Stop,
}

/// An edge that was refused, since there is a path back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// The refused edge.
    pub edge: Edge,
    /// The edges of `so` chosen before it.
    pub edges: Vec<Edge>,
}

/// The synchronisation and happens-before orders of an execution that is being completed.
#[derive(Debug)]
pub struct State<'a> {
    /// `hb`, closed: `ppo` and what has been chosen of `so`.
    pub hb: Order,
    /// What has been chosen of `so`.
    pub edges: Vec<Edge>,
    /// The last values of the client's observed words, once chosen.
    pub words: Vec<Value>,
    /// Refused edges, if they are asked for, at most so many.
    pub conflicts: Option<(Vec<Conflict>, usize)>,
    /// If set, the only pairs that `so` may have: rows of bits.
    pub within: Option<Vec<u128>>,
    /// Whether modification orders must be total, rather than as far as reads tell them apart.
    pub total: bool,
    /// Choices made.
    pub steps: u64,
    /// Why the search stopped before its end, if it did.
    pub limit: Option<Limit>,
    budget: Budget<'a>,
}

/// How many steps there are between two looks at the budget.
const STEPS_BETWEEN_LOOKS: u64 = 1024;

impl<'a> State<'a> {
    /// The state with `hb = ppo⁺`.
    pub fn new(g: &Graph<'_>, budget: Budget<'a>) -> State<'a> {
        let n = g.subevents.len();
        let mut hb = Order::empty(n);
        for a in 0..n {
            for b in a + 1..n {
                if g.ppo(a, b) {
                    hb.put(a, b);
                }
            }
        }
        // Program order is a strict order, so this cannot be a cycle.
        hb.close();
        State {
            hb,
            edges: Vec::new(),
            words: Vec::new(),
            conflicts: None,
            within: None,
            total: false,
            steps: 0,
            limit: None,
            budget,
        }
    }

    /// Adds an edge to `so`. False if `hb` would have a cycle, or the edge is not among those that it may have.
    pub fn order(&mut self, from: usize, to: usize, why: &'static str) -> bool {
        let edge = Edge { from, to, why };
        if self.within.as_ref().is_some_and(|rows| rows[from] >> to & 1 == 0) {
            return false;
        }
        if !self.hb.add(from, to) {
            if let Some((conflicts, most)) = &mut self.conflicts
                && conflicts.len() < *most
            {
                conflicts.push(Conflict {
                    edge,
                    edges: self.edges.clone(),
                });
            }
            return false;
        }
        self.edges.push(edge);
        true
    }

    /// Makes a choice and takes it back.
    pub fn attempt(&mut self, choice: impl FnOnce(&mut Self) -> Flow) -> Flow {
        self.steps += 1;
        if self.steps.is_multiple_of(STEPS_BETWEEN_LOOKS) && self.limit.is_none() {
            self.limit = self.budget.exceeded(self.steps);
        }
        if self.limit.is_some() {
            return Flow::Stop;
        }
        let hb = self.hb.clone();
        let edges = self.edges.len();
        let words = self.words.len();
        let flow = choice(self);
        self.hb = hb;
        self.edges.truncate(edges);
        self.words.truncate(words);
        flow
    }
}

/// A path from `from` to `to` along `ppo` and the edges, the shortest; empty if there is none.
pub fn path(g: &Graph<'_>, edges: &[Edge], from: usize, to: usize) -> Vec<Edge> {
    let n = g.subevents.len();
    let mut came: Vec<Option<Edge>> = vec![None; n];
    let mut seen: u128 = 1 << from;
    let mut front = vec![from];
    while !front.is_empty() && seen >> to & 1 == 0 {
        let mut next = Vec::new();
        for &at in &front {
            let program = (0..n).filter(|&b| g.ppo(at, b)).map(|b| Edge {
                from: at,
                to: b,
                why: "ppo",
            });
            let chosen = edges.iter().copied().filter(|e| e.from == at);
            for edge in chosen.chain(program) {
                if seen >> edge.to & 1 == 0 {
                    seen |= 1 << edge.to;
                    came[edge.to] = Some(edge);
                    next.push(edge.to);
                }
            }
        }
        front = next;
    }
    let mut out = Vec::new();
    let mut at = to;
    while let Some(edge) = came[at] {
        out.push(edge);
        at = edge.from;
        if at == from {
            break;
        }
    }
    out.reverse();
    out
}

/// The pairs of an order.
pub fn pairs(order: &Order) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..order.len()).flat_map(|a| bits(order.after(a)).map(move |b| (a, b)))
}
