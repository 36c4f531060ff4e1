//! Runs the examples of LOCO'26 on the shipped objects. Their promises hold in every execution, and the weak
//! outcomes that the paper allows are reached.

#![allow(clippy::unwrap_used)]

mod support;

use std::sync::Mutex;
use std::time::Duration;

use loco::fabric::NodeId;
use loco::{
    Barrier, Manager, Parent as _, RingBuffer, RingReader, RingWriter, SharedVar, Thread, WideOwnedVar, fence,
};
use loco_sim::{
    Completeness, Config, End, FailureKind, ModelFabric, World, execution_graph, note, reaches, replay,
};
use mowgli::model::{Model, RmwAtomicity};
use mowgli::models::Spec;
use support::{Site, complete, site};

type Fabric = ModelFabric;

fn config() -> Config {
    Config {
        time_max: Some(Duration::from_secs(600)),
        ..Config::default()
    }
}

/// Checks that some execution has the wanted end, and that its schedule repeats it.
fn allowed(name: &str, build: impl Fn(&mut World) + Sync, wanted: fn(&End<'_>) -> bool) {
    let reach = reaches(&config(), &build, wanted).unwrap();
    let Some(witness) = reach.witness else {
        panic!("{name}: never, {:?}", reach.report);
    };
    assert_eq!(witness.kind, FailureKind::Reached);
    println!("{name}: {witness}");
    let again = replay(&config(), &witness.schedule, |world| {
        build(world);
        world.finally(move |end| assert!(!wanted(end)));
    });
    assert!(
        again.unwrap().failure.is_some(),
        "{name}: the schedule repeats it"
    );
    // The declarative model has this execution too; sequential consistency does not.
    let graph = execution_graph(&config(), &witness.schedule, &build).unwrap();
    assert!(graph.is_consistent(), "{name}: {}", graph.text());
    let sc = Spec::of(Model::Sc, RmwAtomicity::Hca);
    assert!(!sc.is_consistent(graph.execution()), "{name}: {}", graph.text());
}

/// Checks that no execution has the given end.
fn forbidden(name: &str, build: impl Fn(&mut World) + Sync, wanted: fn(&End<'_>) -> bool) {
    let reach = reaches(&config(), build, wanted).unwrap();
    if let Some(witness) = reach.witness {
        panic!("{name}: {witness}");
    }
    println!("{name}: {:?}", reach.report.stats);
    assert_eq!(reach.report.completeness, Completeness::Complete, "{name}");
}

type Sv = SharedVar<u64, Fabric>;

fn variables<const N: usize>(names: [&'static str; N]) -> impl FnOnce(&Manager<Fabric>) -> [Sv; N] {
    move |manager| names.map(|name| SharedVar::new(manager, name).unwrap())
}

/// Writes 1 and broadcasts it.
fn send(variable: &Sv, thread: &Thread<Fabric>, nodes: &[u16]) {
    variable.write(1);
    let nodes: Vec<NodeId> = nodes.iter().copied().map(NodeId).collect();
    variable.broadcast_to(thread, &nodes).unwrap().forget();
}

/// Fig. 9a: a node that sees the flag sees the data that was put before it.
#[test]
fn fig9a_message_passing() {
    complete("Fig. 9a", |world| {
        for node in 0..3 {
            let at = world.node(site(variables(["z", "x"])));
            world.thread(&at, &format!("node{node}"), move |site: &Site<[Sv; 2]>| {
                let thread = site.thread();
                let [z, x] = &site.objects;
                if node == 0 {
                    send(z, &thread, &[1]);
                    send(x, &thread, &[1, 2]);
                } else {
                    let a = x.read();
                    let b = z.read();
                    assert!(node == 2 || a == 0 || b == 1, "(a, b) = (1, 0)");
                }
            });
        }
    });
}

/// Fig. 9b: through a third node the flag may overtake the data.
#[test]
fn fig9b_messages_through_a_third_node_may_overtake() {
    let world = |world: &mut World| {
        for node in 0..3 {
            let at = world.node(site(variables(["z", "x", "y"])));
            world.thread(&at, &format!("node{node}"), move |site: &Site<[Sv; 3]>| {
                let thread = site.thread();
                let [z, x, y] = &site.objects;
                match node {
                    0 => {
                        send(z, &thread, &[1]);
                        send(x, &thread, &[1, 2]);
                    }
                    2 => {
                        if x.read() == 1 {
                            send(y, &thread, &[1]);
                        }
                    }
                    _ => {
                        let a = y.read();
                        note(format!("a={a} b={}", z.read()));
                    }
                }
            });
        }
    };
    allowed("Fig. 9b", world, |end| end.notes() == ["a=1 b=0"]);
}

/// Makes a world in which each of two nodes sends to the other, does `between`, and reads what the other
/// sent.
fn store_buffering(between: fn(&Thread<Fabric>, NodeId, loco::AckKey<Fabric>)) -> impl Fn(&mut World) + Sync {
    move |world| {
        for node in [0u16, 1] {
            let at = world.node(site(variables(["x", "y"])));
            world.thread(&at, &format!("node{node}"), move |site: &Site<[Sv; 2]>| {
                let thread = site.thread();
                let other = NodeId(1 - node);
                let [mine, theirs] = [0, 1].map(|i| &site.objects[usize::from(node) ^ i]);
                mine.write(1);
                let key = mine.broadcast_to(&thread, &[other]).unwrap();
                between(&thread, other, key);
                note(theirs.read());
            });
        }
    }
}

/// Fig. 5: without the fence both may read 0.
#[test]
fn store_buffering_without_a_fence() {
    let world = store_buffering(|_, _, key| key.forget());
    allowed("Fig. 5 without a fence", world, |end| end.notes() == ["0", "0"]);
}

/// A put that has completed may not be placed (LOCO'26 2.1).
#[test]
fn a_completed_put_is_not_yet_placed() {
    let world = store_buffering(|thread, _, key| key.wait(thread).unwrap());
    allowed("Fig. 5 with a completion", world, |end| end.notes() == ["0", "0"]);
}

/// Fig. 5: the global fence forbids that both read 0.
#[test]
fn fig5_store_buffering_with_global_fence() {
    let world = store_buffering(|thread, other, key| {
        key.forget();
        fence::towards(thread, &[other]).unwrap();
    });
    forbidden("Fig. 5", world, |end| end.notes() == ["0", "0"]);
}

struct Fig12 {
    x: Sv,
    b1: Option<Barrier<Fabric>>,
    b2: Option<Barrier<Fabric>>,
}

/// Fig. 12: nodes 0 and 1 meet, then nodes 1 and 2. `wait` is the way in which they meet.
fn fig12(wait: fn(&Barrier<Fabric>, &Thread<Fabric>, [u16; 2])) -> impl Fn(&mut World) + Sync {
    move |world| {
        for node in 0..3u16 {
            let objects = move |manager: &Manager<Fabric>| {
                let barrier = |name, pair: [u16; 2]| {
                    let who = manager.among(pair.map(NodeId));
                    pair.contains(&node).then(|| Barrier::new(&who, name).unwrap())
                };
                Fig12 {
                    x: SharedVar::new(manager, "x").unwrap(),
                    b1: barrier("b1", [0, 1]),
                    b2: barrier("b2", [1, 2]),
                }
            };
            let at = world.node(site(objects));
            world.thread(&at, &format!("node{node}"), move |site: &Site<Fig12>| {
                let thread = site.thread();
                let Fig12 { x, b1, b2 } = &site.objects;
                if node == 0 {
                    send(x, &thread, &[2]);
                }
                if let Some(b1) = b1 {
                    wait(b1, &thread, [0, 1]);
                }
                if let Some(b2) = b2 {
                    wait(b2, &thread, [1, 2]);
                }
                if node == 2 {
                    note(x.read());
                }
            });
        }
    }
}

/// Fig. 12: a barrier that fences towards its participants only is not transitive.
#[test]
fn fig12_a_barrier_over_participants_only_is_not_transitive() {
    let world = fig12(|barrier, thread, pair| {
        for peer in pair.map(NodeId) {
            if peer != thread.node_id() {
                fence::pair(thread, peer).unwrap();
            }
        }
        barrier.wait_unfenced(thread).unwrap();
    });
    allowed("Fig. 12, participants only", world, |end| end.notes() == ["0"]);
}

/// LOCO'26 4.3: the barrier as shipped is transitive.
#[test]
fn fig12_the_barrier_is_transitive() {
    let world = fig12(|barrier, thread, _| barrier.wait(thread).unwrap());
    forbidden("Fig. 12", world, |end| end.notes() == ["0"]);
}

struct Ring {
    writer: Mutex<Option<RingWriter<Fabric>>>,
    reader: Mutex<Option<RingReader<Fabric>>>,
    barrier: Barrier<Fabric>,
    _ring: RingBuffer<Fabric>,
}

/// Returns a ring of two records of one word, from node 0 to node 1.
fn ring(node: u16) -> impl FnOnce(&Manager<Fabric>) -> Ring {
    ring_of(node, 32)
}

fn ring_of(node: u16, capacity_bytes: usize) -> impl FnOnce(&Manager<Fabric>) -> Ring {
    move |manager| {
        let ring = RingBuffer::new(manager, "ring", NodeId(0), capacity_bytes).unwrap();
        let barrier = Barrier::new(manager, "bar").unwrap();
        manager.wait_for_ready().unwrap();
        Ring {
            writer: Mutex::new((node == 0).then(|| ring.writer().unwrap())),
            reader: Mutex::new((node == 1).then(|| ring.reader().unwrap())),
            barrier,
            _ring: ring,
        }
    }
}

/// LOCO'26 5: every message arrives whole and in order, also past the end of the ring.
#[test]
fn ring_buffer_three_messages_with_wrap_around() {
    complete("ring buffer, 3 messages", |world| {
        for node in [0u16, 1] {
            let at = world.node(site(ring(node)));
            world.thread(&at, &format!("node{node}"), move |site: &Site<Ring>| {
                let thread = site.thread();
                if node == 0 {
                    let mut writer = site.objects.writer.lock().unwrap().take().unwrap();
                    for message in 1..=3u64 {
                        writer.submit(&thread, &message.to_le_bytes()).unwrap();
                    }
                } else {
                    let mut reader = site.objects.reader.lock().unwrap().take().unwrap();
                    for message in 1..=3u64 {
                        assert_eq!(reader.receive(&thread).unwrap(), message.to_le_bytes());
                    }
                }
            });
        }
    });
}

/// Two messages in one put, and one put of the head: neither is seen before the head is.
#[test]
fn ring_buffer_batch_of_two_messages() {
    complete("ring buffer, a batch of 2 messages", |world| {
        for node in [0u16, 1] {
            // A batch is a quarter of the ring at most.
            let at = world.node(site(ring_of(node, 128)));
            world.thread(&at, &format!("node{node}"), move |site: &Site<Ring>| {
                let thread = site.thread();
                if node == 0 {
                    let mut writer = site.objects.writer.lock().unwrap().take().unwrap();
                    let batch = [1u64, 2].map(u64::to_le_bytes);
                    assert_eq!(writer.try_submit_batch(&thread, &batch).unwrap(), 2);
                } else {
                    let mut reader = site.objects.reader.lock().unwrap().take().unwrap();
                    for message in [1u64, 2] {
                        assert_eq!(reader.receive(&thread).unwrap(), message.to_le_bytes());
                    }
                }
            });
        }
    });
}

/// Fig. 23: a message that was submitted before a barrier is there after it.
#[test]
fn fig23_ring_buffer_and_barrier() {
    complete("Fig. 23", |world| {
        for node in [0u16, 1] {
            let at = world.node(site(ring(node)));
            world.thread(&at, &format!("node{node}"), move |site: &Site<Ring>| {
                let thread = site.thread();
                let Ring { barrier, .. } = &site.objects;
                if node == 0 {
                    let mut writer = site.objects.writer.lock().unwrap().take().unwrap();
                    assert!(writer.try_submit(&thread, &7u64.to_le_bytes()).unwrap());
                    barrier.wait(&thread).unwrap();
                } else {
                    barrier.wait(&thread).unwrap();
                    let mut reader = site.objects.reader.lock().unwrap().take().unwrap();
                    let mut message = Vec::new();
                    assert!(
                        reader.try_receive(&thread, &mut message).unwrap(),
                        "it was submitted"
                    );
                    assert_eq!(message, 7u64.to_le_bytes());
                }
            });
        }
    });
}

/// LOCO'25 5.1.1: a value of several words is read whole or not at all.
#[test]
fn owned_variable_of_three_words_one_push_one_read() {
    complete("owned variable, 3 words", |world| {
        for node in [0u16, 1] {
            let objects = |manager: &Manager<Fabric>| WideOwnedVar::new(manager, "value", NodeId(0)).unwrap();
            let at = world.node(site(objects));
            world.thread(
                &at,
                &format!("node{node}"),
                move |site: &Site<WideOwnedVar<[u64; 3], Fabric>>| {
                    let thread = site.thread();
                    let value = &site.objects;
                    if node == 0 {
                        value.store(&thread, [1, 2, 3]).unwrap();
                        value.push(&thread).unwrap().forget();
                    } else {
                        assert!(matches!(value.try_load(), None | Some([0, 0, 0] | [1, 2, 3])));
                    }
                },
            );
        }
    });
}
