//! The agreement on who is in keeps its promises in its worlds, the worlds see what breaks them, and a ladder says what it has seen.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use loco_mesh_check::{Ended, Faults, Ladder, Limits, Seen, World, large, small};

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(600);

fn limits() -> Limits<'static> {
    Limits {
        deadline: Some(Instant::now() + PATIENCE),
        ..Limits::default()
    }
}

#[test]
fn every_small_world_is_complete_and_keeps_its_promises() {
    for world in small() {
        let explored = world.explore(None, limits());
        if let Some(failure) = explored.failure {
            panic!("{}: {failure}", world.name);
        }
        assert_eq!(explored.ended, Ended::Complete, "{}", world.name);
    }
}

#[test]
fn three_nodes_keep_their_promises_with_any_two_faults() {
    let mut worlds = large().into_iter().map(|(world, _)| world);
    let world = worlds.find(|world| world.name == "three-two-faults").unwrap();
    let explored = world.explore(None, limits());
    assert_eq!((explored.failure, explored.ended), (None, Ended::Complete));
}

/// Node 0 is parted from the others for a while, takes them for lost, and is heard by them before they take it for lost.
#[test]
fn of_parts_that_meet_again_the_smaller_one_may_stay() {
    let world = World {
        parted: 0b001,
        survivors_min: 2,
        ..World::new("parted", 3)
    };
    let failure = world.explore(None, limits()).failure.unwrap();
    assert_eq!(failure.broken, "only 1 nodes go on together");
}

/// Nodes 0 and 1 take each other for lost. Of the two others, each hears one of them first.
#[test]
fn a_cut_connection_among_four_nodes_may_cost_both_of_its_ends() {
    let world = World {
        faults: Faults {
            max: 1,
            cuts: true,
            ..Faults::NONE
        },
        survivors_min: 3,
        ..World::new("four", 4)
    };
    let failure = world.explore(None, limits()).failure.unwrap();
    assert_eq!(failure.broken, "only 2 nodes go on together");
}

/// Its process asks again, as another node.
#[test]
fn a_newcomer_whose_sponsor_stops_before_anybody_hears_of_it_does_not_come_in() {
    let world = World {
        joiners: 1,
        room: 3,
        faults: Faults::crashes(1),
        survivors_min: 2,
        ..World::new("two-and-one-joins", 2)
    };
    let failure = world.explore(None, limits()).failure.unwrap();
    assert_eq!(failure.broken, "only 1 nodes go on together");
    assert_eq!(failure.schedule.last().unwrap(), "node 2 gives up joining");
}

#[test]
fn a_node_that_finds_no_room_stays_outside() {
    let world = World {
        joiners: 2,
        room: 3,
        survivors_min: 4,
        ..World::new("two-and-one-too-many", 2)
    };
    let failure = world.explore(None, limits()).failure.unwrap();
    assert_eq!(failure.broken, "only 3 nodes go on together");
    let asks = failure
        .schedule
        .iter()
        .filter(|what| what.contains("to let it join"));
    assert_eq!(asks.count(), 1);
}

#[test]
fn a_ladder_completes_the_small_worlds_and_ends_there() {
    let ladder = Ladder {
        only: small().iter().map(|world| world.name.to_owned()).collect(),
        ..Ladder::new(PATIENCE)
    };
    let report = ladder.run();
    assert!(report.failed().is_none() && report.is_complete() && !report.interrupted);
    assert_eq!(report.worlds.len(), small().len());
}

/// A world that has too many states is seen within bounds, and the report does not claim more.
#[test]
fn a_ladder_claims_no_more_than_its_bounds() {
    let ladder = Ladder {
        only: vec!["four-two-faults".to_owned()],
        ..Ladder::new(Duration::from_secs(2))
    };
    let report = ladder.run();
    assert!(report.failed().is_none() && !report.is_complete());
    let [world] = &report.worlds[..] else {
        panic!("one world was asked for")
    };
    let seen = world.seen.expect("the time has begun");
    assert!(matches!(seen, Seen::UpTo(_) | Seen::Incomplete(_)), "{seen:?}");
}

#[test]
fn a_ladder_that_is_interrupted_says_so() {
    let cancel = AtomicBool::new(true);
    let ladder = Ladder {
        cancel: Some(&cancel),
        ..Ladder::new(PATIENCE)
    };
    let report = ladder.run();
    assert!(report.interrupted && !report.is_complete());
}
