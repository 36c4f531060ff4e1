//! The owned variable of any size. Readers see whole values that were stored, never an earlier one after a later one.
//! A push sends the value as of the call, also when the owner stores again at once. The NIC reads values that are too
//! large to go inline from memory.

use loco::fabric::NodeId;
use loco::{Manager, Result, SharedVar, Value, WideOwnedVar, fence};
use loco_sim::{World, call};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must, until_in_time};

struct Objects<T: Value> {
    wide: WideOwnedVar<T, Fabric>,
    other: SharedVar<u64, Fabric>,
}

fn make<T: Value>(manager: &Manager<Fabric>) -> Result<Objects<T>> {
    Ok(Objects {
        wide: WideOwnedVar::new(manager, "wide", NodeId(0))?,
        other: SharedVar::new(manager, "other")?,
    })
}

fn shown<const N: usize>(value: &Option<[u64; N]>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| format!("{value:?}"))
}

/// Makes a world in which the owner stores and pushes `values` values, by `threads` threads in turn. Node 1 reads its
/// copy, then waits for the last value.
fn sequence<const N: usize>(values: u64, threads: usize) -> impl Fn(&mut World)
where
    [u64; N]: Value,
{
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make::<[u64; N]>);

        stage.in_turn(
            0,
            0..threads,
            "owner",
            |o| &o.other,
            values,
            move |objects, thread, value| {
                let words = [value; N];
                let write = || {
                    did("WideOwnedVar::store");
                    must(objects.wide.store(thread, words));
                    did("WideOwnedVar::push");
                    must(objects.wide.push(thread)).forget();
                };
                call(format!("write {words:?}"), write, |()| "");
                assert_eq!(
                    objects.wide.try_load(),
                    Some(words),
                    "the owner reads what it stored"
                );
            },
        );
        stage.run(1, 0, "reader", move |objects, thread| {
            did("WideOwnedVar::try_load");
            call("read", || objects.wide.try_load(), shown);
            did("WideOwnedVar::wait_until");
            let last = || Some(must(objects.wide.wait_until(thread, |words| words[0] == values)));
            call("read", last, shown);
            call("read", || objects.wide.try_load(), shown);
        });
        stage.promise(|calls| loco_sim::spec::single_writer(calls, &format!("{:?}", [0_u64; N])));
    }
}

/// Makes a world in which stores, pushes and waits may be late, and are then repeated.
fn late<const N: usize>(threads: usize) -> impl Fn(&mut World)
where
    [u64; N]: Value,
{
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make::<[u64; N]>);

        stage.in_turn(
            0,
            0..threads,
            "owner",
            |o| &o.other,
            2,
            |objects, thread, value| {
                let words = [value; N];
                let write = || {
                    must(until_in_time(|| objects.wide.store(thread, words)));
                    must(until_in_time(|| objects.wide.push(thread))).forget();
                };
                call(format!("write {words:?}"), write, |()| "");
            },
        );
        stage.run(1, 0, "reader", |objects, thread| {
            call("read", || objects.wide.try_load(), shown);
            let last = || {
                Some(must(until_in_time(|| {
                    objects.wide.wait_until(thread, |words| words[0] == 2)
                })))
            };
            call("read", last, shown);
        });
        stage.promise(|calls| loco_sim::spec::single_writer(calls, &format!("{:?}", [0_u64; N])));
    }
}

/// Builds a world in which the owner pushes from memory and at once stores another value, which it does not push.
/// Nobody sees that value, and no mixture remains for good. The store may be late; the value is then the former one.
fn kept(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make::<[u64; 9]>);
    stage.run(0, 0, "owner", |objects, thread| {
        must(objects.wide.store(thread, [1; 9]));
        must(objects.wide.push(thread)).forget();
        match objects.wide.store(thread, [2; 9]) {
            Err(error) if error.is_timeout() => assert_eq!(objects.wide.try_load(), Some([1; 9])),
            stored => must(stored),
        }
    });
    stage.each("reader", 1..3, |objects, thread, _| {
        let seen = must(until_in_time(|| {
            objects.wide.wait_until(thread, |words| words[0] > 0)
        }));
        assert_eq!(seen, [1; 9], "stored after the push");
    });
}

/// Builds a world in which node 1 pulls while the owner stores. Node 1 has heard that the first value is stored.
fn pulled(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<[u64; 3]>);
    stage.run(0, 0, "owner", |objects, thread| {
        must(objects.wide.store(thread, [1; 3]));
        objects.other.write(1);
        must(objects.other.broadcast(thread)).forget();
        must(objects.wide.store(thread, [2; 3]));
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.other.wait_until(thread, |flag| flag == 1));
        did("WideOwnedVar::try_pull");
        if let Some(value) = must(objects.wide.try_pull(thread)) {
            assert!(
                value == [1; 3] || value == [2; 3],
                "whole, and stored before: {value:?}"
            );
        }
        did("WideOwnedVar::pull");
        let value = must(objects.wide.pull(thread));
        assert!(
            value == [1; 3] || value == [2; 3],
            "whole, and stored before: {value:?}"
        );
    });
}

/// Builds a world in which the owner pushes once, and node 1 loads, waiting while the value arrives.
fn loaded(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<[u64; 3]>);
    stage.run(0, 0, "owner", |objects, thread| {
        objects.other.write(7);
        must(objects.other.broadcast(thread)).forget();
        must(objects.wide.store(thread, [1; 3]));
        must(objects.wide.push(thread)).forget();
    });
    stage.run(1, 0, "reader", |objects, thread| {
        did("WideOwnedVar::load");
        let value = must(objects.wide.load(thread));
        assert!(value == [0; 3] || value == [1; 3], "whole: {value:?}");
        if value == [1; 3] {
            assert_eq!(objects.other.read(), 7, "puts before the push are seen with it");
        }
    });
}

/// Builds a world in which the value is at node 2 after a push and a fence. Node 2 hears of it from node 1.
fn fenced(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make::<[u64; 2]>);
    stage.run(0, 0, "owner", |objects, thread| {
        must(objects.wide.store(thread, [1; 2]));
        must(objects.wide.push(thread)).forget();
        must(fence::thread(thread));
        objects.other.write(1);
        must(objects.other.broadcast_to(thread, &[NodeId(1)])).forget();
    });
    stage.run(1, 0, "messenger", |objects, thread| {
        must(objects.other.wait_until(thread, |flag| flag == 1));
        must(objects.other.broadcast_to(thread, &[NodeId(2)])).forget();
    });
    stage.run(2, 0, "reader", |objects, thread| {
        must(objects.other.wait_until(thread, |flag| flag == 1));
        assert_eq!(objects.wide.try_load(), Some([1; 2]), "pushed and fenced before");
    });
}

/// Returns the worlds of the wide owned variable.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("load", loaded),
        NamedWorld::new("push", sequence::<3>(2, 1)),
        NamedWorld::new("pull", pulled),
        NamedWorld::new("two-threads", sequence::<2>(2, 2)),
        NamedWorld::new("fenced", fenced),
        // Nine words are more than goes inline on the model fabric, so that the NIC reads the source.
        NamedWorld::new("from-memory", sequence::<9>(1, 1)),
        NamedWorld::new("expiry", late::<2>(2)).expiries(1),
        NamedWorld::new("from-memory-expiry", late::<9>(1)).expiries(1),
        NamedWorld::new("from-memory-kept", kept),
        NamedWorld::new("from-memory-kept-expiry", kept).expiries(1),
        NamedWorld::new("from-memory-twice", sequence::<9>(2, 2)),
    ]
}
