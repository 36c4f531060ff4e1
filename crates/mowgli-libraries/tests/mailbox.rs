//! The worked example of `docs/mowgli.md`: a mailbox of one word, with its specification, an implementation over shared
//! variables that is wrong, the client that shows it, and the repair.
//!
//! The vocabulary of methods is one table (`client/method.rs`), to which a new library adds its lines. So
//! that the example can be a test, it borrows two methods of owned variables: `store_owned` is `post`,
//! `load_owned` is `look`.

use std::sync::atomic::AtomicU64;

use mowgli::outcome::Budget;
use mowgli_libraries::client::{Client, Library, Method, Node, NodeSet};
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::event::{Arg, Event, Stamp, StampKind, Wid};
use mowgli_libraries::execution::{Flow, Graph, State};
use mowgli_libraries::implementation::{Caller, Cut, Implementation, Rules, Run};
use mowgli_libraries::libraries::{RdmaWait, SharedVariable};
use mowgli_libraries::library::{Effect, Libraries, Next, Specification};
use mowgli_libraries::memory::{Access, Memory};
use mowgli_libraries::over_clients::{Summary, over_clients};
use mowgli_libraries::past::Past;
use mowgli_libraries::refine::Refinement;
use mowgli_libraries::value::Value;

/// The specification. A post writes the copies of every node, which all get the same value but at different
/// times: `aCW` on its own node, `aNRW_n` on each other. Operations of the owner towards node `n` that come
/// before the post therefore happen before the post at `n` (Fig. 10, cell G7).
struct Mailbox;

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

/// The implementation over shared variables: write, then broadcast.
struct IMailbox {
    /// Whether a post waits until the broadcast of the previous post has read its source.
    waits: bool,
}

impl Implementation for IMailbox {
    fn name(&self) -> &str {
        "I_MAILBOX"
    }

    fn library(&self) -> Library {
        Library::Owned
    }

    fn run(&self, c: &mut Caller<'_>, method: Method, args: &[Arg]) -> Run<Value> {
        let Some(Arg::Loc(mailbox)) = args.first() else {
            return Err(Cut::Blocked);
        };
        let x = mailbox.part(1, mailbox.node);
        let d = Wid::of(mailbox.object);
        match method {
            Method::StoreOwned => {
                if self.waits {
                    c.call(Method::WaitSv, &[Arg::Work(d)])?;
                }
                c.call(Method::WriteSv, &[Arg::Loc(x), args[1].clone()])?;
                let others = NodeSet::all(c.client().nodes).without(c.node());
                if !others.is_empty() {
                    c.call(Method::BcastSv, &[Arg::Loc(x), Arg::Work(d), Arg::Nodes(others)])?;
                }
                Ok(Value::Unit)
            }
            Method::LoadOwned => c.call(Method::ReadSv, &[Arg::Loc(x)]),
            _ => Err(Cut::Blocked),
        }
    }

    fn concretise(
        &self,
        _: &Client,
        _: &Event,
        stamp: Stamp,
        events: &[usize],
        g: &Graph<'_>,
    ) -> Option<usize> {
        events.iter().find_map(|&e| g.subevent(e, stamp))
    }
}

fn refine(implementation: &IMailbox, calls: usize) -> Summary {
    let specifications: [&dyn Specification; 3] = [&Mailbox, &SharedVariable, &RdmaWait];
    let specified = Rules {
        libraries: Libraries::new(specifications),
        implementations: Vec::new(),
        iterations_max: 1,
    };
    let implemented = Rules {
        libraries: Libraries::new(specifications),
        implementations: vec![implementation],
        iterations_max: 1,
    };
    let refinement = Refinement {
        implementation: &implemented,
        specification: &specified,
    };
    let bounds = Bounds {
        methods: vec![
            Method::StoreOwned,
            Method::LoadOwned,
            Method::Put,
            Method::Read,
            Method::Write,
        ],
        ..Bounds::of(&[Library::Owned, Library::RdmaWait], calls)
    };
    over_clients(&refinement, &bounds, Budget::default(), &AtomicU64::new(0))
}

#[test]
fn a_mailbox_that_does_not_wait_is_refuted() {
    let summary = refine(&IMailbox { waits: false }, 6);
    let failure = summary.failure.expect("it is wrong");
    let text = failure.client.print();
    assert_eq!(text.matches("store_owned").count(), 2, "{text}");
    assert_eq!(text.matches("put").count(), 1, "{text}");
}

#[test]
fn a_mailbox_that_waits_refines_its_specification() {
    let summary = refine(&IMailbox { waits: true }, 4);
    assert_eq!(summary.failure, None);
    assert!(
        summary.complete == summary.clients && summary.clients > 100,
        "{summary:?}"
    );
}
