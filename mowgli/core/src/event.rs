//! Events and executions, which the declarative models judge.
//!
//! Events and executions follow RDMA-TSO'24 Defs. 4.1 to 4.3 (Robust'25 Defs. 1 to 3, LOCO'26 app. F.2),
//! extended by the remote read-modify-write of `docs/rmw.md`. Unfolding a program gives the events; an
//! [`Execution`] adds values and relations. [`crate::declarative`] makes executions, [`crate::models`] judges
//! them, and [`crate::explain`] shows them.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;
use crate::program::{Loc, Node, Program, ThreadId, Value, WorkId};
use crate::relation::Relation;

/// Event types (RDMA-TSO'24 Def. 4.1) in the order of the rows and columns of its Fig. 9. LOCO'26 Fig. 10 calls them stamps and spells
/// them in another way. The last type is the extension of `docs/rmw.md`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Kind {
    /// `lR`, `aCR`: CPU read.
    LocalRead,
    /// `lW`, `aCW`: CPU write.
    LocalWrite,
    /// `CAS`, `aCAS`: successful CPU compare-and-swap.
    Cas,
    /// `F`, `aMF`: CPU memory fence.
    Fence,
    /// `P` and `aWT`: poll of a queue pair or wait on a work identifier.
    Poll,
    /// `nlR`, `aNLR`: NIC local read, the first half of a put.
    NicLocalRead,
    /// `nrW`, `aNRW`: NIC remote write, the second half of a put.
    NicRemoteWrite,
    /// `nrR`, `aNRR`: NIC remote read, the first half of a get.
    NicRemoteRead,
    /// `nlW`, `aNLW`: NIC local write, the second half of a get.
    NicLocalWrite,
    /// `nF`, `aRF`: remote fence.
    NicFence,
    /// `nAR`, `aNAR`: NIC atomic read of a remote read-modify-write; with atomicity `glob` also its write.
    NicAtomicRead,
    /// `nRv`: the peer's card takes a receive for a message (`docs/litmus.md`). It has no row in the tables:
    /// [`crate::models::tiers::receive_order`] orders it.
    NicReceive,
}

impl Kind {
    /// Every kind that the tables have, in their order.
    pub const ALL: [Kind; 11] = [
        Kind::LocalRead,
        Kind::LocalWrite,
        Kind::Cas,
        Kind::Fence,
        Kind::Poll,
        Kind::NicLocalRead,
        Kind::NicRemoteWrite,
        Kind::NicRemoteRead,
        Kind::NicLocalWrite,
        Kind::NicFence,
        Kind::NicAtomicRead,
    ];

    /// Returns the row and column in the ordering tables.
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Returns the papers' label.
    pub const fn label(self) -> &'static str {
        match self {
            Kind::LocalRead => "lR",
            Kind::LocalWrite => "lW",
            Kind::Cas => "CAS",
            Kind::Fence => "F",
            Kind::Poll => "P",
            Kind::NicLocalRead => "nlR",
            Kind::NicRemoteWrite => "nrW",
            Kind::NicRemoteRead => "nrR",
            Kind::NicLocalWrite => "nlW",
            Kind::NicFence => "nF",
            Kind::NicAtomicRead => "nAR",
            Kind::NicReceive => "nRv",
        }
    }

    /// Returns the name in prose.
    pub const fn prose(self) -> &'static str {
        match self {
            Kind::LocalRead => "CPU read",
            Kind::LocalWrite => "CPU write",
            Kind::Cas => "CPU compare-and-swap",
            Kind::Fence => "memory fence",
            Kind::Poll => "poll",
            Kind::NicLocalRead => "NIC local read",
            Kind::NicRemoteWrite => "NIC remote write",
            Kind::NicRemoteRead => "NIC remote read",
            Kind::NicLocalWrite => "NIC local write",
            Kind::NicFence => "remote fence",
            Kind::NicAtomicRead => "NIC atomic read",
            Kind::NicReceive => "receive taken",
        }
    }

    /// Returns whether the CPU, not the NIC, performs it.
    pub const fn is_cpu(self) -> bool {
        (self as usize) < Kind::NicLocalRead as usize
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.label())
    }
}

/// An event without its values.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Event {
    /// The thread. The initial write of a location belongs to no thread and has `None`.
    pub thread: Option<ThreadId>,
    /// Type.
    pub kind: Kind,
    /// The location accessed. The NIC local read of a constant put has none: it reads a fresh location that nobody writes, or
    /// no memory at all ([`Event::inlined`]).
    pub loc: Option<Loc>,
    /// The peer node of the queue pair; for `poll`, of the queue pair polled.
    pub peer: Option<Node>,
    /// The work identifier of a put, get or RMW, or the identifier that a wait names.
    pub work: Option<WorkId>,
    /// True if the event belongs to a remote read-modify-write.
    pub rmw: bool,
    /// True if the event belongs to a put whose data are in the work request, so that its NIC local read reads no memory.
    #[serde(default)]
    pub inlined: bool,
    /// True if the event belongs to an operation that is to be placed after the earlier writes of its queue pair.
    pub strong: bool,
    /// True for a NIC's write into a region registered for relaxed ordering.
    pub relaxed: bool,
    /// True for the write of a message's receive completion.
    #[serde(default)]
    pub announces: bool,
    /// True if the event writes memory.
    pub writes: bool,
    /// The instruction that the event comes from: its number among the executed instructions of the thread, from 0.
    pub instance: u32,
    /// The position of that instruction in the thread's code, outermost block first.
    pub path: Vec<u16>,
}

impl Event {
    /// Returns whether the event reads memory (`E.R`). The source of a constant put counts.
    pub fn is_read(&self) -> bool {
        matches!(
            self.kind,
            Kind::LocalRead
                | Kind::Cas
                | Kind::NicLocalRead
                | Kind::NicRemoteRead
                | Kind::NicAtomicRead
                | Kind::NicReceive
        )
    }

    /// Returns whether the event writes memory (`E.W`).
    pub fn is_write(&self) -> bool {
        self.writes
    }

    /// Returns whether both events are of one thread (`sthd`). Initial writes are in no thread.
    pub fn same_thread(&self, other: &Event) -> bool {
        self.thread.is_some() && self.thread == other.thread
    }

    /// Returns whether both events are of one queue pair (`sqp`): one thread and one peer.
    pub fn same_queue_pair(&self, other: &Event) -> bool {
        self.same_thread(other) && self.peer.is_some() && self.peer == other.peer
    }

    /// Returns whether both come from one executed instruction.
    pub fn same_instruction(&self, other: &Event) -> bool {
        self.same_thread(other) && self.instance == other.instance
    }

    /// Returns whether a poll can synchronise with the event, which must be the write that ends a put, get or RMW. The remote write of an
    /// RMW is not its end (`docs/rmw.md`).
    pub fn is_completion(&self) -> bool {
        match self.kind {
            Kind::NicLocalWrite => true,
            Kind::NicRemoteWrite => !self.rmw,
            _ => false,
        }
    }
}

/// An execution: events with values and the relations of RDMA-TSO'24 Defs. 4.2 and 4.3. The models say whether it is *consistent*.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Execution {
    /// One initial write for each location, in the order of locations, then each thread's events in program order.
    pub events: Vec<Event>,
    /// Value read, for each event that reads.
    pub reads: Vec<Option<Value>>,
    /// Value written, for each event that writes.
    pub writes: Vec<Option<Value>>,
    /// Program order, with every initial write before every other event.
    pub po: Relation,
    /// Reads-from.
    pub rf: Relation,
    /// Modification order: total on the writes of each location.
    pub mo: Relation,
    /// Polls-from: the write that a poll synchronises with, or every earlier write that a wait names.
    pub pf: Relation,
    /// NIC flush order; empty in models without the PCIe guarantee.
    pub nfo: Relation,
    /// The order of the remote read-modify-writes at a node (`docs/rmw.md`), as an order of their atomic reads.
    pub rao: Relation,
    /// Final registers and memory.
    pub outcome: Outcome,
}

impl Execution {
    /// Returns the number of events.
    pub fn len(&self) -> usize {
        self.events.len()
    }

    /// Returns whether there are no events (a program without locations and instructions).
    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// Labels every event in the papers' notation, such as `nrW(x,1)`; nodes count from 1. Where several events of one thread
    /// would share a label, the second gets `#2`, the third `#3`.
    pub fn labels(&self, program: &Program) -> Vec<String> {
        let mut seen: BTreeMap<(Option<ThreadId>, String), u32> = BTreeMap::new();
        let number = |e: usize| {
            let label = self.label(e, program);
            let count = seen.entry((self.events[e].thread, label.clone())).or_default();
            *count += 1;
            match *count {
                1 => label,
                n => format!("{label}#{n}"),
            }
        };
        (0..self.len()).map(number).collect()
    }

    fn label(&self, event: usize, program: &Program) -> String {
        let e = &self.events[event];
        if let (Kind::Poll, Some(work), Some(thread)) = (e.kind, e.work, e.thread) {
            let thread = &program.threads[usize::from(thread.0)];
            return format!("wait({})", thread.work_ids[usize::from(work.0)]);
        }
        let mut inside: Vec<String> = Vec::new();
        if let Some(loc) = e.loc {
            inside.push(program.locations[usize::from(loc.0)].name.clone());
        } else if e.kind == Kind::NicLocalRead {
            inside.push(if e.inlined { "inline" } else { "const" }.to_owned());
        }
        match (self.reads[event], self.writes[event]) {
            (Some(r), Some(w)) => inside.push(format!("{r}->{w}")),
            (Some(v), None) | (None, Some(v)) => inside.push(v.to_string()),
            (None, None) => {
                if let Some(peer) = e.peer {
                    inside.push((peer.0 + 1).to_string());
                }
            }
        }
        match inside.is_empty() {
            true => e.kind.label().to_owned(),
            false => format!("{}({})", e.kind.label(), inside.join(",")),
        }
    }
}
