//! The orders that a deferred NIC keeps, so that a test can take one of them away.
//!
//! [`Discipline::contract`] keeps what the contract promises and nothing else. The others are fabrics that are known to be weaker or
//! stronger, on which `loco-litmus` tests whether it finds out. Cells are those of RDMA-TSO'24 Fig. 9, the last of `docs/rmw.md`.

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
}

use Stage::{Atomic, LocalRead, LocalWrite, RemoteRead, RemoteWrite};

/// The stages, in the order of their numbers.
const STAGES: [Stage; 5] = [LocalRead, RemoteWrite, RemoteRead, Atomic, LocalWrite];

/// The orders that a deferred NIC keeps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Discipline {
    /// `[earlier][later]`: whether a stage of an operation comes before a stage of a later operation of its queue pair.
    ordered: [[bool; 5]; 5],
    /// Whether a fenced operation waits for earlier gets and read-modify-writes.
    pub fences: bool,
    /// Whether a put completes only when its source has been read.
    pub put_waits_for_read: bool,
    /// Whether a put completes only when it is placed. The contract does not promise that.
    pub put_waits_for_placement: bool,
    /// Whether a get or read-modify-write completes only when its result has landed.
    pub get_waits_for_result: bool,
    /// Whether a read-modify-write is one step.
    pub atomics_are_atomic: bool,
    /// Whether a get sees the puts of its queue pair that are not placed yet (RDMA-TSO'24 section 4, without the PCIe
    /// guarantees).
    pub gets_see_puts: bool,
}

impl Default for Discipline {
    fn default() -> Discipline {
        Discipline::contract()
    }
}

impl Discipline {
    /// Keeps what the contract promises (LOCO'26 Fig. 10, F6 to I9, and for atomics `docs/rmw.md`).
    pub fn contract() -> Discipline {
        let ordered = |earlier: Stage, later: Stage| match earlier {
            LocalRead => true,
            RemoteWrite | Atomic => later != LocalRead,
            RemoteRead | LocalWrite => later == LocalWrite,
        };
        Discipline {
            ordered: STAGES.map(|earlier| STAGES.map(|later| ordered(earlier, later))),
            fences: true,
            put_waits_for_read: true,
            put_waits_for_placement: false,
            get_waits_for_result: true,
            atomics_are_atomic: true,
            gets_see_puts: false,
        }
    }

    /// Keeps the operations of a queue pair in order: each begins when the one before has ended.
    pub fn in_order() -> Discipline {
        Discipline {
            ordered: [[true; 5]; 5],
            ..Discipline::contract()
        }
    }

    /// Keeps what is left without the PCIe guarantees: a get does not place earlier puts, but sees them.
    pub fn without_pcie() -> Discipline {
        Discipline {
            gets_see_puts: true,
            ..Discipline::contract()
                .with(RemoteWrite, RemoteRead, false)
                .with(RemoteWrite, LocalWrite, false)
        }
    }

    /// Returns the discipline with one order more, or less.
    #[must_use]
    pub fn with(mut self, earlier: Stage, later: Stage, ordered: bool) -> Discipline {
        self.ordered[earlier as usize][later as usize] = ordered;
        self
    }

    /// Returns whether a stage `earlier` of one operation comes before a stage `later` of a later operation on its queue pair.
    pub fn orders(&self, earlier: Stage, later: Stage) -> bool {
        self.ordered[earlier as usize][later as usize]
    }
}
