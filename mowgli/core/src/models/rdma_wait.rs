//! RDMA^WAIT: work identifiers and `Wait` instead of polls, LOCO'26 section 3.3 and app. F.2.
//!
//! ```text
//! ippo = ppo ∪ [aCW]; po; [aCR ∪ aWT] ∪ ⋃n [aNRW_n ∪ aNLW_n]; po; [aRF_n]
//! ib   = (ippo ∪ iso ∪ rf ∪ pfg ∪ pfp ∪ nfo ∪ rb_i)⁺                                        irreflexive
//! so   = iso ∪ rf_e ∪ pfg ∪ nfo ∪ rb ∪ mo ∪ ([Inst]; ib)
//! hb   = (ppo ∪ so)⁺                                                                        irreflexive
//! ```
//! `ppo` is program order of subevents of different instructions, by the stamp order [`tables::TO`]. A program that polls
//! is judged with `pf` in place of `pfg ∪ pfp`, which is LOCO'26 Def. F.1.

use super::tables::{Cell, Order, Table};
use super::{Derived, Part, Parts, Spec, rdma_tso, tables};
use crate::event::Kind;
use crate::model::{Model, RmwAtomicity};

/// Terms of `ib`.
pub const IB: Parts = Parts::of(&[
    Part::Ippo,
    Part::Iso,
    Part::Rf,
    Part::PfGet,
    Part::PfPut,
    Part::Nfo,
    Part::RbBuffer,
    Part::Rao,
]);

/// Terms of `hb` without `[Inst]; ib`: `ppo` and the terms of `so`.
pub const HB: Parts = Parts::of(&[
    Part::Oppo,
    Part::Iso,
    Part::RfExternal,
    Part::PfGet,
    Part::Nfo,
    Part::Rb,
    Part::Mo,
    Part::Rao,
]);

/// Returns `ippo` as a table: the stamp order with the cells B1, B5, G10 and I10 ordered too.
pub fn ippo() -> Table {
    let cell = |earlier, later| Cell { earlier, later };
    tables::TO
        .with(cell(Kind::LocalWrite, Kind::LocalRead), Order::Yes)
        .with(cell(Kind::LocalWrite, Kind::Poll), Order::Yes)
        .with(cell(Kind::NicRemoteWrite, Kind::NicFence), Order::SameQueuePair)
        .with(cell(Kind::NicLocalWrite, Kind::NicFence), Order::SameQueuePair)
}

/// Returns the data of RDMA^WAIT.
pub fn spec(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::RdmaWait,
        source: "LOCO'26 Def. F.2",
        figure: "LOCO'26 Fig. 10",
        ippo: ippo(),
        oppo: tables::TO,
        ib: IB,
        ob: HB,
        joint: true,
        buffered: rdma_tso::BUFFERED,
        forward_cpu: true,
        forward_nic: false,
        flushes: true,
        subevents: true,
        failed_cas_fences: true,
        atomicity,
        network: None,
    }
}

/// Decides consistency by Def. F.2.
pub fn is_consistent(d: &Derived<'_>) -> bool {
    let ib = d.issue(d.spec.ib).plus();
    let mut hb = d.observe(d.spec.ob);
    if d.spec.joint {
        hb = hb.union(&d.inst.then(&ib));
    }
    ib.is_irreflexive() && hb.plus().is_irreflexive()
}
