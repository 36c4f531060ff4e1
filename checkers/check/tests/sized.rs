//! Explores worlds of chosen size, without faults and with each kind of fault: the shipped objects keep their promises there.

#![allow(clippy::unwrap_used)]

use loco_check::Object;
use loco_check::sized::{Size, configure};
use loco_sim::{Completeness, Config, Faults, Strategy, explore};

fn finds_nothing(object: Object, size: Size, faults: Faults, strategy: Strategy) {
    let mut config = Config {
        faults,
        strategy,
        // Complete for most objects, and enough for the others.
        states_max: Some(100_000),
        ..Config::default()
    };
    configure(&mut config);
    let report = explore(&config, |world| assert!(size.build(object, world))).unwrap();
    assert!(
        report.failure.is_none(),
        "{object} {size:?} {faults:?}: {}",
        report.failure.unwrap()
    );
    if faults == Faults::default() {
        assert_eq!(report.completeness, Completeness::Complete, "{object}");
    }
}

/// Explores a world of each object that has worlds of chosen size.
fn all(nodes: u16, ops: u64, faults: Faults, strategy: Strategy) {
    let size = Size {
        nodes,
        threads: 1,
        ops,
    };
    for object in Object::ALL.into_iter().filter(|object| object.has_sizes()) {
        finds_nothing(object, size, faults, strategy);
    }
}

const NONE: Faults = faults(0, 0, 0);
const CRASH: Faults = faults(1, 0, 0);
const SUSPICION: Faults = faults(0, 1, 0);
const EXPIRY: Faults = faults(0, 0, 1);

const fn faults(crashes: u32, suspicions: u32, expiries: u32) -> Faults {
    Faults {
        crashes,
        suspicions,
        cuts: 0,
        expiries,
        unenforced: false,
        idle_expiries: false,
    }
}

#[test]
fn no_fault() {
    all(2, 1, NONE, Strategy::Exhaustive);
}

#[test]
fn a_crash() {
    all(2, 1, CRASH, Strategy::Exhaustive);
}

#[test]
fn a_suspicion() {
    all(2, 1, SUSPICION, Strategy::Exhaustive);
}

#[test]
fn an_expiry() {
    all(2, 1, EXPIRY, Strategy::Exhaustive);
}

/// A correct object is not blamed for deadlines that pass, of which there may be up to eight here. Schedules are random, since with
/// many expiries even these worlds are large.
#[test]
fn any_number_of_expiries() {
    for expiries in 1..=8 {
        let strategy = |depth| Strategy::Pct {
            executions: 150,
            seed: expiries.into(),
            depth,
        };
        all(2, 2, faults(0, 0, expiries), strategy(3));
        all(
            2,
            1,
            faults(0, 0, expiries),
            Strategy::Random {
                executions: 100,
                seed: expiries.into(),
            },
        );
    }
}

/// A thread that is late each time that its deadline may pass is in the first executions of a search.
#[test]
fn all_expiries_of_an_execution_in_one_call() {
    for expiries in [6, 8] {
        all(2, 1, faults(0, 0, expiries), Strategy::Exhaustive);
    }
}

#[test]
fn three_nodes_with_every_fault_at_random() {
    let strategy = |seed| Strategy::Pct {
        executions: 300,
        seed,
        depth: 3,
    };
    for (seed, faults) in [CRASH, SUSPICION, EXPIRY].into_iter().enumerate() {
        all(3, 3, faults, strategy(seed as u64));
    }
}
