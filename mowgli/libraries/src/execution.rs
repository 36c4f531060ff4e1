//! Executions (LOCO'26 Defs. 3.2 and 3.3): events with stamps, and the orders on their subevents while they are chosen.

use mowgli::outcome::{Budget, Limit};

use crate::client::{Client, Library, Node};
use crate::event::{Event, Stamp, StampKind};
use crate::network::Network;
use crate::order::{Order, SUBEVENTS_MAX, bits};
use crate::value::Value;

/// A subevent: an event under one of its stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subevent {
    /// The index of the event.
    pub event: usize,
    /// The stamp.
    pub stamp: Stamp,
}

/// A plain execution with stamps: everything but `so` and `hb`.
#[derive(Clone, Debug)]
pub struct Graph<'a> {
    /// The client, which has the nodes and objects.
    pub client: &'a Client,
    /// The network, which has the stamp order.
    pub network: &'static Network,
    /// The events, those of each thread together and in program order.
    pub events: Vec<Event>,
    /// The subevents, in the order of their events.
    pub subevents: Vec<Subevent>,
}

impl<'a> Graph<'a> {
    /// Builds the graph of events whose stamps are given by `stamps`. Fails if there are more than
    /// [`SUBEVENTS_MAX`] subevents.
    ///
    /// # Errors
    ///
    /// Returns the limit.
    pub fn new(
        client: &'a Client,
        network: &'static Network,
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
            network,
            events,
            subevents,
        })
    }

    /// Returns whether program order puts event `a` before `b`.
    pub fn po(&self, a: usize, b: usize) -> bool {
        a < b && self.events[a].thread == self.events[b].thread
    }

    /// Returns whether program order puts the event of subevent `a` before that of `b`.
    pub fn po_sub(&self, a: usize, b: usize) -> bool {
        self.po(self.subevents[a].event, self.subevents[b].event)
    }

    /// Returns whether preserved program order puts subevent `a` before `b` (LOCO'26 3.1).
    pub fn ppo(&self, a: usize, b: usize) -> bool {
        self.po_sub(a, b)
            && self
                .network
                .before(self.subevents[a].stamp, self.subevents[b].stamp)
    }

    /// Returns the node of an event's thread.
    pub fn node(&self, event: usize) -> Node {
        self.client.threads[usize::from(self.events[event].thread)].node
    }

    /// Returns the subevent of an event under a stamp. Whether the stamp asks for strong order follows from the event.
    pub fn subevent(&self, event: usize, stamp: Stamp) -> Option<usize> {
        self.subevents
            .iter()
            .position(|s| s.event == event && (s.stamp.kind, s.stamp.node) == (stamp.kind, stamp.node))
    }

    /// Returns the subevents of an event.
    pub fn of_event(&self, event: usize) -> impl Iterator<Item = usize> + '_ {
        (0..self.subevents.len()).filter(move |&s| self.subevents[s].event == event)
    }

    /// Returns the events of a library.
    pub fn of_library(&self, library: Library) -> impl Iterator<Item = usize> + '_ {
        (0..self.events.len()).filter(move |&e| self.events[e].method.library() == library)
    }

    /// Returns the library of a subevent.
    pub fn library(&self, subevent: usize) -> Library {
        self.events[self.subevents[subevent].event].method.library()
    }

    /// Prints a subevent as `P0: submit(q, 1) = true [aCW]`.
    pub fn display(&self, subevent: usize) -> String {
        let s = self.subevents[subevent];
        format!("{} [{}]", self.events[s.event].display(self.client), s.stamp)
    }

    /// Returns whether the subevent's stamp has this kind.
    pub fn is(&self, subevent: usize, kind: StampKind) -> bool {
        self.subevents[subevent].stamp.kind == kind
    }
}

/// An edge of `so`, with the term of a definition that it comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The earlier subevent.
    pub from: usize,
    /// The later subevent.
    pub to: usize,
    /// The term by the papers' name.
    pub why: &'static str,
}

/// Tells a search to go on or to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The search goes on with the next choice.
    Continue,
    /// The search ends: it has found its goal, or reached a limit.
    Stop,
}

/// An edge that was refused because there is a path back.
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
    /// The transitive closure of `ppo` and the edges of `so` chosen so far.
    pub hb: Order,
    /// The edges of `so` chosen so far.
    pub edges: Vec<Edge>,
    /// The last values of the client's observed words, once chosen.
    pub words: Vec<Value>,
    /// The refused edges, and the most of them to collect, if they are asked for.
    pub conflicts: Option<(Vec<Conflict>, usize)>,
    /// The only pairs that `so` may have, if set, as rows of bits.
    pub within: Option<Vec<u128>>,
    /// True if modification orders must be total. Otherwise they are decided as far as reads tell them apart.
    pub total: bool,
    /// The number of choices made.
    pub steps: u64,
    /// The limit that ended the search, if one did.
    pub limit: Option<Limit>,
    budget: Budget<'a>,
}

/// The number of steps between two looks at the budget.
const STEPS_BETWEEN_LOOKS: u64 = 1024;

impl<'a> State<'a> {
    /// Returns the state with `hb = ppo⁺`.
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

    /// Adds an edge to `so`. Returns false if `hb` would have a cycle, or if `within` excludes the edge.
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

    /// Makes a choice, and takes it back afterwards.
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

/// Returns a shortest path from `from` to `to` along `ppo` and the edges. It is empty if there is none.
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

/// Returns the pairs of an order.
pub fn pairs(order: &Order) -> impl Iterator<Item = (usize, usize)> + '_ {
    (0..order.len()).flat_map(|a| bits(order.after(a)).map(move |b| (a, b)))
}
