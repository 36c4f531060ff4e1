//! The worked example of `docs/mowgli.md`: a mailbox of one word, with its specification, an implementation over shared
//! variables that is wrong, the client that shows it, and the repair.

mod specification;

use std::sync::atomic::AtomicU64;

use mowgli::outcome::Budget;
use mowgli_libraries::client::{Client, Library, Method, NodeSet};
use mowgli_libraries::enumerate::Bounds;
use mowgli_libraries::event::{Arg, Event, Stamp, Wid};
use mowgli_libraries::execution::Graph;
use mowgli_libraries::implementation::{Caller, Cut, Implementation, Rules, Run};
use mowgli_libraries::libraries::{RdmaWait, SharedVariable};
use mowgli_libraries::library::{Libraries, Specification};
use mowgli_libraries::over_clients::{Summary, over_clients};
use mowgli_libraries::refine::Refinement;
use mowgli_libraries::value::Value;

use specification::Mailbox;

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
    let specifications: [&dyn Specification; 3] = [&Mailbox, &SharedVariable { mixed: false }, &RdmaWait];
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
