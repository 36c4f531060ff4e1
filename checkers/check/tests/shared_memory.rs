//! Explores worlds on the fabric with the capabilities of shared memory.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_check::{FABRICS, Ladder, Object, worlds};
use loco_sim::{Config, FabricKind, Strategy, World, explore};

/// A lock whose word is on a node that was declared lost is neither given to that node nor released by it, although the node's
/// processor reaches the word: a node that has not heard of the loss would find the lock free and the data half written.
#[test]
fn a_lost_node_neither_gets_nor_releases_the_lock_that_lives_on_it() {
    let random = Strategy::Pct {
        executions: 2000,
        seed: 1,
        depth: 3,
    };
    for object in [Object::TasLock, Object::TicketLock] {
        for name in ["alone-suspicion", "suspicion"] {
            for strategy in [random, Strategy::Exhaustive] {
                finds_nothing(object, name, strategy);
            }
        }
    }
}

fn finds_nothing(object: Object, name: &str, strategy: Strategy) {
    let all = worlds(object);
    let named = all.iter().find(|named| named.name() == name).unwrap();
    let mut config = Config {
        fabric: FabricKind::Shm,
        strategy,
        // Mistakes of this kind show among the first thousand.
        states_max: Some(20_000),
        ..Config::default()
    };
    named.configure(&mut config);
    let report = explore(&config, |world: &mut World| named.build(world)).unwrap();
    assert!(
        report.failure.is_none(),
        "{object}, {name}: {}",
        report.failure.unwrap()
    );
    assert!(
        report.stats.transitions > 1000,
        "{object}, {name}: {:?}",
        report.stats
    );
}

#[test]
fn a_ladder_takes_each_world_on_the_weakest_fabric_and_on_shared_memory() {
    assert_eq!(FABRICS, [FabricKind::Model, FabricKind::Shm]);
    let ladder = Ladder {
        only: vec!["two-nodes".into(), "two-nodes-glob".into()],
        ..Ladder::new(Object::TasLock, Duration::from_secs(60))
    };
    let report = ladder.run().unwrap();
    let taken: Vec<_> = report
        .worlds
        .iter()
        .map(|named| (named.world, named.fabric))
        .collect();
    // On shared memory, both are the same world.
    let expected = [
        ("two-nodes", FabricKind::Model),
        ("two-nodes-glob", FabricKind::Model),
        ("two-nodes", FabricKind::Shm),
    ];
    assert_eq!(taken, expected);
    assert!(report.failed().is_none());
}
