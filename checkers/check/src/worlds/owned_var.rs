//! The owned variable (LOCO'25 5.1.1): a register with one writing node. A reader sees values that were stored, and
//! never goes back to an earlier one, whichever of the owner's threads pushed. With a value it sees every put that
//! the pushing thread posted to it before. After a fence the value is everywhere. A pull brings a value that is not
//! older than what the reader knows to be stored.

use loco::fabric::NodeId;
use loco::{Manager, OwnedVar, Result, SharedVar, fence};
use loco_sim::{World, call};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{Fabric, Stage, must, unless_excused, unless_lost, until_in_time};

struct Objects {
    owned: OwnedVar<u64, Fabric>,
    other: SharedVar<u64, Fabric>,
}

fn make(manager: &Manager<Fabric>) -> Result<Objects> {
    Ok(Objects {
        owned: OwnedVar::new(manager, "owned", NodeId(0))?,
        other: SharedVar::new(manager, "other")?,
    })
}

/// The way in which the owner pushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Push {
    /// Without waiting.
    Forget,
    /// Waiting for each push.
    Wait,
    /// Untracked.
    Untracked,
}

fn push(objects: &Objects, thread: &loco::Thread<Fabric>, how: Push) {
    if how == Push::Untracked {
        did("OwnedVar::push_untracked");
        must(objects.owned.push_untracked(thread));
        return;
    }
    did("OwnedVar::push");
    let key = must(objects.owned.push(thread));
    match how {
        Push::Wait => must(key.wait(thread)),
        _ => key.forget(),
    }
}

/// Makes a world in which the owner pushes `values` values, each by the next of its threads. Node 1 reads.
fn sequence(values: u64, threads: usize, how: Push, readers: u16) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, readers + 1, 2, make);

        stage.in_turn(
            0,
            0..threads,
            "owner",
            |o| &o.other,
            values,
            move |objects, thread, value| {
                let write = || {
                    did("OwnedVar::store");
                    must(objects.owned.store(value));
                    push(objects, thread, how);
                };
                call(format!("write {value}"), write, |()| "");
                assert_eq!(objects.owned.load(), value, "the owner reads what it stored last");
            },
        );
        stage.each("reader", 1..=readers, move |objects, thread, _| {
            did("OwnedVar::load");
            call("read", || objects.owned.load(), u64::to_string);
            call("read", || objects.owned.load(), u64::to_string);
            did("OwnedVar::wait_until");
            let last = || must(objects.owned.wait_until(thread, |value| value == values));
            call("read", last, u64::to_string);
            call("read", || objects.owned.load(), u64::to_string);
        });
        stage.promise(|calls| loco_sim::spec::single_writer(calls, "0"));
    }
}

/// Makes a world in which thread A stores and pushes two values while thread B pushes the current one. Readers never
/// go back.
fn at_once(how: Push) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 2, make);
        stage.run(0, 0, "stores", move |objects, thread| {
            for value in 1..=2 {
                let write = || {
                    must(objects.owned.store(value));
                    push(objects, thread, how);
                };
                call(format!("write {value}"), write, |()| "");
            }
        });
        stage.run(0, 1, "pushes", move |objects, thread| {
            push(objects, thread, how);
        });
        stage.run(1, 0, "reader", |objects, thread| {
            let last = || must(objects.owned.wait_until(thread, |value| value == 2));
            call("read", || objects.owned.load(), u64::to_string);
            call("read", last, u64::to_string);
            call("read", || objects.owned.load(), u64::to_string);
        });
        stage.promise(|calls| loco_sim::spec::single_writer(calls, "0"));
    }
}

/// Makes a world in which the owner's threads push in turn. Pushes may be late, and are then repeated. A node may be
/// lost; the owner goes on, and the others still get the last value.
fn faulty(readers: u16) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, readers + 1, 2, make);
        stage.in_turn(
            0,
            0..2,
            "owner",
            |o| &o.other,
            2,
            |objects, thread, value| {
                let write = || {
                    must(objects.owned.store(value));
                    unless_lost(until_in_time(|| objects.owned.push_untracked(thread)));
                };
                call(format!("write {value}"), write, |()| "");
            },
        );
        stage.each("reader", 1..=readers, |objects, thread, _| {
            call("read", || objects.owned.load(), u64::to_string);
            let last = until_in_time(|| objects.owned.wait_until(thread, |value| value == 2));
            unless_excused(last, |node| {
                assert_eq!(node, NodeId(0), "only the loss of the owner ends the wait");
            });
            call("read", || objects.owned.load(), u64::to_string);
        });
        stage.promise(|calls| loco_sim::spec::single_writer(calls, "0"));
    }
}

/// Builds a world in which a broadcast before the push is seen with the pushed value.
fn with_data(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "owner", |objects, thread| {
        objects.other.write(7);
        must(objects.other.broadcast(thread)).forget();
        must(objects.owned.store(1));
        push(objects, thread, Push::Forget);
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.owned.wait_until(thread, |value| value == 1));
        assert_eq!(objects.other.read(), 7, "puts before the push are seen with it");
    });
}

/// Builds a world in which the value is at node 2 after a push and a fence. Node 2 hears of it from node 1.
fn fenced(world: &mut World) {
    let mut stage = Stage::new(world, 3, 1, make);
    stage.run(0, 0, "owner", |objects, thread| {
        must(objects.owned.store(1));
        push(objects, thread, Push::Forget);
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
        assert_eq!(objects.owned.load(), 1, "pushed and fenced before");
    });
}

/// Builds a world in which the owner stores without pushing and says so. The reader pulls.
fn pulled(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.run(0, 0, "owner", |objects, thread| {
        must(objects.owned.store(1));
        objects.other.write(1);
        must(objects.other.broadcast(thread)).forget();
        must(objects.owned.store(2));
    });
    stage.run(1, 0, "reader", |objects, thread| {
        must(objects.other.wait_until(thread, |flag| flag == 1));
        did("OwnedVar::pull");
        let first = must(objects.owned.pull(thread));
        assert!(first >= 1, "stored before the pull: {first}");
        let second = must(objects.owned.pull(thread));
        assert!(second >= first, "{second} after {first}");
    });
}

/// Returns the worlds of the owned variable.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    vec![
        NamedWorld::new("push", sequence(2, 1, Push::Forget, 1)),
        NamedWorld::new("push-waited", sequence(2, 1, Push::Wait, 1)),
        NamedWorld::new("push-untracked", sequence(3, 1, Push::Untracked, 1)),
        NamedWorld::new("two-threads", sequence(2, 2, Push::Forget, 1)),
        NamedWorld::new("two-threads-waited", sequence(2, 2, Push::Wait, 1)),
        NamedWorld::new("two-threads-untracked", sequence(3, 2, Push::Untracked, 1)),
        NamedWorld::new("with-data", with_data),
        NamedWorld::new("at-once", at_once(Push::Forget)),
        NamedWorld::new("at-once-untracked", at_once(Push::Untracked)),
        NamedWorld::new("expiry", faulty(1)).expiries(1),
        NamedWorld::new("crash", faulty(2)).crash(),
        NamedWorld::new("two-readers-expiry", faulty(2)).expiries(1),
        NamedWorld::new("pull", pulled),
        super::last_nodes::owned_var(),
        NamedWorld::new("fenced", fenced),
        NamedWorld::new("two-readers", sequence(2, 1, Push::Forget, 2)),
    ]
}
