//! Worlds of the locks without faults.

use std::sync::Arc;

use loco::fabric::NodeId;
use loco::fence::Scope;
use loco::{LockConfig, OnLoss, SharedRegion, TasLock, Thread};
use loco_sim::{World, call, note, spec};

use super::lock::{Lock, Objects, distinct, make};
use crate::methods::did;
use crate::stage::{Fabric, Stage, get_word, here, must, put_word, put_words};

/// The way in which a thread asks for the lock.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    Lock,
    Until,
    Try,
    /// Released by dropping the guard.
    Drop,
}

/// A world of holders.
#[derive(Clone, Copy)]
pub(super) struct Shape {
    pub(super) nodes: u16,
    pub(super) threads: usize,
    pub(super) acquisitions: u64,
    /// The node of the lock's words.
    pub(super) home: u16,
    /// The node of the counter.
    pub(super) data: u16,
    pub(super) scope: fn(NodeId) -> Scope,
    pub(super) ask: Ask,
    pub(super) hand_overs: u32,
    /// The counter is put from registered memory.
    pub(super) from_memory: bool,
}

pub(super) const PLAIN: Shape = Shape {
    nodes: 2,
    threads: 1,
    acquisitions: 1,
    home: 0,
    data: 0,
    scope: |_| Scope::Thread,
    ask: Ask::Lock,
    hand_overs: 16,
    from_memory: false,
};

/// Increments the counters as a holder does: on the data's node and, for the threads of one node, on its own.
pub(super) fn section<L: Lock>(objects: &Objects<L>, thread: &Thread<Fabric>, shape: Shape) {
    let me = thread.node_id().0;
    call("hold", || (), |()| "");
    let offset = 8 * usize::from(me) + 8;
    let local = here(&objects.data, offset);
    let count = match shape.data == me {
        true => here(&objects.data, 0),
        false => get_word(thread, &objects.data, shape.data, 0),
    };
    note(format!("count {count}"));
    note(format!("local {me} {local}"));
    must(objects.data.write(offset, &(local + 1).to_ne_bytes()));
    if shape.data == me {
        must(objects.data.write(0, &(count + 1).to_ne_bytes()));
    } else if shape.from_memory {
        put_words(thread, &objects.data, shape.data, 0, &[count + 1]);
    } else {
        put_word(thread, &objects.data, shape.data, 0, count + 1);
    }
}

pub(super) fn holders<L: Lock>(shape: Shape) -> impl Fn(&mut World) {
    move |world| {
        let config = LockConfig::default()
            .on_loss(OnLoss::Recover)
            .local_hand_overs_max(shape.hand_overs);
        let mut stage = Stage::new(world, shape.nodes, shape.threads, make::<L>(shape.home, config));
        stage.everywhere(shape.threads, move |objects, thread, _| {
            let scope = (shape.scope)(NodeId(shape.data));
            for _ in 0..shape.acquisitions {
                let guard = match shape.ask {
                    Ask::Lock | Ask::Drop => Some(must(objects.lock.lock(thread, scope))),
                    Ask::Until => Some(must(objects.lock.lock_until(thread, scope, thread.deadline()))),
                    Ask::Try => must(objects.lock.try_lock(thread, scope)),
                };
                let Some(guard) = guard else { continue };
                assert!(!guard.recovered(), "nobody was lost");
                section(objects, thread, shape);
                match shape.ask {
                    Ask::Drop => drop(guard),
                    _ => must(guard.release()),
                }
            }
        });
        stage.promise(spec::mutual_exclusion);
        let all = u64::from(shape.nodes) * shape.threads as u64 * shape.acquisitions;
        stage.notes(move |lines| {
            distinct(lines, "count", (shape.ask != Ask::Try).then_some(all));
            for node in 0..shape.nodes {
                distinct(lines, &format!("local {node}"), None);
            }
        });
    }
}

/// Builds a world in which two threads of node 1, the lock's home, increment a counter on node 0. One hands the lock to the other, or asks
/// again when it is back at the home: what a holder put elsewhere is placed by the fence of its release alone.
pub(super) fn handed_over<L: Lock>(world: &mut World) {
    const SHAPE: Shape = Shape { home: 1, ..PLAIN };
    let mut stage = Stage::new(world, 2, 2, make::<L>(SHAPE.home, LockConfig::default()));
    for own in 0..2 {
        stage.run(1, own, &format!("thread {own}"), |objects, thread| {
            let guard = must(objects.lock.lock(thread, Scope::Thread));
            section(objects, thread, SHAPE);
            must(guard.release());
        });
    }
    stage.notes(|lines| distinct(lines, "count", Some(2)));
}

/// Builds a world in which two nodes hold the lock once each, after they have held it in turns so often that their draws of tickets look at
/// more slots than one.
pub(super) fn after_turns<L: Lock>(world: &mut World) {
    const TURNS: u64 = 7;
    let make = make::<L>(0, LockConfig::default());
    let mut stage = Stage::prepared(world, 2, 1, make, |objects, thread| {
        let me = u64::from(thread.node_id().0);
        for turn in (0..TURNS).filter(|turn| turn % 2 == me) {
            must(objects.flag.wait_until(thread, |flag| flag >= turn));
            must(must(objects.lock.lock(thread, Scope::Thread)).release());
            objects.flag.write(turn + 1);
            must(objects.flag.broadcast(thread)).forget();
        }
    });
    stage.each("node", 0..2, |objects, thread, _| {
        let guard = must(objects.lock.lock(thread, Scope::Thread));
        section(objects, thread, PLAIN);
        must(guard.release());
    });
    stage.promise(spec::mutual_exclusion);
    stage.notes(|lines| distinct(lines, "count", Some(2)));
}

/// Builds a world in which one thread tries while another holds. The try fails at once, and when the lock is free a
/// try succeeds.
pub(super) fn tries<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 2, make::<L>(0, LockConfig::default()));
    stage.run(0, 0, "holder", |objects, thread| {
        let guard = must(objects.lock.lock(thread, Scope::Thread));
        call("hold", || (), |()| "");
        must(guard.release());
        must(loco::fence::thread(thread));
        objects.flag.write(1);
        must(objects.flag.broadcast(thread)).forget();
    });
    stage.run(1, 0, "tries", |objects, thread| {
        if let Some(guard) = must(objects.lock.try_lock(thread, Scope::Thread)) {
            call("hold", || (), |()| "");
            must(guard.release());
        }
        must(objects.flag.wait_until(thread, |flag| flag == 1));
        match must(objects.lock.try_lock(thread, Scope::Thread)) {
            Some(guard) => must(guard.release()),
            None => panic!("the lock is free, and nobody else wants it"),
        }
    });
    stage.promise(spec::mutual_exclusion);
}

/// Builds a world in which one thread tries the lock that it has just released. Nobody else wants it, so the try succeeds.
pub(super) fn tries_again<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<L>(0, LockConfig::default()));
    stage.run(1, 0, "node 1", |objects, thread| {
        must(must(objects.lock.lock(thread, Scope::Nothing)).release());
        match must(objects.lock.try_lock(thread, Scope::Nothing)) {
            Some(guard) => must(guard.release()),
            None => panic!("the lock is free, and nobody else wants it"),
        }
    });
}

/// Increments the counter of node 0, as a section does. Returns the number that it found.
pub(super) fn increment(data: &SharedRegion<Fabric>, thread: &Thread<Fabric>) -> u64 {
    if thread.node_id() == NodeId(0) {
        let count = here(data, 0);
        must(data.write(0, &(count + 1).to_ne_bytes()));
        count
    } else {
        let count = get_word(thread, data, 0, 0);
        put_word(thread, data, 0, 0, count + 1);
        count
    }
}

/// Makes a world in which threads of two nodes run sections by `combine`. Each section runs once.
pub(super) fn combined(threads: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(
            world,
            2,
            threads,
            make::<TasLock<Fabric>>(0, LockConfig::default()),
        );
        stage.everywhere(threads, |objects, thread, _| {
            did("TasLock::combine");
            // The section may run on another thread of the node, so it owns what it uses.
            let data = Arc::clone(&objects.data);
            let ran = objects
                .lock
                .combine(thread, Scope::Thread, move |runner| increment(&data, runner));
            let ran = must(ran);
            note(format!("count {ran}"));
        });
        let all = 2 * threads as u64;
        stage.notes(move |lines| distinct(lines, "count", Some(all)));
    }
}

/// Builds a world in which node 1 gets a word while it holds the lock, behind a put, and does not wait for it. The release does: the get does
/// not find what the next holder writes.
pub(super) fn reads_under_way<L: Lock>(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make::<L>(0, LockConfig::default()));
    stage.run(1, 0, "reader", |objects, thread| {
        let guard = must(objects.lock.lock(thread, Scope::Thread));
        let before = get_word(thread, &objects.data, 0, 0);
        put_word(thread, &objects.data, 0, 8, 1);
        let buffer = must(thread.mem_ref(8));
        let read = must(buffer.get(must(objects.data.target(NodeId(0), 0))));
        must(guard.release());
        let found = must(must(read.wait()).word(0));
        assert_eq!(found, before, "the next holder writes after the release");
    });
    stage.run(0, 0, "writer", |objects, thread| {
        let guard = must(objects.lock.lock(thread, Scope::Nothing));
        must(objects.data.write(0, &7_u64.to_ne_bytes()));
        must(guard.release());
    });
}
