//! Sequential consistency.
//!
//! ```text
//! Robust'25 Def. 5: consistent iff po ∪ rf ∪ rb ∪ mo is acyclic
//! ```
//! The subevents of remote operations are in program order with all other events, because Robust'25 compares its models with
//! this one on the same executions.

use super::{Derived, Kinds, Part, Parts, Spec, tables};
use crate::model::{Model, RmwAtomicity};

/// Terms of the one relation.
pub const SC: Parts = Parts::of(&[Part::Po, Part::Rf, Part::Rb, Part::Mo, Part::Rao]);

/// Returns the data of sequential consistency. Every event is instantaneous, so one relation is enough.
pub fn spec(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::Sc,
        source: "Robust'25 Def. 5",
        figure: "program order",
        // Not used, because the whole program order is kept.
        ippo: tables::IPPO_SC,
        oppo: tables::OPPO_SC,
        ib: SC,
        ob: SC,
        joint: true,
        buffered: Kinds::of(&[]),
        forward_cpu: false,
        forward_nic: false,
        flushes: false,
        subevents: false,
        failed_cas_fences: false,
        atomicity,
        network: None,
    }
}

/// Decides consistency by Def. 5.
pub fn is_consistent(d: &Derived<'_>) -> bool {
    d.observe(d.spec.ob).is_acyclic()
}
