//! Checks what bounded explorations find, and that they claim no more than their bound.

#![allow(clippy::unwrap_used)]

use loco::fabric::{AtomicCell, Fabric, Platform};
use loco_sim::{Bounds, Completeness, Config, ModelFabric, Report, Strategy, World, explore, note, reaches};

type Atomic = <<ModelFabric as Fabric>::Platform as Platform>::AtomicU64;

fn preemptions(n: u32) -> Bounds {
    Bounds {
        preemptions: Some(n),
        delays: None,
    }
}

fn delays(n: u32) -> Bounds {
    Bounds {
        preemptions: None,
        delays: Some(n),
    }
}

fn within(bounds: Bounds) -> Config {
    Config {
        strategy: Strategy::Bounded(bounds),
        ..Config::default()
    }
}

/// Makes a world in which two threads of a node count one word up `times` times each, by a load and an
/// exchange.
fn lost_updates(times: u64) -> impl Fn(&mut World) + Sync {
    move |world| {
        let node = world.node(|_| <Atomic as AtomicCell<u64>>::new(0));
        for thread in ["first", "second"] {
            world.thread(&node, thread, move |word: &Atomic| {
                for _ in 0..times {
                    let old: u64 = AtomicCell::<u64>::load(word);
                    AtomicCell::<u64>::swap(word, old + 1);
                }
                note(AtomicCell::<u64>::load(word));
            });
        }
    }
}

/// Returns whether some execution within the bounds ends with both threads seeing `wanted`.
fn ends_with(bounds: Bounds, wanted: &'static str) -> (bool, Completeness) {
    let last = move |end: &loco_sim::End<'_>| end.notes().iter().all(|n| n == wanted);
    let reach = reaches(&within(bounds), lost_updates(1), last).unwrap();
    (reach.witness.is_some(), reach.report.completeness)
}

/// Both threads end with 1: the second loads before the first's store, and stores after it.
#[test]
fn a_lost_update_takes_one_preemption() {
    assert_eq!(
        ends_with(preemptions(0), "1"),
        (false, Completeness::UpTo(preemptions(0)))
    );
    assert_eq!(ends_with(preemptions(1), "1"), (true, Completeness::Stopped));
}

fn explored(bounds: Bounds) -> Report {
    explore(&within(bounds), lost_updates(2)).unwrap()
}

#[test]
fn a_larger_bound_sees_more_until_it_sees_everything() {
    for bound in [preemptions, delays] {
        let mut states = 0;
        let mut n = 0;
        let last = loop {
            let report = explored(bound(n));
            // States at different costs count separately, so their number grows with the bound.
            assert!(report.stats.states > states, "{}: {:?}", bound(n), report.stats);
            states = report.stats.states;
            match report.completeness {
                Completeness::UpTo(bounds) => assert_eq!(bounds, bound(n)),
                other => break other,
            }
            n += 1;
        };
        // The bound excluded nothing, so this is everything.
        assert_eq!(last, Completeness::Complete);
        assert!(n > 2, "{n}");
    }
}

#[test]
fn both_bounds_hold_together() {
    let both = Bounds {
        preemptions: Some(1),
        delays: Some(1),
    };
    let report = explored(both);
    assert_eq!(report.completeness, Completeness::UpTo(both));
    assert!(report.stats.executions <= explored(preemptions(1)).stats.executions);
    assert_eq!(
        report.completeness.to_string(),
        "complete up to 1 preemption and 1 delay"
    );
}

#[test]
fn without_delays_there_is_one_execution() {
    let report = explored(delays(0));
    assert_eq!(report.stats.executions, 1);
    assert_eq!(report.completeness, Completeness::UpTo(delays(0)));
}

#[test]
fn bounded_and_unbounded_find_the_same_ends() {
    let ends = |strategy: Strategy| {
        let seen = std::sync::Arc::new(std::sync::Mutex::new(std::collections::BTreeSet::new()));
        let config = Config {
            strategy,
            ..Config::default()
        };
        let sink = seen.clone();
        let report = explore(&config, move |world| {
            lost_updates(2)(world);
            let sink = sink.clone();
            world.finally(move |end| {
                sink.lock().unwrap().insert(end.notes());
            });
        });
        assert_eq!(report.unwrap().completeness, Completeness::Complete);
        seen.lock().unwrap().clone()
    };
    assert_eq!(
        ends(Strategy::Exhaustive),
        ends(Strategy::Bounded(Bounds::default()))
    );
}

#[test]
fn a_cancelled_exploration_says_so() {
    let flag = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(true));
    let config = Config {
        strategy: Strategy::Random {
            executions: 1_000_000,
            seed: 1,
        },
        cancel: Some(flag),
        ..Config::default()
    };
    let report = explore(&config, lost_updates(2)).unwrap();
    let Completeness::Random(executions) = report.completeness else {
        panic!("{:?}", report.completeness);
    };
    assert!(executions < 100, "{executions}");
}
