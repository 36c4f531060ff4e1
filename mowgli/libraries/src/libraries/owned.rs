//! Owned variables and shared state tables (ours): each has a copy on every node, and the threads of one node
//! store to it.
//!
//! A table has a row for each node, which is an owned variable of that node. Owned variables are like shared variables, with
//! two additions. A pull returns the owner's value, read on the owner's node, and leaves the copy of the thread's node
//! alone. Copies never go back: if two pushes write one copy, the later one has not read an older value of the owner than
//! the earlier one, whichever threads made them.

use super::rdma_wait::access;
use crate::client::{Client, Library, Method, Node, NodeSet, ObjectKind};
use crate::event::{Arg, Event, Loc, Stamp, StampKind};
use crate::execution::{Flow, Graph, State};
use crate::library::{Effect, Next, Specification};
use crate::memory::{Access, Memory};
use crate::past::Past;
use crate::value::Value;

/// The specification of owned variables, or of tables.
#[derive(Clone, Copy, Debug)]
pub struct Owned {
    /// The library: owned variables or tables.
    pub library: Library,
}

/// Returns the variable that a call accesses, and the node that owns it.
fn variable(client: &Client, method: Method, args: &[Arg], own: Node) -> Option<(Loc, Node)> {
    let Some(Arg::Loc(x)) = args.first() else {
        return None;
    };
    let row = |node: Node| (x.part(1 + u32::from(node.0), Loc::EVERYWHERE), node);
    match (method, args.get(1)) {
        (Method::LoadSst, Some(Arg::Node(node))) => Some(row(*node)),
        (Method::StoreSst | Method::PushSst, _) => Some(row(own)),
        _ => match client.object(x.client_object()?).kind {
            ObjectKind::Owned { owner } => Some((*x, owner)),
            _ => None,
        },
    }
}

impl Specification for Owned {
    fn library(&self) -> Library {
        self.library
    }

    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let own = client.threads[usize::from(e.thread)].node;
        let cpu = |kind| Some(vec![Stamp::cpu(kind)]);
        if matches!(e.method, Method::WaitOwned | Method::WaitSst) {
            return cpu(StampKind::Wt);
        }
        let (_, owner) = variable(client, e.method, &e.args, own)?;
        match e.method {
            Method::LoadOwned | Method::LoadSst => cpu(StampKind::Cr),
            Method::StoreOwned | Method::StoreSst => (owner == own).then(|| vec![Stamp::cpu(StampKind::Cw)]),
            Method::PullOwned if owner == own => cpu(StampKind::Cr),
            // The call ends when the value is there.
            Method::PullOwned => Some(vec![Stamp::at(StampKind::Nrr, owner), Stamp::cpu(StampKind::Cr)]),
            _ => {
                let others = NodeSet::all(client.nodes).without(own);
                let stamps = others
                    .iter()
                    .flat_map(|n| [Stamp::at(StampKind::Nlr, n), Stamp::at(StampKind::Nrw, n)]);
                match (owner == own, others.is_empty()) {
                    (false, _) => None,
                    (true, true) => cpu(StampKind::Wt),
                    (true, false) => Some(stamps.collect()),
                }
            }
        }
    }

    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory {
            forward_only: true,
            ..Memory::default()
        };
        for e in g.of_library(self.library) {
            let event = &g.events[e];
            let own = g.node(e);
            for s in g.of_event(e) {
                let stamp = g.subevents[s].stamp;
                match (stamp.kind, variable(g.client, event.method, &event.args, own)) {
                    (StampKind::Cr, Some((_, owner)))
                        if event.method == Method::PullOwned && owner != own =>
                    {
                        // Follows its read in the order of stamps.
                        let read = memory.reads.len() - 1;
                        memory.so.push((memory.reads[read].sub, s, "iso"));
                    }
                    (StampKind::Cr, Some((x, _))) => {
                        memory
                            .reads
                            .push(access(s, x.at(own), Some(event.result.clone())));
                    }
                    (StampKind::Cw, Some((x, _))) => {
                        memory.writes.push(access(s, x.at(own), Some(event.value(1))))
                    }
                    (StampKind::Nlr, Some((x, _))) => memory.reads.push(access(s, x.at(own), None)),
                    (StampKind::Nrr, Some((x, owner))) => {
                        memory
                            .reads
                            .push(access(s, x.at(owner), Some(event.result.clone())));
                    }
                    // Each write follows its read in the order of stamps.
                    (StampKind::Nrw, Some((x, _))) => {
                        let source = memory.reads.len() - 1;
                        memory.so.push((memory.reads[source].sub, s, "iso"));
                        memory.writes.push(Access {
                            source: Some(source),
                            ..access(s, x.at(Node(stamp.node)), None)
                        });
                    }
                    (StampKind::Wt, None) => waits(g, e, s, &mut memory),
                    _ => {}
                }
            }
        }
        memory.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method, variable(past.client, method, args, past.node())) {
            (Method::PullOwned, Some((x, owner))) if owner != past.node() => {
                past.fetched(x.at(owner), Value::Int(0))
            }
            (Method::PullOwned, Some((x, owner))) => past.read(x.at(owner), Value::Int(0)),
            (Method::LoadOwned | Method::LoadSst, Some((x, _))) => {
                past.read(x.at(past.node()), Value::Int(0))
            }
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        let own = past.node();
        let Some((x, _)) = variable(past.client, e.method, &e.args, own) else {
            return Vec::new();
        };
        match e.method {
            Method::StoreOwned | Method::StoreSst => vec![Effect::Write(x.at(own), e.value(1))],
            Method::PushOwned | Method::PushSst => {
                let others = NodeSet::all(past.client.nodes).without(own);
                let from = x.at(own);
                others
                    .iter()
                    .map(|n| Effect::Copy { to: x.at(n), from })
                    .collect()
            }
            _ => Vec::new(),
        }
    }
}

/// Adds what a wait waits for: the sources of pushes have been read.
fn waits(g: &Graph<'_>, e: usize, wait: usize, memory: &mut Memory) {
    for s in 0..g.subevents.len() {
        let earlier = g.subevents[s].event;
        let same = g.library(s) == g.library(wait)
            && g.po(earlier, e)
            && g.events[earlier].work() == g.events[e].work();
        if same && g.is(s, StampKind::Nlr) {
            memory.so.push((s, wait, "pf"));
        }
    }
}
