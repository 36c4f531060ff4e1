//! Ring buffers, LOCO'26 section 5.1.
//!
//! `rf` is forced: by (4) and (5) of Def. 5.1 the k-th successful receive of a thread reads the k-th
//! successful submit. Failing submits are unconstrained. `fb` relates a failing receive with every submit
//! that its thread has not read before.
//!
//! Def. 5.2 as printed, `so = rf ∪ fb`, promises too much to a writer that reads its own ring. The writer may
//! take the head from its own store buffer, so that its submit (`aCW`) need not happen before its receive
//! (`aCR`). The catalogue has this client (`RING-own`). The repair here is the one that shared variables
//! have: `so = rf_e ∪ fb`, without the pairs of one thread.

use crate::client::{Client, Library, Method, Node, ObjectKind, ThreadId};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification};
use crate::order::Order;
use crate::past::Past;
use crate::value::{BOTTOM, Value};

/// The strength of a ring buffer's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strength {
    /// `so = rf_e ∪ fb`: Def. 5.2 with the repair.
    Strong,
    /// `so = rf ∪ fb`: Def. 5.2 as printed.
    Paper,
    /// `so = rf_e` and `hb⁻¹ ∩ fb = ∅`: the alternative of section 5.1, with the repair. A receive may not
    /// miss a message that is known to be there, but a receive that misses a message says nothing about when
    /// it was sent.
    Weak,
}

/// The specification.
#[derive(Clone, Copy, Debug)]
pub struct RingBuffer {
    /// The strength of its promise.
    pub strength: Strength,
}

/// Returns `wthd(x)` and `rthd(x)`: the writer and the readers.
pub(crate) fn threads(client: &Client, x: Loc) -> Option<(ThreadId, &[ThreadId])> {
    match &client.object(x.client_object()?).kind {
        ObjectKind::Ring { writer, readers, .. } => Some((*writer, readers)),
        _ => None,
    }
}

/// Returns the stamp of a submit at readers on a node: `aCW` on its own node, `aNRW_n` elsewhere.
fn write_stamp(own: Node, node: Node) -> Stamp {
    if own == node {
        Stamp::cpu(StampKind::Cw)
    } else {
        Stamp::at(StampKind::Nrw, node)
    }
}

impl Specification for RingBuffer {
    fn library(&self) -> Library {
        Library::RingBuffer
    }

    /// Returns `stmp_RBL`.
    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let (writer, readers) = threads(client, e.loc(0)?)?;
        let thread = ThreadId(e.thread);
        match (e.method, &e.result) {
            (Method::Submit, result) if writer == thread => {
                if *result != Value::Bool(true) {
                    return Some(vec![Stamp::cpu(StampKind::Wt)]);
                }
                let own = client.node_of(thread);
                let mut stamps = vec![Stamp::cpu(StampKind::Cw)];
                for &reader in readers {
                    let stamp = write_stamp(own, client.node_of(reader));
                    if !stamps.contains(&stamp) {
                        stamps.push(stamp);
                    }
                }
                Some(stamps)
            }
            (Method::Receive, result) if readers.contains(&thread) => {
                let kind = if *result == BOTTOM {
                    StampKind::Wt
                } else {
                    StampKind::Cr
                };
                Some(vec![Stamp::cpu(kind)])
            }
            _ => None,
        }
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        state.attempt(|state| {
            for receive in receives(g) {
                for (k, &submit) in submits(g, receive.ring).iter().enumerate() {
                    let read = receive.reads == Some(k);
                    let own = g.events[submit].thread == g.events[receive.event].thread;
                    let (Some(w), Some(r)) = (receive.write_of(g, submit), g.of_event(receive.event).next())
                    else {
                        return Flow::Continue;
                    };
                    if read {
                        // Def. 5.1 (3): related events write and read the same message.
                        if g.events[submit].value(1) != g.events[receive.event].result {
                            return Flow::Continue;
                        }
                        // The message is of the receive's own thread, so the submit comes first in program
                        // order.
                        if own && !g.po(submit, receive.event) {
                            return Flow::Continue;
                        }
                        if (self.strength == Strength::Paper || !own) && !state.order(w, r, "rf") {
                            return Flow::Continue;
                        }
                    } else if receive.fails_before(k)
                        && self.strength != Strength::Weak
                        && !state.order(r, w, "fb")
                    {
                        return Flow::Continue;
                    }
                }
                // Def. 5.1 (2): a successful receive reads some submit.
                if receive.reads.is_some_and(|k| k >= submits(g, receive.ring).len()) {
                    return Flow::Continue;
                }
            }
            next(state)
        })
    }

    /// Checks `hb⁻¹ ∩ fb = ∅` for the weak alternative.
    fn accepts(&self, g: &Graph<'_>, hb: &Order) -> bool {
        self.strength != Strength::Weak
            || receives(g).iter().all(|receive| {
                submits(g, receive.ring).iter().enumerate().all(|(k, &submit)| {
                    let pair = (receive.write_of(g, submit), g.of_event(receive.event).next());
                    let (Some(w), Some(r)) = pair else { return true };
                    !(receive.fails_before(k) && hb.has(w, r))
                })
            })
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method, args.first()) {
            (Method::Submit, _) => vec![Value::Bool(true), Value::Bool(false)],
            (Method::Receive, Some(Arg::Loc(x))) => {
                let before =
                    past.count(|e| e.method == Method::Receive && e.loc(0) == Some(*x) && e.result != BOTTOM);
                let mut out = past.written(message(*x, before));
                out.push(BOTTOM);
                out
            }
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        match (e.method, e.loc(0)) {
            (Method::Submit, Some(x)) if e.result == Value::Bool(true) => {
                let before = past.count(|p| {
                    p.method == Method::Submit && p.loc(0) == Some(x) && p.result == Value::Bool(true)
                });
                vec![Effect::Place(message(x, before), e.value(1))]
            }
            _ => Vec::new(),
        }
    }
}

/// Returns the location that stands for the k-th message, counted from 0.
fn message(x: Loc, k: usize) -> Loc {
    x.part(1 + k as u32, Loc::EVERYWHERE)
}

/// Returns the successful submits to a ring, in order.
fn submits(g: &Graph<'_>, ring: Loc) -> Vec<usize> {
    let to_ring = |&e: &usize| {
        let event = &g.events[e];
        event.method == Method::Submit && event.loc(0) == Some(ring) && event.result == Value::Bool(true)
    };
    g.of_library(Library::RingBuffer).filter(to_ring).collect()
}

/// A receive and its place among those of its thread.
struct Receive {
    event: usize,
    ring: Loc,
    /// The number of messages that its thread has read before.
    before: usize,
    /// The submit that it reads, counted from 0, if it succeeds.
    reads: Option<usize>,
}

impl Receive {
    /// Returns whether `(receive, k-th submit) ∈ fb`.
    fn fails_before(&self, k: usize) -> bool {
        self.reads.is_none() && k >= self.before
    }

    /// Returns the submit's write on the receiver's node.
    fn write_of(&self, g: &Graph<'_>, submit: usize) -> Option<usize> {
        g.subevent(submit, write_stamp(g.node(submit), g.node(self.event)))
    }
}

fn receives(g: &Graph<'_>) -> Vec<Receive> {
    let mut out: Vec<Receive> = Vec::new();
    for e in g.of_library(Library::RingBuffer) {
        let event = &g.events[e];
        let (Method::Receive, Some(ring)) = (event.method, event.loc(0)) else {
            continue;
        };
        let mine = |r: &&Receive| r.ring == ring && g.events[r.event].thread == event.thread;
        let before = out.iter().filter(mine).filter(|r| r.reads.is_some()).count();
        out.push(Receive {
            event: e,
            ring,
            before,
            reads: (event.result != BOTTOM).then_some(before),
        });
    }
    out
}
