//! The orders that a deferred NIC keeps, so that a test can take one of them away.
//!
//! [`Discipline::of`] keeps the orders of a tier and no others. The others are fabrics that are known to be weaker or
//! stronger than `ibta`. `loco-litmus` tests whether it recognizes them. The cells of the table of orders are those of
//! RDMA-TSO'24 Fig. 9, for read-modify-writes those of `docs/rmw.md`, and for tiers those of `docs/ordering-models.md`.

use loco_fabric::Tier;

/// A step of an operation, by its stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// A put reads its source (`nlR`).
    LocalRead = 0,
    /// A put is placed (`nrW`).
    RemoteWrite = 1,
    /// A get reads its source (`nrR`).
    RemoteRead = 2,
    /// A read-modify-write happens (`nAR`).
    Atomic = 3,
    /// The result of a get or read-modify-write lands (`nlW`).
    LocalWrite = 4,
    /// A put is sent: the issue of its `nrW`, which its completion reports. Placement follows.
    Send = 5,
    /// The result of a get or read-modify-write is back: the issue of its `nlW`, for which a fence waits. Landing follows.
    Return = 6,
}

use Stage::{Atomic, LocalRead, LocalWrite, RemoteRead, RemoteWrite, Return, Send};

/// The number of stages.
pub(super) const STAGES_LEN: usize = 7;
/// The stages, in the order of their numbers.
const STAGES: [Stage; STAGES_LEN] = [
    LocalRead,
    RemoteWrite,
    RemoteRead,
    Atomic,
    LocalWrite,
    Send,
    Return,
];

/// The order in which memory gets what a card has sent, and what has come back to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bus {
    /// That of the operations, as the table says.
    Table,
    /// The order in which the card sent puts and got results back. The card reads memory only when everything that it
    /// sent or got back before has reached memory, whichever operation it belongs to.
    Fifo,
    /// Any.
    Unordered,
}

/// The orders that a deferred NIC keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// The tier from which the discipline was made.
    tier: Tier,
    /// `[earlier][later]`: whether a stage of an operation comes before a stage of a later operation of its queue pair.
    ordered: [[bool; STAGES_LEN]; STAGES_LEN],
    /// The bus between the card and memory.
    pub bus: Bus,
    /// The stages of earlier operations for which a fence waits, a bit for each.
    pub(super) fence_awaits: u8,
    /// Whether a fenced operation waits until the results of earlier gets and read-modify-writes are back. They need not
    /// have landed (RDMA-TSO'24 Fig. 9, I10).
    pub fences: bool,
    /// Whether a strong operation waits until the writes of earlier operations are placed.
    pub strong: bool,
    /// Whether a get reads only when the earlier puts that were sent are placed, and a put only when the earlier results
    /// that are back have landed (the PCIe flush).
    pub reads_flush: bool,
    /// Whether a put completes only when its source has been read and it was sent.
    pub put_waits_for_read: bool,
    /// Whether a put completes only when it is placed. The contract does not promise that.
    pub put_waits_for_placement: bool,
    /// Whether a get or read-modify-write completes only when its result has landed.
    pub get_waits_for_result: bool,
    /// Whether a read-modify-write is one step.
    pub atomics_are_atomic: bool,
    /// Whether an operation sees unplaced results of earlier operations of its queue pair: gets see puts that were
    /// sent, and puts see results that were fetched (RDMA-TSO'24 section 4, without the PCIe guarantees).
    pub forwards: bool,
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::ibta()
    }
}

impl Discipline {
    /// Keeps the orders of a tier (`docs/ordering-models.md`). On `pcie-relaxed` all memory is of relaxed ordering.
    pub fn of(tier: Tier) -> Discipline {
        match tier {
            Tier::Ibta => Discipline::ibta(),
            Tier::PcieRelaxed => Discipline::relaxed(),
            Tier::OooRw | Tier::OooAll | Tier::Unordered => Discipline::out_of_order(tier),
        }
    }

    /// Keeps the orders of the InfiniBand specification (LOCO'26 Fig. 10, F6 to I9, and for atomics `docs/rmw.md`).
    pub fn ibta() -> Discipline {
        let ordered = |earlier: Stage, later: Stage| match earlier {
            LocalRead => true,
            RemoteWrite | Send | Atomic => later != LocalRead,
            RemoteRead | Return | LocalWrite => matches!(later, Return | LocalWrite),
        };
        // A result returns before earlier ones land, and before earlier puts are placed.
        let ordered = |earlier: Stage, later: Stage| {
            let is_early = later == Return && matches!(earlier, LocalWrite | RemoteWrite);
            ordered(earlier, later) && !is_early
        };
        Discipline {
            tier: Tier::Ibta,
            ordered: STAGES.map(|earlier| STAGES.map(|later| ordered(earlier, later))),
            bus: Bus::Table,
            fence_awaits: !(RemoteWrite.bit() | LocalWrite.bit()),
            fences: true,
            strong: true,
            reads_flush: true,
            put_waits_for_read: true,
            put_waits_for_placement: false,
            get_waits_for_result: true,
            atomics_are_atomic: true,
            forwards: false,
        }
    }

    /// Sends and fetches as `ibta` does, over a bus that places in any order.
    fn relaxed() -> Discipline {
        let mut discipline = Discipline {
            tier: Tier::PcieRelaxed,
            bus: Bus::Unordered,
            reads_flush: false,
            ..Discipline::ibta()
        };
        for stage in STAGES {
            // A placement waits for nothing, and nothing for it. A result lands after later accesses have begun, too.
            discipline.ordered[RemoteWrite as usize][stage as usize] = false;
            discipline.ordered[LocalWrite as usize][stage as usize] = false;
        }
        discipline
    }

    /// Carries operations out in any order, apart from the cells that the tier has.
    fn out_of_order(tier: Tier) -> Discipline {
        let atomics = tier == Tier::OooRw;
        let sources = tier != Tier::Unordered;
        let ordered = |earlier: Stage, later: Stage| match earlier {
            LocalRead => sources,
            RemoteWrite | Send | Atomic => atomics && later == Atomic,
            RemoteRead | Return | LocalWrite => false,
        };
        let results = RemoteRead.bit() | Atomic.bit() | Return.bit();
        Discipline {
            tier,
            ordered: STAGES.map(|earlier| STAGES.map(|later| ordered(earlier, later))),
            bus: if sources { Bus::Fifo } else { Bus::Unordered },
            fence_awaits: results | if sources { LocalRead.bit() } else { 0 },
            reads_flush: false,
            ..Discipline::ibta()
        }
    }

    /// Returns the tier from which the discipline was made.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Keeps the operations of a queue pair in order: each begins when the one before has ended.
    pub fn in_order() -> Discipline {
        Discipline {
            ordered: [[true; STAGES_LEN]; STAGES_LEN],
            ..Discipline::ibta()
        }
    }

    /// Keeps the orders that remain without the PCIe guarantees: a get does not place puts that were sent before it,
    /// but sees them.
    pub fn without_pcie() -> Discipline {
        let mut discipline = Discipline {
            reads_flush: false,
            forwards: true,
            ..Discipline::ibta()
        };
        for later in [RemoteRead, LocalWrite] {
            discipline.ordered[RemoteWrite as usize][later as usize] = false;
        }
        discipline
    }

    /// Returns the discipline with one order added or removed. The order of a put's `RemoteWrite` is that of its
    /// issue (`Send`) and that of its placement; the order of a `LocalWrite` that of its issue (`Return`) and that of its
    /// landing.
    #[must_use]
    pub fn with(mut self, earlier: Stage, later: Stage, ordered: bool) -> Discipline {
        let steps = |stage: Stage| match stage {
            RemoteWrite => vec![Send, RemoteWrite],
            LocalWrite => vec![Return, LocalWrite],
            stage => vec![stage],
        };
        for earlier in steps(earlier) {
            for later in steps(later) {
                self.ordered[earlier as usize][later as usize] = ordered;
            }
        }
        self
    }

    /// Returns whether a stage `earlier` of one operation comes before a stage `later` of a later operation on its queue pair.
    pub fn orders(&self, earlier: Stage, later: Stage) -> bool {
        self.ordered[earlier as usize][later as usize]
    }

    /// Returns the earlier stages for which a stage of a strong operation waits besides, as a set of bits. What a strong put
    /// reads is not ordered.
    pub(super) fn strong_awaits(&self, stage: Stage) -> u8 {
        let sent = LocalRead.bit() | Send.bit() | Atomic.bit();
        match stage {
            _ if !self.strong => 0,
            Send => sent,
            RemoteWrite | RemoteRead | Atomic => sent | RemoteWrite.bit(),
            LocalRead | Return | LocalWrite => 0,
        }
    }

    /// Returns for each stage the earlier stages for which it waits, as a set of bits.
    pub(super) fn awaited(&self) -> [u8; STAGES_LEN] {
        let bits = |later: Stage| {
            let awaited = STAGES.into_iter().filter(|&earlier| self.orders(earlier, later));
            awaited.fold(0, |bits, earlier| bits | earlier.bit())
        };
        STAGES.map(bits)
    }
}

impl Stage {
    /// Returns the stage as a bit of a set of stages.
    pub(super) const fn bit(self) -> u8 {
        1 << self as u8
    }
}
