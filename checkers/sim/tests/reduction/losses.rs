//! Threads of nodes that may stop at any step: what they say before, what their puts leave behind, and what others see of it.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use loco_fabric::{Fabric, Local, Memory, NodeId, QueuePair, WordCell, Work, WorkRequestId};
use loco_sim::{Completeness, Config, Faults, ModelQueuePair, call, explore, note};

use crate::node::{Dice, Node, agree, history, node, outcomes, seeds};

/// A step of a thread. It names words by number, and no two steps store the same value.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u64),
    Put(usize, u64),
    /// Puts the number into two words by one transfer.
    PutBoth(u64),
    /// Gets a word of the other node, and waits until that has ended in one way or another.
    Get(usize),
    Note(u64),
    /// Makes a call with the next step in it.
    Call(u64),
    Fence,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    node: usize,
    ops: Vec<Op>,
}

pub(crate) fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    // Small worlds are explored without the reduction in milliseconds, so that there can be hundreds of them.
    let threads = 2 + dice.below(5) / 4;
    let mut value = 0;
    let mut plan = |(thread, node)| {
        let length = if threads == 2 { 1 + dice.below(2) } else { 1 };
        let ops = (0..length)
            .map(|_| {
                let word = dice.below(2);
                value += 1;
                match dice.below(9) {
                    0 | 1 => Op::Load(word),
                    2 => Op::Store(word, value),
                    3 => Op::Put(word, value),
                    4 => Op::PutBoth(value),
                    // Completions are taken by node. Two threads of one would take each other's.
                    5 if thread < 2 => Op::Get(word),
                    6 => Op::Call(value),
                    7 => Op::Fence,
                    _ => Op::Note(value),
                }
            })
            .collect();
        Plan { node, ops }
    };
    [(0, 0), (1, 1), (2, 0)]
        .into_iter()
        .take(threads)
        .map(&mut plan)
        .collect()
}

impl Node {
    fn go(&self, plan: &Plan) {
        let peer = NodeId(1 - plan.node as u16);
        let Ok(mut queue) = self.fabric.queue_pair(peer) else {
            return note("no queue pair");
        };
        let mut ops = plan.ops.iter();
        while let Some(&op) = ops.next() {
            match op {
                Op::Call(number) => {
                    let mut run = || ops.next().map(|&op| self.step(op, &mut queue, peer));
                    call(number, &mut run, |_| "");
                }
                op => self.step(op, &mut queue, peer),
            }
        }
    }

    fn step(&self, op: Op, queue: &mut ModelQueuePair, peer: NodeId) {
        let Ok(remote) = self.fabric.import(peer, &Node::key(usize::from(peer.0))) else {
            return note("refused");
        };
        let target = |word: usize| loco_fabric::Target {
            remote: &remote,
            offset: 8 * word,
        };
        match op {
            Op::Load(word) => note(self.load(word)),
            Op::Store(word, value) => self.memory.cell::<u64>(8 * word).unwrap().store(value),
            Op::Put(word, value) => {
                let put = queue.put_inline(&value.to_le_bytes(), target(word), Work::unsignaled());
                if put.is_err() {
                    note("refused");
                }
            }
            Op::PutBoth(value) => {
                let both = [value.to_le_bytes(), value.to_le_bytes()].concat();
                if queue.put_inline(&both, target(0), Work::unsignaled()).is_err() {
                    note("refused");
                }
            }
            Op::Get(word) => {
                let to = Local {
                    memory: &self.scratch,
                    offset: 0,
                    len: 8,
                };
                if queue
                    .get(to, target(word), Work::signaled(WorkRequestId(1)))
                    .is_err()
                {
                    return note("refused");
                }
                let mut done = Vec::new();
                self.wait(|| {
                    self.fabric.poll(&mut done).unwrap();
                    (done.len() == 1).then_some(())
                });
                let got: u64 = self.scratch.cell::<u64>(0).unwrap().load();
                note(format!("{:?} {got}", done[0].status));
            }
            Op::Note(number) => note(number),
            Op::Fence => self.fabric.cpu_fence(),
            Op::Call(_) => {}
        }
    }
}

/// Explores executions in which one node may stop, and returns the set of histories.
fn histories(config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    histories_with(CRASH, config, plans)
}

/// Explores executions with such faults, and returns the set of histories.
pub(crate) fn histories_with(faults: Faults, config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    let config = Config {
        faults,
        ..config.clone()
    };
    outcomes(&config, &plans, history, |world| {
        let nodes = [world.node(node), world.node(node)];
        for (me, plan) in plans.iter().cloned().enumerate() {
            world.thread(&nodes[plan.node], &format!("thread {me}"), move |node| {
                node.go(&plan)
            });
        }
    })
}

/// Explores a world in which one node may stop, and returns the notes and a word of node 1 at the ends of its executions.
fn with_a_crash(
    reduction: bool,
    run: impl Fn(&Node, usize) + Copy + Send + Sync + 'static,
) -> BTreeSet<(Vec<String>, u64)> {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let config = Config {
        reduction,
        faults: CRASH,
        ..Config::default()
    };
    let report = explore(&config, |world| {
        let nodes = [world.node(node), world.node(node)];
        for (me, of) in nodes.iter().enumerate() {
            world.thread(of, &format!("thread {me}"), move |node| run(node, me));
        }
        let (found, last) = (found.clone(), nodes[1].clone());
        world.finally(move |end| {
            let word = last.get().map_or(0, |node| end.word(&node.memory, 0));
            found.lock().unwrap().insert((end.notes(), word));
        });
    })
    .unwrap();
    assert!(report.failure.is_none(), "{:?}", report.failure);
    assert_eq!(report.completeness, Completeness::Complete);
    found.lock().unwrap().clone()
}

/// Checks that both explorations find exactly these sets of notes.
fn says(run: impl Fn(&Node, usize) + Copy + Send + Sync + 'static, expected: &[&[&str]]) {
    let expected: BTreeSet<Vec<String>> = expected
        .iter()
        .map(|notes| notes.iter().map(|&note| note.to_owned()).collect())
        .collect();
    for reduction in [true, false] {
        let found = with_a_crash(reduction, run);
        let notes: BTreeSet<Vec<String>> = found.into_iter().map(|(notes, _)| notes).collect();
        assert_eq!(notes, expected, "reduction {reduction}");
    }
}

#[test]
fn a_node_may_stop_between_any_two_things_that_it_says() {
    let speaks = |_: &Node, me| {
        if me == 0 {
            note("one");
            note("two");
        }
    };
    says(speaks, &[&[], &["one"], &["one", "two"]]);
}

#[test]
fn a_node_may_stop_before_a_call_and_in_it() {
    let outcomes: Vec<BTreeSet<String>> = [true, false]
        .map(|reduction| {
            let config = Config {
                reduction,
                faults: CRASH,
                ..Config::default()
            };
            outcomes(&config, &"a call", history, |world| {
                let nodes = [world.node(node), world.node(node)];
                world.thread(&nodes[0], "calls", |_| call("c", || (), |()| "r"));
                world.thread(&nodes[1], "idles", |_| {});
            })
        })
        .into();
    // No call, one that has not returned, and one that has.
    assert_eq!(outcomes[0].len(), 3, "{:?}", outcomes[0]);
    assert_eq!(outcomes[0], outcomes[1]);
}

/// Whether a lost node's last write has arrived shows at the end, if a check looks at the word, though no thread reads it.
#[test]
fn a_write_that_no_thread_reads_arrives_or_not() {
    let puts = |node: &Node, me| {
        if me == 0 {
            let Ok(mut queue) = node.fabric.queue_pair(NodeId(1)) else {
                return;
            };
            node.step(Op::Put(0, 7), &mut queue, NodeId(1));
            note("posted");
        }
    };
    let words = |said: &str| {
        let said: Vec<String> = said.split_whitespace().map(str::to_owned).collect();
        with_a_crash(true, puts)
            .into_iter()
            .filter(move |(notes, _)| *notes == said)
            .map(|(_, word)| word)
    };
    assert_eq!(words("posted").collect::<Vec<_>>(), [0, 7]);
    assert_eq!(words("").collect::<Vec<_>>(), [0, 7]);
    assert_eq!(with_a_crash(true, puts), with_a_crash(false, puts));
}

const CRASH: Faults = Faults {
    expiries: 0,
    crashes: 1,
    suspicions: 0,
    cuts: 0,
    unenforced: false,
    idle_expiries: false,
};

#[test]
fn the_reduction_keeps_every_history_of_nodes_that_stop() {
    agree(seeds(0, 200), plans, histories);
}

#[test]
fn the_reduction_keeps_every_history_of_nodes_that_stop_of_other_seeds_too() {
    agree(seeds(1_000_000, 200), plans, histories);
}
