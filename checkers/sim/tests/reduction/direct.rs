//! Threads on the fabric with the capabilities of shared memory: loads, stores, puts, gets, additions and reads at once, on their
//! own node's words and on the other's; waits; nodes that stop or are shut out.

use std::collections::BTreeSet;

use loco_fabric::{
    Fabric, Local, Memory, NodeId, Peers, QueuePair, RemoteMemory, Target, Wait, WordCell, WordOp, Work,
};
use loco_sim::{Config, FabricKind, Faults, ModelQueuePair, ModelRemote, call, note};

use crate::node::{Dice, Node, agree, history, node, outcomes, seeds};

/// A step of a thread. It names words by number, and no two steps store the same value.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u64),
    /// Adds to a word of the own node by a locked instruction.
    AddHere(usize, u64),
    Put(usize, u64),
    /// Puts the number into both words by one transfer.
    PutBoth(u64),
    /// Puts a word of the own node into the same word of the other.
    PutWord(usize),
    /// Gets a word of the other node into the same word of the own.
    Get(usize),
    Read(usize),
    ReadBoth,
    AddThere(usize, u64),
    Exchange(usize, u64),
    /// Waits until the word of the own node is not 0, or a thread of the other node has ended.
    Wait(usize),
    /// Waits for the same, and reads the word by way of the fabric.
    WaitThere(usize),
    Call(u64),
    Fence,
}

/// The word that says that a thread of the other node has ended.
const ENDED: usize = 2;

#[derive(Clone, Debug)]
struct Plan {
    node: usize,
    ops: Vec<Op>,
}

/// Returns the plans of two threads or three, with `length` steps each or fewer.
fn plans(seed: u64, length: usize) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let threads = 2 + dice.below(5) / 4;
    let mut value = 0;
    let mut plan = |node| {
        let length = if threads == 2 {
            1 + dice.below(length)
        } else {
            1 + dice.below(2)
        };
        let ops = (0..length)
            .map(|_| {
                let word = dice.below(2);
                value += 1;
                match dice.below(16) {
                    0 | 1 => Op::Load(word),
                    2 => Op::Store(word, value),
                    3 => Op::AddHere(word, 100 * value),
                    4 | 5 => Op::Put(word, value),
                    6 => Op::PutBoth(value),
                    7 => Op::PutWord(word),
                    8 => Op::Get(word),
                    9 => Op::Read(word),
                    10 => Op::ReadBoth,
                    11 => Op::AddThere(word, 100 * value),
                    12 => Op::Exchange(word, value),
                    // Threads of one node alone wait, so that none waits for one that waits.
                    13 if node == 1 => Op::Wait(word),
                    13 => Op::Call(value),
                    14 if node == 1 => Op::WaitThere(word),
                    _ => Op::Fence,
                }
            })
            .collect();
        Plan { node, ops }
    };
    [0, 1, 0].into_iter().take(threads).map(&mut plan).collect()
}

impl Node {
    fn walk(&self, plan: &Plan) {
        let peer = NodeId(1 - plan.node as u16);
        let key = Node::key(usize::from(peer.0));
        let (Ok(mut queue), Ok(remote)) = (self.fabric.queue_pair(peer), self.fabric.import(peer, &key))
        else {
            return note("no queue pair");
        };
        let mut ops = plan.ops.iter();
        while let Some(&op) = ops.next() {
            let done = match op {
                Op::Call(number) => {
                    let mut run = || ops.next().map(|&op| self.does(op, &mut queue, &remote));
                    call(number, &mut run, |_| "").unwrap_or(Ok(()))
                }
                op => self.does(op, &mut queue, &remote),
            };
            if done.is_err() {
                note("refused");
            }
        }
        let _ = put(&mut queue, &remote, ENDED, 1);
    }

    fn does(&self, op: Op, queue: &mut ModelQueuePair, remote: &ModelRemote) -> loco_fabric::Result<()> {
        let at = |word: usize| Target {
            remote,
            offset: 8 * word,
        };
        let own = |word: usize| Local {
            memory: &self.memory,
            offset: 8 * word,
            len: 8,
        };
        let cell = |word: usize| self.memory.cell::<u64>(8 * word).unwrap();
        let work = Work::unsignaled();
        match op {
            Op::Load(word) => note(self.load(word)),
            Op::Store(word, value) => cell(word).store(value),
            Op::AddHere(word, value) => note(WordCell::<u64>::fetch_add(&cell(word), value)),
            Op::Put(word, value) => put(queue, remote, word, value)?,
            Op::PutBoth(value) => {
                let both = [value.to_le_bytes(), value.to_le_bytes()].concat();
                queue.put_inline(&both, at(0), work).map(drop)?;
            }
            Op::PutWord(word) => queue.put(own(word), at(word), work).map(drop)?,
            Op::Get(word) => queue.get(own(word), at(word), work).map(drop)?,
            Op::Read(word) => {
                let mut bytes = [0; 8];
                queue.read_at_once(at(word), &mut bytes)?;
                note(u64::from_le_bytes(bytes));
            }
            Op::ReadBoth => {
                let mut bytes = [0; 16];
                queue.read_at_once(at(0), &mut bytes)?;
                let words = bytes.chunks_exact(8).map(|word| word[0]);
                note(format!("{:?}", words.collect::<Vec<_>>()));
            }
            Op::AddThere(word, value) => note(format!(
                "{:?}",
                queue.word_at_once(at(word), WordOp::FetchAdd(value))?
            )),
            Op::Exchange(word, new) => {
                let exchange = WordOp::CompareSwap { expected: 0, new };
                note(format!("{:?}", queue.word_at_once(at(word), exchange)?));
            }
            Op::Wait(word) => {
                let wait = Wait {
                    what: "a word",
                    peers: Peers::One(remote.node()),
                    deadline: None,
                };
                self.fabric.wait(wait, || {
                    let found = self.load(word);
                    (found != 0 || self.load(ENDED) != 0).then(|| note(found))
                })?;
            }
            Op::WaitThere(word) => {
                let wait = Wait {
                    what: "a word there",
                    peers: Peers::None,
                    deadline: None,
                };
                self.fabric.wait(wait, || {
                    let mut bytes = [0; 8];
                    match queue.read_at_once(at(word), &mut bytes) {
                        Err(error) => Some(Err(error)),
                        Ok(()) if bytes != [0; 8] || self.load(ENDED) != 0 => {
                            note(u64::from_le_bytes(bytes));
                            Some(Ok(()))
                        }
                        Ok(()) => None,
                    }
                })??;
            }
            Op::Call(_) => {}
            Op::Fence => self.fabric.cpu_fence(),
        }
        Ok(())
    }
}

fn put(queue: &mut ModelQueuePair, remote: &ModelRemote, word: usize, value: u64) -> loco_fabric::Result<()> {
    let offset = 8 * word;
    queue
        .put_inline(
            &value.to_le_bytes(),
            Target { remote, offset },
            Work::unsignaled(),
        )
        .map(drop)
}

/// Explores everything and returns the set of histories.
fn histories(config: &Config, faults: Faults, plans: &[Plan]) -> BTreeSet<String> {
    let config = Config {
        fabric: FabricKind::Shm,
        faults,
        ..config.clone()
    };
    outcomes(&config, &plans, history, |world| {
        let nodes = [world.node(node), world.node(node)];
        for (me, plan) in plans.iter().cloned().enumerate() {
            world.thread(&nodes[plan.node], &format!("thread {me}"), move |node| {
                node.walk(&plan)
            });
        }
    })
}

#[test]
fn the_reduction_keeps_every_history_of_shared_memory() {
    agree(
        seeds(0, 150),
        |seed| plans(seed, 5),
        |config, plans| histories(config, Faults::default(), plans),
    );
}

#[test]
fn the_reduction_keeps_every_history_of_shared_memory_where_a_node_stops() {
    let crash = Faults {
        crashes: 1,
        ..Faults::default()
    };
    agree(
        seeds(500_000, 100),
        |seed| plans(seed, 2),
        |config, plans| histories(config, crash, plans),
    );
}

#[test]
fn the_reduction_keeps_every_history_of_shared_memory_where_a_node_is_shut_out() {
    let suspicion = Faults {
        suspicions: 1,
        ..Faults::default()
    };
    agree(
        seeds(700_000, 100),
        |seed| plans(seed, 2),
        |config, plans| histories(config, suspicion, plans),
    );
}
