//! Local data-race freedom (Robust'25 Def. 7), in the form with guaranteed-before.
//!
//! The paper states the property a second time, as four conditions, and there omits "same queue pair" on the remote fence of the
//! second: `x := y^2; rfence(3); z^2 := x` passes them and is not robust (`litmus/robust25/ROB-D7-rfence`). The form with
//! guaranteed-before is right. Under TSO the property keeps the guaranteed-before of RDMA^SC (appendix B.2).

use crate::event::Event;
use crate::models::Spec;

use super::clauses::{Clause, Clauses};
use super::reason::{Pair, Reason};
use super::trace::Trace;

/// Returns every pair of a trace that breaks local data-race freedom.
pub fn violations<'t>(
    spec: &'t Spec,
    clauses: Clauses,
    trace: &'t Trace,
) -> impl Iterator<Item = Reason> + 't {
    pairs(clauses, trace)
        .filter_map(move |(a, b)| Pair::new(spec, trace, a, b))
        .map(|pair| Reason::Race { pair })
}

/// Returns the same pairs by their indices in the trace.
pub(super) fn pairs(clauses: Clauses, trace: &Trace) -> impl Iterator<Item = (usize, usize)> + '_ {
    let conflict = move |a: &Event, b: &Event| {
        let location = a.loc.is_some() && b.loc.is_some();
        let same = a.loc == b.loc || !clauses.contains(Clause::RaceSameLocation);
        let writes = a.is_write() || b.is_write() || !clauses.contains(Clause::RaceOneWrites);
        location && same && writes
    };
    trace
        .po()
        .filter(move |_| clauses.contains(Clause::RaceOrdered))
        .filter(move |&(a, b)| conflict(&trace.events[a], &trace.events[b]))
        .filter(|&(a, b)| !trace.gb_local.contains(a, b))
}
