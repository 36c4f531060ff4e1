//! Explorations always end by a report or an error: in worlds that poll without end, whose destructors panic, and that are not
//! deterministic.

#![allow(clippy::unwrap_used)]

mod support;

use std::collections::HashMap;
use std::time::Duration;

use loco::fabric::{NodeId, Target};
use loco::{Channel, Manager, Thread};
use loco_sim::{Completeness, Config, ModelFabric, SimError, Strategy, World, explore, note};
use support::{complete, site};

fn words(manager: &Manager<ModelFabric>) -> Channel<ModelFabric> {
    Channel::builder(manager, "c")
        .kind("c")
        .region("words", 64)
        .join()
        .unwrap()
}

fn polls(thread: &Thread<ModelFabric>, channel: &Channel<ModelFabric>) {
    let remote = channel.region("words").unwrap().remote(NodeId(0)).unwrap();
    while thread.read_word(Target { remote, offset: 0 }).unwrap() == 0 {}
}

#[test]
fn a_thread_that_polls_without_the_primitive_ends_the_exploration_at_its_time_limit() {
    let world = |world: &mut World| {
        for me in 0..2 {
            let node = world.node(site(words));
            world.thread(&node, &format!("thread of node {me}"), move |site| {
                if me == 1 {
                    polls(&site.thread(), &site.objects);
                }
            });
        }
    };
    // Without the limit the one execution goes on until memory is used up.
    let config = Config {
        steps_max: usize::MAX,
        time_max: Some(Duration::from_millis(500)),
        workers: 1,
        ..Config::default()
    };
    let report = explore(&config, world).unwrap();
    let Completeness::Incomplete(why) = report.completeness else {
        panic!("{:?}", report.completeness);
    };
    assert!(why.starts_with("time limit reached"), "{why}");
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

#[test]
fn the_order_of_a_hash_map_is_found_to_be_no_function_of_what_threads_are_told() {
    let world = |world: &mut World| {
        let node = world.node(site(words));
        world.thread(&node, "thread", |_| {
            let map: HashMap<u32, ()> = (0..8).map(|key| (key, ())).collect();
            for key in map.keys() {
                note(key);
            }
        });
    };
    for strategy in [
        Strategy::Exhaustive,
        Strategy::Random {
            executions: 10,
            seed: 1,
        },
    ] {
        let config = Config {
            strategy,
            ..Config::default()
        };
        let found = explore(&config, world);
        assert!(
            matches!(found, Err(SimError::NotDeterministic { .. })),
            "{found:?}"
        );
    }
}
