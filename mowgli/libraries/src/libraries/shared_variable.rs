//! Shared variables (sv), LOCO'26 section 3.4.
//!
//! ```text
//! so = iso ∪ rf_e ∪ pf ∪ rb ∪ mo,   [aCR]; (po⁻¹ ∩ rb); [aCW] = ∅              (Def. 3.8)
//! ```
//! `pf` starts at a broadcast's NIC local reads: its Wait says that the source was read, not that copies were
//! written. A broadcast or fence of no node has no stamp, and so no execution (Def. 3.3). Implementations
//! leave such calls out.

use super::rdma_wait::access;
use crate::client::{Client, Library, Method};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification, copy_of};
use crate::memory::{Access, Memory};
use crate::past::Past;
use crate::value::Value;

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedVariable;

impl Specification for SharedVariable {
    fn library(&self) -> Library {
        Library::SharedVariable
    }

    /// Returns `stmp_sv` (Example 3.4).
    fn stamps(&self, _client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let stamps: Vec<Stamp> = match e.method.plain() {
            Method::WriteSv => vec![Stamp::cpu(StampKind::Cw)],
            Method::ReadSv => vec![Stamp::cpu(StampKind::Cr)],
            Method::WaitSv => vec![Stamp::cpu(StampKind::Wt)],
            Method::GfSv => e.nodes().iter().map(|n| Stamp::at(StampKind::Gf, n)).collect(),
            Method::BcastSv => e
                .nodes()
                .iter()
                .flat_map(|n| {
                    let write = Stamp::at(StampKind::Nrw, n);
                    let write = match e.method.is_strong() {
                        true => write.asking(),
                        false => write,
                    };
                    [Stamp::at(StampKind::Nlr, n), write]
                })
                .collect(),
            _ => return None,
        };
        (!stamps.is_empty()).then_some(stamps)
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory::default();
        for e in g.of_library(Library::SharedVariable) {
            let event = &g.events[e];
            let own = g.node(e);
            let sub = |stamp: Stamp| g.subevent(e, stamp);
            match (event.method.plain(), event.loc(0)) {
                (Method::WriteSv, Some(x)) => memory.writes.extend(
                    sub(Stamp::cpu(StampKind::Cw)).map(|s| access(s, copy_of(x, own), Some(event.value(1)))),
                ),
                (Method::ReadSv, Some(x)) => memory.reads.extend(
                    sub(Stamp::cpu(StampKind::Cr))
                        .map(|s| access(s, copy_of(x, own), Some(event.result.clone()))),
                ),
                (Method::BcastSv, Some(x)) => {
                    for node in event.nodes().iter() {
                        let (Some(read), Some(write)) = (
                            sub(Stamp::at(StampKind::Nlr, node)),
                            sub(Stamp::at(StampKind::Nrw, node)),
                        ) else {
                            continue;
                        };
                        memory.so.push((read, write, "iso"));
                        let source = Some(memory.reads.len());
                        memory.reads.push(access(read, copy_of(x, own), None));
                        memory.writes.push(Access {
                            source,
                            ..access(write, x.at(node), None)
                        });
                    }
                }
                (Method::WaitSv, _) => {
                    let Some(wait) = sub(Stamp::cpu(StampKind::Wt)) else {
                        continue;
                    };
                    for s in 0..g.subevents.len() {
                        let earlier = g.subevents[s].event;
                        let broadcast = &g.events[earlier];
                        if broadcast.method.plain() == Method::BcastSv
                            && g.is(s, StampKind::Nlr)
                            && g.po(earlier, e)
                            && broadcast.work() == event.work()
                        {
                            memory.so.push((s, wait, "pf"));
                        }
                    }
                }
                _ => {}
            }
        }
        memory.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method, args.first()) {
            (Method::ReadSv, Some(Arg::Loc(x))) => past.read(copy_of(*x, past.node()), Value::Int(0)),
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        let own = past.node();
        match (e.method.plain(), e.loc(0)) {
            (Method::WriteSv, Some(x)) => vec![Effect::Write(copy_of(x, own), e.value(1))],
            (Method::BcastSv, Some(x)) => {
                let from = copy_of(x, own);
                e.nodes()
                    .iter()
                    .map(|n| Effect::Copy { to: x.at(n), from })
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}
