//! Shared variables (sv), LOCO'26 section 3.4; and mixed-size shared variables (MSW-Broadcast, G.6.1), which are the same on tuples, with
//! reads that may fail without a reason.
//!
//! ```text
//! so = iso ∪ rf_e ∪ pf ∪ rb ∪ mo,   [aCR]; (po⁻¹ ∩ rb); [aCW] = ∅              (Def. 3.8)
//! ```
//! `pf` starts at a broadcast's NIC local reads: its Wait says that the source was read, not that copies were
//! written. A broadcast or fence of no node has no stamp, and so no execution (Def. 3.3). Implementations
//! leave such calls out.

use super::rdma_wait::{access, initial_values};
use crate::client::{Client, Library, Method};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification, copy_of, initial};
use crate::memory::{Access, Memory};
use crate::past::Past;
use crate::value::{BOTTOM, Value};

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct SharedVariable {
    /// Whether it is of mixed-size variables.
    pub mixed: bool,
}

/// What a method does, whether the variable has one word or several.
enum Role {
    Write,
    Read,
    Broadcast,
    Wait,
    Fence,
}

impl SharedVariable {
    fn role(self, method: Method) -> Option<Role> {
        Some(match (method.plain(), self.mixed) {
            (Method::WriteSv, false) | (Method::WriteMsv, true) => Role::Write,
            (Method::ReadSv, false) | (Method::TryReadMsv, true) => Role::Read,
            (Method::BcastSv, false) | (Method::BcastMsv, true) => Role::Broadcast,
            (Method::WaitSv, false) | (Method::WaitMsv, true) => Role::Wait,
            (Method::GfSv, false) => Role::Fence,
            _ => return None,
        })
    }
}

impl Specification for SharedVariable {
    fn library(&self) -> Library {
        match self.mixed {
            true => Library::MixedVariable,
            false => Library::SharedVariable,
        }
    }

    /// Returns `stmp_sv` (Example 3.4). A read that fails has the stamp of Def. G.11.
    fn stamps(&self, _client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let stamps: Vec<Stamp> = match self.role(e.method)? {
            Role::Write => vec![Stamp::cpu(StampKind::Cw)],
            Role::Read if e.result == BOTTOM => vec![Stamp::cpu(StampKind::Wt)],
            Role::Read => vec![Stamp::cpu(StampKind::Cr)],
            Role::Wait => vec![Stamp::cpu(StampKind::Wt)],
            Role::Fence => e.nodes().iter().map(|n| Stamp::at(StampKind::Gf, n)).collect(),
            Role::Broadcast => e
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
        };
        (!stamps.is_empty()).then_some(stamps)
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory::default();
        for e in g.of_library(self.library()) {
            let event = &g.events[e];
            let own = g.node(e);
            let sub = |stamp: Stamp| g.subevent(e, stamp);
            match (self.role(event.method), event.loc(0)) {
                (Some(Role::Write), Some(x)) => memory.writes.extend(
                    sub(Stamp::cpu(StampKind::Cw)).map(|s| access(s, copy_of(x, own), Some(event.value(1)))),
                ),
                (Some(Role::Read), Some(x)) => memory.reads.extend(
                    sub(Stamp::cpu(StampKind::Cr))
                        .map(|s| access(s, copy_of(x, own), Some(event.result.clone()))),
                ),
                (Some(Role::Broadcast), Some(x)) => {
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
                (Some(Role::Wait), _) => {
                    let Some(wait) = sub(Stamp::cpu(StampKind::Wt)) else {
                        continue;
                    };
                    for s in 0..g.subevents.len() {
                        let earlier = g.subevents[s].event;
                        let broadcast = &g.events[earlier];
                        if matches!(self.role(broadcast.method), Some(Role::Broadcast))
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
        memory.init = initial_values(g.client, &memory);
        memory.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (self.role(method), args.first()) {
            (Some(Role::Read), Some(Arg::Loc(x))) => {
                let mut values = past.read(copy_of(*x, past.node()), initial(past.client, *x));
                values.extend(self.mixed.then_some(BOTTOM));
                values
            }
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        let own = past.node();
        match (self.role(e.method), e.loc(0)) {
            (Some(Role::Write), Some(x)) => vec![Effect::Write(copy_of(x, own), e.value(1))],
            (Some(Role::Broadcast), Some(x)) => {
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
