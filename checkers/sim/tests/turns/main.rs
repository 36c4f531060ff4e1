//! Makes calls on one object from several threads of a node, one after the other. A node's writes arrive at
//! others in the order in which they were made, whichever thread posted them.
//!
//! The worlds have two nodes of two threads, and know nothing of particular faults. The calls of a node are
//! dealt to its threads in every way, in fenced and unfenced forms. The worlds pass for the shipped objects,
//! and find the faults of their predecessors (`before`), which kept no order when the posting thread changed.

#![allow(clippy::unwrap_used)]

mod before;
mod objects;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use loco::fabric::{AtomicCell, Peers, Platform};
use loco::{Barrier, Manager, OwnedVar, Sst, Thread, WideOwnedVar};
use loco_sim::spec::{Operation, operations};
use loco_sim::{Bounds, Completeness, Config, ModelFabric, Report, Strategy, World, call, explore, replay};

use objects::{Register, Rounds};

type Fabric = ModelFabric;
type Turn = <<Fabric as loco::fabric::Fabric>::Platform as Platform>::AtomicU64;

/// The longest search for a fault, and the longest complete exploration.
const SEARCH_MAX: Duration = Duration::from_secs(600);
/// The number of delays that the fault of the former barrier of four threads needs.
const DELAYS: u32 = 3;
const NODES: u16 = 2;
const THREADS: usize = 2;

/// A node: an object, its threads, and the number of the node's next call.
struct Site<O> {
    object: O,
    threads: Mutex<Vec<Option<Thread<Fabric>>>>,
    next: Turn,
}

impl<O: Send + Sync + 'static> Site<O> {
    fn new(fabric: Fabric, make: impl FnOnce(&Manager<Fabric>) -> O) -> Site<O> {
        let manager = Manager::new(fabric).unwrap();
        let object = make(&manager);
        manager.wait_for_ready().unwrap();
        let threads = (0..THREADS).map(|_| Some(manager.thread().unwrap()));
        Site {
            object,
            threads: Mutex::new(threads.collect()),
            next: AtomicCell::<u64>::new(0),
        }
    }

    /// Makes the calls that are dealt to thread `me`, each when all earlier ones of the node have returned.
    fn in_turn(&self, me: usize, deal: &[usize], mut call: impl FnMut(&O, &Thread<Fabric>, u64)) {
        let thread = self.threads.lock().unwrap()[me].take().unwrap();
        for (number, _) in deal.iter().enumerate().filter(|&(_, &to)| to == me) {
            let number = number as u64;
            let mine = || (AtomicCell::<u64>::load(&self.next) == number).then_some(());
            thread.wait_until("turn", Peers::None, mine).unwrap();
            call(&self.object, &thread, number);
            AtomicCell::<u64>::store(&self.next, number + 1);
        }
    }
}

/// Returns every way to deal `calls` calls to two threads, up to their names.
fn deals(calls: u32) -> Vec<Vec<usize>> {
    (0..1_usize << (calls - 1))
        .map(|bits| (0..calls).map(|call| bits << 1 >> call & 1).collect())
        .collect()
}

/// Makes a world with a barrier for one thread of each node, whose calls are dealt to two threads.
/// `fenced(n)` is the form of call `n`.
fn rounds_in_turn<B: Rounds>(
    deal: &[usize],
    fenced: impl Fn(u64) -> bool + Copy + Send + Sync + 'static,
) -> impl Fn(&mut World) + Sync {
    let deal: Arc<[usize]> = deal.into();
    move |world| {
        for _ in 0..NODES {
            let node = world.node(|fabric| Site::new(fabric, |manager| B::make(manager, 1)));
            for me in 0..THREADS {
                let deal = deal.clone();
                world.thread(&node, &format!("thread{me}"), move |site: &Site<B>| {
                    site.in_turn(me, &deal, |barrier, thread, round| {
                        wait(barrier, thread, round, fenced(round));
                    });
                });
            }
        }
        world.finally(|end| nobody_leaves_early(&operations(&end.histories())));
    }
}

/// Makes a world with a barrier of two threads of each node, all of which take part in every round.
fn rounds_together<B: Rounds>(rounds: u64, fenced: bool) -> impl Fn(&mut World) + Sync {
    move |world| {
        for _ in 0..NODES {
            let node = world.node(|fabric| Site::new(fabric, |manager| B::make(manager, THREADS)));
            for me in 0..THREADS {
                world.thread(&node, &format!("thread{me}"), move |site: &Site<B>| {
                    let thread = site.threads.lock().unwrap()[me].take().unwrap();
                    for round in 0..rounds {
                        wait(&site.object, &thread, round, fenced);
                    }
                });
            }
        }
        world.finally(|end| nobody_leaves_early(&operations(&end.histories())));
    }
}

fn wait<B: Rounds>(barrier: &B, thread: &Thread<Fabric>, round: u64, fenced: bool) {
    call(
        format!("wait {round}"),
        || barrier.wait(thread, fenced).unwrap(),
        |()| "left",
    );
}

/// Checks that no call of a round returns before every call of it has begun.
fn nobody_leaves_early(operations: &[Operation]) {
    for left in operations {
        for other in operations.iter().filter(|other| other.argument == left.argument) {
            assert!(!left.precedes(other), "{left} returned before {other} began");
        }
    }
}

/// Makes a world with a register of node 0. Its values 1, 2, ... are stored and pushed by the threads to
/// which the calls are dealt. Node 1 never sees a value after a later one, and sees the last one in the end.
fn values_in_turn<R: Register>(deal: &[usize], waited_for: bool) -> impl Fn(&mut World) + Sync {
    let deal: Arc<[usize]> = deal.into();
    move |world| {
        let owner = world.node(|fabric| Site::new(fabric, R::make));
        for me in 0..THREADS {
            let deal = deal.clone();
            world.thread(&owner, &format!("writer{me}"), move |site: &Site<R>| {
                site.in_turn(me, &deal, |register, thread, number| {
                    register.store(thread, number + 1).unwrap();
                    let key = register.push(thread).unwrap();
                    if waited_for {
                        key.wait(thread).unwrap();
                    } else {
                        key.forget();
                    }
                });
            });
        }
        let reader = world.node(|fabric| Site::new(fabric, R::make));
        let last = deal.len() as u64;
        world.thread(&reader, "reader", move |site: &Site<R>| {
            let thread = site.threads.lock().unwrap()[0].take().unwrap();
            let mut seen = 0;
            for _ in 0..2 {
                let value = site.object.load(&thread);
                assert!(value >= seen, "{value} is seen after {seen}");
                seen = value;
            }
            site.object.wait_for(&thread, last).unwrap();
        });
    }
}

fn config() -> Config {
    Config {
        time_max: Some(SEARCH_MAX),
        ..Config::default()
    }
}

/// All executions with at most `delays` delays, for worlds with too many.
fn within(delays: u32) -> Config {
    let bounds = Bounds {
        delays: Some(delays),
        preemptions: None,
    };
    Config {
        strategy: Strategy::Bounded(bounds),
        ..config()
    }
}

fn run(name: &str, config: &Config, build: impl Fn(&mut World) + Sync) -> Report {
    let report = explore(config, build).unwrap();
    println!("{name}: {}, {:?}", report.completeness, report.stats);
    report
}

/// Checks that the exploration is complete and finds nothing.
fn passes(name: &str, build: impl Fn(&mut World) + Sync) {
    let report = run(name, &config(), build);
    if let Some(failure) = report.failure {
        panic!("{name}: {failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
}

/// Checks that no execution with at most `delays` delays fails.
fn passes_within(name: &str, delays: u32, build: impl Fn(&mut World) + Sync) {
    let report = run(name, &within(delays), build);
    if let Some(failure) = report.failure {
        panic!("{name}: {failure}");
    }
    let seen = report.completeness;
    assert!(matches!(seen, Completeness::UpTo(_)), "{name}: {seen}");
}

/// Checks that a fault is found, and that its schedule repeats it.
fn found(name: &str, config: &Config, build: impl Fn(&mut World) + Sync) {
    let report = run(name, config, &build);
    let failure = report.failure.unwrap_or_else(|| panic!("{name}: nothing found"));
    println!("{name}: {failure}");
    let again = replay(&Config::default(), &failure.schedule, &build).unwrap();
    assert_eq!(again.failure.map(|f| f.kind), Some(failure.kind), "{name}");
}

const UNFENCED: fn(u64) -> bool = |_| false;
const FENCED: fn(u64) -> bool = |_| true;

#[test]
fn a_barrier_for_one_thread_waited_for_by_two_in_turn() {
    for deal in deals(2) {
        passes(
            &format!("unfenced, {deal:?}"),
            rounds_in_turn::<Barrier<Fabric>>(&deal, UNFENCED),
        );
        passes(
            &format!("fenced, {deal:?}"),
            rounds_in_turn::<Barrier<Fabric>>(&deal, FENCED),
        );
    }
}

#[test]
fn a_barrier_of_two_threads_a_node() {
    for fenced in [false, true] {
        let name = format!("two rounds of four threads, fenced: {fenced}");
        passes_within(&name, DELAYS, rounds_together::<Barrier<Fabric>>(2, fenced));
    }
}

#[test]
fn a_register_written_by_two_threads_in_turn() {
    for deal in deals(3) {
        for waited_for in [true, false] {
            let name = |what: &str| format!("{what}, {deal:?}, waited for: {waited_for}");
            passes(
                &name("owned"),
                values_in_turn::<OwnedVar<u64, Fabric>>(&deal, waited_for),
            );
            passes(
                &name("row"),
                values_in_turn::<Sst<u64, Fabric>>(&deal, waited_for),
            );
        }
    }
    for deal in deals(2) {
        let wide = values_in_turn::<WideOwnedVar<[u64; 2], Fabric>>(&deal, true);
        passes(&format!("wide, {deal:?}"), wide);
    }
}

#[test]
fn the_former_barrier_lost_count_when_the_thread_changed() {
    let one = rounds_in_turn::<before::Barrier>(&[0, 1], UNFENCED);
    found("former, one thread a node", &config(), one);
    let two = rounds_together::<before::Barrier>(2, false);
    found("former, two threads a node", &within(DELAYS), two);
}

#[test]
fn the_former_register_went_back_when_the_thread_changed() {
    let register = values_in_turn::<before::Register>(&[0, 1], true);
    found("former register", &config(), register);
}
