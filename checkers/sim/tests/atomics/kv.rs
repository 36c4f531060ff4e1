//! Key-value store: it is linearizable for each key.

use std::time::Duration;

use loco::{Encode, Inserted, KvConfig, KvStore, Manager, Thread};
use loco_sim::spec::{self, Operation, Violation};
use loco_sim::{Bounds, Completeness, Config, Strategy, World, call};

use crate::{Body, Fabric, Plan, complete, search};

/// The key that is there from the beginning. It is on node `OWNER`.
const BEFORE: u64 = 9;
const OWNER: u16 = 1;

/// A value made of a number.
trait Number: Encode {
    fn of(number: u64) -> Self;
    /// Returns the number, or one that nobody wrote if the value is a mixture.
    fn number(&self) -> u64;
}

impl Number for u64 {
    fn of(number: u64) -> u64 {
        number
    }
    fn number(&self) -> u64 {
        *self
    }
}

/// Two words can tear.
impl Number for [u64; 2] {
    fn of(number: u64) -> [u64; 2] {
        [number, number]
    }
    fn number(&self) -> u64 {
        let [one, other] = *self;
        if one == other {
            one
        } else {
            1000 + 10 * one + other
        }
    }
}

struct Store<V: Number>(KvStore<u64, V, Fabric>);

fn store<V: Number>(manager: &Manager<Fabric>) -> Store<V> {
    let config = KvConfig::default()
        .slots_per_node(1)
        .value_bytes_max(size_of::<V>())
        .key_bytes_max(8)
        .locks(1)
        .tracker_bytes(128);
    Store(KvStore::new(manager, "kv", config).unwrap())
}

/// A call of the store.
#[derive(Clone, Copy)]
enum Do {
    Get(u64),
    Insert(u64, u64),
    Update(u64, u64),
    Delete(u64),
}

use Do::{Delete, Get, Insert, Update};

impl Do {
    fn with<V: Number>(self, Store(store): &Store<V>, thread: &Thread<Fabric>) {
        match self {
            Get(key) => {
                let shown = |found: &Option<V>| match found {
                    None => "none".to_owned(),
                    Some(found) => found.number().to_string(),
                };
                call(format!("get {key}"), || store.get(thread, &key).unwrap(), shown);
            }
            Insert(key, number) => {
                let shown = |inserted: &Inserted| match inserted {
                    Inserted::Done => "done",
                    Inserted::Duplicate => "duplicate",
                    Inserted::Full => "full",
                };
                let insert = || store.insert(thread, &key, &V::of(number)).unwrap();
                let _ = call(format!("insert {key} {number}"), insert, shown);
            }
            Update(key, number) => {
                let update = || store.update(thread, &key, &V::of(number)).unwrap();
                call(format!("update {key} {number}"), update, bool::to_string);
            }
            Delete(key) => {
                let delete = || store.delete(thread, &key).unwrap();
                call(format!("delete {key}"), delete, bool::to_string);
            }
        }
    }
}

/// Inserts the key on its node.
fn inserted<V: Number>(Store(store): &Store<V>, thread: &Thread<Fabric>) {
    if thread.node_id().0 == OWNER {
        assert_eq!(store.insert(thread, &BEFORE, &V::of(0)).unwrap(), Inserted::Done);
    }
}

/// Checks the calls, preceded by the insert of the key that is there from the beginning.
fn promise(operations: &[Operation]) -> Result<(), Violation> {
    let first = Operation {
        thread: "set-up".to_owned(),
        number: u16::MAX,
        node: OWNER,
        name: "insert".to_owned(),
        argument: format!("{BEFORE} 0"),
        result: Some("done".to_owned()),
        invoked: 0,
        responded: Some(0),
    };
    let all: Vec<Operation> = std::iter::once(first).chain(operations.iter().cloned()).collect();
    spec::key_value_store(&all)
}

/// The calls of each thread of each node.
type Calls = &'static [&'static [&'static [Do]]];

/// Makes a world that has, if `prepared`, a key from the beginning.
fn world<V: Number>(prepared: bool, calls: Calls) -> impl Fn(&mut World) + Sync {
    move |world| {
        let body = |calls: &&'static [Do]| -> Body<Store<V>> {
            let calls: &'static [Do] = calls;
            Box::new(move |store, thread| {
                for call in calls {
                    call.with(store, thread);
                }
            })
        };
        let threads = calls.iter().map(|node| node.iter().map(body).collect()).collect();
        let mut plan = Plan::new(store, threads, spec::key_value_store);
        if prepared {
            plan.prepare = inserted;
            plan.promise = promise;
        }
        plan.build(world);
    }
}

const UPDATED: Calls = &[&[&[Update(BEFORE, 1)]], &[&[Get(BEFORE)]]];
const INSERTED: Calls = &[&[&[Insert(1, 1)], &[Get(1)]], &[&[Get(1)]]];
const REUSED: Calls = &[&[&[Get(BEFORE)]], &[&[Delete(BEFORE), Insert(1, 1)]]];

#[test]
fn an_update_against_a_get() {
    complete("kv: update | get", world::<u64>(true, UPDATED));
    complete("kv: update | get, two words", world::<[u64; 2]>(true, UPDATED));
}

#[test]
fn an_insert_against_a_get() {
    complete(
        "kv: insert | get",
        world::<u64>(false, &[&[&[Insert(1, 1)]], &[&[Get(1)]]]),
    );
}

#[test]
fn a_delete_against_a_get() {
    complete(
        "kv: delete | get",
        world::<u64>(true, &[&[&[Delete(BEFORE)]], &[&[Get(BEFORE)]]]),
    );
}

fn random(executions: u64) -> [Config; 2] {
    let config = |strategy| Config {
        strategy,
        time_max: Some(Duration::from_secs(30)),
        ..Config::default()
    };
    let pct = Strategy::Pct {
        executions,
        seed: 1,
        depth: 4,
    };
    [config(pct), config(Strategy::Random { executions, seed: 1 })]
}

const CALLS: Calls = &[&[&[Insert(1, 1), Update(1, 2), Delete(1)]], &[&[Get(1), Get(1)]]];

/// This world is too large for all executions in a test. The manual says how far the search goes.
#[test]
fn insert_update_and_delete_against_two_gets_within_four_delays() {
    let bounds = Bounds {
        delays: Some(4),
        preemptions: None,
    };
    let config = Config {
        strategy: Strategy::Bounded(bounds),
        ..Config::default()
    };
    let world = world::<u64>(false, CALLS);
    let report = search("kv: insert, update, delete | get, get", &config, world);
    assert_eq!(report.completeness, Completeness::UpTo(bounds));
}

#[test]
fn insert_update_and_delete_against_two_gets_by_random_schedules() {
    for config in random(1000) {
        search(
            "kv: insert, update, delete | get, get",
            &config,
            world::<u64>(false, CALLS),
        );
    }
    for config in random(500) {
        search("kv: insert | get | get", &config, world::<u64>(false, INSERTED));
        search("kv: get | delete, insert", &config, world::<u64>(true, REUSED));
    }
}
