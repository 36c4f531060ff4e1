//! Threads that take completions of their node, whichever thread posted the operation, and that send and receive set-up messages.

use std::collections::BTreeSet;

use loco_fabric::{Control, Fabric, Local, NodeId, QueuePair, Work, WorkRequestId};
use loco_sim::{Config, ModelFabric, ModelQueuePair, note};

use crate::node::{Dice, Node, agree, history, node, outcomes, seeds};

/// A step of a thread. It names words by number, and no two steps have the same number.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    /// Puts the number, and asks for a completion.
    Put(usize, u64),
    /// Gets a word of the other node, and asks for a completion.
    Get(usize, u64),
    /// Takes the completions that are there.
    Poll,
    /// Waits until there is a completion, and takes those that are there.
    Await,
    /// Sends the number to the other node.
    Send(u64),
    /// Waits for a message.
    Receive,
}

#[derive(Clone, Debug)]
struct Plan {
    node: usize,
    ops: Vec<Op>,
}

/// Makes plans in which nobody waits for what may not come: a node awaits at most one completion and one message, which nobody else takes.
fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let threads = 2 + dice.below(2);
    let length = if threads == 2 { 4 } else { 2 };
    let mut number = 0;
    let mut plans: Vec<Plan> = [0, 1, 0]
        .into_iter()
        .take(threads)
        .map(|node| {
            let ops = (0..length)
                .map(|_| {
                    let word = dice.below(2);
                    number += 1;
                    match dice.below(8) {
                        0 => Op::Load(word),
                        1 | 2 => Op::Put(word, number),
                        3 => Op::Get(word, number),
                        4 | 5 => Op::Poll,
                        _ => Op::Send(number),
                    }
                })
                .collect();
            Plan { node, ops }
        })
        .collect();
    for node in 0..2 {
        let of = |node, is: fn(&Op) -> bool| {
            let there = plans.iter().filter(|plan| plan.node == node);
            there.flat_map(|plan| &plan.ops).filter(|op| is(op)).count()
        };
        let sent = of(1 - node, |op| matches!(op, Op::Send(_)));
        let posts = of(node, |op| matches!(op, Op::Put(..) | Op::Get(..)));
        let polls = of(node, |op| matches!(op, Op::Poll));
        let Some(last) = plans.iter_mut().rfind(|plan| plan.node == node) else {
            continue;
        };
        if sent > 0 {
            last.ops.push(Op::Receive);
        }
        if posts > 0 && polls == 0 {
            last.ops.push(Op::Await);
        }
    }
    plans
}

fn run(node: &Node, plan: &Plan) {
    let peer = NodeId(1 - plan.node as u16);
    let mut queue: ModelQueuePair = node.fabric.queue_pair(peer).unwrap();
    let remote = node.fabric.import(peer, &Node::key(usize::from(peer.0))).unwrap();
    let target = |word: usize| loco_fabric::Target {
        remote: &remote,
        offset: 8 * word,
    };
    let poll = || {
        let mut done = Vec::new();
        node.fabric.poll(&mut done).unwrap();
        done
    };
    for &op in &plan.ops {
        match op {
            Op::Load(word) => note(node.load(word)),
            Op::Put(word, value) => {
                let work = Work::signaled(WorkRequestId(value));
                let _ = queue
                    .put_inline(&value.to_le_bytes(), target(word), work)
                    .unwrap();
            }
            Op::Get(word, number) => {
                let to = Local {
                    memory: &node.scratch,
                    offset: 0,
                    len: 8,
                };
                let work = Work::signaled(WorkRequestId(number));
                let _ = queue.get(to, target(word), work).unwrap();
            }
            Op::Poll => note(format!("{:?}", poll())),
            Op::Await => {
                let mut done = Vec::new();
                node.wait(|| {
                    done = poll();
                    (!done.is_empty()).then_some(())
                });
                note(format!("{done:?}"));
            }
            Op::Send(number) => node.fabric.control().send(peer, &number.to_le_bytes()).unwrap(),
            Op::Receive => note(format!("{:?}", node.fabric.control().receive(None).unwrap())),
        }
    }
}

/// Explores everything and returns the set of what threads noted.
fn histories(config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    outcomes(config, &plans, history, |world| {
        let make = |fabric: ModelFabric| node(fabric);
        let nodes = [world.node(make), world.node(make)];
        for (me, plan) in plans.iter().cloned().enumerate() {
            world.thread(&nodes[plan.node], &format!("thread {me}"), move |node| {
                run(node, &plan);
            });
        }
    })
}

#[test]
fn the_reduction_keeps_every_order_of_completions_and_messages() {
    agree(seeds(0, 24), plans, histories);
}
