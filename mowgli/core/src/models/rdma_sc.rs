//! RDMA^SC: RDMA over a sequentially consistent CPU, Robust'25 section 3.2.
//!
//! ```text
//! Def. 4: consistent iff ib and ob are irreflexive, where
//!   ib = (ippo ∪ rf ∪ pf ∪ nfo)⁺
//!   ob = (oppo ∪ rf ∪ ([nlW]; pf) ∪ nfo ∪ rb ∪ mo ∪ ([Inst]; ib))⁺
//! ```

use super::{Derived, Kinds, Part, Parts, Spec, tables};
use crate::event::Kind;
use crate::model::{Model, RmwAtomicity};

/// Terms of `ib`.
pub const IB: Parts = Parts::of(&[Part::Ippo, Part::Rf, Part::Pf, Part::Nfo, Part::Rao]);

/// Terms of `ob` without `[Inst]; ib`.
pub const OB: Parts = Parts::of(&[
    Part::Oppo,
    Part::Rf,
    Part::PfGet,
    Part::Nfo,
    Part::Rb,
    Part::Mo,
    Part::Rao,
]);

/// Returns the data of RDMA^SC.
pub fn spec(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::RdmaSc,
        source: "Robust'25 Def. 4",
        figure: "Robust'25 Fig. 4",
        ippo: tables::IPPO_SC,
        oppo: tables::OPPO_SC,
        ib: IB,
        ob: OB,
        joint: true,
        // CPU writes are instantaneous.
        buffered: Kinds::of(&[Kind::NicLocalWrite, Kind::NicRemoteWrite]),
        forward_cpu: false,
        forward_nic: false,
        flushes: true,
        subevents: false,
        failed_cas_fences: false,
        atomicity,
        network: None,
    }
}

/// Decides consistency by Def. 4.
pub fn is_consistent(d: &Derived<'_>) -> bool {
    let ib = d.issue(d.spec.ib).plus();
    let mut ob = d.observe(d.spec.ob);
    if d.spec.joint {
        ob = ob.union(&d.inst.then(&ib));
    }
    ib.is_irreflexive() && ob.plus().is_irreflexive()
}
