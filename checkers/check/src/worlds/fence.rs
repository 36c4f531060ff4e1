//! Fences of each scope: the puts of the calling thread (or its node) before the fence are placed before what the
//! thread does after it (LOCO'26 3.4 and Fig. 10; scopes from LOCO'25 5.3).
//!
//! The pattern is message passing through a third node. Node 0 puts data into the memory of node 2, fences, and then puts a
//! flag into the memory of node 1, along another queue pair. Node 1 sees the flag and gets the data from node 2.

use loco::fabric::{Fabric as _, NodeId};
use loco::raw::{Flags, Operation};
use loco::{Manager, Result, SharedRegion, SharedVar, Thread, fence};
use loco_sim::{World, note};

use crate::methods::did;
use crate::named_world::NamedWorld;
use crate::stage::{
    Fabric, Stage, get_word, here, is_loss, must, put_word, put_words, unless_lost, until_in_time, wait_here,
};

struct Objects {
    data: SharedRegion<Fabric>,
    flag: SharedVar<u64, Fabric>,
    /// A word by which the threads of one node take turns.
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
    AllThreads,
    Towards,
}

fn fence(scope: Scope, thread: &Thread<Fabric>) {
    fence_to(scope, thread, NodeId(2));
}

/// Executes a fence. The fence of a pair is towards `peer`.
fn fence_to(scope: Scope, thread: &Thread<Fabric>, peer: NodeId) {
    match scope {
        Scope::Pair => {
            did("fence::pair");
            must(fence::pair(thread, peer));
        }
        Scope::Thread => {
            did("fence::thread");
            must(fence::thread(thread));
        }
        Scope::AllThreads => {
            did("fence::all_threads");
            must(fence::all_threads(thread));
        }
        Scope::Towards => {
            did("fence::towards");
            let nodes = thread.fabric().nodes().iter().copied();
            let others: Vec<NodeId> = nodes.filter(|&node| node != thread.node_id()).collect();
            must(fence::towards(thread, &others));
        }
    }
}

/// Executes a fence that may be late, until it is not.
fn patient_fence(scope: Scope, thread: &Thread<Fabric>) -> Result<()> {
    until_in_time(|| match scope {
        Scope::Pair => fence::pair(thread, NodeId(2)),
        Scope::Thread => fence::thread(thread),
        Scope::AllThreads => fence::all_threads(thread),
        Scope::Towards => fence::towards(thread, &[NodeId(1), NodeId(2)]),
    })
}

/// The data that is put.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Data {
    Inline,
    /// Three words from registered memory.
    FromMemory,
    /// A put, then a get along the same queue pair, then a put.
    Mixed,
    /// A put, then a get along the same queue pair.
    BeforeGet,
    /// An addition, which the NIC of node 2 carries out.
    Atomic,
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
        Data::BeforeGet => {
            put_word(thread, region, 2, 16, 7);
            let buffer = must(thread.mem_ref(8));
            drop(must(buffer.get(must(region.target(NodeId(2), 8)))));
        }
        Data::Atomic => {
            let word = must(region.target(NodeId(2), 16));
            assert_eq!(must(thread.fetch_add_word(word, 7)), 0, "nobody else adds");
        }
    }
}

/// Looks on node 1: when the flag is there the data is.
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
        let mut stage = Stage::new(world, 3, 1, make);
        stage.run(0, 0, "writer", move |objects, thread| {
            put(data, thread, &objects.data);
            fence(scope, thread);
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
        });
        stage.run(1, 0, "reader", look);
    }
}

/// Makes a world in which node 0 puts data at both other nodes, fences towards both, and tells both. Each gets what was put at
/// the other.
fn towards_both(scope: Scope, from_memory: bool) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make);
        stage.run(0, 0, "writer", move |objects, thread| {
            for peer in [1, 2] {
                match from_memory {
                    true => put_words(thread, &objects.data, peer, 16, &[7]),
                    false => put_word(thread, &objects.data, peer, 16, 7),
                }
            }
            fence_to(scope, thread, NodeId(1));
            if let Scope::Pair = scope {
                fence_to(scope, thread, NodeId(2));
            }
            objects.flag.write(1);
            must(objects.flag.broadcast(thread)).forget();
        });
        stage.each("reader", [1, 2], |objects, thread, me| {
            must(objects.flag.wait_until(thread, |flag| flag == 1));
            let got = get_word(thread, &objects.data, 3 - me, 16);
            assert_eq!(got, 7, "what was put before the fence is placed after it");
        });
    }
}

/// Makes a world in which the fence may be late. It is then executed again.
fn late(scope: Scope, data: Data) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make);
        stage.run(0, 0, "writer", move |objects, thread| {
            must(until_in_time(|| try_put(data, thread, &objects.data)));
            must(patient_fence(scope, thread));
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
        });
        stage.run(1, 0, "reader", |objects, thread| {
            must(until_in_time(|| {
                objects.flag.wait_until(thread, |flag| flag == 1)
            }));
            let word = until_in_time(|| thread.read_word(objects.data.target(NodeId(2), 16)?));
            assert_eq!(must(word), 7, "what was put before the fence is placed after it");
        });
    }
}

/// Puts data. Some of it is put more than once if the call is repeated after a timeout.
fn try_put(data: Data, thread: &Thread<Fabric>, region: &SharedRegion<Fabric>) -> Result<()> {
    match data {
        Data::FromMemory => put_words(thread, region, 2, 16, &[7]),
        _ => put_word(thread, region, 2, 16, 7),
    }
    Ok(())
}

/// Makes a world in which thread A of node 0 puts at both other nodes and fences until it has reported every loss,
/// once each. Then thread B overwrites what A put at the remaining nodes.
fn lost(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 2, make);
        stage.run(0, 0, "first", move |objects, thread| {
            let mut posted = 0;
            for peer in [1, 2] {
                let put = || -> Result<()> {
                    let buffer = thread.mem_ref(8)?;
                    buffer.set_word(0, 1)?;
                    drop(buffer.put(objects.data.target(NodeId(peer), 16)?)?);
                    Ok(())
                };
                posted += u32::from(unless_lost(put()).is_some());
            }
            let mut failures = 0;
            while let Err(error) = patient_fence(scope, thread) {
                if error.is_declared_lost() {
                    return;
                }
                assert!(is_loss(&error), "{error}");
                failures += 1;
                assert!(
                    failures <= posted,
                    "a fence says of the operations towards a node that they are lost, and no later fence does again"
                );
            }
            objects.baton.write(1);
        });
        stage.run(0, 1, "second", move |objects, thread| {
            if wait_here(thread, &objects.baton, 1).is_none() {
                return;
            }
            for peer in [1, 2] {
                let again = || -> Result<u64> {
                    let place = || objects.data.target(NodeId(peer), 16);
                    thread.put_inline(&2_u64.to_ne_bytes(), place()?)?.forget();
                    fence::pair(thread, NodeId(peer))?;
                    thread.read_word(place()?)
                };
                if let Some(found) = unless_lost(until_in_time(again)) {
                    assert_eq!(found, 2, "a put before the fence does not land on one after it");
                }
            }
        });
    }
}

/// Makes a world in which thread A of node 0 puts data at both other nodes, fences, and goes on, also if the fence says that one
/// of them is lost. The data at the other is placed all the same, which thread B sees along its own queue pair.
fn one_lost(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 2, make);
        stage.run(0, 0, "first", move |objects, thread| {
            for peer in [1, 2] {
                let put = || thread.put_inline(&7_u64.to_ne_bytes(), objects.data.target(NodeId(peer), 16)?);
                if let Some(key) = unless_lost(put()) {
                    key.forget();
                }
            }
            unless_lost(patient_fence(scope, thread));
            objects.baton.write(1);
        });
        stage.run(0, 1, "second", |objects, thread| {
            wait_here(thread, &objects.baton, 1)?;
            for peer in [1, 2] {
                let word = until_in_time(|| thread.read_word(objects.data.target(NodeId(peer), 16)?));
                if let Some(placed) = unless_lost(word) {
                    assert_eq!(placed, 7, "what was put before the fence is placed after it");
                }
            }
            Some(())
        });
    }
}

/// Makes a world in which the key of a get is dropped. After a fence the get has brought the data.
fn gotten(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make);
        stage.run(0, 0, "both", move |objects, thread| {
            put_word(thread, &objects.data, 2, 16, 7);
            let local = loco::fabric::Local {
                memory: must(objects.data.local()),
                offset: 24,
                len: 8,
            };
            // The get sees the put because it asks, and the fence has to wait for the get alone.
            let get = Operation::Get(local, must(objects.data.target(NodeId(2), 16)));
            must(thread.raw().post(&get, Flags::STRONG)).forget();
            fence(scope, thread);
            assert_eq!(
                here(&objects.data, 24),
                7,
                "a get before the fence is done after it"
            );
        });
    }
}

/// Makes a world in which a get from node 2, which may be lost, has ended before the fence. If it has failed, the fence says so.
fn failed_before(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 1, make);
        stage.run(0, 0, "both", move |objects, thread| {
            let local = loco::fabric::Local {
                memory: must(objects.data.local()),
                offset: 24,
                len: 8,
            };
            let get = Operation::Get(local, must(objects.data.target(NodeId(2), 16)));
            let got = unless_lost(thread.raw().post(&get, Flags::default()))?;
            // A wait for one operation records the ends of all, so that the failure of the get is known before the fence.
            unless_lost(thread.read_word(must(objects.data.target(NodeId(1), 16))))?;
            unless_lost(patient_fence(scope, thread))?;
            assert_eq!(
                got.outcome(),
                Some(Ok(())),
                "the fence says that nothing has failed"
            );
            Some(())
        });
    }
}

/// Builds a world in which two threads of one node write, fence and read what the other wrote. The fence orders the
/// stores of the CPU even when nothing is outstanding. It is a fence towards no node, because looking for outstanding
/// operations takes a lock, which orders the stores too.
fn store_buffering_here(world: &mut World) {
    let mut stage = Stage::new(world, 3, 2, make);
    for own in 0..2 {
        stage.run(0, own, &format!("thread {own}"), move |objects, thread| {
            let (mine, theirs) = match own {
                0 => (&objects.flag, &objects.baton),
                _ => (&objects.baton, &objects.flag),
            };
            mine.write(1);
            did("fence::towards");
            must(fence::towards(thread, &[]));
            note(format!("saw {}", theirs.read()));
        });
    }
    stage.notes(|lines| {
        assert!(
            lines.iter().any(|line| line == "saw 1"),
            "after the fences one of the threads sees what the other wrote"
        );
    });
}

/// Makes a world in which one thread puts and another thread, `fencer`, fences after it has seen that the puts were
/// posted.
fn of_another_thread(data: Data, fencer: usize) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 2, make);
        stage.run(0, 1 - fencer, "writer", move |objects, thread| {
            put(data, thread, &objects.data);
            objects.baton.write(1);
        });
        stage.run(0, fencer, "fencer", |objects, thread| {
            must(objects.baton.wait_until(thread, |baton| baton == 1));
            fence(Scope::AllThreads, thread);
            objects.flag.write(1);
            must(objects.flag.broadcast_to(thread, &[NodeId(1)])).forget();
        });
        stage.run(1, 0, "reader", look);
    }
}

/// Builds a world in which both nodes write, fence and read what the other wrote. One of them sees the other's write
/// (store buffering, LOCO'26 Fig. 9).
fn store_buffering(world: &mut World) {
    let mut stage = Stage::new(world, 2, 1, make);
    stage.each("node", 0..2, move |objects, thread, me| {
        let other = NodeId(1 - me);
        let (mine, theirs) = match me {
            0 => (&objects.flag, &objects.baton),
            _ => (&objects.baton, &objects.flag),
        };
        mine.write(1);
        must(mine.broadcast_to(thread, &[other])).forget();
        did("fence::towards");
        must(fence::towards(thread, &[other]));
        note(format!("saw {}", theirs.read()));
    });
    stage.notes(|lines| {
        assert!(
            lines.iter().any(|line| line == "saw 1"),
            "after the fences one of the nodes sees what the other wrote"
        );
    });
}

/// The way in which a word is put.
#[derive(Clone, Copy)]
enum Way {
    Inline,
    Untracked,
    FromMemory,
}

/// Makes a world in which each of two nodes puts a word at the other, fences, and looks at the word that the other puts. After
/// the fences, one of them sees it: where a put is a store, it has left the store buffer.
fn buffered(scope: Scope, way: Way) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 2, 1, make);
        stage.each("node", 0..2, move |objects, thread, me| {
            let (other, offset) = (1 - me, 8 * usize::from(me));
            match way {
                Way::Inline => put_word(thread, &objects.data, other, offset, 1),
                Way::Untracked => {
                    let target = must(objects.data.target(NodeId(other), offset));
                    must(thread.put_inline_untracked(&1_u64.to_ne_bytes(), target));
                }
                Way::FromMemory => put_words(thread, &objects.data, other, offset, &[1]),
            }
            fence_to(scope, thread, NodeId(other));
            note(format!("saw {}", here(&objects.data, 8 * usize::from(other))));
        });
        stage.notes(|lines| {
            assert!(
                lines.iter().any(|line| line == "saw 1"),
                "after the fences one of the nodes sees what the other put"
            );
        });
    }
}

/// Makes a world in which two queue pairs write the same place: after thread A's fence, thread B's put comes later.
fn overwrite(scope: Scope) -> impl Fn(&mut World) {
    move |world| {
        let mut stage = Stage::new(world, 3, 2, make);
        stage.in_turn(
            0,
            0..2,
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

/// Returns the worlds of fences.
pub(crate) fn worlds() -> Vec<NamedWorld> {
    use Data::{Atomic, BeforeGet, FromMemory, Inline, Mixed};
    vec![
        NamedWorld::new("pair", through_a_third(Scope::Pair, Inline)),
        NamedWorld::new("thread", through_a_third(Scope::Thread, Inline)),
        NamedWorld::new("all-threads", through_a_third(Scope::AllThreads, Inline)),
        NamedWorld::new("towards", through_a_third(Scope::Towards, Inline)),
        NamedWorld::new("pair-memory", through_a_third(Scope::Pair, FromMemory)),
        NamedWorld::new("thread-memory", through_a_third(Scope::Thread, FromMemory)),
        NamedWorld::new(
            "all-threads-memory",
            through_a_third(Scope::AllThreads, FromMemory),
        ),
        NamedWorld::new("towards-memory", through_a_third(Scope::Towards, FromMemory)),
        NamedWorld::new("thread-mixed", through_a_third(Scope::Thread, Mixed)),
        NamedWorld::new("pair-mixed", through_a_third(Scope::Pair, Mixed)),
        NamedWorld::new("towards-mixed", through_a_third(Scope::Towards, Mixed)),
        NamedWorld::new("thread-before-get", through_a_third(Scope::Thread, BeforeGet)),
        NamedWorld::new("all-threads-mixed", through_a_third(Scope::AllThreads, Mixed)),
        NamedWorld::new(
            "all-threads-before-get",
            through_a_third(Scope::AllThreads, BeforeGet),
        ),
        NamedWorld::new("thread-one-lost", one_lost(Scope::Thread)).crash(),
        NamedWorld::new("all-threads-one-lost", one_lost(Scope::AllThreads)).crash(),
        NamedWorld::new("towards-one-lost", one_lost(Scope::Towards)).crash(),
        NamedWorld::new("pair-atomic", through_a_third(Scope::Pair, Atomic)),
        NamedWorld::new("thread-atomic", through_a_third(Scope::Thread, Atomic)),
        NamedWorld::new("all-threads-atomic", through_a_third(Scope::AllThreads, Atomic)),
        NamedWorld::new("towards-atomic", through_a_third(Scope::Towards, Atomic)),
        NamedWorld::new("towards-atomic-glob", through_a_third(Scope::Towards, Atomic)).glob(),
        NamedWorld::new("both-pair", towards_both(Scope::Pair, false)),
        NamedWorld::new("both-thread", towards_both(Scope::Thread, false)),
        NamedWorld::new("both-towards", towards_both(Scope::Towards, false)),
        NamedWorld::new("both-all-threads", towards_both(Scope::AllThreads, true)),
        NamedWorld::new("pair-get", gotten(Scope::Pair)),
        NamedWorld::new("thread-get", gotten(Scope::Thread)),
        NamedWorld::new("all-threads-get", gotten(Scope::AllThreads)),
        NamedWorld::new("pair-failed-get", failed_before(Scope::Pair)).crash(),
        NamedWorld::new("thread-failed-get", failed_before(Scope::Thread)).crash(),
        NamedWorld::new("another-thread", of_another_thread(Inline, 1)),
        NamedWorld::new("another-thread-memory", of_another_thread(FromMemory, 1)),
        NamedWorld::new("a-later-thread", of_another_thread(Inline, 0)),
        NamedWorld::new("store-buffering", store_buffering),
        NamedWorld::new("store-buffering-here", store_buffering_here),
        NamedWorld::new("buffered-pair", buffered(Scope::Pair, Way::Untracked)),
        NamedWorld::new("buffered-thread", buffered(Scope::Thread, Way::Inline)),
        NamedWorld::new(
            "buffered-all-threads",
            buffered(Scope::AllThreads, Way::Untracked),
        ),
        NamedWorld::new("buffered-towards", buffered(Scope::Towards, Way::Inline)),
        NamedWorld::new("buffered-pair-memory", buffered(Scope::Pair, Way::FromMemory)),
        NamedWorld::new("buffered-thread-memory", buffered(Scope::Thread, Way::FromMemory)),
        NamedWorld::new("pair-expiry", late(Scope::Pair, Inline)).expiries(1),
        NamedWorld::new("thread-expiry", late(Scope::Thread, FromMemory)).expiries(1),
        NamedWorld::new("all-threads-expiry", late(Scope::AllThreads, Inline)).expiries(1),
        NamedWorld::new("towards-expiry", late(Scope::Towards, Inline)).expiries(1),
        NamedWorld::new("thread-crash", lost(Scope::Thread)).crash(),
        NamedWorld::new("all-threads-crash", lost(Scope::AllThreads)).crash(),
        NamedWorld::new("towards-crash", lost(Scope::Towards)).crash(),
        NamedWorld::new("thread-suspicion", lost(Scope::Thread)).suspicion(),
        NamedWorld::new("overwrite-pair", overwrite(Scope::Pair)),
        NamedWorld::new("overwrite-thread", overwrite(Scope::Thread)),
        NamedWorld::new("overwrite-all-threads", overwrite(Scope::AllThreads)),
        NamedWorld::new("overwrite-towards", overwrite(Scope::Towards)),
    ]
}
