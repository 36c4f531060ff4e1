//! Barriers, LOCO'26 section 4.1.
//!
//! A barrier fences the operations of the threads that call it (`GF_sv` in LOCO'26 Fig. 11), and so does the shipped one. The
//! barrier of LOCO'25 (4.1, 5.4) fences those of all threads of the node, which this specification does not promise
//! (`BARRIER-other-thread` of the catalogue).
//!
//! The ordering function `o` of Def. 4.1 is forced: it is the position of a call among its thread's calls on the
//! barrier. Participants with different numbers of calls have no execution.

use crate::client::{Client, Library, Method, Node, NodeSet, ObjectKind, ThreadId};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification};
use crate::past::Past;
use crate::value::Value;

/// The nodes that a barrier fences.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    /// The nodes of its participants (Def. 4.1).
    Participants,
    /// All nodes (section 4.3). Threads then pass on at the next barrier what they have synchronised at this
    /// one.
    AllNodes,
}

/// The specification.
#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// The nodes that it fences.
    pub reach: Reach,
}

/// Returns `b(x)`, the participants.
pub(crate) fn participants(client: &Client, x: Loc) -> &[ThreadId] {
    match x.client_object().map(|object| &client.object(object).kind) {
        Some(ObjectKind::Barrier { participants }) => participants,
        _ => &[],
    }
}

/// Returns `s_n` of LOCO'26 Fig. 11: the nodes that a barrier fences.
pub(crate) fn fenced_nodes(client: &Client, x: Loc, reach: Reach) -> NodeSet {
    match reach {
        Reach::Participants => participants(client, x)
            .iter()
            .map(|&t| client.node_of(t))
            .collect(),
        Reach::AllNodes => NodeSet::all(client.nodes),
    }
}

impl Specification for Barrier {
    fn library(&self) -> Library {
        Library::Barrier
    }

    /// Returns `stmp_BAL`: `aGF` of the nodes at the entry, `aCR` at the exit. For the unfenced barrier
    /// (ours), the entry is an `aCW`: CPU stores before the barrier are seen after it on the node, and
    /// nothing is said about other operations.
    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let x = e.loc(0)?;
        if !participants(client, x).contains(&ThreadId(e.thread)) {
            return None;
        }
        let mut stamps = match e.method {
            Method::Barrier => entry(fenced_nodes(client, x, self.reach)),
            _ => vec![Stamp::cpu(StampKind::Cw)],
        };
        stamps.push(Stamp::cpu(StampKind::Cr));
        Some(stamps)
    }

    /// Adds `so`: every entry of a round comes before every exit of the round. This includes an event's own
    /// exit if the event is fenced.
    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut rounds: Vec<(Loc, u8, usize, usize)> = Vec::new();
        for e in g.of_library(Library::Barrier) {
            let (Some(x), thread) = (g.events[e].loc(0), g.events[e].thread) else {
                continue;
            };
            let o = rounds.iter().filter(|r| (r.0, r.1) == (x, thread)).count() + 1;
            rounds.push((x, thread, o, e));
        }
        // This is c_x: every participant makes equally many calls.
        for &(x, ..) in &rounds {
            let calls = |t: u8| rounds.iter().filter(|r| (r.0, r.1) == (x, t)).count();
            let mut counts = participants(g.client, x).iter().map(|t| calls(t.0));
            let first = counts.next();
            if counts.any(|c| Some(c) != first) {
                return Flow::Continue;
            }
        }
        state.attempt(|state| {
            for &(x, _, o, entering) in &rounds {
                for &(y, _, p, leaving) in &rounds {
                    // Without the fence, a thread may take its own counter from its store buffer.
                    let own = entering == leaving && g.events[entering].method == Method::BarrierUnfenced;
                    if (x, o) != (y, p) || own {
                        continue;
                    }
                    let Some(exit) = g.subevent(leaving, Stamp::cpu(StampKind::Cr)) else {
                        continue;
                    };
                    for entry in g.of_event(entering) {
                        if !g.is(entry, StampKind::Cr) && !state.order(entry, exit, "barrier") {
                            return Flow::Continue;
                        }
                    }
                }
            }
            next(state)
        })
    }

    fn results(&self, _past: &Past<'_>, _method: Method, _args: &[Arg]) -> Vec<Value> {
        vec![Value::Unit]
    }

    fn effects(&self, _past: &Past<'_>, _event: &Event) -> Vec<Effect> {
        Vec::new()
    }
}

fn entry(nodes: NodeSet) -> Vec<Stamp> {
    nodes.iter().map(|n: Node| Stamp::at(StampKind::Gf, n)).collect()
}
