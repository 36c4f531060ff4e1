//! RDMA^WAIT, LOCO'26 section 3.3 and appendix F.2.
//!
//! ```text
//! ippo = ppo ∪ [aCW]; po; [aCR ∪ aWT] ∪ ⋃n [aNRW_n ∪ aNLW_n]; po; [aRF_n]       (F.2 prints `pfp` for `ppo`)
//! ib   = (ippo ∪ iso ∪ rf ∪ pfg ∪ pfp ∪ nfo ∪ rb_i)⁺                            irreflexive
//! so   = iso ∪ rf_e ∪ pfg ∪ nfo ∪ rb ∪ mo ∪ ([Inst]; ib)
//! ```
//!
//! On a network that orders less ([`crate::network`]), `ippo` and `ppo` are smaller and `nfo` relates other pairs.
//!
//! Remote read-modify-writes are ours (`docs/rmw.md`, atomic against each other only): the label of such a call carries the
//! old value, which no register gets.

use crate::client::{Client, Library, Method, Node};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification, initial};
use crate::memory::{Access, Memory};
use crate::order::Order;
use crate::past::Past;
use crate::value::Value;

/// The specification.
#[derive(Clone, Copy, Debug, Default)]
pub struct RdmaWait;

impl Specification for RdmaWait {
    fn library(&self) -> Library {
        Library::RdmaWait
    }

    /// Returns `stmp_RL`.
    fn stamps(&self, _client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let peer = |at: usize| e.loc(at).map(|loc| Node(loc.node));
        let asked = |stamp: Stamp| match e.method.is_strong() {
            true => stamp.asking(),
            false => stamp,
        };
        Some(match e.method.plain() {
            Method::Write => vec![Stamp::cpu(StampKind::Cw)],
            Method::Read => vec![Stamp::cpu(StampKind::Cr)],
            Method::Mfence => vec![Stamp::cpu(StampKind::Mf)],
            Method::Cas if e.result == e.value(1) => vec![Stamp::cpu(StampKind::Cas)],
            Method::Cas => vec![Stamp::cpu(StampKind::Mf), Stamp::cpu(StampKind::Cr)],
            Method::Wait | Method::Poll => vec![Stamp::cpu(StampKind::Wt)],
            Method::Get => vec![
                asked(Stamp::at(StampKind::Nrr, peer(1)?)),
                Stamp::at(StampKind::Nlw, peer(1)?),
            ],
            Method::Put => vec![
                Stamp::at(StampKind::Nlr, peer(0)?),
                asked(Stamp::at(StampKind::Nrw, peer(0)?)),
            ],
            Method::Rfence => e.nodes().iter().map(|n| Stamp::at(StampKind::Rf, n)).collect(),
            Method::RemoteFaa | Method::RemoteCas => {
                let node = peer(1)?;
                let mut stamps = vec![asked(Stamp::at(StampKind::Nar, node))];
                stamps.extend(rmw_writes(e).map(|_| asked(Stamp::at(StampKind::Nrw, node))));
                stamps.push(Stamp::at(StampKind::Nlw, node));
                stamps
            }
            _ => return None,
        })
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory::default();
        let mut ib = issued_before(g, Library::RdmaWait);
        for e in g.of_library(Library::RdmaWait) {
            accesses(g, e, &mut memory, &mut ib);
            if g.events[e].method == Method::Poll && !polls_from(g, e, &mut memory, &mut ib) {
                return Flow::Continue;
            }
        }
        ordered(g, state, next, memory, ib)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method.plain(), args.first()) {
            (Method::Read | Method::Cas, Some(Arg::Loc(loc))) => past.read(*loc, initial(past.client, *loc)),
            (Method::RemoteFaa | Method::RemoteCas, _) => match args.get(1) {
                Some(Arg::Loc(loc)) => past.fetched(*loc, initial(past.client, *loc)),
                _ => Vec::new(),
            },
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, _past: &Past<'_>, e: &Event) -> Vec<Effect> {
        match (e.method.plain(), e.loc(0), e.loc(1)) {
            (Method::Write, Some(x), _) => vec![Effect::Write(x, e.value(1))],
            (Method::Cas, Some(x), _) if e.result == e.value(1) => vec![Effect::Write(x, e.value(2))],
            (Method::Get | Method::Put, Some(to), Some(from)) => vec![Effect::Copy { to, from }],
            (Method::RemoteFaa | Method::RemoteCas, Some(to), Some(at)) => rmw_writes(e)
                .map(|value| Effect::Place(at, value))
                .into_iter()
                .chain([Effect::Place(to, e.result.clone())])
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Chooses the orders of `memory`, which has the accesses of all events, below `ib`.
pub(super) fn ordered(
    g: &Graph<'_>,
    state: &mut State<'_>,
    next: Next<'_>,
    mut memory: Memory,
    ib: Order,
) -> Flow {
    for &word in &g.client.observed_words {
        memory.observed.push(Loc::of(g.client, word));
    }
    memory.init = initial_values(g.client, &memory);
    memory.ib = Some(ib);
    memory.order(g, state, next)
}

/// Returns the value that a remote read-modify-write writes, if it does: a compare-and-swap that finds another value than
/// it expects does not. The label has the old value as its result.
fn rmw_writes(e: &Event) -> Option<Value> {
    match e.method.plain() {
        Method::RemoteFaa => Some(Value::Int(e.result.number().wrapping_add(e.value(2).number()))),
        Method::RemoteCas if e.result == e.value(2) => Some(e.value(3)),
        _ => None,
    }
}

/// Returns the initial values of the accessed locations that do not start at 0.
pub(super) fn initial_values(client: &Client, memory: &Memory) -> Vec<(Loc, Value)> {
    let locs = memory.reads.iter().chain(&memory.writes).map(|a| a.loc);
    let mut out: Vec<(Loc, Value)> = locs
        .chain(memory.observed.iter().copied())
        .map(|loc| (loc, initial(client, loc)))
        .filter(|(_, value)| *value != Value::Int(0))
        .collect();
    out.dedup();
    out
}

/// Returns `ippo` on the subevents of a library.
pub(super) fn issued_before(g: &Graph<'_>, library: Library) -> Order {
    let n = g.subevents.len();
    let mut ib = Order::empty(n);
    for a in (0..n).filter(|&a| g.library(a) == library) {
        for b in (a + 1..n).filter(|&b| g.library(b) == library && g.po_sub(a, b)) {
            let (first, second) = (g.subevents[a].stamp, g.subevents[b].stamp);
            if g.network.issued_before(first, second) {
                ib.put(a, b);
            }
        }
    }
    ib
}

/// Adds the accesses and the forced terms (`iso`, `pfg`, `pfp`) of an event.
pub(super) fn accesses(g: &Graph<'_>, e: usize, memory: &mut Memory, ib: &mut Order) {
    let event = &g.events[e];
    let sub = |kind: StampKind| g.of_event(e).find(|&s| g.subevents[s].stamp.kind == kind);
    match event.method.plain() {
        Method::Write | Method::WriteMsw => {
            if let (Some(sub), Some(loc)) = (sub(StampKind::Cw), event.loc(0)) {
                memory.writes.push(access(sub, loc, Some(event.value(1))));
            }
        }
        Method::Read | Method::TryReadMsw => {
            if let (Some(sub), Some(loc)) = (sub(StampKind::Cr), event.loc(0)) {
                memory.reads.push(access(sub, loc, Some(event.result.clone())));
            }
        }
        Method::Cas => {
            let Some(loc) = event.loc(0) else { return };
            if let Some(cas) = sub(StampKind::Cas) {
                memory.reads.push(access(cas, loc, Some(event.result.clone())));
                memory.writes.push(access(cas, loc, Some(event.value(2))));
            } else if let (Some(fence), Some(read)) = (sub(StampKind::Mf), sub(StampKind::Cr)) {
                memory.so.push((fence, read, "iso"));
                ib.put(fence, read);
                memory.reads.push(access(read, loc, Some(event.result.clone())));
            }
        }
        Method::Get | Method::GetMsw => copies(g, e, (StampKind::Nrr, StampKind::Nlw), memory, ib),
        Method::Put | Method::PutMsw => copies(g, e, (StampKind::Nlr, StampKind::Nrw), memory, ib),
        Method::RemoteFaa | Method::RemoteCas => read_modify_write(g, e, memory, ib),
        Method::Wait | Method::WaitMsw => {
            let Some(wait) = sub(StampKind::Wt) else { return };
            for s in 0..g.subevents.len() {
                let earlier = g.subevents[s].event;
                let same = g.po(earlier, e)
                    && g.library(s) == event.method.library()
                    && g.events[earlier].work() == event.work();
                match g.subevents[s].stamp.kind {
                    // `pfg` is in ib and so. `pfp` is only in ib, because a put that has completed need not
                    // be placed.
                    StampKind::Nlw if same => {
                        memory.so.push((s, wait, "pfg"));
                        ib.put(s, wait);
                    }
                    // A read-modify-write completes with its result.
                    StampKind::Nrw if same && !is_rmw(g, earlier) => ib.put(s, wait),
                    _ => {}
                }
            }
        }
        _ => {}
    }
}

/// Adds a put or get: it reads (`from`), and then writes the value that it read.
fn copies(g: &Graph<'_>, e: usize, kinds: (StampKind, StampKind), memory: &mut Memory, ib: &mut Order) {
    let event = &g.events[e];
    let sub = |kind: StampKind| g.of_event(e).find(|&s| g.subevents[s].stamp.kind == kind);
    let (Some(read), Some(write)) = (sub(kinds.0), sub(kinds.1)) else {
        return;
    };
    let (Some(to), Some(from)) = (event.loc(0), event.loc(1)) else {
        return;
    };
    memory.so.push((read, write, "iso"));
    ib.put(read, write);
    let source = memory.reads.len();
    memory.reads.push(access(read, from, None));
    memory.writes.push(Access {
        source: Some(source),
        ..access(write, to, None)
    });
}

/// Returns whether an event is a remote read-modify-write.
fn is_rmw(g: &Graph<'_>, e: usize) -> bool {
    matches!(g.events[e].method.plain(), Method::RemoteFaa | Method::RemoteCas)
}

/// Adds a remote read-modify-write: an atomic read, a remote write if it writes, and the local write of the old value.
fn read_modify_write(g: &Graph<'_>, e: usize, memory: &mut Memory, ib: &mut Order) {
    let event = &g.events[e];
    let sub = |kind: StampKind| g.of_event(e).find(|&s| g.subevents[s].stamp.kind == kind);
    let (Some(read), Some(result)) = (sub(StampKind::Nar), sub(StampKind::Nlw)) else {
        return;
    };
    let (Some(to), Some(at)) = (event.loc(0), event.loc(1)) else {
        return;
    };
    memory.reads.push(access(read, at, Some(event.result.clone())));
    memory.writes.push(access(result, to, Some(event.result.clone())));
    memory.so.push((read, result, "iso"));
    ib.put(read, result);
    let mut end = read;
    if let (Some(write), Some(value)) = (sub(StampKind::Nrw), rmw_writes(event)) {
        memory.writes.push(access(write, at, Some(value)));
        memory.so.push((read, write, "iso"));
        ib.put(read, write);
        ib.put(write, result);
        end = write;
    }
    memory.atomics.push((at.node, read, end));
}

pub(super) fn access(sub: usize, loc: Loc, value: Option<Value>) -> Access {
    Access {
        sub,
        loc,
        value,
        source: None,
    }
}

/// Adds `pf` for a poll. Returns false if there is no operation for it to poll from.
fn polls_from(g: &Graph<'_>, poll: usize, memory: &mut Memory, ib: &mut Order) -> bool {
    let node = g.events[poll].nodes();
    let before = (0..poll).filter(|&e| g.po(e, poll) && g.events[e].method == Method::Poll);
    let polled = before.filter(|&e| g.events[e].nodes() == node).count();
    let writes = |s: &usize| {
        let s = g.subevents[*s];
        // Events of other libraries are not posted here, so no poll sees them.
        g.events[s.event].method.library() == Library::RdmaWait
            && matches!(s.stamp.kind, StampKind::Nlw | StampKind::Nrw)
            && node.iter().any(|n| n.0 == s.stamp.node)
            && g.po(s.event, poll)
            // A read-modify-write has one completion, that of its result.
            && !(s.stamp.kind == StampKind::Nrw && is_rmw(g, s.event))
    };
    let (Some(write), Some(wait)) = (
        (0..g.subevents.len()).filter(writes).nth(polled),
        g.of_event(poll).next(),
    ) else {
        return false;
    };
    if g.is(write, StampKind::Nlw) {
        memory.so.push((write, wait, "pf"));
    }
    ib.put(write, wait);
    true
}
