//! Explorations of worlds that poll without end, whose destructors panic, or that are not deterministic end by a report or an
//! error. A panic in a destructor that runs while its thread panics is the exception: it ends the process, and says where.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::process::{Command, Output};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use loco::fabric::{Fabric, Lock, NodeId, Platform, Target};
use loco::{Channel, KvConfig, KvStore, Manager, Polling, Thread};
use loco_sim::{Completeness, Config, ModelFabric, SimError, Strategy, World, explore, note};
use support::{complete, site, site_of};

fn words(manager: &Manager<ModelFabric>) -> Channel<ModelFabric> {
    Channel::builder(manager, "c")
        .kind("c")
        .region("words", 64)
        .join()
        .unwrap()
}

// A function of its own also where there is no debugging information that tells what was inlined.
#[inline(never)]
fn polls(thread: &Thread<ModelFabric>, channel: &Channel<ModelFabric>) {
    let remote = channel.region("words").unwrap().remote(NodeId(0)).unwrap();
    while thread.read_word(Target { remote, offset: 0 }).unwrap() == 0 {}
}

/// Builds a world in which the thread of node 1 polls a word of node 0 that nobody writes.
fn polls_without_the_primitive(world: &mut World) {
    for me in 0..2 {
        let node = world.node(site(words));
        world.thread(&node, &format!("thread of node {me}"), move |site| {
            if me == 1 {
                polls(&site.thread(), &site.objects);
            }
        });
    }
}

/// Checks that a text names the thread that polls, and the function in which it does.
fn names_who_polls(why: &str) {
    let name = why.find("(thread of node 1) polls without `pause`, at ends::polls");
    assert!(name.is_some(), "{why}");
}

fn incomplete(config: &Config) -> String {
    let report = explore(config, polls_without_the_primitive).unwrap();
    match report.completeness {
        Completeness::Incomplete(why) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_thread_that_polls_without_the_primitive_ends_the_exploration_at_its_time_limit() {
    // Without the limit the one execution goes on until memory is used up.
    let why = incomplete(&Config {
        steps_max: usize::MAX,
        time_max: Some(Duration::from_millis(500)),
        workers: 1,
        ..Config::default()
    });
    assert!(why.starts_with("time limit reached"), "{why}");
    names_who_polls(&why);
}

#[test]
fn a_thread_that_polls_without_the_primitive_is_named_when_executions_are_too_long() {
    let random = Strategy::Random {
        executions: 2,
        seed: 1,
    };
    for strategy in [Strategy::Exhaustive, random] {
        let config = Config {
            strategy,
            steps_max: 3000,
            ..Config::default()
        };
        names_who_polls(&incomplete(&config));
        let fails = Config {
            longer_fails: true,
            ..config
        };
        let failure = explore(&fails, polls_without_the_primitive).unwrap().failure;
        names_who_polls(&failure.unwrap().to_string());
    }
}

/// Threads that go on for long with other things are not said to poll.
#[test]
fn a_long_loop_that_does_something_is_no_polling() {
    let config = Config {
        steps_max: 3000,
        workers: 1,
        ..Config::default()
    };
    // Neither does the thread that takes the completions of others, if there is one.
    for polling in [Polling::CallerDriven, Polling::Thread] {
        let report = explore(&config, |world| {
            for me in 0..2 {
                let settings = loco::Config::default().polling(polling);
                let node = world.node(site_of(settings, words));
                world.thread(&node, &format!("node {me}"), move |site| {
                    let thread = site.thread();
                    let remote = site.objects.region("words").unwrap().remote(NodeId(0)).unwrap();
                    for _ in 0..if me == 1 { 10_000 } else { 0 } {
                        thread.fetch_add_word(Target { remote, offset: 0 }, 1).unwrap();
                    }
                });
            }
        });
        let Completeness::Incomplete(why) = report.unwrap().completeness else {
            panic!("a limit ended it");
        };
        assert!(!why.contains("polls"), "{polling:?}: {why}");
    }
}

/// A guard that gives a word back when it goes out of scope, and takes a failure of that for a bug.
struct Back<'a>(&'a Channel<ModelFabric>, &'a Thread<ModelFabric>);

impl Drop for Back<'_> {
    fn drop(&mut self) {
        let remote = self.0.region("words").unwrap().remote(NodeId(0)).unwrap();
        let put = self
            .1
            .put_inline(&0_u64.to_le_bytes(), Target { remote, offset: 8 });
        put.expect("posted").wait(self.1).expect("given back");
    }
}

/// Runs a test of this file as another process, in whose environment the variable is set.
fn run_again(test: &str, variable: &str) -> Output {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(variable, "1")
        .output()
        .unwrap()
}

/// The harness of this test takes its panic hook back at its end: the destructor's panic must have left that.
#[test]
fn a_destructor_that_panics_while_an_execution_is_taken_apart_ends_nothing() {
    complete("guards", |world| {
        for me in 0..2 {
            let node = world.node(site(words));
            world.thread(&node, &format!("node {me}"), |site| {
                let thread = site.thread();
                let _back = Back(&site.objects, &thread);
                let remote = site.objects.region("words").unwrap().remote(NodeId(0)).unwrap();
                for _ in 0..2 {
                    thread.fetch_add_word(Target { remote, offset: 0 }, 1).unwrap();
                }
            });
        }
    });
}

/// Panics when it goes out of scope.
struct Unlucky;

impl Drop for Unlucky {
    fn drop(&mut self) {
        panic!("the second panic");
    }
}

/// Nothing can keep the process from ending, so the test runs itself as another process.
#[test]
fn a_panic_on_top_of_another_ends_the_process_and_names_the_world_the_thread_and_the_schedule() {
    const NAME: &str =
        "a_panic_on_top_of_another_ends_the_process_and_names_the_world_the_thread_and_the_schedule";
    const CHILD: &str = "LOCO_SIM_PANICS_TWICE";
    if std::env::var_os(CHILD).is_some() {
        let report = explore(&Config::default(), |world| {
            world.name("unlucky");
            for me in 0..2 {
                let node = world.node(site(words));
                world.thread(&node, &format!("thread of node {me}"), move |_| {
                    note("goes on");
                    let _unlucky = (me == 1).then(|| Unlucky);
                    assert!(me != 1, "the first panic");
                });
            }
        });
        panic!("{report:?}");
    }
    let ended = run_again(NAME, CHILD);
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(!ended.status.success(), "{said}");
    for part in [
        "world unlucky: thread P",
        " (thread of node 1) on node 1 panicked at ",
        "the second panic",
        "ends the process",
        "replay: @unordered t",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

/// Takes a lock when it goes out of scope.
struct TakesLock<'a>(&'a <<ModelFabric as Fabric>::Platform as Platform>::Mutex<u64>);

impl Drop for TakesLock<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
    }
}

/// The thread that holds the lock cannot let it go before the panic is over. The execution fails, so that thread is unwound.
#[test]
fn a_panic_whose_destructors_find_a_lock_held_is_told() {
    for seed in 0..100 {
        let strategy = Strategy::Random { executions: 1, seed };
        let report = explore(&Config::default().strategy(strategy), |world| {
            let node = world.node(|_| Lock::new(0));
            world.thread(&node, "holder", |lock| {
                let held = Lock::lock(lock);
                note("holds");
                drop(held);
            });
            world.thread(&node, "unlucky", |lock| {
                let _takes = TakesLock(lock);
                note("goes on");
                panic!("the panic");
            });
        });
        let said = match report {
            Ok(report) => report.failure.expect("every execution panics").to_string(),
            // The holder had yet to go on when it was unwound.
            Err(error) => error.to_string(),
        };
        assert!(said.contains("the panic"), "{said}");
    }
}

/// An update that was started asks the fabric for its end when it is dropped, and the fabric of a thread that panics answers nobody.
#[test]
fn a_panic_beside_an_update_under_way_is_told() {
    let store = |manager: &Manager<ModelFabric>| {
        let config = KvConfig::default().slots_per_node(1).locks(1);
        KvStore::<u64, u64, ModelFabric>::new(manager, "kv", config).unwrap()
    };
    let report = explore(&Config::default(), |world| {
        for me in 0..2 {
            let node = world.node(site(store));
            world.thread(&node, &format!("node {me}"), move |site| {
                let thread = site.thread();
                if me == 1 {
                    let _update = site.objects.update_start(&thread, &1, &1).unwrap();
                    panic!("the panic");
                }
            });
        }
    });
    let failure = report.unwrap().failure.expect("every execution panics");
    assert!(failure.to_string().contains("the panic"), "{failure}");
}

/// Checks that both kinds of strategies find that the world is no function of what its threads are told.
fn is_no_function(what: &str, world: impl Fn(&mut World) + Sync) {
    let random = Strategy::Random {
        executions: 10,
        seed: 1,
    };
    for strategy in [Strategy::Exhaustive, random] {
        let found = explore(&Config::default().strategy(strategy), &world);
        let found_it = matches!(found, Err(SimError::NotDeterministic { .. }));
        assert!(found_it, "{what}, {strategy:?}: {found:?}");
    }
}

/// Checks the same of a thread that says what `say` returns.
fn one_that_says(what: &str, say: fn() -> String) {
    is_no_function(what, move |world| {
        let node = world.node(site(words));
        world.thread(&node, "thread", move |_| note(say()));
    });
}

#[test]
fn the_order_of_a_hash_map_is_found_to_be_no_function_of_what_threads_are_told() {
    one_that_says("order", || {
        let map: HashMap<u32, ()> = (0..8).map(|key| (key, ())).collect();
        format!("{:?}", map.keys())
    });
}

#[test]
fn a_clock_is_found_to_be_no_function_of_what_threads_are_told() {
    one_that_says("clock", || format!("{:?}", std::time::Instant::now()));
    one_that_says("time of day", || format!("{:?}", std::time::SystemTime::now()));
}

#[test]
fn random_numbers_are_found_to_be_no_function_of_what_threads_are_told() {
    one_that_says("random", || rand::random::<u64>().to_string());
}

/// Words outside the fabric outlive an execution.
#[test]
fn state_that_outlives_an_execution_is_found_to_be_no_function_of_what_threads_are_told() {
    static EXECUTIONS: AtomicU64 = AtomicU64::new(0);
    one_that_says("static", || {
        EXECUTIONS.fetch_add(1, Ordering::Relaxed).to_string()
    });
}

/// State that threads share outside the fabric is found by random schedules, of which those that ended are run again. An exhaustive
/// exploration takes executions that differ in nothing else for one.
#[test]
fn state_that_threads_share_outside_the_fabric_is_found_by_random_schedules() {
    let strategy = Strategy::Random {
        executions: 100,
        seed: 1,
    };
    let found = explore(&Config::default().strategy(strategy), |world| {
        let shared = Arc::new(AtomicU64::new(0));
        let node = world.node(site(words));
        for thread in 0..2 {
            let shared = shared.clone();
            world.thread(&node, &format!("thread {thread}"), move |_| {
                note("begins");
                note(shared.fetch_add(1, Ordering::Relaxed));
            });
        }
    });
    assert!(
        matches!(found, Err(SimError::NotDeterministic { .. })),
        "{found:?}"
    );
}

#[test]
fn addresses_are_found_to_be_no_function_of_what_threads_are_told() {
    one_that_says("address of the heap", || format!("{:p}", Box::new(1_u64)));
    one_that_says("address of the stack", || {
        let local = 1_u64;
        format!("{:p}", &raw const local)
    });
}
