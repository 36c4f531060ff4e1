//! Threads that put and get several words by one transfer, whose words arrive in any order, and threads that look at them.

use std::collections::BTreeSet;

use loco_fabric::{
    Fabric, Local, Memory, MemoryKind, NodeId, QueuePair, RegionKey, Target, WordCell, Work, WorkRequestId,
};
use loco_sim::{Config, ModelFabric, ModelMemory, ModelQueuePair, note};

use crate::node::{Dice, Node, agree, node, outcomes, seeds};

/// A step of a thread. No two steps store the same value.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u64),
    /// Puts the number into so many words from this one on, from the call's own data or from registered memory, in strong
    /// order or not.
    Put(usize, usize, u64, bool, bool),
    /// Gets two words from this one on, and waits for that. The get asks for strong order or not.
    Get(usize, bool),
    /// Adds to a word of the other node.
    Add(usize, u64),
}

type Plan = Vec<Op>;

const WORDS: usize = 3;

fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let mut value = 0;
    // Small worlds are explored without the reduction in milliseconds, so that there can be hundreds of them.
    let longer = dice.below(2);
    (0..2)
        .map(|thread| {
            (0..1 + usize::from(thread == longer))
                .map(|_| {
                    value += 1;
                    let word = dice.below(WORDS);
                    match dice.below(8) {
                        0..=2 => Op::Load(word),
                        3 => Op::Store(word, value),
                        4 => Op::Get(dice.below(2), dice.below(2) == 0),
                        5 if thread == 0 => Op::Add(word, 100 * value),
                        _ => {
                            let first = dice.below(2);
                            Op::Put(
                                first,
                                1 + dice.below(WORDS - first),
                                value,
                                dice.below(2) == 0,
                                dice.below(3) == 0,
                            )
                        }
                    }
                })
                .collect()
        })
        .collect()
}

/// A node with a source of puts and a place for what is got.
struct Site {
    node: Node,
    source: ModelMemory,
    got: ModelMemory,
}

fn site(fabric: ModelFabric) -> Site {
    let node = node(fabric);
    let source = node.fabric.allocate(8 * WORDS, MemoryKind::Host).unwrap();
    let got = node.fabric.allocate(16, MemoryKind::Host).unwrap();
    Site { node, source, got }
}

impl Site {
    fn run(&self, me: usize, plan: &Plan) {
        let peer = NodeId(1 - me as u16);
        let mut queue: ModelQueuePair = self.node.fabric.queue_pair(peer).unwrap();
        let key: RegionKey = Node::key(usize::from(peer.0));
        let remote = self.node.fabric.import(peer, &key).unwrap();
        let target = |word: usize| Target {
            remote: &remote,
            offset: 8 * word,
        };
        let mut posted = 0;
        for &op in plan {
            match op {
                Op::Load(word) => note(self.node.load(word)),
                Op::Store(word, value) => self.node.memory.cell::<u64>(8 * word).unwrap().store(value),
                Op::Put(first, count, value, inline, strong) => {
                    let work = Work {
                        strong,
                        ..Work::unsignaled()
                    };
                    let data = value.to_le_bytes().repeat(count);
                    if inline {
                        let _ = queue.put_inline(&data, target(first), work).unwrap();
                    } else {
                        self.source.write(0, &data).unwrap();
                        let from = Local {
                            memory: &self.source,
                            offset: 0,
                            len: 8 * count,
                        };
                        let _ = queue.put(from, target(first), work).unwrap();
                    }
                }
                Op::Get(word, strong) => {
                    let to = Local {
                        memory: &self.got,
                        offset: 0,
                        len: 16,
                    };
                    let work = Work {
                        strong,
                        ..Work::signaled(WorkRequestId(1))
                    };
                    let _ = queue.get(to, target(word), work).unwrap();
                    posted += 1;
                    let mut done = Vec::new();
                    self.node.wait(|| {
                        self.node.fabric.poll(&mut done).unwrap();
                        (done.len() >= posted).then_some(())
                    });
                    posted = 0;
                    let words = [0, 8].map(|at| self.got.cell::<u64>(at).unwrap());
                    let values = words.map(|word| WordCell::<u64>::load(&word));
                    note(format!("{values:?}"));
                }
                Op::Add(word, value) => {
                    let to = Local {
                        memory: &self.node.scratch,
                        offset: 0,
                        len: 8,
                    };
                    let work = Work::signaled(WorkRequestId(2));
                    let _ = queue.fetch_add(target(word), value, to, work).unwrap();
                    posted += 1;
                }
            }
        }
    }
}

/// Explores everything and returns what threads noted in each execution.
fn notes(config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    outcomes(
        config,
        &plans,
        |end| format!("{:?}", end.notes()),
        |world| {
            let sites = [world.node(site), world.node(site)];
            for (me, plan) in plans.iter().cloned().enumerate() {
                world.thread(&sites[me], &format!("thread {me}"), move |site| {
                    site.run(me, &plan)
                });
            }
        },
    )
}

#[test]
fn the_reduction_keeps_every_order_of_words() {
    agree(seeds(0, 200), plans, notes);
}
