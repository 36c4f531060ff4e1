//! The specification of the mailbox of `docs/mowgli.md`. The test beside this file has the implementation as a program; the
//! shipped code is tested against it in `loco-check` (`tests/mailbox.rs`).
//!
//! The vocabulary of methods is one table (`client/method.rs`), to which a new library adds its lines. So
//! that the example can be a test, it borrows two methods of owned variables: `store_owned` is `post`,
//! `load_owned` is `look`.

use mowgli_libraries::client::{Client, Library, Method, Node, NodeSet};
use mowgli_libraries::event::{Arg, Event, Stamp, StampKind};
use mowgli_libraries::execution::{Flow, Graph, State};
use mowgli_libraries::library::{Effect, Next, Specification};
use mowgli_libraries::memory::{Access, Memory};
use mowgli_libraries::past::Past;
use mowgli_libraries::value::Value;

/// The specification. A post writes the copies of every node, which all get the same value but at different
/// times: `aCW` on its own node, `aNRW_n` on each other. Operations of the owner towards node `n` that come
/// before the post therefore happen before the post at `n` (Fig. 10, cell G7).
pub struct Mailbox;

fn post_stamp(own: Node, node: Node) -> Stamp {
    if own == node {
        Stamp::cpu(StampKind::Cw)
    } else {
        Stamp::at(StampKind::Nrw, node)
    }
}

impl Specification for Mailbox {
    fn library(&self) -> Library {
        Library::Owned
    }

    fn stamps(&self, client: &Client, e: &Event) -> Option<Vec<Stamp>> {
        let own = client.threads[usize::from(e.thread)].node;
        match e.method {
            Method::StoreOwned => Some(
                NodeSet::all(client.nodes)
                    .iter()
                    .map(|n| post_stamp(own, n))
                    .collect(),
            ),
            Method::LoadOwned => Some(vec![Stamp::cpu(StampKind::Cr)]),
            _ => None,
        }
    }

    /// Adds `so = rf_e ∪ rb ∪ mo`, each on the copies of one node, as for shared variables.
    fn order(&self, g: &Graph<'_>, state: &mut State<'_>, next: Next<'_>) -> Flow {
        let mut memory = Memory::default();
        for e in g.of_library(Library::Owned) {
            let event = &g.events[e];
            let Some(x) = event.loc(0) else { continue };
            for s in g.of_event(e) {
                let stamp = g.subevents[s].stamp;
                let node = if stamp.kind == StampKind::Nrw {
                    Node(stamp.node)
                } else {
                    g.node(e)
                };
                let access = |value| Access {
                    sub: s,
                    loc: x.at(node),
                    value: Some(value),
                    source: None,
                };
                match event.method {
                    Method::StoreOwned => memory.writes.push(access(event.value(1))),
                    _ => memory.reads.push(access(event.result.clone())),
                }
            }
        }
        memory.order(g, state, next)
    }

    fn results(&self, past: &Past<'_>, method: Method, args: &[Arg]) -> Vec<Value> {
        match (method, args.first()) {
            (Method::LoadOwned, Some(Arg::Loc(x))) => past.read(x.at(past.node()), Value::Int(0)),
            _ => vec![Value::Unit],
        }
    }

    fn effects(&self, past: &Past<'_>, e: &Event) -> Vec<Effect> {
        match (e.method, e.loc(0)) {
            (Method::StoreOwned, Some(x)) => {
                let nodes = NodeSet::all(past.client.nodes);
                nodes.iter().map(|n| Effect::Place(x.at(n), e.value(1))).collect()
            }
            _ => Vec::new(),
        }
    }
}
