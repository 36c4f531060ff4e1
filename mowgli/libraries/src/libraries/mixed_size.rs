//! Mixed-size writes, LOCO'26 Def. G.11: RDMA^WAIT on tuples, whose reads may fail without a reason.
//!
//! A failing read is stamped `aWT` and is in no relation.

use super::rdma_wait::{accesses, initial_values, issued_before};
use crate::client::{Client, Library, Method, Node};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification, initial};
use crate::memory::Memory;
use crate::past::Past;
use crate::value::{BOTTOM, Value};

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct MixedSize;

impl Specification for MixedSize {
    fn library(&self) -> Library {
        Library::MixedSize
    }

    /// Returns `stmp_MSW`.
    fn stamps(&self, _client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let peer = |at: usize| e.loc(at).map(|loc| Node(loc.node));
        Some(match e.method {
            Method::WriteMsw => vec![Stamp::cpu(StampKind::Cw)],
            Method::TryReadMsw if e.result == BOTTOM => vec![Stamp::cpu(StampKind::Wt)],
            Method::TryReadMsw => vec![Stamp::cpu(StampKind::Cr)],
            Method::WaitMsw => vec![Stamp::cpu(StampKind::Wt)],
            Method::GetMsw => vec![
                Stamp::at(StampKind::Nrr, peer(1)?),
                Stamp::at(StampKind::Nlw, peer(1)?),
            ],
            Method::PutMsw => vec![
                Stamp::at(StampKind::Nlr, peer(0)?),
                Stamp::at(StampKind::Nrw, peer(0)?),
            ],
            _ => return None,
        })
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory::default();
        let mut ib = issued_before(g, Library::MixedSize);
        for e in g.of_library(Library::MixedSize) {
            accesses(g, e, &mut memory, &mut ib);
        }
        memory.init = initial_values(g.client, &memory);
        memory.ib = Some(ib);
        memory.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method, args.first()) {
            (Method::TryReadMsw, Some(Arg::Loc(loc))) => {
                let mut out = past.read(*loc, initial(past.client, *loc));
                out.push(BOTTOM);
                out
            }
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, _past: &Past<'_>, e: &Event) -> Vec<Effect> {
        match (e.method, e.loc(0), e.loc(1)) {
            (Method::WriteMsw, Some(x), _) => vec![Effect::Write(x, e.value(1))],
            (Method::GetMsw | Method::PutMsw, Some(to), Some(from)) => vec![Effect::Copy { to, from }],
            _ => Vec::new(),
        }
    }
}
