//! Explores the promises of loco's objects on the model fabric completely.

#![allow(clippy::unwrap_used)]

mod support;

use loco::{Barrier, Manager, SharedVar};
use loco_sim::{Completeness, Config, ModelFabric, World, explore, note};
use support::{Site, complete, site};

struct Meeting {
    flags: Vec<SharedVar<u64, ModelFabric>>,
    barrier: Barrier<ModelFabric>,
}

fn meeting(nodes: usize) -> impl FnOnce(&Manager<ModelFabric>) -> Meeting {
    move |manager| Meeting {
        flags: (0..nodes)
            .map(|i| SharedVar::new(manager, &format!("flag{i}")).unwrap())
            .collect(),
        barrier: Barrier::new(manager, "bar").unwrap(),
    }
}

/// Makes a world in which each node sets its flag at the others before each round, if `puts`, and sees theirs
/// after it.
fn barrier_rounds(nodes: usize, rounds: u64, puts: bool) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..nodes {
            let node = world.node(site(meeting(nodes)));
            world.thread(&node, &format!("node{me}"), move |site: &Site<Meeting>| {
                let thread = site.thread();
                let Meeting { flags, barrier } = &site.objects;
                for round in 1..=rounds {
                    if puts {
                        flags[me].write(round);
                        flags[me].broadcast(&thread).unwrap().forget();
                    }
                    barrier.wait(&thread).unwrap();
                    for flag in flags.iter().filter(|_| puts) {
                        assert!(
                            flag.read() >= round,
                            "a put before the barrier is not seen after it"
                        );
                    }
                    note(format!("left round {round}"));
                }
            });
        }
    }
}

#[test]
fn barrier_of_two_nodes_one_round() {
    complete("barrier, 2 nodes, 1 round", barrier_rounds(2, 1, true));
}

#[test]
fn barrier_of_two_nodes_two_rounds() {
    complete("barrier, 2 nodes, 2 rounds", barrier_rounds(2, 2, true));
}

#[test]
fn barrier_of_three_nodes_one_round() {
    complete("barrier, 3 nodes, 1 round", barrier_rounds(3, 1, false));
}

/// Any number of explorers see the same ends of executions.
#[test]
fn explorers_share_the_work() {
    let with = |workers| {
        let config = Config {
            workers,
            ..Config::default()
        };
        let report = explore(&config, barrier_rounds(2, 2, true)).unwrap();
        assert_eq!(report.completeness, Completeness::Complete);
        report.stats.executions
    };
    assert_eq!(with(1), with(4));
}
