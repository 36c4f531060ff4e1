//! Checks which objects are robust, so that their clients see only what a strong memory would show, and that the answer
//! says no more than was explored.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::time::Duration;

use loco_check::{Expected, Object, RobustCheck, RobustReport};
use loco_sim::{Completeness, Config, Memory, Strength, World, explore, note, replay, robust};

/// Ample: the worlds are explored in a second or two.
const TIME: Duration = Duration::from_secs(900);

fn ask(object: Object) -> Vec<RobustReport> {
    RobustCheck::new(object, TIME).run().unwrap()
}

#[test]
fn objects_are_as_robust_or_weak_as_documented() {
    for object in [
        Object::SharedVar,
        Object::OwnedVar,
        Object::Sst,
        Object::Region,
        Object::Fence,
        Object::Atomic,
        Object::Barrier,
        Object::WideOwnedVar,
        Object::Msw,
        Object::RingBuffer,
        Object::Queue,
        Object::Kv,
        Object::Log,
    ] {
        let reports = ask(object);
        assert!(!reports.is_empty());
        for report in reports {
            let strength = &report.found.strength;
            assert_eq!(
                report.as_expected(),
                Some(true),
                "{object} {}: {strength}",
                report.world
            );
        }
    }
}

/// The history is one of store buffering: both threads read 0.
#[test]
fn a_weak_object_comes_with_a_history_that_no_strong_memory_has() {
    let reports = ask(Object::OwnedVar);
    let weak = reports
        .iter()
        .find(|r| r.expected == Some(Expected::Weak))
        .unwrap();
    let witness = weak.found.strength.witness().unwrap();
    let text: Vec<String> = witness.histories.iter().map(ToString::to_string).collect();
    assert_eq!(
        text,
        [
            "node 0 on node 0:\n  write 0 -> \n  read 1 -> 0\n",
            "node 1 on node 1:\n  write 1 -> \n  read 0 -> 0\n"
        ]
    );
    // Both puts are kept back: neither one delay nor two are enough, or the plain schedule would show it.
    assert!(weak.found.fewest_delays.is_some_and(|delays| delays > 0));
    assert!(
        weak.found.strong_histories == 3,
        "{}",
        weak.found.strong_histories
    );
    // The schedule leads to this history again.
    let check = RobustCheck::new(Object::OwnedVar, TIME);
    let named = check.world(weak.world).unwrap();
    let wanted = text.concat();
    let again = replay(&Config::default(), &witness.schedule, |world: &mut World| {
        named.build(world);
        let wanted = wanted.clone();
        world.finally(move |end| {
            let found: String = end.histories().iter().map(ToString::to_string).collect();
            assert_ne!(found, wanted, "met again");
        });
    });
    let failure = again.unwrap().failure.unwrap();
    assert!(failure.to_string().contains("met again"), "{failure}");
}

#[test]
fn without_time_nothing_is_claimed() {
    let check = RobustCheck {
        time: Duration::from_millis(1),
        ..RobustCheck::new(Object::Barrier, TIME)
    };
    for report in check.run().unwrap() {
        let unknown = matches!(report.found.strength, Strength::Unknown(_));
        assert!(unknown, "{}", report.found.strength);
        assert_eq!(report.as_expected(), None);
    }
}

#[test]
fn a_world_that_records_nothing_has_nothing_to_compare() {
    let found = robust(&Config::default(), |world: &mut World| {
        let node = world.node(|_| ());
        world.thread(&node, "silent", |()| {});
    });
    assert!(matches!(found.unwrap().strength, Strength::NothingRecorded));
}

/// A world whose own check fails is failed, on whichever memory.
#[test]
fn a_failing_world_is_neither_robust_nor_weak() {
    let found = robust(&Config::default(), |world: &mut World| {
        let node = world.node(|_| ());
        world.thread(&node, "thread", |()| note("here"));
        world.finally(|end| assert!(end.notes().is_empty(), "a note"));
    });
    let found = found.unwrap();
    let text = found.strength.to_string();
    assert!(
        matches!(found.strength, Strength::Failed(_)) && text.contains("a note"),
        "{text}"
    );
}

/// On a strong memory there are moves of threads only, and no machine step is left for later.
#[test]
fn a_strong_memory_has_no_steps_of_its_own() {
    let check = RobustCheck::new(Object::Region, TIME);
    let named = check.world("store-buffering").unwrap();
    let config = |memory| Config {
        memory,
        ..Config::default()
    };
    let both_zero = |memory| {
        let report = explore(&config(memory), |world: &mut World| {
            named.build(world);
            world.finally(|end| {
                let text: String = end.histories().iter().map(ToString::to_string).collect();
                assert!(text.matches("-> 0").count() < 2, "both read 0");
            });
        });
        report.unwrap()
    };
    let strong = both_zero(Memory::Strong);
    assert!(strong.failure.is_none());
    assert_eq!(strong.completeness, Completeness::Complete);
    let failure = both_zero(Memory::Model).failure.unwrap();
    assert!(failure.to_string().contains("both read 0"));
}
