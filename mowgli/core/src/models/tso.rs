//! x86-TSO, for programs without remote operations.
//!
//! ```text
//! RDMA-TSO'24 app. C.3, Def. 4.4 simplified: ib and ob irreflexive and ([Inst]; ib; ob)⁺ irreflexive, where
//!   ib = (po ∪ rf ∪ rb_b)⁺
//!   ob = ((po \ lW × lR) ∪ rf_b̄ ∪ rb ∪ mo)⁺
//! RDMA-TSO'24 Def. C.1 (from Lahav et al. 2016): a total store order exists
//! ```
//! The tables of RDMA^TSO restricted to CPU events are exactly these (Thm. 4.6).

use super::{Part, Parts, Spec, rdma_tso};
use crate::event::{Execution, Kind};
use crate::model::{Model, RmwAtomicity};
use crate::relation::Relation;

/// Terms of `ib`.
pub const IB: Parts = Parts::of(&[Part::Ippo, Part::Rf, Part::RbBuffer]);

/// Terms of `ob`.
pub const OB: Parts = Parts::of(&[Part::Oppo, Part::RfExternal, Part::Rb, Part::Mo]);

/// Returns the data of x86-TSO.
pub fn spec(atomicity: RmwAtomicity) -> Spec {
    Spec {
        model: Model::Tso,
        source: "RDMA-TSO'24 app. C.3",
        ib: IB,
        ob: OB,
        flushes: false,
        ..rdma_tso::spec(atomicity)
    }
}

/// Decides consistency by Def. C.1 for a given modification order: there must be a strict order `tso` that is total on writes, agrees
/// with `mo`, and contains `ppo` and `rf_e`, such that no write to the same location comes between a write and its reader. Tries
/// every total order of the writes, so it is for tests only.
pub fn is_consistent_total_store_order(execution: &Execution) -> bool {
    let n = execution.len();
    let kind = |e: usize| execution.events[e].kind;
    let ppo = Relation::from_pairs(
        n,
        execution
            .po
            .pairs()
            .filter(|&(a, b)| !(kind(a) == Kind::LocalWrite && kind(b) == Kind::LocalRead)),
    );
    let required = ppo.union(&execution.rf.minus(&execution.po)).union(&execution.mo);
    let writes: Vec<usize> = (0..n).filter(|&e| execution.events[e].is_write()).collect();
    extend(execution, &writes, required)
}

/// Orders one more unordered pair of writes in both directions.
fn extend(execution: &Execution, writes: &[usize], tso: Relation) -> bool {
    let tso = tso.plus();
    if !tso.is_irreflexive() {
        return false;
    }
    let unordered = writes.iter().enumerate().find_map(|(i, &a)| {
        writes[i + 1..]
            .iter()
            .find(|&&b| !tso.contains(a, b) && !tso.contains(b, a))
            .map(|&b| (a, b))
    });
    let Some((a, b)) = unordered else {
        return readers_see_latest(execution, &tso);
    };
    [(a, b), (b, a)].into_iter().any(|(first, second)| {
        let mut next = tso.clone();
        next.insert(first, second);
        extend(execution, writes, next)
    })
}

/// Decides whether no write to the same location comes between a write and its reader. A write that neither `tso` nor
/// program order places before a read does not constrain that read.
fn readers_see_latest(execution: &Execution, tso: &Relation) -> bool {
    let before = tso.union(&execution.po);
    let event = |e: usize| &execution.events[e];
    execution.rf.pairs().all(|(w, r)| {
        (0..execution.len()).all(|other| {
            let rival = other != r && event(other).is_write() && event(other).loc == event(w).loc;
            !(rival && before.contains(other, r) && tso.contains(w, other))
        })
    })
}
