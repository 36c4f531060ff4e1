//! Threads that start others in the middle of an execution.

use std::collections::BTreeSet;
use std::sync::Arc;

use loco_fabric::{Fabric, Memory, NodeId, Platform, QueuePair, ThreadKind, WordCell, Work};
use loco_sim::{Config, ModelFabric, note};

use crate::node::{Dice, Node, agree, node, outcomes};

/// A step of a thread. It names words by number, and no two steps store the same value.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u64),
    Put(usize, u64),
}

/// The steps of a thread, and the number of them that it has made when it starts the other.
#[derive(Clone, Debug)]
struct Plan {
    node: usize,
    ops: Vec<Op>,
    starts: Option<(usize, Vec<Op>)>,
}

fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let mut value = 0;
    let mut ops = |dice: &mut Dice, length: usize| -> Vec<Op> {
        let op = |_| {
            let word = dice.below(2);
            value += 1;
            match dice.below(4) {
                0 | 1 => Op::Load(word),
                2 => Op::Store(word, value),
                _ => Op::Put(word, value),
            }
        };
        (0..length).map(op).collect()
    };
    (0..2)
        .map(|node| Plan {
            node,
            ops: ops(&mut dice, 2),
            starts: (node == 0 || dice.below(2) == 0).then(|| (dice.below(3), ops(&mut dice, 1 + node))),
        })
        .collect()
}

impl Node {
    fn all(&self, me: usize, ops: &[Op]) {
        let peer = NodeId(1 - me as u16);
        let mut queue = self.fabric.queue_pair(peer).unwrap();
        let remote = self.fabric.import(peer, &Node::key(usize::from(peer.0))).unwrap();
        for &op in ops {
            match op {
                Op::Load(word) => note(self.load(word)),
                Op::Store(word, value) => self.memory.cell::<u64>(8 * word).unwrap().store(value),
                Op::Put(word, value) => {
                    let target = loco_fabric::Target {
                        remote: &remote,
                        offset: 8 * word,
                    };
                    let _ = queue
                        .put_inline(&value.to_le_bytes(), target, Work::unsignaled())
                        .unwrap();
                }
            }
        }
    }
}

fn run(node: &Arc<Node>, plan: &Plan) {
    let Some((before, other)) = plan.starts.clone() else {
        return node.all(plan.node, &plan.ops);
    };
    let (first, second) = plan.ops.split_at(before.min(plan.ops.len()));
    node.all(plan.node, first);
    let (of_other, me) = (node.clone(), plan.node);
    let body = move || of_other.all(me, &other);
    node.fabric
        .platform()
        .spawn(&format!("started {me}"), ThreadKind::Worker, body)
        .unwrap();
    node.all(plan.node, second);
}

/// Explores everything and returns the set of histories, by the names of the threads: numbers depend on who starts first.
fn histories(config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    let show = |end: &loco_sim::End<'_>| {
        let mut threads: Vec<_> = end
            .histories()
            .into_iter()
            .map(|of| (of.name, of.events))
            .collect();
        threads.sort_by(|a, b| a.0.cmp(&b.0));
        format!("{threads:?}")
    };
    outcomes(config, &plans, show, |world| {
        let nodes = [(); 2].map(|()| world.node(|fabric: ModelFabric| Arc::new(node(fabric))));
        for plan in plans.iter().cloned() {
            world.thread(&nodes[plan.node], &format!("thread {}", plan.node), move |node| {
                run(node, &plan)
            });
        }
    })
}

#[test]
fn the_reduction_keeps_every_history_of_threads_that_start_others() {
    agree(0..20, plans, histories);
}
