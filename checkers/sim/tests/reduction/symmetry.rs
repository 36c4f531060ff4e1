//! Symmetric threads, beside others: random programs, whose histories up to the order of the symmetric threads must be those of an
//! exploration that leaves nothing out.

use std::collections::BTreeSet;
use std::ops::Range;

use loco_fabric::{AtomicCell, Fabric, Lock, Peers, Platform, Wait};
use loco_sim::{
    Completeness, Config, End, Event, ModelFabric, Report, SimError, ThreadHistory, World, call, explore,
    note, reaches,
};

use crate::node::{Dice, outcomes, seeds};

type ModelPlatform = <ModelFabric as Fabric>::Platform;
type Atomic = <ModelPlatform as Platform>::AtomicU64;
type Mutex<T> = <ModelPlatform as Platform>::Mutex<T>;

/// A step of a thread. Words are named by number.
#[derive(Clone, Copy, Debug)]
enum Step {
    Load(usize),
    Store(usize, u64),
    Count(usize),
    /// Adds a number to a list under a lock, and looks at the list.
    Lock(u64),
    TryLock(u64),
    Fence,
    /// Counts up and waits until as many threads have.
    Meet,
    /// The next step is a call.
    Call,
}

/// The programs of a world: of the symmetric threads, and of the others.
#[derive(Clone, Debug)]
struct Plan {
    count: u16,
    same: Vec<Step>,
    others: Vec<Vec<Step>>,
}

/// Holds the memory that the threads of the node share.
struct Site {
    fabric: ModelFabric,
    words: [Atomic; 2],
    met: Atomic,
    list: Mutex<Vec<u64>>,
}

fn site(fabric: ModelFabric) -> Site {
    Site {
        fabric,
        words: [AtomicCell::new(0_u64), AtomicCell::new(0_u64)],
        met: AtomicCell::new(0_u64),
        list: Lock::new(Vec::new()),
    }
}

fn plan(seed: u64) -> Plan {
    let mut dice = Dice::new(seed);
    let count = 2 + dice.below(2) as u16;
    let others = dice.below(2);
    let mut value = 0;
    let mut steps = |length: usize, meets: bool| -> Vec<Step> {
        (0..length)
            .map(|_| {
                value += 1;
                match dice.below(9) {
                    0 | 1 => Step::Load(dice.below(2)),
                    2 | 3 => Step::Store(dice.below(2), value),
                    4 => Step::Count(dice.below(2)),
                    5 => Step::Lock(value),
                    6 => Step::TryLock(value),
                    7 if meets => Step::Meet,
                    7 => Step::Fence,
                    _ => Step::Call,
                }
            })
            .collect()
    };
    let length = if count + others as u16 == 2 { 4 } else { 2 };
    let mut same = steps(length, true);
    // A thread that meets the others a second time would wait for ever.
    let mut met = false;
    same.retain(|step| !matches!(step, Step::Meet) || !std::mem::replace(&mut met, true));
    Plan {
        count,
        same,
        others: (0..others).map(|_| steps(2, false)).collect(),
    }
}

impl Site {
    fn run(&self, plan: &[Step], count: u16) {
        let mut calls = false;
        for &step in plan {
            match step {
                Step::Call => calls = true,
                step if calls => call(format!("{step:?}"), || self.step(step, count), |()| ""),
                step => self.step(step, count),
            }
        }
    }

    fn step(&self, step: Step, count: u16) {
        match step {
            Step::Load(word) => {
                let value: u64 = self.words[word].load();
                note(value);
            }
            Step::Store(word, value) => self.words[word].store(value),
            Step::Count(word) => note(self.words[word].fetch_add(1_u64)),
            Step::Lock(value) => {
                let mut list = self.list.lock();
                list.push(value);
                note(format!("{:?}", *list));
            }
            Step::TryLock(value) => match self.list.try_lock() {
                Some(mut list) => {
                    list.push(value);
                    note(format!("{:?}", *list));
                }
                None => note("taken"),
            },
            Step::Fence => self.fabric.cpu_fence(),
            Step::Meet => {
                self.met.fetch_add(1_u64);
                let wait = Wait {
                    what: "the others",
                    peers: Peers::None,
                    deadline: None,
                };
                let met = || {
                    let met: u64 = self.met.load();
                    (met == u64::from(count)).then_some(())
                };
                self.fabric.wait(wait, met).unwrap();
            }
            Step::Call => {}
        }
    }
}

/// The number of the first thread after the set-up of the one node.
const FIRST: u16 = 1;

/// Returns every order of the numbers.
fn orders(numbers: &[u16]) -> Vec<Vec<u16>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let with_first = |at: usize| {
        let mut rest = numbers.to_vec();
        let first = rest.remove(at);
        let rests = orders(&rest).into_iter();
        rests.map(move |rest| [vec![first], rest].concat())
    };
    (0..numbers.len()).flat_map(with_first).collect()
}

/// Returns the histories as they are if each symmetric thread has the number that `order` gives it.
fn renumbered(histories: &[ThreadHistory], group: &Range<u16>, order: &[u16]) -> String {
    let number = |thread: u16| match group.contains(&thread) {
        true => order[usize::from(thread - group.start)],
        false => thread,
    };
    let events = |of: &ThreadHistory| {
        let mut events = of.events.clone();
        for event in &mut events {
            if let Event::Call { finished_before, .. } = event {
                let before = finished_before.clone();
                for (thread, count) in (0..).zip(before) {
                    finished_before[usize::from(number(thread))] = count;
                }
            }
        }
        events
    };
    let mut all: Vec<_> = histories
        .iter()
        .map(|of| (number(of.thread), events(of)))
        .collect();
    all.sort_by_key(|(thread, _)| *thread);
    format!("{all:?}")
}

/// Formats the histories so that all orders of the symmetric threads have one text.
fn up_to_order(end: &End<'_>, count: u16) -> String {
    let (histories, group) = (end.histories(), FIRST..FIRST + count);
    let all = orders(&group.clone().collect::<Vec<_>>()).into_iter();
    let texts = all.map(|order| renumbered(&histories, &group, &order));
    texts.min().unwrap()
}

fn build(world: &mut World, plan: &Plan) {
    let node = world.node(site);
    let (same, count) = (plan.same.clone(), plan.count);
    world.symmetric_threads(&node, count, "same", move |site: &Site| site.run(&same, count));
    for (number, steps) in plan.others.iter().cloned().enumerate() {
        world.thread(&node, &format!("other {number}"), move |site| {
            site.run(&steps, count)
        });
    }
}

fn histories(config: &Config, plan: &Plan) -> BTreeSet<String> {
    let show = match plan.count {
        2 => |end: &End<'_>| up_to_order(end, 2),
        _ => |end: &End<'_>| up_to_order(end, 3),
    };
    outcomes(config, plan, show, |world| build(world, plan))
}

#[test]
fn symmetry_keeps_every_history_up_to_the_order_of_the_threads() {
    for seed in seeds(0, 400) {
        let plan = plan(seed);
        let whole = Config {
            reduction: false,
            ..Config::default()
        };
        let whole = histories(&whole, &plan);
        for workers in [1, 2] {
            let config = Config::default().workers(workers);
            assert_eq!(
                histories(&config, &plan),
                whole,
                "seed {seed}, {workers}: {plan:?}"
            );
        }
    }
}

/// Names what each thread of a world of known size does.
type Body = fn(&Site);

/// Two counters and a note each.
fn counts(site: &Site) {
    let first: u64 = site.words[0].fetch_add(1_u64);
    let second: u64 = site.words[1].fetch_add(1_u64);
    note(first + second);
}

/// A section under a lock, twice.
fn locks(site: &Site) {
    for _ in 0..2 {
        site.list.lock().push(0);
    }
}

/// Store buffers: each stores and looks at what others have stored.
fn stores(site: &Site) {
    site.words[0].store(1_u64);
    let second: u64 = site.words[1].load();
    site.words[1].store(1_u64);
    let first: u64 = site.words[0].load();
    note(format!("{first} {second}"));
}

/// Explores threads that are said to be symmetric, or are added one by one.
fn explored(count: u16, body: Body, symmetric: bool) -> Report {
    let report = explore(&Config::default(), |world| {
        let node = world.node(site);
        match symmetric {
            true => world.symmetric_threads(&node, count, "thread", body),
            false => (0..count).for_each(|number| world.thread(&node, &format!("thread {number}"), body)),
        }
    });
    let report = report.unwrap();
    assert_eq!(report.completeness, Completeness::Complete);
    report
}

/// Up to as many permutations as there are of the threads are one state.
#[test]
fn permutations_of_symmetric_threads_are_one_state() {
    let worlds: [(&str, Body); 3] = [("counts", counts), ("locks", locks), ("stores", stores)];
    for (name, body) in worlds {
        let mut permutations = 1;
        for count in 2..=5 {
            permutations *= u64::from(count);
            let [one_by_one, symmetric] =
                [false, true].map(|symmetric| explored(count, body, symmetric).stats);
            let (before, after) = (one_by_one.states, symmetric.states);
            println!(
                "{name}, {count} threads: {before} states in {:.3} s, {after} in {:.3} s",
                one_by_one.seconds, symmetric.seconds
            );
            assert!(after < before, "{name}, {count}: {before}, {after}");
            assert!(
                after * permutations >= before,
                "{name}, {count}: {before}, {after}"
            );
            // The larger the group, the fewer of its states are their own images.
            assert!(
                count < 4 || 4 * after < before,
                "{name}, {count}: {before}, {after}"
            );
        }
    }
}

#[test]
fn an_assertion_that_fails_in_a_symmetric_thread_is_found() {
    let report = explore(&Config::default(), |world| {
        let node = world.node(site);
        world.symmetric_threads(&node, 3, "thread", |site: &Site| {
            let before: u64 = site.words[0].fetch_add(1_u64);
            // Fails in the thread that comes last, whichever that is.
            assert!(before < 2, "the third");
        });
    });
    let failure = report.unwrap().failure.expect("some thread is the third");
    assert!(failure.to_string().contains("the third"), "{failure}");
}

#[test]
fn threads_that_use_what_they_have_made_are_not_symmetric() {
    let refused = explore(&Config::default(), |world| {
        let node = world.node(site);
        world.symmetric_threads(&node, 2, "thread", |_: &Site| {
            let own: Atomic = AtomicCell::new(0_u64);
            own.store(1_u64);
        });
    });
    let Err(error @ SimError::NotSymmetric { .. }) = refused else {
        panic!("{refused:?}");
    };
    let text = error.to_string();
    assert!(text.contains("thread 0") && text.contains("Store"), "{text}");
}

/// Any of the threads may come first. The exploration visits one execution for all of them, in which the same thread is always first, so it
/// cannot answer an end that asks about another thread, and refuses it.
#[test]
fn an_end_that_asks_which_thread_has_done_something_is_refused() {
    let first_of = |end: &End<'_>, name: &str| {
        let its = end.histories().into_iter().find(|history| history.name == name);
        its.is_some_and(|history| history.events == [Event::Note("0".to_owned())])
    };
    let world = |world: &mut World, count: u16| {
        let node = world.node(site);
        world.symmetric_threads(&node, count, "thread", |site: &Site| {
            note(site.met.fetch_add(1_u64));
        });
    };
    for count in [2, 3, 5] {
        let mut refused = 0;
        for number in 0..count {
            let name = format!("thread {number}");
            let explored = explore(&Config::default(), |it| {
                world(it, count);
                let name = name.clone();
                it.finally(move |end| assert!(!first_of(end, &name), "{name} is never the first"));
            });
            match explored {
                Err(SimError::EndNotSymmetric { message }) => {
                    assert!(message.contains(&name), "{message}");
                    refused += 1;
                }
                Ok(report) => assert!(report.failure.is_some(), "it may be the first: {count} threads"),
                Err(error) => panic!("{error}"),
            }
            // `reaches` finds the end in which this thread is first, or refuses the question.
            let reached = reaches(&Config::default(), |it| world(it, count), {
                let name = format!("thread {number}");
                move |end| first_of(end, &name)
            });
            match reached {
                Err(SimError::EndNotSymmetric { .. }) => {}
                Ok(reach) => assert!(reach.witness.is_some(), "{count} threads"),
                Err(error) => panic!("{error}"),
            }
        }
        assert!(
            refused > 0,
            "one of {count} threads is the first in what is explored"
        );
    }
    // A question about all of them is answered.
    let all = explore(&Config::default(), |it| {
        world(it, 3);
        it.finally(|end| {
            let mut notes = end.notes();
            notes.sort_unstable();
            assert_eq!(notes, ["0", "1", "2"]);
        });
    });
    assert!(all.unwrap_or_else(|error| panic!("{error}")).failure.is_none());
}
