//! Explores the first worlds of every object on every fabric of the model.

#![allow(clippy::unwrap_used)]

use std::time::Duration;

use loco_check::{NamedWorld, Object, worlds};
use loco_sim::{Config, FabricKind, Strategy, World, explore};

/// The worlds of each object that are explored in every schedule, as far as the limit allows.
const FIRST: usize = 3;
/// The states of each.
const STATES: u64 = 1500;
/// The random schedules of every world.
const EXECUTIONS: u64 = 3;

#[test]
fn every_world_runs_on_every_fabric() {
    for object in Object::ALL {
        for named in worlds(object) {
            for fabric in FabricKind::ALL {
                let executions = Strategy::Pct {
                    executions: EXECUTIONS,
                    seed: 1,
                    depth: 3,
                };
                finds_nothing(object, &named, fabric, executions);
            }
        }
    }
}

#[test]
fn the_first_worlds_of_every_object_keep_their_promises_on_every_fabric() {
    for object in Object::ALL {
        for named in worlds(object).iter().take(FIRST) {
            for fabric in FabricKind::ALL {
                finds_nothing(object, named, fabric, Strategy::Exhaustive);
            }
        }
    }
}

/// Checks that a world can be explored on the fabric, and that no execution that is met fails.
fn finds_nothing(object: Object, named: &NamedWorld, fabric: FabricKind, strategy: Strategy) {
    let mut config = Config {
        fabric,
        strategy,
        states_max: Some(STATES),
        time_max: Some(Duration::from_secs(60)),
        ..Config::default()
    };
    named.configure(&mut config);
    let name = named.name();
    let report = explore(&config, |world: &mut World| named.build(world));
    let report = report.unwrap_or_else(|error| panic!("{object}, {name}, on {fabric}: {error}"));
    if let Some(failure) = report.failure {
        panic!("{object}, {name}, on {fabric}: {failure}");
    }
    assert!(
        report.stats.transitions > 0,
        "{object}, {name}, on {fabric}: nothing happened"
    );
}
