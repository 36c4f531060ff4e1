//! Explores worlds on the fabric with the capabilities of shared memory.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_check::{FABRICS, Ladder, Object, rungs};
use loco_sim::{Config, FabricKind, Strategy, World, explore};

/// A lock whose word is on a node that was declared lost is not given to that node, although the node's processor reaches the word.
#[test]
fn a_lost_node_does_not_get_the_lock_that_lives_on_it() {
    for object in [Object::TasLock, Object::TicketLock] {
        let all = rungs(object);
        let rung = all.iter().find(|rung| rung.name() == "alone-suspicion").unwrap();
        let mut config = Config {
            fabric: FabricKind::Shm,
            strategy: Strategy::Pct {
                executions: 2000,
                seed: 1,
                depth: 3,
            },
            ..Config::default()
        };
        rung.configure(&mut config);
        let report = explore(&config, |world: &mut World| rung.build(world)).unwrap();
        assert!(report.failure.is_none(), "{object}: {}", report.failure.unwrap());
        assert_eq!(
            report.stats.executions, 2000,
            "{object}: {:?}",
            report.completeness
        );
    }
}

#[test]
fn a_ladder_takes_each_rung_on_the_weakest_fabric_and_on_shared_memory() {
    assert_eq!(FABRICS, [FabricKind::Model, FabricKind::Shm]);
    let ladder = Ladder {
        only: vec!["two-nodes".into(), "two-nodes-glob".into()],
        ..Ladder::new(Object::TasLock, Duration::from_secs(60))
    };
    let report = ladder.climb().unwrap();
    let taken: Vec<_> = report.rungs.iter().map(|rung| (rung.rung, rung.fabric)).collect();
    // On shared memory, both are the same world.
    let expected = [
        ("two-nodes", FabricKind::Model),
        ("two-nodes-glob", FabricKind::Model),
        ("two-nodes", FabricKind::Shm),
    ];
    assert_eq!(taken, expected);
    assert!(report.failed().is_none());
}
