//! The orders that a deferred NIC keeps, so that a test can take one of them away.
//!
//! [`Discipline::contract`] keeps the orders of the contract and no others. The others are fabrics that are known to
//! be weaker or stronger. `loco-litmus` tests whether it recognizes them. The cells of the table of orders are those of
//! RDMA-TSO'24 Fig. 9, and for read-modify-writes those of `docs/rmw.md`.

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
pub(crate) const STAGES_LEN: usize = 7;
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

/// The orders that a deferred NIC keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// `[earlier][later]`: whether a stage of an operation comes before a stage of a later operation of its queue pair.
    ordered: [[bool; STAGES_LEN]; STAGES_LEN],
    /// Whether a fenced operation waits until the results of earlier gets and read-modify-writes are back. They need not
    /// have landed (RDMA-TSO'24 Fig. 9, I10).
    pub fences: bool,
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
        Discipline::contract()
    }
}

impl Discipline {
    /// Keeps the orders of the contract (LOCO'26 Fig. 10, F6 to I9, and for atomics `docs/rmw.md`).
    pub fn contract() -> Discipline {
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
            ordered: STAGES.map(|earlier| STAGES.map(|later| ordered(earlier, later))),
            fences: true,
            reads_flush: true,
            put_waits_for_read: true,
            put_waits_for_placement: false,
            get_waits_for_result: true,
            atomics_are_atomic: true,
            forwards: false,
        }
    }

    /// Keeps the operations of a queue pair in order: each begins when the one before has ended.
    pub fn in_order() -> Discipline {
        Discipline {
            ordered: [[true; STAGES_LEN]; STAGES_LEN],
            ..Discipline::contract()
        }
    }

    /// Keeps the orders that remain without the PCIe guarantees: a get does not place puts that were sent before it,
    /// but sees them.
    pub fn without_pcie() -> Discipline {
        let mut discipline = Discipline {
            reads_flush: false,
            forwards: true,
            ..Discipline::contract()
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

    /// Returns for each stage the earlier stages for which it waits, as a set of bits.
    pub(crate) fn awaited(&self) -> [u8; STAGES_LEN] {
        let bits = |later: Stage| {
            let awaited = STAGES.into_iter().filter(|&earlier| self.orders(earlier, later));
            awaited.fold(0, |bits, earlier| bits | earlier.bit())
        };
        STAGES.map(bits)
    }
}

impl Stage {
    /// Returns the stage as a bit of a set of stages.
    pub(crate) const fn bit(self) -> u8 {
        1 << self as u8
    }
}
