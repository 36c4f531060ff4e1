//! Threads that load, store, put, get, count and lock, with calls whose order the history keeps.

use std::collections::BTreeSet;

use loco_fabric::{
    AtomicCell, Fabric, Local, Lock, Memory, NodeId, Platform, QueuePair, WordCell, Work, WorkRequestId,
};
use loco_sim::{Config, ModelFabric, ModelQueuePair, call, note};

use crate::node::{Dice, Node, agree, history, node, outcomes};

type ModelPlatform = <ModelFabric as Fabric>::Platform;

/// A step of a thread. It names words by number, and no two steps store the same value.
#[derive(Clone, Copy, Debug)]
enum Op {
    Load(usize),
    Store(usize, u64),
    Put(usize, u64),
    /// Gets a word of the other node, and waits for that.
    Get(usize),
    /// Counts the node's counter up.
    Count,
    /// Adds the thread's number to a list under a lock, and looks at the list.
    Lock,
    CallBegins,
    Fence,
}

#[derive(Clone, Debug)]
struct Plan {
    node: usize,
    ops: Vec<Op>,
}

/// A node, and what its threads share beside its memory.
struct Site {
    node: Node,
    counter: <ModelPlatform as Platform>::AtomicU64,
    list: <ModelPlatform as Platform>::Mutex<Vec<usize>>,
}

fn site(fabric: ModelFabric) -> Site {
    Site {
        node: node(fabric),
        counter: AtomicCell::new(0_u64),
        list: Lock::new(Vec::new()),
    }
}

fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let threads = 2 + dice.below(2);
    let length = if threads == 2 { 4 } else { 2 };
    let mut value = 0;
    let mut plan = |(thread, node)| {
        let ops = (0..length)
            .map(|_| {
                let word = dice.below(2);
                value += 1;
                match dice.below(9) {
                    0 | 1 => Op::Load(word),
                    2 => Op::Store(word, value),
                    3 => Op::Put(word, value),
                    // Completions are taken by node. Two threads of one would take each other's.
                    4 if thread < 2 => Op::Get(word),
                    5 => Op::Count,
                    6 => Op::Lock,
                    7 => Op::Fence,
                    _ => Op::CallBegins,
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

impl Site {
    fn run(&self, me: usize, plan: &Plan) {
        let peer = NodeId(1 - plan.node as u16);
        let node = &self.node;
        let mut queue: ModelQueuePair = node.fabric.queue_pair(peer).unwrap();
        let remote = node.fabric.import(peer, &Node::key(usize::from(peer.0))).unwrap();
        let mut ops = plan.ops.iter();
        while let Some(&op) = ops.next() {
            match op {
                // A call that is the last thing has nothing in it.
                Op::CallBegins => {
                    let mut run = || {
                        if let Some(&op) = ops.next() {
                            self.step(me, op, &mut queue, &remote);
                        }
                    };
                    call("call", &mut run, |()| "");
                }
                op => self.step(me, op, &mut queue, &remote),
            }
        }
    }

    fn step(&self, me: usize, op: Op, queue: &mut ModelQueuePair, remote: &<ModelFabric as Fabric>::Remote) {
        let node = &self.node;
        let target = |word: usize| loco_fabric::Target {
            remote,
            offset: 8 * word,
        };
        match op {
            Op::Load(word) => note(node.load(word)),
            Op::Store(word, value) => node.memory.cell::<u64>(8 * word).unwrap().store(value),
            Op::Put(word, value) => {
                let _ = queue
                    .put_inline(&value.to_le_bytes(), target(word), Work::unsignaled())
                    .unwrap();
            }
            Op::Get(word) => {
                let to = Local {
                    memory: &node.scratch,
                    offset: 0,
                    len: 8,
                };
                let _ = queue
                    .get(to, target(word), Work::signaled(WorkRequestId(1)))
                    .unwrap();
                let mut done = Vec::new();
                node.wait(|| {
                    node.fabric.poll(&mut done).unwrap();
                    (done.len() == 1).then_some(())
                });
                let got: u64 = node.scratch.cell::<u64>(0).unwrap().load();
                note(got);
            }
            Op::Count => note(self.counter.fetch_add(1_u64)),
            Op::Lock => {
                let mut list = self.list.lock();
                list.push(me);
                note(format!("{:?}", *list));
            }
            Op::Fence => node.fabric.cpu_fence(),
            Op::CallBegins => {}
        }
    }
}

/// Explores everything and returns the set of histories.
fn histories(config: &Config, plans: &[Plan]) -> BTreeSet<String> {
    outcomes(config, &plans, history, |world| {
        let sites = [world.node(site), world.node(site)];
        for (me, plan) in plans.iter().cloned().enumerate() {
            world.thread(&sites[plan.node], &format!("thread {me}"), move |site| {
                site.run(me, &plan)
            });
        }
    })
}

/// A thread tries a lock before another has left something under it, while it does, and after.
#[test]
fn a_try_tells_the_first_value_under_a_lock_from_the_next() {
    let found = outcomes(
        &Config::default(),
        &"a try",
        |end| end.notes(),
        |world| {
            let site = world.node(site);
            world.thread(&site, "leaves", |site| site.list.lock().push(1));
            world.thread(&site, "tries", |site| match site.list.try_lock() {
                Some(list) => note(format!("{:?}", *list)),
                None => note("taken"),
            });
        },
    );
    let notes: Vec<String> = found.into_iter().flatten().collect();
    assert_eq!(notes, ["[1]", "[]", "taken"]);
}

#[test]
fn the_reduction_keeps_every_history() {
    agree(0..60, plans, histories);
}

#[test]
fn the_reduction_keeps_every_history_of_other_seeds_too() {
    agree(1000..1060, plans, histories);
}
