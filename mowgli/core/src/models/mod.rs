//! The declarative models, which say which executions are consistent.
//!
//! A model is data, a [`Spec`]: two ordering tables, the parts whose union is `ib`, the parts whose union is `ob`, and the set of
//! instantaneous events. The file of a model states the predicate as its paper does, in relational expressions over [`Derived`].
//! The search in [`crate::declarative`] reads the same data, so that a change to a table changes both. Tests that seed faults use
//! this to see the purpose of each cell.

pub mod rdma_sc;
pub mod rdma_tso;
pub mod rdma_tso_recursive;
pub mod rdma_wait;
pub mod sc;
pub mod tables;
pub mod tiers;
pub mod tso;

mod derived;

pub use derived::Derived;

use serde::{Deserialize, Serialize};

use crate::event::{Event, Execution, Kind};
use crate::model::{Model, RmwAtomicity, Tier};
use tables::Table;
use tiers::Bus;

/// One term of the unions that define `ib` and `ob`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Part {
    /// The whole program order (`sc` only).
    Po,
    /// Issue-preserved program order, by the first table.
    Ippo,
    /// Observation-preserved program order (LOCO'26: `ppo`), by the second table.
    Oppo,
    /// Order of the subevents of one operation (LOCO'26 app. F.2).
    Iso,
    /// Reads-from.
    Rf,
    /// Reads-from outside a shared buffer (RDMA-TSO'24: `rf_b̄`, LOCO'26: `rf_e`).
    RfExternal,
    /// Reads-before.
    Rb,
    /// Reads-before inside a shared buffer (RDMA-TSO'24: `rb_b`, LOCO'26: `rb_i`).
    RbBuffer,
    /// Modification order.
    Mo,
    /// Polls-from.
    Pf,
    /// Polls-from of a get (RDMA-TSO'24: `[nlW]; pf`, LOCO'26: `pfg`).
    PfGet,
    /// Polls-from of a put (LOCO'26: `pfp`).
    PfPut,
    /// NIC flush order.
    Nfo,
    /// Order of remote read-modify-writes at a node (`docs/rmw.md`).
    Rao,
}

impl Part {
    /// Every part.
    pub const ALL: [Part; 14] = [
        Part::Po,
        Part::Ippo,
        Part::Oppo,
        Part::Iso,
        Part::Rf,
        Part::RfExternal,
        Part::Rb,
        Part::RbBuffer,
        Part::Mo,
        Part::Pf,
        Part::PfGet,
        Part::PfPut,
        Part::Nfo,
        Part::Rao,
    ];

    /// Returns the papers' notation.
    pub const fn name(self) -> &'static str {
        match self {
            Part::Po => "po",
            Part::Ippo => "ippo",
            Part::Oppo => "oppo",
            Part::Iso => "iso",
            Part::Rf => "rf",
            Part::RfExternal => "rf_e",
            Part::Rb => "rb",
            Part::RbBuffer => "rb_b",
            Part::Mo => "mo",
            Part::Pf => "pf",
            Part::PfGet => "[nlW];pf",
            Part::PfPut => "[nrW];pf",
            Part::Nfo => "nfo",
            Part::Rao => "rao",
        }
    }
}

/// A set of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Parts(u32);

impl Parts {
    /// Returns the union of these parts.
    pub const fn of(parts: &[Part]) -> Parts {
        let mut bits = 0;
        let mut i = 0;
        while i < parts.len() {
            bits |= 1 << parts[i] as u32;
            i += 1;
        }
        Parts(bits)
    }

    /// Returns whether the part is a term of the union.
    pub const fn contains(self, part: Part) -> bool {
        self.0 >> part as u32 & 1 == 1
    }

    /// Returns the union without one term.
    #[must_use]
    pub const fn without(self, part: Part) -> Parts {
        Parts(self.0 & !(1 << part as u32))
    }

    /// Returns the union with one more term.
    #[must_use]
    pub const fn with(self, part: Part) -> Parts {
        Parts(self.0 | 1 << part as u32)
    }

    /// Returns the terms, in the order of [`Part::ALL`].
    pub fn iter(self) -> impl Iterator<Item = Part> {
        Part::ALL.into_iter().filter(move |&p| self.contains(p))
    }
}

/// A set of event kinds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Kinds(u32);

impl Kinds {
    /// Makes the set of these kinds.
    pub const fn of(kinds: &[Kind]) -> Kinds {
        let mut bits = 0;
        let mut i = 0;
        while i < kinds.len() {
            bits |= 1 << kinds[i] as u32;
            i += 1;
        }
        Kinds(bits)
    }

    /// Returns whether the kind is in the set.
    pub const fn contains(self, kind: Kind) -> bool {
        self.0 >> kind as u32 & 1 == 1
    }

    /// Returns the set with one kind added, or removed if it is a member.
    #[must_use]
    pub const fn toggled(self, kind: Kind) -> Kinds {
        Kinds(self.0 ^ 1 << kind as u32)
    }
}

/// A declarative model as data.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Spec {
    /// The model.
    pub model: Model,
    /// The source of the definition.
    pub source: &'static str,
    /// The figure with the ordering tables.
    pub figure: &'static str,
    /// Table of issue-preserved program order.
    pub ippo: Table,
    /// Table of observation-preserved program order.
    pub oppo: Table,
    /// Terms of `ib`.
    pub ib: Parts,
    /// Terms of `ob` (`hb` of LOCO'26).
    pub ob: Parts,
    /// True if the issue of an instantaneous event is its observation, so that `ib` and `ob` meet there: condition (3)
    /// of Def. 4.4, or the term `[Inst]; ib` of the other definitions.
    pub joint: bool,
    /// The kinds that are *not* instantaneous: such an event is issued first and observed later.
    pub buffered: Kinds,
    /// True if the CPU forwards from its store buffer (TSO).
    pub forward_cpu: bool,
    /// True if the NIC forwards from the write buffers of the queue pair (no PCIe guarantee).
    pub forward_nic: bool,
    /// True if NIC reads and writes of a queue pair are totally ordered (`nfo`, the PCIe guarantee).
    pub flushes: bool,
    /// True if the tables relate only subevents of different instructions, and `iso` those of one instruction (LOCO'26).
    pub subevents: bool,
    /// True if a failed CAS is a fence too (TSO), false if it is only a read (`sc`, RDMA^SC).
    pub failed_cas_fences: bool,
    /// Atomicity of remote read-modify-writes.
    pub atomicity: RmwAtomicity,
    /// The order of the network, if it is not that of the papers.
    pub network: Option<Network>,
}

/// The data of a model over another network, besides its tables.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Network {
    /// The tier.
    pub tier: Tier,
    /// The bus between a NIC and memory.
    pub bus: Bus,
    /// True if operations may ask for strong order. False only in a changed model.
    pub requests: bool,
    /// `ippo` and `oppo` between the events of one operation, which are those of the papers.
    pub within: [Table; 2],
    /// `oppo` between two events one of which is a write into a relaxed region, on a tier with such regions.
    pub relaxed: Option<Table>,
}

impl Spec {
    /// Returns the data of a model.
    pub fn of(model: Model, atomicity: RmwAtomicity) -> Spec {
        let spec = Spec::over_ibta(model.base(), atomicity);
        match model.tier() {
            Tier::Ibta => spec,
            tier => spec.over(model, tier),
        }
    }

    /// Returns the data of a model of this data's base over a network of another tier.
    fn over(self, model: Model, tier: Tier) -> Spec {
        let (ippo, oppo) = tiers::tables(tier, &self.ippo, &self.oppo);
        let bus = Bus::of(tier);
        let relaxed = tier.has_relaxed_regions().then(|| tiers::relaxed(&self.oppo));
        Spec {
            model,
            flushes: self.flushes && bus != Bus::Unordered,
            network: Some(Network {
                tier,
                bus,
                requests: true,
                within: [self.ippo, self.oppo],
                relaxed,
            }),
            ippo,
            oppo,
            ..self
        }
    }

    fn over_ibta(model: Model, atomicity: RmwAtomicity) -> Spec {
        match model {
            Model::Sc => sc::spec(atomicity),
            Model::Tso => tso::spec(atomicity),
            Model::RdmaSc => rdma_sc::spec(atomicity),
            Model::RdmaTso => rdma_tso::spec(atomicity),
            Model::RdmaTsoNoPcie => rdma_tso::spec_without_pcie(atomicity),
            Model::RdmaWait | Model::Tiered(_) => rdma_wait::spec(atomicity),
        }
    }

    /// Decides whether an execution is consistent, by the predicate of the model's source.
    pub fn is_consistent(&self, execution: &Execution) -> bool {
        let derived = Derived::new(execution, self);
        match self.model.base() {
            Model::Sc => sc::is_consistent(&derived),
            Model::Tso | Model::RdmaTso | Model::RdmaTsoNoPcie => rdma_tso::is_consistent(&derived),
            Model::RdmaSc => rdma_sc::is_consistent(&derived),
            Model::RdmaWait | Model::Tiered(_) => rdma_wait::is_consistent(&derived),
        }
    }

    /// Returns whether issue and observation of events of this kind coincide.
    pub fn is_instantaneous(&self, event: &Event) -> bool {
        !self.buffered.contains(event.kind)
    }

    /// Returns whether the table behind `part` (`Po`, `Ippo`, `Oppo` or `Iso`) keeps the program-order edge between these events.
    pub fn preserves(&self, part: Part, earlier: &Event, later: &Event) -> bool {
        let inside = earlier.same_instruction(later);
        if self.subevents && inside && part != Part::Po {
            return false;
        }
        if matches!(part, Part::Ippo | Part::Oppo)
            && (earlier.kind == Kind::NicReceive || later.kind == Kind::NicReceive)
        {
            return tiers::receive_order(self.tier(), part == Part::Ippo, earlier, later);
        }
        match part {
            Part::Po => true,
            Part::Ippo => self.ippo_of(earlier, later).orders(earlier, later) || self.asks(earlier, later),
            Part::Oppo => {
                !Spec::returns_unplaced(earlier, later)
                    && (self.oppo_of(earlier, later).orders(earlier, later) || self.asks(earlier, later))
            }
            _ => false,
        }
    }

    /// Returns the table of `ippo` that applies to these events.
    fn ippo_of(&self, earlier: &Event, later: &Event) -> &Table {
        match &self.network {
            Some(network) if earlier.same_instruction(later) => &network.within[0],
            _ => &self.ippo,
        }
    }

    /// Returns the table of `oppo` that applies to these events.
    pub(crate) fn oppo_of(&self, earlier: &Event, later: &Event) -> &Table {
        match &self.network {
            Some(network) if earlier.same_instruction(later) => &network.within[1],
            Some(Network {
                relaxed: Some(table), ..
            }) if earlier.relaxed || later.relaxed => table,
            _ => &self.oppo,
        }
    }

    /// Returns whether the later operation's request for strong order relates these events. The papers' tables order them anyway.
    fn asks(&self, earlier: &Event, later: &Event) -> bool {
        self.network
            .as_ref()
            .is_some_and(|n| n.requests && tiers::strong_order(n.tier, earlier, later))
    }

    /// Returns whether these events are ordered only because the later operation asks for strong order.
    pub fn is_asked(&self, part: Part, earlier: &Event, later: &Event) -> bool {
        let table = match part {
            Part::Ippo => self.ippo_of(earlier, later),
            _ => self.oppo_of(earlier, later),
        };
        self.asks(earlier, later) && !table.orders(earlier, later)
    }

    /// Returns the tier of the model's network.
    pub fn tier(&self) -> Tier {
        self.network.as_ref().map_or(Tier::Ibta, |n| n.tier)
    }

    /// Returns whether `iso` orders these events in `ob`. It agrees with [`Self::iso_issue`] with one exception: the result of an RMW may
    /// return before its write is placed.
    pub fn iso_observe(&self, earlier: &Event, later: &Event) -> bool {
        self.iso_issue(earlier, later) && !Spec::returns_unplaced(earlier, later)
    }

    /// Returns whether these are the two writes of one remote read-modify-write. Its completion does not place its remote write, so
    /// cell G9 of `oppo` does not apply between them (`docs/rmw.md`).
    pub(crate) fn returns_unplaced(earlier: &Event, later: &Event) -> bool {
        earlier.same_instruction(later)
            && earlier.rmw
            && (earlier.kind, later.kind) == (Kind::NicRemoteWrite, Kind::NicLocalWrite)
    }

    /// Returns whether `iso` orders these events in `ib`: it orders the subevents of one instruction.
    pub fn iso_issue(&self, earlier: &Event, later: &Event) -> bool {
        self.subevents && earlier.same_instruction(later)
    }

    /// Returns whether `read` can be served from the buffer in which `write` waits. On these pairs `rf` is `rf_b` and `rb` is `rb_b`. For
    /// the model without the PCIe guarantee RDMA-TSO'24 says *same queue pair*. A queue pair has two write buffers, so this function
    /// asks for the matching one, which makes a difference only when a node is its own peer.
    pub fn forwards(&self, write: &Event, read: &Event) -> bool {
        match (write.kind, read.kind) {
            (Kind::LocalWrite, Kind::LocalRead) => self.forward_cpu && write.same_thread(read),
            (Kind::NicRemoteWrite, Kind::NicRemoteRead) | (Kind::NicLocalWrite, Kind::NicLocalRead) => {
                self.forward_nic && write.same_queue_pair(read)
            }
            _ => false,
        }
    }

    /// Returns whether `rao` orders atomics at one node. Under `glob` each atomic is one instantaneous event, so no two overlap and `rao`
    /// is not needed (`docs/rmw.md`).
    pub fn orders_atomics(&self) -> bool {
        self.atomicity == RmwAtomicity::Hca
    }

    /// Returns whether `nfo` must order these two events in one direction or the other: a read and a write of one side of a queue pair
    /// (RDMA-TSO'24 Def. 4.2). On a tier whose network reorders and whose bus does not, it also orders the writes of one side, and
    /// atomic reads with remote writes, all of which the papers' tables order. Of two writes the earlier in program order comes first here.
    /// Inlined data are not read over PCIe, so their read flushes nothing.
    pub fn flush_pair(&self, first: &Event, second: &Event) -> bool {
        use Kind::{NicAtomicRead, NicLocalRead, NicLocalWrite, NicRemoteRead, NicRemoteWrite};
        if !self.flushes || first.inlined && first.kind == NicLocalRead || !first.same_queue_pair(second) {
            return false;
        }
        let fifo = self.network.as_ref().is_some_and(|n| n.bus == Bus::Fifo);
        match (first.kind, second.kind) {
            (NicLocalRead, NicLocalWrite) | (NicRemoteRead, NicRemoteWrite) => !self.is_relaxed(second),
            (NicLocalWrite, NicLocalWrite) | (NicRemoteWrite, NicRemoteWrite) => {
                fifo && first.instance < second.instance
            }
            (NicAtomicRead, NicRemoteWrite) => fifo && !first.same_instruction(second),
            _ => false,
        }
    }

    /// Returns whether the event is a write that the bus may reorder.
    fn is_relaxed(&self, event: &Event) -> bool {
        event.relaxed && self.network.as_ref().is_some_and(|n| n.bus == Bus::Regions)
    }
}
