//! The sets and relations that a model file finds defined, with their meaning on events.
//!
//! `docs/models.md` has a table of them, which a test compares with [`SETS`] and [`RELATIONS`]. Definitions that can be written in the
//! language itself are in `models/stdlib.cat`.

use crate::event::{Event, Kind};

/// A predefined set of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Set {
    /// Events of one kind.
    Kind(Kind),
    /// Reads.
    Read,
    /// Writes, initial writes among them.
    Write,
    /// Reads and writes.
    Memory,
    /// Initial writes.
    Initial,
    /// Fences of `mfence` instructions: `F` without those that a failed CPU compare-and-swap implies.
    Mfence,
    /// Waits for a work identifier; the rest of `P` are polls.
    Wait,
    /// Events of a CPU, without initial writes.
    Cpu,
    /// Events of a NIC.
    Nic,
    /// Events of remote read-modify-writes.
    Rmw,
    /// Events of operations that ask for strong order.
    Strong,
    /// Writes of NICs into regions of relaxed ordering.
    Relaxed,
    /// Writes of the completions of receives.
    Completion,
}

/// A predefined relation on events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Rel {
    /// Program order; every initial write comes before every other event.
    Po,
    /// Polls-from.
    Pf,
    /// Identity.
    Id,
    /// Accesses to one location.
    Loc,
    /// Events of one thread (`sthd`).
    SameThread,
    /// Events of one queue pair (`sqp`).
    SameQueuePair,
    /// Events of one executed instruction.
    SameInstruction,
    /// Atomic read and remote write of one remote read-modify-write.
    RmwPair,
    /// Reads-from.
    Rf,
    /// Modification order.
    Mo,
    /// Reads-before.
    Rb,
    /// NIC flush order.
    Nfo,
    /// NIC flush order with the writes of one side of a queue pair ordered too. In a file that uses it, NIC flush order is the same
    /// relation.
    Bus,
    /// Order of the remote read-modify-writes at a node.
    Rao,
}

/// Names of the predefined sets.
pub const SETS: [(&str, Set); 28] = [
    ("R", Set::Read),
    ("W", Set::Write),
    ("M", Set::Memory),
    ("IW", Set::Initial),
    ("lR", Set::Kind(Kind::LocalRead)),
    ("lW", Set::Kind(Kind::LocalWrite)),
    ("CAS", Set::Kind(Kind::Cas)),
    ("A", Set::Kind(Kind::Cas)),
    ("F", Set::Kind(Kind::Fence)),
    ("MFENCE", Set::Mfence),
    ("P", Set::Kind(Kind::Poll)),
    ("WAIT", Set::Wait),
    ("nlR", Set::Kind(Kind::NicLocalRead)),
    ("nrW", Set::Kind(Kind::NicRemoteWrite)),
    ("nrR", Set::Kind(Kind::NicRemoteRead)),
    ("nlW", Set::Kind(Kind::NicLocalWrite)),
    ("nF", Set::Kind(Kind::NicFence)),
    ("nAR", Set::Kind(Kind::NicAtomicRead)),
    ("nRv", Set::Kind(Kind::NicReceive)),
    ("RC", Set::Completion),
    ("CPU", Set::Cpu),
    ("NIC", Set::Nic),
    ("RMW", Set::Rmw),
    ("STRONG", Set::Strong),
    ("RELAXED", Set::Relaxed),
    ("aCR", Set::Kind(Kind::LocalRead)),
    ("aCW", Set::Kind(Kind::LocalWrite)),
    ("aWT", Set::Kind(Kind::Poll)),
];

/// Names of the predefined relations.
pub const RELATIONS: [(&str, Rel); 16] = [
    ("po", Rel::Po),
    ("rf", Rel::Rf),
    ("mo", Rel::Mo),
    ("co", Rel::Mo),
    ("rb", Rel::Rb),
    ("fr", Rel::Rb),
    ("pf", Rel::Pf),
    ("nfo", Rel::Nfo),
    ("bus", Rel::Bus),
    ("rao", Rel::Rao),
    ("id", Rel::Id),
    ("loc", Rel::Loc),
    ("same-thread", Rel::SameThread),
    ("sqp", Rel::SameQueuePair),
    ("same-instr", Rel::SameInstruction),
    ("rmw", Rel::RmwPair),
];

impl Set {
    /// Returns whether the set has event `e` of an execution.
    pub fn contains(self, events: &[Event], e: usize) -> bool {
        let event = &events[e];
        let initial = event.thread.is_none();
        match self {
            Set::Kind(kind) => event.kind == kind,
            Set::Read => event.is_read(),
            Set::Write => event.is_write(),
            Set::Memory => event.is_read() || event.is_write(),
            Set::Initial => initial,
            Set::Mfence => {
                let fence = event.kind == Kind::Fence;
                // A failed compare-and-swap is a fence and a read of one instruction.
                fence
                    && !events
                        .iter()
                        .any(|o| o.kind == Kind::LocalRead && o.same_instruction(event))
            }
            Set::Wait => event.kind == Kind::Poll && event.peer.is_none(),
            Set::Cpu => event.kind.is_cpu() && !initial,
            Set::Nic => !event.kind.is_cpu(),
            Set::Rmw => event.rmw,
            Set::Strong => event.strong,
            Set::Relaxed => event.relaxed,
            Set::Completion => event.announces,
        }
    }
}

impl Rel {
    /// Returns whether a program fixes the relation, whatever its reads read and in whatever order memory changes.
    pub fn is_static(self) -> bool {
        !matches!(self, Rel::Rf | Rel::Mo | Rel::Rb | Rel::Nfo | Rel::Bus | Rel::Rao)
    }

    /// Returns whether two events are related, for the relations that follow from the events alone; `None` for the others.
    pub fn between(self, a: &Event, b: &Event, same: bool) -> Option<bool> {
        Some(match self {
            Rel::Id => same,
            Rel::Loc => a.loc.is_some() && a.loc == b.loc,
            Rel::SameThread => a.same_thread(b),
            Rel::SameQueuePair => a.same_queue_pair(b),
            Rel::SameInstruction => a.same_instruction(b),
            Rel::RmwPair => {
                let kinds = (a.kind, b.kind) == (Kind::NicAtomicRead, Kind::NicRemoteWrite);
                kinds && a.same_instruction(b)
            }
            Rel::Po | Rel::Pf | Rel::Rf | Rel::Mo | Rel::Rb | Rel::Nfo | Rel::Bus | Rel::Rao => return None,
        })
    }
}
