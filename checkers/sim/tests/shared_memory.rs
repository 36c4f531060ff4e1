//! Checks the fabric with the capabilities of shared memory by itself: its operations are accesses of the poster's own processor,
//! and wait in its store buffer.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use loco_fabric::{
    Fabric, FabricError, Local, Memory, MemoryKind, NodeId, Peers, Posted, QueuePair, RegionKey, Target,
    Wait, WordCell, WordOp, Work, WorkRequestId,
};
use loco_sim::{
    Completeness, Config, FabricKind, Faults, ModelFabric, ModelMemory, ModelQueuePair, ModelRemote, World,
    explore, note,
};

const BYTES: usize = 64;

struct Node {
    fabric: ModelFabric,
    memory: ModelMemory,
}

/// A queue pair and what it leads to.
struct Peer {
    queue: ModelQueuePair,
    remote: ModelRemote,
}

fn node(fabric: ModelFabric) -> Node {
    let memory = fabric.allocate(BYTES, MemoryKind::Host).unwrap();
    Node { fabric, memory }
}

impl Node {
    fn load(&self, word: usize) -> u64 {
        self.memory.cell::<u64>(8 * word).unwrap().load()
    }

    fn peer(&self, peer: u16) -> loco_fabric::Result<Peer> {
        // Set-up threads have the numbers of their nodes, and the region is the first thing that each allocates.
        let key = RegionKey {
            arena: 0,
            address: u64::from(peer) << 43,
            len: BYTES as u64,
            rkey: 0,
        };
        Ok(Peer {
            queue: self.fabric.queue_pair(NodeId(peer))?,
            remote: self.fabric.import(NodeId(peer), &key)?,
        })
    }

    fn wait(&self, holds: impl FnMut() -> Option<()>) -> loco_fabric::Result<()> {
        let wait = Wait {
            what: "a word",
            peers: Peers::None,
            deadline: None,
        };
        self.fabric.wait(wait, holds)
    }
}

impl Peer {
    fn put(&mut self, word: usize, value: u64) -> loco_fabric::Result<Posted> {
        let Peer { queue, remote } = self;
        let offset = 8 * word;
        queue.put_inline(
            &value.to_le_bytes(),
            Target { remote, offset },
            Work::unsignaled(),
        )
    }

    fn read(&mut self, word: usize) -> loco_fabric::Result<u64> {
        let Peer { queue, remote } = self;
        let (mut bytes, offset) = ([0; 8], 8 * word);
        queue.read_at_once(Target { remote, offset }, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn word(&mut self, word: usize, op: WordOp) -> loco_fabric::Result<Option<u64>> {
        let Peer { queue, remote } = self;
        let offset = 8 * word;
        queue.word_at_once(Target { remote, offset }, op)
    }
}

const SHM: Config = Config {
    strategy: loco_sim::Strategy::Exhaustive,
    memory: loco_sim::Memory::Model,
    glob: false,
    fabric: FabricKind::Shm,
    tier: loco_sim::Tier::Unordered,
    faults: Faults {
        expiries: 0,
        crashes: 0,
        suspicions: 0,
        cuts: 0,
        unenforced: false,
        idle_expiries: false,
    },
    workers: 1,
    reduction: true,
    states_max: None,
    time_max: None,
    steps_max: 10_000,
    longer_fails: false,
    estimates: false,
    progress: None,
    cancel: None,
};

/// Returns the sets of notes of all complete executions, which are the same without the reduction.
fn outcomes(config: &Config, build: impl Fn(&mut World) + Sync) -> BTreeSet<Vec<String>> {
    let [reduced, whole] = [true, false].map(|reduction| {
        let found = Arc::new(Mutex::new(BTreeSet::new()));
        let config = Config {
            reduction,
            ..config.clone()
        };
        let report = explore(&config, |world| {
            build(world);
            let found = found.clone();
            world.finally(move |end| {
                found.lock().unwrap().insert(end.notes());
            });
        })
        .unwrap();
        let failure = &report.failure;
        assert_eq!(report.completeness, Completeness::Complete, "{failure:?}");
        assert_eq!(report.fabric, config.fabric);
        found.lock().unwrap().clone()
    });
    assert_eq!(reduced, whole);
    reduced
}

fn set(lines: &[&[&str]]) -> BTreeSet<Vec<String>> {
    let line = |line: &&[&str]| line.iter().map(|&word| word.to_owned()).collect();
    lines.iter().map(line).collect()
}

/// Each of two nodes puts a word at the other, then reads the word that the other has put, as `read` says.
fn store_buffering(read: fn(&Node, &mut Peer) -> u64) -> BTreeSet<Vec<String>> {
    outcomes(&SHM, move |world| {
        let nodes = [world.node(node), world.node(node)];
        for me in [0, 1] {
            world.thread(&nodes[me], "t", move |node| {
                let mut peer = node.peer(1 - me as u16).unwrap();
                assert_eq!(peer.put(me, 1).unwrap(), Posted::Done);
                note(read(node, &mut peer));
            });
        }
    })
}

#[test]
fn a_put_waits_in_the_store_buffer() {
    let (weak, strong): (&[&[&str]], _) = (
        &[&["0", "0"], &["0", "1"], &["1", "0"], &["1", "1"]],
        set(&[&["0", "1"], &["1", "0"], &["1", "1"]]),
    );
    // The word of the other is at this node.
    let own = |node: &Node, _: &mut Peer| node.load(1 - usize::from(node.fabric.node().0));
    assert_eq!(store_buffering(own), set(weak));
    let fenced = |node: &Node, peer: &mut Peer| {
        node.fabric.cpu_fence();
        assert!(peer.read(7).is_ok());
        node.load(1 - usize::from(node.fabric.node().0))
    };
    assert_eq!(store_buffering(fenced), strong);
    // A word operation has a fence of its own, a read has none.
    let word = |node: &Node, peer: &mut Peer| {
        assert_eq!(peer.word(7, WordOp::Get), Ok(Some(0)));
        node.load(1 - usize::from(node.fabric.node().0))
    };
    assert_eq!(store_buffering(word), strong);
    let read = |node: &Node, peer: &mut Peer| {
        assert_eq!(peer.read(7), Ok(0));
        node.load(1 - usize::from(node.fabric.node().0))
    };
    assert_eq!(store_buffering(read), set(weak));
    let flushed = |node: &Node, peer: &mut Peer| {
        assert_eq!(peer.queue.flush(Work::unsignaled()), Ok(Posted::Done));
        node.load(1 - usize::from(node.fabric.node().0))
    };
    assert_eq!(store_buffering(flushed), strong);
}

#[test]
fn puts_arrive_in_the_order_of_the_program() {
    let found = outcomes(&SHM, |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "writer", |node| {
            let mut peer = node.peer(1).unwrap();
            let _ = peer.put(0, 7).unwrap();
            let _ = peer.put(1, 1).unwrap();
        });
        world.thread(&nodes[1], "reader", |node| {
            node.wait(|| (node.load(1) == 1).then_some(())).unwrap();
            note(node.load(0));
        });
    });
    assert_eq!(found, set(&[&["7"]]));
}

#[test]
fn additions_are_atomic_against_the_processor() {
    let found = outcomes(&SHM, |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "far", |node| {
            let mut peer = node.peer(1).unwrap();
            peer.word(0, WordOp::FetchAdd(1)).unwrap();
            let (Peer { queue, remote }, memory) = (&mut peer, &node.memory);
            let old = Local {
                memory,
                offset: 0,
                len: 8,
            };
            let done = queue.fetch_add(Target { remote, offset: 0 }, 10, old, Work::unsignaled());
            assert_eq!(done, Ok(Posted::Done));
        });
        world.thread(&nodes[1], "near", |node| {
            let cell = node.memory.cell::<u64>(0).unwrap();
            WordCell::<u64>::fetch_add(&cell, 100);
            node.wait(|| (node.load(0) == 111).then_some(())).unwrap();
            note(node.load(0));
        });
    });
    assert_eq!(found, set(&[&["111"]]));
}

#[test]
fn bytes_that_are_no_whole_words_go_between_their_neighbours() {
    let found = outcomes(&SHM, |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "t", |node| {
            let Peer { mut queue, remote } = node.peer(1).unwrap();
            let at = |offset| Target {
                remote: &remote,
                offset,
            };
            let _ = queue.put_inline(&[0xff; 24], at(0), Work::unsignaled()).unwrap();
            let _ = queue
                .put_inline(&[1, 2, 3, 4], at(6), Work::unsignaled())
                .unwrap();
            let mut bytes = [0; 6];
            queue.read_at_once(at(5), &mut bytes).unwrap();
            note(format!("{bytes:?}"));
            assert!(queue.read_at_once(at(BYTES - 4), &mut bytes).is_err());
        });
    });
    assert_eq!(found, set(&[&["[255, 1, 2, 3, 4, 255]"]]));
}

#[test]
fn other_fabrics_have_nothing_at_once() {
    let config = Config::default();
    let found = outcomes(&config, |world| {
        let nodes = [world.node(node), world.node(node)];
        world.thread(&nodes[0], "t", |node| {
            let mut peer = node.peer(1).unwrap();
            note(matches!(peer.word(0, WordOp::Get), Ok(None)));
            note(matches!(peer.read(0), Err(FabricError::Unsupported(_))));
            let work = Work::signaled(WorkRequestId(1));
            note(matches!(peer.queue.flush(work), Ok(Posted::Pending)));
        });
    });
    assert_eq!(found, set(&[&["true", "true", "true"]]));
}

/// A node that is shut out has no store under way: none arrives once another node knows of it. A node that has stopped has none
/// either.
#[test]
fn nothing_arrives_from_a_node_that_is_shut_out() {
    for (crashes, suspicions) in [(0, 1), (1, 0)] {
        let config = Config {
            faults: Faults {
                crashes,
                suspicions,
                ..SHM.faults
            },
            ..SHM
        };
        let found = outcomes(&config, |world| {
            let nodes = [world.node(node), world.node(node)];
            world.thread(&nodes[0], "writer", |node| {
                let Ok(mut peer) = node.peer(1) else { return };
                match peer.put(0, 1).and_then(|_| peer.put(0, 2)) {
                    Ok(_) => {}
                    Err(FabricError::DeclaredLost | FabricError::PeerLost(_)) => note("refused"),
                    Err(error) => panic!("{error}"),
                }
            });
            world.thread(&nodes[1], "survivor", |node| {
                let lost = node.fabric.wait(
                    Wait {
                        what: "the loss",
                        peers: Peers::One(NodeId(0)),
                        deadline: None,
                    },
                    || (node.load(0) == 2).then_some(()),
                );
                match lost {
                    Ok(()) => note("arrived"),
                    Err(FabricError::PeerLost(_)) => {
                        let (first, second) = (node.load(0), node.load(0));
                        assert_eq!(first, second, "a write arrives after the loss is known");
                        note(first);
                    }
                    Err(FabricError::DeclaredLost) => {}
                    Err(error) => panic!("{error}"),
                }
            });
        });
        let survived = |text: &str| found.iter().any(|notes| notes.iter().any(|n| n == text));
        assert!(survived("0") && survived("1") && survived("arrived"), "{found:?}");
        assert_eq!(survived("refused"), suspicions > 0 || crashes > 0, "{found:?}");
    }
}
