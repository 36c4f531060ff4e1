//! RDMA^TSO as an execution language, LOCO'26 appendix F.1: what I_W is written in.
//!
//! It has the methods of RDMA^WAIT, with `poll(n)` in place of `wait(d)`. The k-th poll of a thread towards a node polls from
//! the thread's k-th operation towards it.
//!
//! ```text
//! ib = (ippo ∪ iso ∪ rf ∪ pf ∪ nfo ∪ rb_i)⁺                                        irreflexive
//! so = iso ∪ rf_e ∪ [aNLW]; pf ∪ nfo ∪ rb ∪ mo ∪ ([Inst]; ib)
//! ```
//!
//! RDMA^TSO is no library in the sense of Def. 3.5, as it is not decomposable: a poll depends on every operation before
//! it (LOCO'26 3.3). So it stands in the place of RDMA^WAIT in a set of libraries, and I_W calls it; a client may poll only if it has
//! nothing but words, for which [`RdmaWait`] has the polls too.
//!
//! A put or get carries the identifier of the client's call. The papers' operations return an arbitrary unique
//! identifier instead, and I_W keeps sets of these; the client's identifier tells the set that an operation is in.
//! The papers stamp operations on sets with `aMF`. Here only the check that a set is empty is an event. It is stamped
//! `aWT`, which orders less than `aMF`, since a thread may keep its sets in registers.

use super::RdmaWait;
use crate::client::{Client, Library, Method};
use crate::event::{Arg, Event, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification};
use crate::past::Past;
use crate::value::Value;

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct RdmaTso;

impl Specification for RdmaTso {
    fn library(&self) -> Library {
        Library::RdmaWait
    }

    /// Returns `stmp_TSO`.
    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        match e.method {
            Method::SetIsEmpty => Some(vec![Stamp::cpu(StampKind::Wt)]),
            Method::Wait => None,
            _ => RdmaWait.stamps(client, e),
        }
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        RdmaWait.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        RdmaWait.results(past, method, args)
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        RdmaWait.effects(past, e)
    }
}
