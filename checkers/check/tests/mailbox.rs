//! The shipped side of the worked example of `docs/mowgli.md`: a mailbox written on `loco`, run by clients under the model
//! against the specification that its implementation as a program refines.

#[path = "../../../mowgli/libraries/tests/mailbox/specification.rs"]
mod specification;

use std::ops::ControlFlow;
use std::sync::Mutex;

use loco::{AckKey, Manager, Result, SharedVar, Thread};
use loco_check::clients::{Channel, Checked, Effort, Form, Own, check};
use loco_sim::{FailureKind, ModelFabric};
use mowgli_libraries::client::{Client, Library, Method, ObjectKind, parse};
use mowgli_libraries::enumerate::{Bounds, for_each_client};
use mowgli_libraries::implementation::Rules;
use mowgli_libraries::libraries::RdmaWait;
use mowgli_libraries::library::{Libraries, Specification};
use mowgli_libraries::outcome::{Budget, Outcomes};
use mowgli_libraries::outcomes::outcomes;
use mowgli_libraries::value::Value;

use specification::Mailbox;

/// The mailbox: the owner writes its copy of a word and sends it to all others.
struct WordMailbox {
    word: SharedVar<u64, ModelFabric>,
    /// The last post, until the NIC has read its value.
    posted: Mutex<AckKey<ModelFabric>>,
    /// Whether a post waits until the one before has read its value.
    waits: bool,
}

impl WordMailbox {
    fn boxed(manager: &Manager<ModelFabric>, name: &str, waits: bool) -> Result<Box<dyn Channel>> {
        Ok(Box::new(WordMailbox {
            word: SharedVar::new(manager, name)?,
            posted: Mutex::new(AckKey::done()),
            waits,
        }))
    }

    fn post(&self, thread: &Thread<ModelFabric>, value: u64) -> Result<()> {
        // One thread posts, so nobody else wants the lock; it is not held while the thread waits.
        let last = std::mem::replace(&mut *self.posted.lock().expect("no panic"), AckKey::done());
        match self.waits {
            true => last.wait(thread)?,
            false => last.forget(),
        }
        self.word.write(value);
        *self.posted.lock().expect("no panic") = self.word.broadcast(thread)?;
        Ok(())
    }
}

impl Channel for WordMailbox {
    fn call(&self, thread: &Thread<ModelFabric>, method: Method, values: &[Value]) -> Result<Value> {
        match method {
            Method::StoreOwned => {
                self.post(thread, values[0].number() as u64)?;
                Ok(Value::Unit)
            }
            _ => Ok(Value::Int(self.word.read() as i64)),
        }
    }
}

impl Drop for WordMailbox {
    fn drop(&mut self) {
        if let Ok(posted) = self.posted.get_mut() {
            std::mem::replace(posted, AckKey::done()).forget();
        }
    }
}

fn waiting(manager: &Manager<ModelFabric>, name: &str, _: &ObjectKind) -> Result<Box<dyn Channel>> {
    WordMailbox::boxed(manager, name, true)
}

fn hasty(manager: &Manager<ModelFabric>, name: &str, _: &ObjectKind) -> Result<Box<dyn Channel>> {
    WordMailbox::boxed(manager, name, false)
}

/// The outcomes that the specification allows.
fn allowed(client: &Client) -> Outcomes {
    let specifications: [&dyn Specification; 2] = [&Mailbox, &RdmaWait];
    let rules = Rules {
        libraries: Libraries::new(specifications),
        implementations: Vec::new(),
        iterations_max: 1,
    };
    outcomes(client, &rules, Budget::default())
}

fn run(client: &Client, make: loco_check::clients::Make) -> Checked {
    let allowed = allowed(client);
    assert!(allowed.is_complete(), "{}", client.print());
    let form = Form {
        own: Some(Own {
            library: Library::Owned,
            make,
        }),
        ..Form::default()
    };
    check(client, form, Some(&allowed.outcomes), &Effort::default()).expect("it can be explored")
}

/// The client that refutes the program without a wait (`mowgli-libraries`, `tests/mailbox`).
const TWO_POSTS: &str = "RDMA two-posts
{ x@1=0; z@2=0; }
objects { owned m@1; }
 P0@1             | P1@2               ;
 write(x, 1)      | b := load_owned(m) ;
 store_owned(m, 2)| a := read(z)       ;
 put(z, x, _)     |                    ;
 store_owned(m, 4)|                    ;

exists (1:b=4 /\\ 1:a=0)
";

#[test]
fn the_shipped_mailbox_that_waits_does_what_is_promised() {
    let client = parse(TWO_POSTS).expect("it is a client").client;
    let checked = run(&client, waiting);
    assert!(checked.report.failure.is_none(), "{:?}", checked.report.failure);
    assert!(checked.is_complete());
}

#[test]
fn the_shipped_mailbox_that_does_not_wait_is_refuted() {
    let client = parse(TWO_POSTS).expect("it is a client").client;
    let failure = run(&client, hasty).report.failure.expect("it is wrong");
    assert!(matches!(failure.kind, FailureKind::End { .. }), "{failure}");
    assert!(failure.to_string().contains("1:b=4"), "{failure}");
}

/// Returns whether one thread posts at most.
fn has_one_owner(client: &Client) -> bool {
    let mut posting = Vec::new();
    client.for_each_call(&mut |thread, call| {
        if call.method == Method::StoreOwned && !posting.contains(&thread) {
            posting.push(thread);
        }
    });
    posting.len() <= 1
}

#[test]
fn clients_of_the_mailbox_that_waits_end_as_specified() {
    let bounds = Bounds {
        methods: vec![
            Method::StoreOwned,
            Method::LoadOwned,
            Method::Put,
            Method::Read,
            Method::Write,
        ],
        ..Bounds::of(&[Library::Owned, Library::RdmaWait], 3)
    };
    let mut clients = 0;
    let _ = for_each_client(&bounds, &mut |client| {
        if has_one_owner(&client) {
            clients += 1;
            let checked = run(&client, waiting);
            let failure = checked.report.failure.as_ref();
            assert!(
                failure.is_none(),
                "{}\n{}",
                client.print(),
                failure.expect("failed")
            );
            assert!(checked.is_complete(), "{}", client.print());
        }
        ControlFlow::Continue(())
    });
    assert!(clients > 100, "{clients} clients say little");
}
