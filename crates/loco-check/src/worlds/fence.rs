//! Fences of each scope: what the calling thread (or its node) put before the fence is placed before what the thread does
//! after it (LOCO'26 3.4 and Fig. 10; scopes from LOCO'25 5.3).
//!
//! The pattern is message passing through a third node. Node 0 puts data into the memory of node 2, fences, and then puts a
//! flag into the memory of node 1, along another queue pair. Node 1 sees the flag and gets the data from node 2.

use loco::fabric::NodeId;
use loco::{Manager, Result, SharedRegion, SharedVar, Thread, fence};
use loco_sim::{World, note};

use crate::methods::did;
use crate::rung::Rung;
use crate::stage::{Fabric, get_word, in_turn, must, nodes, notes, put_word, put_words, run};

struct Objects {
    data: SharedRegion<Fabric>,
    flag: SharedVar<u64, Fabric>,
    /// Handed from thread to thread of one node.
    baton: SharedVar<u64, Fabric>,
}

fn make(manager: &Manager<Fabric>) -> Result<Objects> {
    Ok(Objects {
        data: SharedRegion::new(manager, "data", 64)?,
        flag: SharedVar::new(manager, "flag")?,
        baton: SharedVar::new(manager, "baton")?,
    })
}

#[derive(Clone, Copy)]
enum Scope {
    Pair,
    Thread,
    Node,
    Global,
}

fn fence(scope: Scope, thread: &Thread<Fabric>) {
    match scope {
        Scope::Pair => {
            did("fence::pair");
            must(fence::pair(thread, NodeId(2)));
        }
        Scope::Thread => {
            did("fence::thread");
            must(fence::thread(thread));
        }
        Scope::Node => {
            did("fence::node");
            must(fence::node(thread));
        }
        Scope::Global => {
            did("fence::global");
            must(fence::global(thread, &[NodeId(2)]));
        }
    }
}

/// Which data is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Inline,
    /// Three words from registered memory.
    FromMemory,
    /// A put, then a get along the same queue pair, then a put.
    Mixed,
}

fn put(data: Data, thread: &Thread<Fabric>, region: &SharedRegion<Fabric>) {
    match data {
        Data::Inline => put_word(thread, region, 2, 16, 7),
        Data::FromMemory => put_words(thread, region, 2, 0, &[5, 6, 7]),
        Data::Mixed => {
            put_word(thread, region, 2, 8, 5);
            let buffer = must(thread.mem_ref(8));
            drop(must(buffer.get(must(region.target(NodeId(2), 8)))));
            put_word(thread, region, 2, 16, 7);
        }
    }
}

/// Node 1: when the flag is there the data is.
fn look(objects: &Objects, thread: &Thread<Fabric>) {
    must(objects.flag.wait_until(thread, |flag| flag == 1));
    assert_eq!(
        get_word(thread, &objects.data, 2, 16),
        7,
        "what was put before the fence is placed after it"
    );
}

fn through_a_third(scope: Scope, data: Data) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, 3, 1, make);
        run(world, &at[0], 0, "writer", move |objects, thread| {
            put(data, thread, &objects.data);
            fence(scope, thread);
            objects.flag.write(1);
            must(objects.flag.bcast(thread, &[NodeId(1)])).forget();
        });
        run(world, &at[1], 0, "reader", look);
    }
}

/// The puts are thread A's and the fence is thread B's, which has seen that they were posted.
fn of_another_thread(data: Data) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, 3, 2, make);
        run(world, &at[0], 0, "writer", move |objects, thread| {
            put(data, thread, &objects.data);
            objects.baton.write(1);
        });
        run(world, &at[0], 1, "fencer", |objects, thread| {
            must(objects.baton.wait_until(thread, |baton| baton == 1));
            fence(Scope::Node, thread);
            objects.flag.write(1);
            must(objects.flag.bcast(thread, &[NodeId(1)])).forget();
        });
        run(world, &at[1], 0, "reader", look);
    }
}

/// Both nodes write, fence and read what the other wrote: one of them sees the other's (store buffering, LOCO'26 Fig. 9).
fn store_buffering(world: &mut World) {
    let at = nodes(world, 2, 1, make);
    for me in 0..2_u16 {
        run(
            world,
            &at[usize::from(me)],
            0,
            &format!("node {me}"),
            move |objects, thread| {
                let other = NodeId(1 - me);
                let (mine, theirs) = match me {
                    0 => (&objects.flag, &objects.baton),
                    _ => (&objects.baton, &objects.flag),
                };
                mine.write(1);
                must(mine.bcast(thread, &[other])).forget();
                did("fence::global");
                must(fence::global(thread, &[other]));
                note(format!("saw {}", theirs.read()));
            },
        );
    }
    notes(world, |lines| {
        assert!(
            lines.iter().any(|line| line == "saw 1"),
            "after the fences one of the nodes sees what the other wrote"
        );
    });
}

/// Overwritten from another queue pair: after thread A's fence, thread B's put comes later.
fn overwrite(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let at = nodes(world, 3, 2, make);
        in_turn(
            world,
            &at[0],
            &[0, 1],
            "writer",
            |o| &o.baton,
            2,
            move |objects, thread, step| {
                put_words(thread, &objects.data, 2, 16, &[step]);
                fence(scope, thread);
                if step == 2 {
                    assert_eq!(
                        get_word(thread, &objects.data, 2, 16),
                        2,
                        "a put before the fence does not land on one after it"
                    );
                }
            },
        );
    }
}

/// The worlds of fences.
pub(crate) fn rungs() -> Vec<Rung> {
    use Data::{FromMemory, Inline, Mixed};
    vec![
        Rung::new("pair", through_a_third(Scope::Pair, Inline)),
        Rung::new("thread", through_a_third(Scope::Thread, Inline)),
        Rung::new("node", through_a_third(Scope::Node, Inline)),
        Rung::new("global", through_a_third(Scope::Global, Inline)),
        Rung::new("pair-memory", through_a_third(Scope::Pair, FromMemory)),
        Rung::new("thread-memory", through_a_third(Scope::Thread, FromMemory)),
        Rung::new("node-memory", through_a_third(Scope::Node, FromMemory)),
        Rung::new("global-memory", through_a_third(Scope::Global, FromMemory)),
        Rung::new("thread-mixed", through_a_third(Scope::Thread, Mixed)),
        Rung::new("pair-mixed", through_a_third(Scope::Pair, Mixed)),
        Rung::new("global-mixed", through_a_third(Scope::Global, Mixed)),
        Rung::new("another-thread", of_another_thread(Inline)),
        Rung::new("another-thread-memory", of_another_thread(FromMemory)),
        Rung::new("store-buffering", store_buffering),
        Rung::new("overwrite-pair", overwrite(Scope::Pair)),
        Rung::new("overwrite-thread", overwrite(Scope::Thread)),
        Rung::new("overwrite-node", overwrite(Scope::Node)),
        Rung::new("overwrite-global", overwrite(Scope::Global)),
    ]
}
