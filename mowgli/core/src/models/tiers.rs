//! The tiers of networks as tables: what each orders among the operations of one queue pair.
//!
//! The tables are those of `docs/ordering-models.md`, which gives the source of every cell. They have the rows and columns of the NIC in
//! RDMA-TSO'24 Fig. 9; the rows of the CPU are the model's own on every tier. They relate events of *different* operations. The
//! events of one operation keep their order on every tier. A cell that [`Tier::Ibta`] orders and a tier does not is a cross here.
//!
//! Two places reorder. The *network* reorders operations before the NIC at the other side carries them out: crosses in `ippo` (and in
//! `oppo`). The *bus* between that NIC and memory reorders writes that the NIC has carried out: crosses in `oppo` alone. Where the
//! network reorders and the bus does not, [`Bus::Fifo`] makes the order in which the NIC hands accesses to the bus a choice of the
//! execution, in `nfo`.

use super::tables::{Cell, Order, Table};
use crate::event::{Event, Kind};
use crate::model::Tier;

use Order::{No as N, SameQueuePair as S};

/// The bus between a NIC and memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize)]
pub enum Bus {
    /// Keeps the order of writes, which the tables fix.
    Tables,
    /// Keeps the order of writes, which the execution chooses.
    Fifo,
    /// Keeps the order of writes except those into relaxed regions.
    Regions,
    /// Keeps no order.
    Unordered,
}

impl Bus {
    /// Returns the bus of a tier.
    pub const fn of(tier: Tier) -> Bus {
        match tier {
            Tier::Ibta => Bus::Tables,
            Tier::OooRw | Tier::OooAll => Bus::Fifo,
            Tier::PcieRelaxed => Bus::Regions,
            Tier::Unordered => Bus::Unordered,
        }
    }
}

/// Rows and columns of the NIC: `nlR`, `nrW`, `nrR`, `nlW`, `nF`, `nAR`.
type NicTable = [[Order; 6]; 6];

/// `ippo` and `oppo` of `ooo-rw`. Known: writes pass writes (G7), and data of reads is placed in any order (H9, I9); atomics wait for earlier
/// writes (G11). The fence waits for reads and atomics, not for writes (G10). Open, and crossed out: reads after writes (G8, G9), and
/// writes and reads after atomics (K7, K8, K9).
#[rustfmt::skip]
const OOO_RW: NicTable = [
    //            6    7    8    9   10   11
    //          nlR  nrW  nrR  nlW   nF  nAR
    /* F nlR */ [ S,   S,   S,   S,   S,   S],
    /* G nrW */ [ N,   N,   N,   N,   N,   S],
    /* H nrR */ [ N,   N,   N,   N,   S,   N],
    /* I nlW */ [ N,   N,   N,   N,   S,   N],
    /* J nF  */ [ S,   S,   S,   S,   S,   S],
    /* K nAR */ [ N,   N,   N,   N,   S,   S],
];

/// `ippo` and `oppo` of `ooo-all`: as `ooo-rw`, and atomics pass writes and one another (G11, K11).
#[rustfmt::skip]
const OOO_ALL: NicTable = [
    //            6    7    8    9   10   11
    //          nlR  nrW  nrR  nlW   nF  nAR
    /* F nlR */ [ S,   S,   S,   S,   S,   S],
    /* G nrW */ [ N,   N,   N,   N,   N,   N],
    /* H nrR */ [ N,   N,   N,   N,   S,   N],
    /* I nlW */ [ N,   N,   N,   N,   S,   N],
    /* J nF  */ [ S,   S,   S,   S,   S,   S],
    /* K nAR */ [ N,   N,   N,   N,   S,   N],
];

/// `ippo` and `oppo` of `unordered`: only a fence orders, and it too waits for reads and atomics alone. Sources may be read in any order
/// (row F).
#[rustfmt::skip]
const UNORDERED: NicTable = [
    //            6    7    8    9   10   11
    //          nlR  nrW  nrR  nlW   nF  nAR
    /* F nlR */ [ N,   N,   N,   N,   N,   N],
    /* G nrW */ [ N,   N,   N,   N,   N,   N],
    /* H nrR */ [ N,   N,   N,   N,   S,   N],
    /* I nlW */ [ N,   N,   N,   N,   S,   N],
    /* J nF  */ [ S,   S,   S,   S,   S,   S],
    /* K nAR */ [ N,   N,   N,   N,   S,   N],
];

/// `oppo` of `pcie-relaxed` between two events one of which is a write into a relaxed region; `ippo`, and `oppo` of other events, are those
/// of `ibta`. Known: a write passes writes (G7, I9) and is not flushed by a read (G8, G9). Disputed, and crossed out: it passes
/// atomics (G11).
#[rustfmt::skip]
const RELAXED: NicTable = [
    //            6    7    8    9   10   11
    //          nlR  nrW  nrR  nlW   nF  nAR
    /* F nlR */ [ S,   S,   S,   S,   S,   S],
    /* G nrW */ [ N,   N,   N,   N,   N,   N],
    /* H nrR */ [ N,   N,   N,   S,   S,   N],
    /* I nlW */ [ N,   N,   N,   N,   N,   N],
    /* J nF  */ [ S,   S,   S,   S,   S,   S],
    /* K nAR */ [ N,   S,   S,   S,   S,   S],
];

/// Rows and columns of [`NicTable`].
const NIC: [Kind; 6] = [
    Kind::NicLocalRead,
    Kind::NicRemoteWrite,
    Kind::NicRemoteRead,
    Kind::NicLocalWrite,
    Kind::NicFence,
    Kind::NicAtomicRead,
];

/// Crosses out the cells of a model's table that the tier's table does not order.
fn crossed(table: &Table, tier: &NicTable) -> Table {
    let mut crossed = table.clone();
    for (row, &earlier) in tier.iter().zip(&NIC) {
        for (&order, &later) in row.iter().zip(&NIC) {
            if order == N {
                crossed = crossed.with(Cell { earlier, later }, N);
            }
        }
    }
    crossed
}

/// Returns the tables of issue-preserved and of observation-preserved program order, given those of the model over `ibta`.
pub(super) fn tables(tier: Tier, ippo: &Table, oppo: &Table) -> (Table, Table) {
    let nic = match tier {
        Tier::Ibta | Tier::PcieRelaxed => return (ippo.clone(), oppo.clone()),
        Tier::OooRw => &OOO_RW,
        Tier::OooAll => &OOO_ALL,
        Tier::Unordered => &UNORDERED,
    };
    (crossed(ippo, nic), crossed(oppo, nic))
}

/// Returns the table of observation-preserved program order between two events one of which is a write into a relaxed region.
pub(super) fn relaxed(oppo: &Table) -> Table {
    crossed(oppo, &RELAXED)
}

/// Returns whether a receive completion says that all earlier writes of its queue pair are placed, and not only its own message.
///
/// Known: NCCL posts a write with immediate behind the data where the network reorders writes (`ooo-rw`), and the completion of a receive
/// makes earlier relaxed writes visible (`pcie-relaxed`). Open, and the weakest reading: the tiers on which receives are taken in any
/// order. On `ibta` the tables say it.
pub const fn announces_earlier(tier: Tier) -> bool {
    matches!(tier, Tier::OooRw | Tier::PcieRelaxed)
}

/// Returns whether the order of a thread's program orders two events one of which takes a receive, when issued (`ib`) or when observed.
/// Messages are sent in the order of a queue pair, and a network that keeps its order delivers them in it: taking a receive is ordered as the
/// write behind it is. It is no read over the bus, so it does not flush writes.
pub fn receive_order(tier: Tier, issued: bool, earlier: &Event, later: &Event) -> bool {
    use Kind::{
        NicAtomicRead, NicFence, NicLocalRead, NicLocalWrite, NicReceive, NicRemoteRead, NicRemoteWrite,
    };
    if earlier.kind.is_cpu() {
        return true;
    }
    if !earlier.same_queue_pair(later) {
        return false;
    }
    if earlier.same_instruction(later) {
        return true;
    }
    let in_order = !tier.reorders_network();
    match (earlier.kind, later.kind) {
        (NicFence, _) => true,
        (NicLocalRead, _) => tier != Tier::Unordered,
        (NicRemoteWrite, _) => in_order && issued,
        (NicReceive | NicAtomicRead, NicReceive) => in_order,
        (NicReceive, NicRemoteWrite | NicRemoteRead | NicLocalWrite | NicFence | NicAtomicRead) => in_order,
        _ => false,
    }
}

/// Returns whether the later operation's request for strong order puts it after the earlier event: after the writes of its queue pair. An
/// earlier atomic counts as a write, whether or not it writes.
pub fn strong_order(tier: Tier, earlier: &Event, later: &Event) -> bool {
    use Kind::{NicAtomicRead, NicRemoteRead, NicRemoteWrite};
    (later.strong || later.announces && announces_earlier(tier))
        && matches!(earlier.kind, NicRemoteWrite | NicAtomicRead)
        && matches!(later.kind, NicRemoteWrite | NicRemoteRead | NicAtomicRead)
        && earlier.same_queue_pair(later)
        && !earlier.same_instruction(later)
}
