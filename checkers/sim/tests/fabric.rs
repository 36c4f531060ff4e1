//! Checks the model fabric by itself: weak outcomes that the model allows are reached, others are not.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::Mutex;

use loco_fabric::{
    Fabric, Local, Lock, Memory, MemoryKind, NodeId, Peers, Platform, QueuePair, RegionKey, Target, Wait,
    WordCell, Work, WorkRequestId,
};
use loco_sim::{Completeness, Config, ModelFabric, ModelMemory, Strategy, World, explore, note};

struct Node {
    fabric: ModelFabric,
    memory: ModelMemory,
}

/// Returns a node with a region of four words; every node knows that the others' regions have the same
/// layout.
fn node(fabric: ModelFabric) -> Node {
    let memory = fabric.allocate(64, MemoryKind::Host).unwrap();
    Node { fabric, memory }
}

impl Node {
    fn key(peer: u16) -> RegionKey {
        // Set-up threads have the numbers of their nodes, and the region is the first thing that each
        // allocates.
        RegionKey {
            arena: 0,
            address: u64::from(peer) << 43,
            len: 64,
            rkey: 0,
        }
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.cell::<u64>(8 * word).unwrap().load()
    }

    fn store(&self, word: usize, value: u64) {
        self.memory.cell::<u64>(8 * word).unwrap().store(value);
    }

    fn wait_completion(&self) {
        let mut done = Vec::new();
        let wait = Wait {
            what: "completion",
            peers: Peers::None,
            deadline: None,
        };
        self.fabric
            .wait(wait, || {
                self.fabric.poll(&mut done).unwrap();
                (!done.is_empty()).then_some(())
            })
            .unwrap();
    }
}

/// Returns the sets of notes of all complete executions.
fn outcomes(build: impl Fn(&mut World) + Sync) -> BTreeSet<Vec<String>> {
    let found = std::sync::Arc::new(Mutex::new(BTreeSet::new()));
    let report = explore(&Config::default(), |world| {
        build(world);
        let found = found.clone();
        world.finally(move |end| {
            found.lock().unwrap().insert(end.notes());
        });
    })
    .unwrap();
    assert_eq!(
        report.completeness,
        Completeness::Complete,
        "{:?}",
        report.failure
    );
    println!("{:?}", report.stats);
    std::sync::Arc::try_unwrap(found)
        .map(|m| m.into_inner().unwrap())
        .unwrap_or_else(|m| m.lock().unwrap().clone())
}

fn set(lines: &[&[&str]]) -> BTreeSet<Vec<String>> {
    lines
        .iter()
        .map(|l| l.iter().map(|s| (*s).to_owned()).collect())
        .collect()
}

#[test]
fn store_buffering_on_one_node() {
    let run = |fenced: bool| {
        outcomes(move |world| {
            let n = world.node(node);
            for (mine, other) in [(0, 1), (1, 0)] {
                world.thread(&n, "t", move |n| {
                    n.store(mine, 1);
                    if fenced {
                        n.fabric.cpu_fence();
                    }
                    note(n.load(other));
                });
            }
        })
    };
    assert_eq!(
        run(false),
        set(&[&["0", "0"], &["0", "1"], &["1", "0"], &["1", "1"]])
    );
    assert_eq!(run(true), set(&[&["0", "1"], &["1", "0"], &["1", "1"]]));
}

#[test]
fn a_completed_put_may_not_be_placed() {
    let run = |flushed: bool| {
        outcomes(move |world| {
            let nodes = [world.node(node), world.node(node)];
            for (me, peer) in [(0usize, 1u16), (1, 0)] {
                world.thread(&nodes[me], "t", move |n| {
                    let mut qp = n.fabric.queue_pair(NodeId(peer)).unwrap();
                    let remote = n.fabric.import(NodeId(peer), &Node::key(peer)).unwrap();
                    let work = Work::signaled(WorkRequestId(1));
                    let target = Target {
                        remote: &remote,
                        offset: 0,
                    };
                    if flushed {
                        let _ = qp
                            .put_inline(&1u64.to_le_bytes(), target, Work::unsignaled())
                            .unwrap();
                        let _ = qp.flush(work).unwrap();
                    } else {
                        let _ = qp.put_inline(&1u64.to_le_bytes(), target, work).unwrap();
                    }
                    n.wait_completion();
                    note(n.load(0));
                });
            }
        })
    };
    assert!(run(false).contains(&vec!["0".to_owned(), "0".to_owned()]));
    assert!(!run(true).contains(&vec!["0".to_owned(), "0".to_owned()]));
}

/// Puts data, then a flag as `flag` says, and returns what a thread finds that has seen the flag.
fn data_seen_after_a_flag(flag: Work) -> BTreeSet<Vec<String>> {
    outcomes(move |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "writer", move |n| {
            let mut qp = n.fabric.queue_pair(NodeId(1)).unwrap();
            let remote = n.fabric.import(NodeId(1), &Node::key(1)).unwrap();
            n.store(2, 7);
            let src = Local {
                memory: &n.memory,
                offset: 16,
                len: 8,
            };
            let _ = qp
                .put(
                    src,
                    Target {
                        remote: &remote,
                        offset: 0,
                    },
                    Work::unsignaled(),
                )
                .unwrap();
            let one = 1u64.to_le_bytes();
            let _ = qp
                .put_inline(
                    &one,
                    Target {
                        remote: &remote,
                        offset: 8,
                    },
                    flag,
                )
                .unwrap();
        });
        world.thread(&nodes[1], "reader", |n| {
            let flag = n.memory.cell::<u64>(8).unwrap();
            let wait = Wait {
                what: "flag",
                peers: Peers::None,
                deadline: None,
            };
            n.fabric
                .wait(wait, || (WordCell::<u64>::load(&flag) == 1).then_some(()))
                .unwrap();
            note(n.load(0));
        });
    })
}

#[test]
fn a_put_in_strong_order_arrives_after_the_earlier_ones() {
    let found = data_seen_after_a_flag(Work::unsignaled().strong());
    assert_eq!(found, set(&[&["7"]]));
}

#[test]
fn puts_that_do_not_ask_arrive_in_any_order() {
    let found = data_seen_after_a_flag(Work::unsignaled());
    assert_eq!(found, set(&[&["0"], &["7"]]));
}

type ModelLock = <<ModelFabric as Fabric>::Platform as Platform>::Mutex<u64>;

/// Takes the lock when it is dropped.
struct Counter<'a>(&'a ModelLock);

impl Drop for Counter<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}

/// Threads are dismantled in an order in which their destructors find locks free: threads that hold locks
/// come first.
#[test]
fn destructors_may_take_locks_that_suspended_threads_hold() {
    let report = explore(&Config::default(), |world| {
        let node = world.node(|fabric| (fabric, <ModelLock as Lock<u64>>::new(0)));
        for name in ["first", "second"] {
            world.thread(&node, name, |(fabric, lock): &(ModelFabric, ModelLock)| {
                let _counter = Counter(lock);
                let held = lock.lock();
                // The thread is suspended here, holding the lock, whenever another execution begins.
                fabric.cpu_fence();
                drop(held);
            });
        }
    });
    assert_eq!(report.unwrap().completeness, Completeness::Complete);
}

/// Two locks of a node.
type TwoLocks = (ModelFabric, ModelLock, ModelLock);

/// Runs two threads of a node with two locks, and ends the executions after any number of steps.
fn cut_anywhere(threads: [fn(&TwoLocks); 2]) {
    for (seed, steps_max) in (0..50).flat_map(|seed| (1..20).map(move |steps| (seed, steps))) {
        let strategy = Strategy::Random { executions: 1, seed };
        let config = Config::default().strategy(strategy).steps_max(steps_max);
        let report = explore(&config, |world| {
            let lock = <ModelLock as Lock<u64>>::new;
            let node = world.node(move |fabric| (fabric, lock(0), lock(0)));
            for (name, thread) in ["first", "second"].into_iter().zip(threads) {
                world.thread(&node, name, thread);
            }
        });
        report.unwrap();
    }
}

/// A destructor may need a lock whose holder took it before the destructor's own thread took another: whichever of the two threads
/// is dismantled first, the other one lets its lock go.
#[test]
fn destructors_may_take_locks_that_were_taken_before_their_threads_own() {
    cut_anywhere([
        |(fabric, first, _)| {
            let held = first.lock();
            fabric.cpu_fence();
            fabric.cpu_fence();
            drop(held);
        },
        |(fabric, first, second)| {
            let _counter = Counter(first);
            let held = second.lock();
            fabric.cpu_fence();
            drop(held);
        },
    ]);
}

/// Two destructors that need each other's lock cannot both be run. The exploration goes on without them.
#[test]
fn destructors_that_need_each_others_locks_end_nothing() {
    fn thread(fabric: &ModelFabric, own: &ModelLock, other: &ModelLock) {
        let held = own.lock();
        // In an execution that goes on, the thread's own lock is free before the destructor takes the other one.
        let counter = Counter(other);
        fabric.cpu_fence();
        drop(held);
        drop(counter);
    }
    cut_anywhere([
        |(fabric, first, second)| thread(fabric, first, second),
        |(fabric, first, second)| thread(fabric, second, first),
    ]);
}

/// Registers memory when it is dropped, and reads its last word.
struct Registers<'a>(&'a ModelFabric);

impl Drop for Registers<'_> {
    fn drop(&mut self) {
        let memory = self.0.allocate(64, MemoryKind::Host).unwrap();
        let _last: u64 = memory.cell::<u64>(56).unwrap().load();
    }
}

/// A destructor that runs because its execution is dismantled may do what other code may. A panic there would end the
/// process.
#[test]
fn destructors_of_suspended_threads_may_register_memory() {
    let report = explore(&Config::default(), |world| {
        let node = world.node(|fabric| fabric);
        for name in ["first", "second"] {
            world.thread(&node, name, |fabric: &ModelFabric| {
                let _registers = Registers(fabric);
                fabric.cpu_fence();
            });
        }
    });
    assert_eq!(report.unwrap().completeness, Completeness::Complete);
}
