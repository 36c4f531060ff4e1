//! loco's objects on the model fabric: complete explorations of what they promise.

#![allow(clippy::unwrap_used)]

use loco::{Barrier, Manager, SharedVar};
use loco_sim::{Completeness, Config, ModelFabric, Report, World, explore, note};

/// Explores completely, and shows how large it was.
fn complete(name: &str, build: impl Fn(&mut World) + Sync) -> Report {
    let config = Config {
        time_max: Some(std::time::Duration::from_secs(60)),
        ..Config::default()
    };
    let report = explore(&config, build).unwrap();
    if let Some(failure) = &report.failure {
        panic!("{name}: {failure}");
    }
    assert_eq!(report.completeness, Completeness::Complete, "{name}");
    println!("{name}: {:?}", report.stats);
    report
}

type Manager_ = Manager<ModelFabric>;

struct BarrierNode {
    manager: Manager_,
    flags: Vec<SharedVar<ModelFabric, u64>>,
    barrier: Barrier<ModelFabric>,
}

fn barrier_node(nodes: usize) -> impl FnOnce(ModelFabric) -> BarrierNode {
    move |fabric| {
        let manager = Manager::new(fabric).unwrap();
        let flags = (0..nodes)
            .map(|i| SharedVar::new(&manager, &format!("flag{i}")).unwrap())
            .collect();
        let barrier = Barrier::new(&manager, "bar").unwrap();
        manager.wait_for_ready().unwrap();
        BarrierNode {
            manager,
            flags,
            barrier,
        }
    }
}

/// Each node sets its flag at the others before each round, if `puts`, and sees the others' after it.
fn barrier_rounds(nodes: usize, rounds: u64, puts: bool) -> impl Fn(&mut World) + Sync {
    move |world| {
        for me in 0..nodes {
            let node = world.node(barrier_node(nodes));
            world.thread(&node, &format!("node{me}"), move |n: &BarrierNode| {
                let thread = n.manager.thread().unwrap();
                for round in 1..=rounds {
                    if puts {
                        n.flags[me].write(round);
                        n.flags[me].bcast_all(&thread).unwrap().forget();
                    }
                    n.barrier.wait(&thread).unwrap();
                    for flag in n.flags.iter().filter(|_| puts) {
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
