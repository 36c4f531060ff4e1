//! The reasons why a condition fails: the two events, the cell of Fig. 5, and the way on which other threads could see the reordering.

use serde::Serialize;

use crate::event::Event;
use crate::model::Model;
use crate::models::Spec;
use crate::program::Node;

use super::fig5::{self, Cell, Need};
use super::network::Link;
use super::trace::Trace;

/// An event of a pre-execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct EventRef {
    /// The thread.
    pub thread: usize,
    /// The index in the thread's trace.
    pub index: usize,
    /// The event. Its `path` is the place of the instruction in the code.
    pub event: Event,
}

impl EventRef {
    /// Names an event of a trace.
    pub fn new(trace: &Trace, index: usize) -> EventRef {
        EventRef {
            thread: trace.thread,
            index,
            event: trace.events[index].clone(),
        }
    }
}

/// Two events of one thread that should stay in order and may not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Pair {
    /// The earlier event in program order.
    pub earlier: EventRef,
    /// The later event.
    pub later: EventRef,
    /// The cell of Fig. 5.
    pub cell: Cell,
    /// Additions that would keep the two in order.
    pub need: Need,
}

impl Pair {
    /// Makes a pair; `None` if one of the events accesses no memory, so that Fig. 5 has no cell for it.
    pub fn new(spec: &Spec, trace: &Trace, earlier: usize, later: usize) -> Option<Pair> {
        let events = (&trace.events[earlier], &trace.events[later]);
        Some(Pair {
            cell: Cell::of(events.0, events.1)?,
            need: fig5::need(spec, events.0, events.1)?,
            earlier: EventRef::new(trace, earlier),
            later: EventRef::new(trace, later),
        })
    }
}

/// Why a condition fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "reason", rename_all = "kebab-case")]
pub enum Reason {
    /// Def. 7: the two events conflict within their thread and may be reordered.
    Race {
        /// The events.
        pair: Pair,
    },
    /// Defs. 8 and 13: the two events may be reordered, and other threads could see it.
    Unfenced {
        /// The events.
        pair: Pair,
        /// Threads that access the later event's location.
        sees_later: Vec<usize>,
        /// The way from the later event's memory to that of the earlier one. Empty if both are on one node.
        way: Vec<Link>,
        /// Threads that access the earlier event's location.
        sees_earlier: Vec<usize>,
    },
    /// Def. 9 (1): the local location of a remote operation is public.
    NotPrivate {
        /// The network card's local access.
        event: EventRef,
        /// Other threads that access the location.
        others: Vec<usize>,
    },
    /// Def. 9 (2): a get is neither fenced nor polled before the next operation on its queue pair.
    Overtaken {
        /// The remote read and the later remote access.
        pair: Pair,
    },
    /// Def. 9 (3a): queue pairs connect these nodes in a circle.
    Circle {
        /// The nodes, each connected with the next and the last with the first.
        nodes: Vec<Node>,
    },
    /// Def. 9 (3b): two nodes have queue pairs towards each other, or a node has one towards itself.
    BothWays {
        /// A thread on one node with a queue pair towards the node of the other.
        threads: (usize, usize),
    },
    /// Def. 9 (3c): two threads of a node have queue pairs towards one remote node.
    TwoQueuePairs {
        /// The threads.
        threads: (usize, usize),
        /// The remote node.
        peer: Node,
    },
    /// Def. 14 (2): a CPU read may overtake an earlier CPU write, both on public locations.
    StoreBuffer {
        /// The write and the read.
        pair: Pair,
    },
}

impl Reason {
    /// Returns the two events, unless the reason is about the network's shape or about one event.
    pub fn pair(&self) -> Option<&Pair> {
        match self {
            Reason::Race { pair }
            | Reason::Unfenced { pair, .. }
            | Reason::Overtaken { pair }
            | Reason::StoreBuffer { pair } => Some(pair),
            _ => None,
        }
    }

    /// Returns the clause of the paper that fails under a model: Def. 13 is Def. 8 under TSO, and Def. 14 has Def. 9 as a clause.
    pub const fn clause_under(&self, model: Model) -> &'static str {
        match (self, model) {
            (_, Model::RdmaSc) => self.clause(),
            (Reason::Unfenced { .. }, _) => "Def. 13",
            _ => self.clause(),
        }
    }

    /// Returns the clause of the paper that fails, under RDMA^SC.
    pub const fn clause(&self) -> &'static str {
        match self {
            Reason::Race { .. } => "Def. 7",
            Reason::Unfenced { .. } => "Def. 8",
            Reason::NotPrivate { .. } => "Def. 9 (1)",
            Reason::Overtaken { .. } => "Def. 9 (2)",
            Reason::Circle { .. } => "Def. 9 (3a)",
            Reason::BothWays { .. } => "Def. 9 (3b)",
            Reason::TwoQueuePairs { .. } => "Def. 9 (3c)",
            Reason::StoreBuffer { .. } => "Def. 14 (2)",
        }
    }
}
