//! Compares explorations of random small worlds in which threads wait, for words that others write and for completions:
//! with the reduction and without it, with one wait for several words and with a wait for each of them, and at random.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use loco_fabric::{
    Fabric, Local, Memory, MemoryKind, NodeId, Peers, QueuePair, RegionKey, Target, Wait, WordCell, Work,
    WorkRequestId,
};
use loco_sim::{
    Completeness, Config, ModelFabric, ModelMemory, ModelQueuePair, Strategy, World, explore, note,
};

/// The most threads of a world. Each has a word on each node, which it alone writes.
const THREADS: usize = 3;

/// The way in which a thread waits for several words.
#[derive(Clone, Copy)]
enum Form {
    /// One wait, whose condition goes on with the first word that was not there.
    Kept,
    /// One wait, whose condition looks at every word again.
    Again,
    /// A wait for each word.
    Apart,
}

/// The plan of a thread.
#[derive(Clone, Debug)]
struct Plan {
    node: usize,
    /// Rounds, in each of which the thread writes its words, may wait for completions, waits for words of others, and looks at words.
    rounds: Vec<Round>,
}

#[derive(Clone, Debug)]
struct Round {
    /// Set if the thread gets its own word of the other node, and waits for as many completions as it has posted.
    completes: bool,
    awaited: Vec<usize>,
    looks: Vec<usize>,
}

/// Numbers that a seed determines (splitmix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % bound as u64) as usize
    }

    /// Returns some of the numbers below `bound`, in some order.
    fn some(&mut self, bound: usize) -> Vec<usize> {
        let mut left: Vec<usize> = (0..bound).collect();
        let count = self.below(bound + 1);
        (0..count).map(|_| left.remove(self.below(left.len()))).collect()
    }
}

fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice(seed);
    let threads = 2 + dice.below(THREADS - 1);
    // What is not reduced is to stay small.
    let rounds = if threads == 2 { 1 + dice.below(2) } else { 1 };
    let plan = |node| Plan {
        node,
        rounds: (0..rounds)
            .map(|round| Round {
                completes: threads == 2 && round == 0 && dice.below(2) == 0,
                awaited: dice.some(threads),
                looks: dice.some(threads),
            })
            .collect(),
    };
    [0, 1, 0].into_iter().take(threads).map(plan).collect()
}

struct Node {
    fabric: ModelFabric,
    memory: ModelMemory,
    scratch: ModelMemory,
}

fn node(fabric: ModelFabric) -> Node {
    let memory = fabric.allocate(8 * THREADS, MemoryKind::Host).unwrap();
    let scratch = fabric.allocate(8, MemoryKind::Host).unwrap();
    Node {
        fabric,
        memory,
        scratch,
    }
}

impl Node {
    /// The region is the first thing that a node allocates, and set-up threads have the numbers of their nodes.
    fn key(peer: usize) -> RegionKey {
        RegionKey {
            arena: 0,
            address: (peer as u64) << 43,
            len: 8 * THREADS as u64,
            rkey: 0,
        }
    }

    fn load(&self, word: usize) -> u64 {
        self.memory.cell::<u64>(8 * word).unwrap().load()
    }

    fn wait(&self, holds: impl FnMut() -> Option<()>) {
        let wait = Wait {
            what: "words",
            peers: Peers::None,
            deadline: None,
        };
        self.fabric.wait(wait, holds).unwrap();
    }

    fn wait_for(&self, words: &[usize], round: u64, form: Form) {
        let is_there = |word: usize| self.load(word) >= round;
        match form {
            Form::Kept => {
                let mut left = words;
                self.wait(|| {
                    while let Some((&word, rest)) = left.split_first() {
                        is_there(word).then_some(())?;
                        left = rest;
                    }
                    Some(())
                });
            }
            Form::Again => self.wait(|| words.iter().all(|&word| is_there(word)).then_some(())),
            Form::Apart => {
                for &word in words {
                    self.wait(|| is_there(word).then_some(()));
                }
            }
        }
    }

    fn run(&self, me: usize, plan: &Plan, form: Form) {
        let peer = 1 - plan.node;
        let mut queue: ModelQueuePair = self.fabric.queue_pair(NodeId(peer as u16)).unwrap();
        let remote = self.fabric.import(NodeId(peer as u16), &Node::key(peer)).unwrap();
        let target = || Target {
            remote: &remote,
            offset: 8 * me,
        };
        for (number, round) in (1_u64..).zip(&plan.rounds) {
            self.memory.cell::<u64>(8 * me).unwrap().store(number);
            let work = match round.completes {
                true => Work::signaled(WorkRequestId(1)),
                false => Work::unsignaled(),
            };
            let _ = queue.put_inline(&number.to_le_bytes(), target(), work).unwrap();
            if round.completes {
                let to = Local {
                    memory: &self.scratch,
                    offset: 0,
                    len: 8,
                };
                let _ = queue.get(to, target(), Work::signaled(WorkRequestId(2))).unwrap();
                let mut done = Vec::new();
                self.wait(|| {
                    self.fabric.poll(&mut done).unwrap();
                    (done.len() == 2).then_some(())
                });
            }
            self.wait_for(&round.awaited, number, form);
            for &word in &round.looks {
                note(self.load(word));
            }
        }
    }
}

/// Explores and returns the sets of notes of all executions that were met.
fn outcomes(config: &Config, plans: &[Plan], form: Form) -> BTreeSet<Vec<String>> {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let report = explore(config, |world: &mut World| {
        let nodes = [world.node(node), world.node(node)];
        for (me, plan) in plans.iter().cloned().enumerate() {
            world.thread(&nodes[plan.node], &format!("thread {me}"), move |node| {
                node.run(me, &plan, form);
            });
        }
        let found = found.clone();
        world.finally(move |end| {
            found.lock().unwrap().insert(end.notes());
        });
    })
    .unwrap();
    assert!(report.failure.is_none(), "{plans:?}: {:?}", report.failure);
    if let Strategy::Exhaustive = config.strategy {
        assert_eq!(report.completeness, Completeness::Complete, "{plans:?}");
    }
    let found = found.lock().unwrap();
    found.clone()
}

fn forms_agree(seeds: std::ops::Range<u64>) {
    let reduced = Config::default();
    let whole = Config {
        reduction: false,
        ..Config::default()
    };
    for seed in seeds {
        let plans = plans(seed);
        let random = Config {
            strategy: Strategy::Random {
                executions: 300,
                seed,
            },
            ..Config::default()
        };
        let apart = outcomes(&reduced, &plans, Form::Apart);
        for form in [Form::Kept, Form::Again] {
            let found = outcomes(&reduced, &plans, form);
            assert_eq!(
                found,
                outcomes(&whole, &plans, form),
                "seed {seed}, whole: {plans:?}"
            );
            // Words only grow here: what holds for a word goes on to hold, so that the forms wait for the same.
            assert_eq!(found, apart, "seed {seed}, apart: {plans:?}");
            let met = outcomes(&random, &plans, form);
            assert!(met.is_subset(&found), "seed {seed}, random: {plans:?}");
        }
    }
}

#[test]
fn waits_of_every_form_have_the_same_outcomes() {
    forms_agree(0..12);
}

#[test]
fn waits_have_the_outcomes_of_other_seeds_too() {
    forms_agree(1000..1012);
}

/// A condition that keeps how far it came and forgets what it read gives another number when it did not hold at first. The
/// reduction takes a failed evaluation for none at all, so that only the whole search is sure to find that.
#[test]
fn the_whole_search_finds_what_a_failed_evaluation_leaves_behind() {
    let found = Arc::new(Mutex::new(BTreeSet::new()));
    let config = Config {
        reduction: false,
        ..Config::default()
    };
    let report = explore(&config, |world: &mut World| {
        let only = world.node(node);
        world.thread(&only, "writes", |node| {
            node.memory.cell::<u64>(0).unwrap().store(1_u64);
            node.memory.cell::<u64>(8).unwrap().store(2_u64);
        });
        world.thread(&only, "waits", |node| {
            let mut at = 0;
            let mut sum = 0;
            node.wait(|| {
                sum = 0;
                while at < 2 {
                    let read = node.load(at);
                    (read > 0).then_some(())?;
                    sum += read;
                    at += 1;
                }
                Some(())
            });
            note(sum);
        });
        let found = found.clone();
        world.finally(move |end| {
            found.lock().unwrap().insert(end.notes());
        });
    })
    .unwrap();
    assert_eq!(report.completeness, Completeness::Complete);
    let sums = ["2", "3"].map(|sum| vec![sum.to_owned()]);
    assert_eq!(*found.lock().unwrap(), BTreeSet::from(sums));
}
