//! Threads that wait, for words that others write and for completions: with one wait for several words and with a wait for
//! each of them; and conditions that remember what they saw.

use std::collections::BTreeSet;

use loco_fabric::{Fabric, Local, Memory, NodeId, QueuePair, Target, WordCell, Work, WorkRequestId};
use loco_sim::{Bounds, Config, ModelQueuePair, Report, Strategy, explore, note};

use crate::node::{Dice, Node, THREADS, node, outcomes};

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

fn plans(seed: u64) -> Vec<Plan> {
    let mut dice = Dice::new(seed);
    let threads = 2 + dice.below(THREADS - 1);
    // Keeps worlds of three threads small: they are also explored without the reduction.
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

impl Node {
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
            // The last number must win, or others wait for ever.
            let put = queue.put_inline(&number.to_le_bytes(), target(), work.strong());
            let _ = put.unwrap();
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
fn notes(config: &Config, plans: &[Plan], form: Form) -> BTreeSet<Vec<String>> {
    outcomes(
        config,
        &plans,
        |end| end.notes(),
        |world| {
            let nodes = [world.node(node), world.node(node)];
            for (me, plan) in plans.iter().cloned().enumerate() {
                world.thread(&nodes[plan.node], &format!("thread {me}"), move |node| {
                    node.run(me, &plan, form);
                });
            }
        },
    )
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
        let apart = notes(&reduced, &plans, Form::Apart);
        for form in [Form::Kept, Form::Again] {
            let found = notes(&reduced, &plans, form);
            assert_eq!(
                found,
                notes(&whole, &plans, form),
                "seed {seed}, whole: {plans:?}"
            );
            // Words only grow here: what holds for a word goes on to hold, so that the forms wait for the same.
            assert_eq!(found, apart, "seed {seed}, apart: {plans:?}");
            let met = notes(&random, &plans, form);
            assert!(met.is_subset(&found), "seed {seed}, random: {plans:?}");
        }
    }
}

#[test]
fn waits_of_every_form_have_the_same_outcomes() {
    forms_agree(0..4);
}

#[test]
fn waits_have_the_outcomes_of_other_seeds_too() {
    forms_agree(1000..1004);
}

/// Runs a world in which a thread stores 1 and then 2 to a word. `waits` waits for something with a condition of its own.
fn two_stores(config: &Config, waits: impl Fn(&Node) + Copy + Send + Sync + 'static) -> Report {
    explore(config, move |world| {
        let only = world.node(node);
        world.thread(&only, "writes", |node| {
            for value in [1_u64, 2] {
                node.memory.cell::<u64>(0).unwrap().store(value);
            }
        });
        world.thread(&only, "waits", waits);
    })
    .unwrap()
}

/// Checks that every strategy finds the failure that takes the memory of a condition.
fn is_found(waits: impl Fn(&Node) + Copy + Send + Sync + 'static) {
    let whole = Config {
        reduction: false,
        ..Config::default()
    };
    let delays = Bounds {
        preemptions: None,
        delays: Some(4),
    };
    let strategies = [
        Strategy::Exhaustive,
        Strategy::Bounded(delays),
        Strategy::Random {
            executions: 1000,
            seed: 1,
        },
    ];
    let configs = strategies.map(|strategy| Config {
        strategy,
        ..Config::default()
    });
    for config in configs.iter().chain([&whole]) {
        let report = two_stores(config, waits);
        assert!(report.failure.is_some(), "{:?}", config.strategy);
    }
}

#[test]
fn a_condition_that_saw_both_values_and_asserts_that_it_did_not_is_found() {
    is_found(|node| {
        let (mut zero, mut one) = (false, false);
        node.wait(|| {
            let value = node.load(0);
            zero |= value == 0;
            one |= value == 1;
            assert!(!(zero && one), "saw both");
            (value == 2).then_some(())
        });
    });
}

#[test]
fn what_a_condition_saw_before_it_held_is_known_after_the_wait() {
    is_found(|node| {
        let mut seen = BTreeSet::new();
        node.wait(|| {
            let value = node.load(0);
            seen.insert(value);
            (value == 2).then_some(())
        });
        assert_ne!(seen.len(), 3, "saw all");
    });
}

#[test]
fn the_number_of_evaluations_of_a_condition_is_known_after_the_wait() {
    is_found(|node| {
        let mut evaluations = 0;
        node.wait(|| {
            evaluations += 1;
            (node.load(0) == 2).then_some(())
        });
        assert!(evaluations < 2, "it did not hold at first");
    });
}

/// Checks that what a condition keeps beside its progress, here how much of the sum it has forgotten, shows in the outcomes.
#[test]
fn a_condition_that_keeps_its_progress_and_forgets_what_it_read_has_all_outcomes() {
    for reduction in [true, false] {
        let config = Config {
            reduction,
            ..Config::default()
        };
        let found = outcomes(
            &config,
            &reduction,
            |end| end.notes(),
            |world| {
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
            },
        );
        let sums = ["2", "3"].map(|sum| vec![sum.to_owned()]);
        assert_eq!(found, BTreeSet::from(sums), "reduced: {reduction}");
    }
}
