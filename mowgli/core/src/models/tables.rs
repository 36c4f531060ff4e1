//! The ordering tables of the models, which say which edges of program order are preserved, and on what condition.
//!
//! Each table has the layout of its figure, so that it can be checked against the paper line by line. The last row and column (`K` and
//! `11`, the NIC atomic read) are the extension of `docs/rmw.md`. The NIC columns of RDMA-TSO'24 Fig. 9 are copied from Robust'25
//! Fig. 4, which is identical there.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::event::{Event, Kind};

/// One entry of an ordering table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Order {
    /// A tick: ordered.
    Yes,
    /// A cross: not ordered.
    No,
    /// `sqp` (or `SN`): ordered if both events are on the same queue pair.
    SameQueuePair,
}

use Order::{No as N, SameQueuePair as S, Yes as Y};

/// Position in a table: the earlier event's row, the later event's column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// Kind of the earlier event.
    pub earlier: Kind,
    /// Kind of the later event.
    pub later: Kind,
}

impl Cell {
    /// Returns every cell, row by row.
    pub fn all() -> impl Iterator<Item = Cell> {
        Kind::ALL
            .into_iter()
            .flat_map(|earlier| Kind::ALL.into_iter().map(move |later| Cell { earlier, later }))
    }
}

/// Writes the cell's name in the figures: `G8` is row G, column 8.
impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let row = char::from(b'A' + self.earlier.index() as u8);
        write!(f, "{row}{}", self.later.index() + 1)
    }
}

impl Cell {
    /// Returns the name of the cell in Robust'25 Fig. 4, whose first row and column stand for every CPU event.
    pub fn name_in_fig4(self) -> String {
        let row = char::from(b'A' + narrow(self.earlier.index()) as u8);
        format!("{row}{}", narrow(self.later.index()) + 1)
    }
}

/// An ordering table over all kinds of events.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Table {
    rows: [[Order; 11]; 11],
}

impl Table {
    /// Returns the entry of a cell; a kind without a row orders nothing.
    pub fn get(&self, cell: Cell) -> Order {
        let row = self.rows.get(cell.earlier.index());
        let entry = row.and_then(|row| row.get(cell.later.index()));
        entry.copied().unwrap_or(Order::No)
    }

    /// Returns the table with one entry replaced; the same table for a kind without a row.
    #[must_use]
    pub fn with(&self, cell: Cell, order: Order) -> Table {
        let mut table = self.clone();
        let row = table.rows.get_mut(cell.earlier.index());
        if let Some(entry) = row.and_then(|row| row.get_mut(cell.later.index())) {
            *entry = order;
        }
        table
    }

    /// Returns whether the table orders `earlier` before `later`, given that they are in program order.
    pub fn orders(&self, earlier: &Event, later: &Event) -> bool {
        let cell = Cell {
            earlier: earlier.kind,
            later: later.kind,
        };
        match self.get(cell) {
            Order::Yes => true,
            Order::No => false,
            Order::SameQueuePair => earlier.same_queue_pair(later),
        }
    }

    /// Returns every cell in which the two tables differ.
    pub fn differences(&self, other: &Table) -> Vec<Cell> {
        Cell::all().filter(|&c| self.get(c) != other.get(c)).collect()
    }
}

/// `ippo`, RDMA-TSO'24 Fig. 9, upper table.
#[rustfmt::skip]
pub const IPPO: Table = Table {
    rows: [
        //             1    2    3    4    5    6    7    8    9   10   11
        //            lR   lW  CAS    F    P  nlR  nrW  nrR  nlW   nF  nAR
        /* A lR  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* B lW  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* C CAS */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* D F   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* E P   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* F nlR */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* G nrW */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   S,   S],
        /* H nrR */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   S,   N],
        /* I nlW */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   S,   N],
        /* J nF  */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* K nAR */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   S,   S],
    ],
};

/// `oppo`, RDMA-TSO'24 Fig. 9, lower table. It differs from [`IPPO`] in B1, B5, G10 and I10, where a write has left its issuer and still
/// waits in a buffer.
#[rustfmt::skip]
pub const OPPO: Table = Table {
    rows: [
        //             1    2    3    4    5    6    7    8    9   10   11
        //            lR   lW  CAS    F    P  nlR  nrW  nrR  nlW   nF  nAR
        /* A lR  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* B lW  */ [  N,   Y,   Y,   Y,   N,   Y,   Y,   Y,   Y,   Y,   Y],
        /* C CAS */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* D F   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* E P   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* F nlR */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* G nrW */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   N,   S],
        /* H nrR */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   S,   N],
        /* I nlW */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   N,   N],
        /* J nF  */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* K nAR */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   S,   S],
    ],
};

/// `oppo` without the PCIe guarantee (RDMA-TSO'24 section 4, last variant): G8 and G9 become crosses, because a later
/// NIC read no longer flushes the remote write buffer.
#[rustfmt::skip]
pub const OPPO_NO_PCIE: Table = Table {
    rows: [
        //             1    2    3    4    5    6    7    8    9   10   11
        //            lR   lW  CAS    F    P  nlR  nrW  nrR  nlW   nF  nAR
        /* A lR  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* B lW  */ [  N,   Y,   Y,   Y,   N,   Y,   Y,   Y,   Y,   Y,   Y],
        /* C CAS */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* D F   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* E P   */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* F nlR */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* G nrW */ [  N,   N,   N,   N,   N,   N,   S,   N,   N,   N,   S],
        /* H nrR */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   S,   N],
        /* I nlW */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   N,   N],
        /* J nF  */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* K nAR */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   S,   S],
    ],
};

/// `ippo` of RDMA^SC, Robust'25 Fig. 4, left table.
#[rustfmt::skip]
pub const IPPO_SC: Table = from_fig4([
    //             1    2    3    4    5    6
    //           cpu  nlR  nrW  nrR  nlW   nF  nAR
    /* A cpu */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y],
    /* B nlR */ [  N,   S,   S,   S,   S,   S,   S],
    /* C nrW */ [  N,   N,   S,   S,   S,   S,   S],
    /* D nrR */ [  N,   N,   N,   N,   S,   S,   N],
    /* E nlW */ [  N,   N,   N,   N,   S,   S,   N],
    /* F nF  */ [  N,   S,   S,   S,   S,   S,   S],
    /* . nAR */ [  N,   N,   S,   S,   S,   S,   S],
]);

/// `oppo` of RDMA^SC, Robust'25 Fig. 4, right table.
#[rustfmt::skip]
pub const OPPO_SC: Table = from_fig4([
    //             1    2    3    4    5    6
    //           cpu  nlR  nrW  nrR  nlW   nF  nAR
    /* A cpu */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y],
    /* B nlR */ [  N,   S,   S,   S,   S,   S,   S],
    /* C nrW */ [  N,   N,   S,   S,   S,   N,   S],
    /* D nrR */ [  N,   N,   N,   N,   S,   S,   N],
    /* E nlW */ [  N,   N,   N,   N,   S,   N,   N],
    /* F nF  */ [  N,   S,   S,   S,   S,   S,   S],
    /* . nAR */ [  N,   N,   S,   S,   S,   S,   S],
]);

/// `to`, the stamp order of the RDMA libraries, LOCO'26 Fig. 10, without `aGF`, which the litmus language does not have. Its `SN` is `S`
/// here: the stamps of one thread with the same index node are those of one queue pair.
#[rustfmt::skip]
pub const TO: Table = Table {
    rows: [
        //              1    2    3    4    5    6    7    8    9   10   11
        // a..         CR   CW  CAS   MF   WT  NLR  NRW  NRR  NLW   RF  NAR
        /* A aCR  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* B aCW  */ [  N,   Y,   Y,   Y,   N,   Y,   Y,   Y,   Y,   Y,   Y],
        /* C aCAS */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* D aMF  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* E aWT  */ [  Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y,   Y],
        /* F aNLR */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* G aNRW */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   N,   S],
        /* H aNRR */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   S,   N],
        /* I aNLW */ [  N,   N,   N,   N,   N,   N,   N,   N,   S,   N,   N],
        /* J aRF  */ [  N,   N,   N,   N,   N,   S,   S,   S,   S,   S,   S],
        /* K aNAR */ [  N,   N,   N,   N,   N,   N,   S,   S,   S,   S,   S],
    ],
};

/// Spreads the seven rows and columns of Robust'25 Fig. 4 (all CPU events share the first) over the eleven kinds.
const fn from_fig4(fig: [[Order; 7]; 7]) -> Table {
    let mut rows = [[N; 11]; 11];
    let mut earlier = 0;
    while earlier < 11 {
        let mut later = 0;
        while later < 11 {
            rows[earlier][later] = fig[narrow(earlier)][narrow(later)];
            later += 1;
        }
        earlier += 1;
    }
    Table { rows }
}

/// Returns the row or column in Robust'25 Fig. 4, where kinds 0 to 4 (those of the CPU) share the first.
const fn narrow(kind: usize) -> usize {
    if kind < 5 { 0 } else { kind - 4 }
}
