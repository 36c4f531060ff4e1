//! RDMA^TSO, with and without the PCIe guarantee: RDMA-TSO'24 section 4.
//!
//! ```text
//! Def. 4.4: consistent iff (1) ib irreflexive, (2) ob irreflexive, (3) ([Inst]; ib; ob)⁺ irreflexive, where
//!   ib = (ippo ∪ rf ∪ pf ∪ nfo ∪ rb_b)⁺
//!   ob = (oppo ∪ rf_b̄ ∪ ([nlW]; pf) ∪ nfo ∪ rb ∪ mo)⁺
//! ```
//! `rao` is our addition for remote read-modify-writes (`docs/rmw.md`). It is empty in programs that have none.

use super::{Derived, Kinds, Part, Parts, Spec, tables};
use crate::event::Kind;
use crate::model::{Model, RmwAtomicity};

/// Terms of `ib`.
pub const IB: Parts = Parts::of(&[
    Part::Ippo,
    Part::Rf,
    Part::Pf,
    Part::Nfo,
    Part::RbBuffer,
    Part::Rao,
]);

/// Terms of `ob`.
pub const OB: Parts = Parts::of(&[
    Part::Oppo,
    Part::RfExternal,
    Part::PfGet,
    Part::Nfo,
    Part::Rb,
    Part::Mo,
    Part::Rao,
]);

/// `E \ Inst`: CPU writes, NIC local writes and NIC remote writes.
pub const BUFFERED: Kinds = Kinds::of(&[Kind::LocalWrite, Kind::NicLocalWrite, Kind::NicRemoteWrite]);

/// Returns the data of RDMA^TSO.
pub fn spec(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::RdmaTso,
        source: "RDMA-TSO'24 Def. 4.4",
        figure: "RDMA-TSO'24 Fig. 9",
        ippo: tables::IPPO,
        oppo: tables::OPPO,
        ib: IB,
        ob: OB,
        joint: true,
        buffered: BUFFERED,
        forward_cpu: true,
        forward_nic: false,
        flushes: true,
        subevents: false,
        failed_cas_fences: true,
        atomicity,
        network: None,
    }
}

/// Returns the data of RDMA^TSO without the PCIe guarantee: (1) there is no `nfo`, (2) G8 and G9 of `oppo` are crosses, (3) `rf_b` and
/// `rb_b` include pairs on the same queue pair.
pub fn spec_without_pcie(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::RdmaTsoNoPcie,
        source: "RDMA-TSO'24 section 4, without PCIe",
        oppo: tables::OPPO_NO_PCIE,
        ib: IB.without(Part::Nfo),
        ob: OB.without(Part::Nfo),
        forward_nic: true,
        flushes: false,
        ..spec(atomicity)
    }
}

/// Decides consistency by Def. 4.4.
pub fn is_consistent(d: &Derived<'_>) -> bool {
    let ib = d.issue(d.spec.ib).plus();
    let ob = d.observe(d.spec.ob).plus();
    let joint = d.inst.then(&ib).then(&ob).plus();
    ib.is_irreflexive() && ob.is_irreflexive() && (!d.spec.joint || joint.is_irreflexive())
}
