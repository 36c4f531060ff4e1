//! The agreement on who is in keeps its promises in every world of the ladder, and the worlds see what breaks them.

use std::time::Duration;

use loco_mesh_check::{Ended, Faults, World, ladder, large};

/// Only a hang reaches it.
const PATIENCE: Duration = Duration::from_secs(600);

#[test]
fn every_world_of_the_ladder_is_complete_and_keeps_its_promises() {
    for world in ladder() {
        let explored = world.explore(None, PATIENCE);
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
    let explored = world.explore(None, PATIENCE);
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
    let failure = world.explore(None, PATIENCE).failure.unwrap();
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
    let failure = world.explore(None, PATIENCE).failure.unwrap();
    assert_eq!(failure.broken, "only 2 nodes go on together");
}
