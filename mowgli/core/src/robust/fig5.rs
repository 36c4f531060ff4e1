//! Robust'25 Fig. 5 as data: what it takes to keep a pair of accesses in order.
//!
//! The figure is read cell by cell; guaranteed-before ([`super::gb`]) is a closure and is larger in exactly two cells: in C6 a get and a
//! remote fence suffice without a poll, in E8 a remote fence and then a put. Reasons name a cell and its [`Need`], from which a reader
//! or [mending](crate::robust) sees what to add. The last row and the last two columns, for remote read-modify-writes, are ours.

use std::fmt;

use serde::Serialize;

use crate::event::{Event, Kind};
use crate::models::Spec;

/// The means that order the pairs of a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Need {
    /// A tick: nothing is needed.
    Given,
    /// `P`: a poll of the earlier operation before the later one.
    Poll,
    /// `F`: a poll of the earlier operation, or a remote fence between the two.
    Fence,
    /// `GP`: a get after the earlier operation on its queue pair, and a poll of that get, before the later one.
    GetAndPoll,
    /// Under TSO, a CPU write and a CPU read: a memory fence or a compare-and-swap between the two (Def. 14).
    MemoryFence,
    /// The two writes of one remote read-modify-write, whose result may come back before its write is placed (`docs/rmw.md`): nothing
    /// can come between them.
    Impossible,
}

impl fmt::Display for Need {
    /// Writes what is needed, as an instruction to the reader.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Need::Given => "nothing",
            Need::Poll => "a poll of the earlier operation",
            Need::Fence => "a remote fence between the two, or a poll of the earlier operation",
            Need::GetAndPoll => "a get on the earlier operation's queue pair and a poll of that get",
            Need::MemoryFence => "an mfence or a compare-and-swap between the two",
            Need::Impossible => "another program: nothing can come between the two",
        })
    }
}

/// A cell: row and column of the figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cell {
    row: u8,
    column: u8,
}

use Need::{Fence as F, GetAndPoll as GP, Given as Y, Poll as P};

/// The figure. Columns 6 to 9 of row A are not applicable: a CPU event is on no queue pair. They hold the entry of columns 2 to 5.
#[rustfmt::skip]
pub const FIG5: [[Need; 11]; 6] = [
    //         different queue pair      same queue pair       nAR (ours)
    //           1   2   3   4   5       6   7   8   9         10  11
    //         CPU nlR nrW nrR nlW     nlR nrW nrR nlW        diff same
    /* A CPU */ [ Y,  Y,  Y,  Y,  Y,      Y,  Y,  Y,  Y,        Y,  Y],
    /* B nlR */ [ P,  P,  P,  P,  P,      Y,  Y,  Y,  Y,        P,  Y],
    /* C nrW */ [GP, GP, GP, GP, GP,     GP,  Y,  Y,  Y,       GP,  Y],
    /* D nrR */ [ P,  P,  P,  P,  P,      F,  F,  F,  Y,        P,  F],
    /* E nlW */ [ P,  P,  P,  P,  P,      F,  F,  P,  Y,        P,  P],
    /* F nAR */ [ P,  P,  P,  P,  P,      F,  Y,  Y,  Y,        P,  Y],
];

impl Cell {
    /// Returns every cell, row by row.
    pub fn all() -> impl Iterator<Item = Cell> {
        (0..6).flat_map(|row| (0..11).map(move |column| Cell { row, column }))
    }

    /// Returns the cell of two events of one thread, earlier first; `None` if one of them accesses no memory.
    pub fn of(earlier: &Event, later: &Event) -> Option<Cell> {
        let same = earlier.same_queue_pair(later);
        let row = match earlier.kind {
            Kind::LocalRead | Kind::LocalWrite | Kind::Cas => 0,
            Kind::NicLocalRead => 1,
            Kind::NicRemoteWrite => 2,
            Kind::NicRemoteRead => 3,
            Kind::NicLocalWrite => 4,
            Kind::NicAtomicRead => 5,
            Kind::Fence | Kind::Poll | Kind::NicFence | Kind::NicReceive => return None,
        };
        let (different, shared) = match later.kind {
            Kind::LocalRead | Kind::LocalWrite | Kind::Cas => (0, 0),
            Kind::NicLocalRead => (1, 5),
            Kind::NicRemoteWrite => (2, 6),
            Kind::NicRemoteRead => (3, 7),
            Kind::NicLocalWrite => (4, 8),
            Kind::NicAtomicRead => (9, 10),
            Kind::Fence | Kind::Poll | Kind::NicFence | Kind::NicReceive => return None,
        };
        Some(Cell {
            row,
            column: if same { shared } else { different },
        })
    }

    /// Returns the figure's entry.
    pub fn need(self) -> Need {
        FIG5[usize::from(self.row)][usize::from(self.column)]
    }

    /// Returns whether the row or column is our extension to remote read-modify-writes.
    pub fn is_ours(self) -> bool {
        self.row == 5 || self.column >= 9
    }
}

impl fmt::Display for Cell {
    /// Writes the figure's name: `E6` is row E, column 6.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", char::from(b'A' + self.row), self.column + 1)
    }
}

impl Serialize for Cell {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Returns what keeps two accesses of one thread in order under a model: the entry of Fig. 5, and a memory fence where the model lets a
/// CPU read overtake a CPU write.
pub fn need(spec: &Spec, earlier: &Event, later: &Event) -> Option<Need> {
    let cell = Cell::of(earlier, later)?;
    let cpu = earlier.kind.is_cpu() && later.kind.is_cpu();
    match cpu && !spec.oppo.orders(earlier, later) {
        true => Some(Need::MemoryFence),
        false if Spec::returns_unplaced(earlier, later) => Some(Need::Impossible),
        // E7 holds of a put, whose local read comes first. A read-modify-write has no local read.
        false if later.rmw && (earlier.kind, later.kind) == (Kind::NicLocalWrite, Kind::NicRemoteWrite) => {
            Some(Need::Poll)
        }
        false => Some(cell.need()),
    }
}
