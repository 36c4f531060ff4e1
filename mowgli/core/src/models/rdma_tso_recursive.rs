//! RDMA^TSO in its two other forms, which tests compare with the first.
//!
//! ```text
//! RDMA-TSO'24 Def. C.4: ib and ob irreflexive, where
//!   ib = (ippo ∪ rf ∪ pf ∪ nfo ∪ rb_b ∪ (ob; [Inst]))⁺
//!   ob = (oppo ∪ rf_b̄ ∪ ([nlW]; pf) ∪ nfo ∪ rb ∪ mo ∪ ([Inst]; ib))⁺
//! Robust'25 Def. 10 (RDMA-TSO'24 Def. C.7): as Def. C.4, but ib does not contain (ob; [Inst]).
//! ```
//! RDMA-TSO'24 Thms. C.5 and C.6 prove them equivalent to Def. 4.4, whatever the base relations are.

use super::{Derived, Spec};
use crate::event::Execution;

/// Decides consistency by Def. C.4: takes the least fixed point of both definitions.
pub fn is_consistent(execution: &Execution, spec: &Spec) -> bool {
    let d = Derived::new(execution, spec);
    let mut ib = d.issue(spec.ib).plus();
    let mut ob = d.observe(spec.ob).plus();
    loop {
        let next_ib = ib.union(&ob.then(&d.inst)).plus();
        let next_ob = ob.union(&d.inst.then(&ib)).plus();
        if next_ib == ib && next_ob == ob {
            return ib.is_irreflexive() && ob.is_irreflexive();
        }
        ib = next_ib;
        ob = next_ob;
    }
}

/// Decides consistency by Def. 10 of Robust'25.
pub fn is_consistent_one_sided(execution: &Execution, spec: &Spec) -> bool {
    let d = Derived::new(execution, spec);
    let ib = d.issue(spec.ib).plus();
    let ob = d.observe(spec.ob).union(&d.inst.then(&ib)).plus();
    ib.is_irreflexive() && ob.is_irreflexive()
}
