//! The network below the libraries: the stamp order `to` (LOCO'26 Fig. 10) and the issue order `ippo` of RDMA^WAIT, by tier.
//!
//! A tier says what a network orders among the operations of one thread towards one node (`docs/ordering-models.md`). All libraries of a
//! program share the network, so the stamp order is a property of the whole execution. The tables are those of `mowgli`'s model of
//! RDMA^WAIT. On [`Tier::PcieRelaxed`] all memory is in relaxed regions, since clients do not name regions.
//!
//! The stamps `aGF` and `aPF` are in no table of a tier: they are promises of libraries, and a fence is a fence on every network. They
//! have their row and column of Fig. 10 on every tier; whether an implementation keeps the promise depends on the tier.

use std::sync::LazyLock;

use mowgli::event::Kind;
use mowgli::model::{Model, RmwAtomicity, Tier};
use mowgli::models::Spec;
use mowgli::models::tables::{Cell, Order, TO, Table};
use mowgli::models::tiers::Bus;

use crate::event::{Stamp, StampKind};

/// The orders that a network keeps among the subevents of one thread.
#[derive(Debug)]
pub struct Network {
    tier: Tier,
    /// `ippo`.
    issue: Table,
    /// `to`.
    place: Table,
    bus: Bus,
}

static NETWORKS: LazyLock<[Network; Tier::ALL.len()]> = LazyLock::new(|| Tier::ALL.map(Network::new));

impl Network {
    /// Returns the network of a tier.
    pub fn of(tier: Tier) -> &'static Network {
        // `Tier::ALL` has the tiers in the order of their declaration.
        &NETWORKS[tier as usize]
    }

    fn new(tier: Tier) -> Network {
        // The network of RDMA^WAIT is a parameter, so it has a model on every tier.
        let model = Model::RdmaWait.on(tier).unwrap_or(Model::RdmaWait);
        let spec = Spec::of(model, RmwAtomicity::Hca);
        let relaxed = spec.network.and_then(|network| network.relaxed);
        Network {
            tier,
            issue: spec.ippo,
            place: relaxed.unwrap_or(spec.oppo),
            bus: Bus::of(tier),
        }
    }

    /// Returns the tier.
    pub fn tier(&self) -> Tier {
        self.tier
    }

    /// Returns whether the stamp order `to` puts a stamp before one of a later call.
    pub fn before(&self, earlier: Stamp, later: Stamp) -> bool {
        if earlier.kind == StampKind::Cw && later.kind == StampKind::Pf {
            return false;
        }
        let table = match is_fence(earlier) || is_fence(later) {
            true => &TO,
            false => &self.place,
        };
        has(table, earlier, later) || is_asked(earlier, later)
    }

    /// Returns whether `ippo` of RDMA^WAIT (F.2) puts a stamp before one of a later call.
    pub fn issued_before(&self, earlier: Stamp, later: Stamp) -> bool {
        has(&self.issue, earlier, later) || is_asked(earlier, later)
    }

    /// Returns whether `nfo` orders two accesses that a network card makes for one thread and node, in one direction or the other.
    /// `later_call` says whether the second is of a later call than the first.
    ///
    /// In the papers it orders reads with writes. Where the network reorders and the bus does not, it also orders writes with one
    /// another, and atomic reads with remote writes. Of two writes the one of the earlier call comes first here.
    pub fn flushes(&self, first: StampKind, second: StampKind, same_call: bool, later_call: bool) -> bool {
        use StampKind::{Nar, Nlr, Nlw, Nrr, Nrw};
        let fifo = self.bus == Bus::Fifo;
        match (first, second) {
            (Nlr, Nlw) | (Nrr, Nrw) => fifo || self.bus == Bus::Tables,
            (Nlw, Nlw) | (Nrw, Nrw) => fifo && later_call,
            (Nar, Nrw) => fifo && !same_call,
            _ => false,
        }
    }
}

impl Default for &Network {
    fn default() -> Self {
        Network::of(Tier::Ibta)
    }
}

fn is_fence(stamp: Stamp) -> bool {
    matches!(stamp.kind, StampKind::Gf | StampKind::Pf)
}

/// Returns whether the later stamp is of a call that asks to come after the earlier writes towards its node. An earlier atomic read
/// counts as a write.
fn is_asked(earlier: Stamp, later: Stamp) -> bool {
    use StampKind::{Nar, Nrr, Nrw};
    later.strong
        && earlier.node == later.node
        && matches!(earlier.kind, Nrw | Nar)
        && matches!(later.kind, Nrw | Nrr | Nar)
}

/// Returns whether a table orders two stamps.
fn has(table: &Table, earlier: Stamp, later: Stamp) -> bool {
    let cell = Cell {
        earlier: kind(earlier.kind, true),
        later: kind(later.kind, false),
    };
    match table.get(cell) {
        Order::Yes => true,
        Order::No => false,
        Order::SameQueuePair => earlier.node == later.node,
    }
}

/// Returns the event type of RDMA^TSO whose row (`earlier`) or column of the stamp order a kind of stamp has. Rows E and K of LOCO'26
/// Fig. 10 are equal, and so are columns 9 and 11.
const fn kind(stamp: StampKind, earlier: bool) -> Kind {
    match stamp {
        StampKind::Cr => Kind::LocalRead,
        StampKind::Cw => Kind::LocalWrite,
        StampKind::Cas => Kind::Cas,
        StampKind::Mf => Kind::Fence,
        StampKind::Wt => Kind::Poll,
        StampKind::Nlr => Kind::NicLocalRead,
        StampKind::Nrw => Kind::NicRemoteWrite,
        StampKind::Nrr => Kind::NicRemoteRead,
        StampKind::Nlw => Kind::NicLocalWrite,
        StampKind::Rf => Kind::NicFence,
        StampKind::Gf | StampKind::Pf if earlier => Kind::Poll,
        StampKind::Gf | StampKind::Pf => Kind::NicLocalWrite,
        StampKind::Nar => Kind::NicAtomicRead,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Node;

    /// The papers' order is that of Fig. 10, and the issue order is `ppo` with the four terms that F.2 adds.
    #[test]
    fn the_papers_network_has_the_papers_orders() {
        use StampKind::{Cr, Cw, Nlw, Nrw, Rf, Wt};
        let network = Network::of(Tier::Ibta);
        for a in Stamp::all(2) {
            for b in Stamp::all(2) {
                let adds = matches!((a.kind, b.kind), (Cw, Cr | Wt))
                    || matches!((a.kind, b.kind), (Nrw | Nlw, Rf)) && a.node == b.node;
                if !is_fence(a) && !is_fence(b) {
                    assert_eq!(
                        network.issued_before(a, b),
                        network.before(a, b) || adds,
                        "{a} {b}"
                    );
                    assert_eq!(network.before(a, b), has(&TO, a, b), "{a} {b}");
                }
            }
        }
    }

    /// Every tier orders what the next weaker one orders, and a request orders remote accesses after writes on each.
    #[test]
    fn tiers_are_weaker_one_after_the_other() {
        use Tier::{Ibta, OooAll, OooRw, PcieRelaxed, Unordered};
        for (strong, weak) in [
            (Ibta, OooRw),
            (OooRw, OooAll),
            (OooAll, Unordered),
            (Ibta, PcieRelaxed),
        ] {
            let (strong, weak) = (Network::of(strong), Network::of(weak));
            let mut fewer = 0;
            for a in Stamp::all(2) {
                for b in Stamp::all(2) {
                    assert!(strong.before(a, b) || !weak.before(a, b), "{a} {b}");
                    assert!(strong.issued_before(a, b) || !weak.issued_before(a, b), "{a} {b}");
                    fewer += u32::from(strong.before(a, b) && !weak.before(a, b));
                }
            }
            assert!(fewer > 0, "{} {}", strong.tier(), weak.tier());
        }
        for tier in Tier::ALL {
            let put = Stamp::at(StampKind::Nrw, Node(1));
            let network = Network::of(tier);
            assert_eq!(network.tier(), tier);
            assert!(network.before(put, put.asking()), "{tier}");
            assert_eq!(network.before(put, put), tier == Ibta, "{tier}");
            assert!(
                !network.before(put, Stamp::at(StampKind::Nrw, Node(0)).asking()),
                "{tier}"
            );
        }
    }

    /// With all memory in relaxed regions one table is enough: it differs from the other only where a card writes.
    #[test]
    fn relaxed_regions_concern_writes_of_cards() {
        let spec = Spec::of(
            Model::RdmaWait.on(Tier::PcieRelaxed).expect("it has tiers"),
            RmwAtomicity::Hca,
        );
        let relaxed = spec.network.expect("a network").relaxed.expect("regions");
        let writes = [Kind::NicRemoteWrite, Kind::NicLocalWrite];
        for cell in relaxed.differences(&spec.oppo) {
            assert!(
                writes.contains(&cell.earlier) || writes.contains(&cell.later),
                "{cell}"
            );
        }
    }
}
