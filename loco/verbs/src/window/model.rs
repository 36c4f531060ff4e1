//! The window under loom, with an owner that posts, whoever polls, and a device that completes each request some time after it
//! has got it.
//!
//! The device is a word with the number of requests that it has. The owner's doorbell is a release of the word and the poller's look an
//! acquire: drivers order the accesses of a processor and those of the device in this way. So what is not ordered is the
//! window's own.

use loco_fabric::{AtomicCell, Lock, Platform, WorkRequestId};
use loco_loom::{Loom, run};

use super::Window;

type U64 = <Loom as Platform>::AtomicU64;

/// The slots. All may be under way: an owner keeps one for the last request before it is dropped.
const SLOTS: u64 = 2;
/// The requests of an execution: the window is used again.
const REQUESTS: u64 = 3;

/// A send queue, its device, and what was reported.
struct World {
    window: Window<Loom>,
    /// The number of requests that the device has.
    device: U64,
    /// The reports, under the poller's lock.
    reported: <Loom as Platform>::Mutex<Vec<u64>>,
}

fn world() -> World {
    World {
        window: Window::new(SLOTS as usize),
        device: AtomicCell::new(0),
        reported: Lock::new(Vec::new()),
    }
}

/// Returns the id by which the device knows request `sequence`: the queue's index stands above it.
fn id_at_device(sequence: u64) -> u64 {
    5 << super::SEQUENCE_BITS | sequence
}

/// Returns the id under which request `sequence` is to be reported.
fn id(sequence: u64) -> u64 {
    100 + sequence
}

impl World {
    fn has_room(&self, posted: u64) -> bool {
        posted - self.window.completed() < SLOTS
    }

    /// Posts as many requests as there is room for at the moment.
    fn post(&self) {
        let mut posted = 0;
        for _ in 0..REQUESTS {
            if self.has_room(posted) {
                self.window.fill(posted, WorkRequestId(id(posted)), 7);
                posted += 1;
                self.window.publish(posted);
                self.device.store(posted);
            }
        }
    }

    /// Takes one completion, if there is one.
    fn poll(&self) {
        let mut reported = self.reported.lock();
        let next = reported.len() as u64;
        if self.device.load() > next {
            let ended = self
                .window
                .ended(id_at_device(next))
                .expect("a completion out of turn");
            assert_eq!(ended.what, 7, "the slot is of another request");
            self.window.complete(&ended);
            reported.push(ended.id.0);
        }
    }

    /// Looks, once all threads have ended, at the reports, and takes the rest.
    fn check(&self) {
        for _ in 0..REQUESTS {
            self.poll();
        }
        assert!(self.window.is_drained(), "a request has not completed");
        let reported = self.reported.lock();
        let expected: Vec<u64> = (0..reported.len() as u64).map(id).collect();
        assert_eq!(*reported, expected, "a report is of another request");
    }
}

fn poll_twice(world: &World) {
    world.poll();
    world.poll();
}

#[test]
fn each_request_is_reported_as_itself_within_5_preemptions() {
    run(5, world, [World::post, poll_twice], World::check);
}

#[test]
fn each_request_is_reported_as_itself_to_two_pollers_within_3_preemptions() {
    run(3, world, [World::post, World::poll, World::poll], World::check);
}

/// A completion ends the requests before it that asked for none.
#[test]
fn a_completion_ends_those_before_it_within_3_preemptions() {
    fn post_two(world: &World) {
        world.window.fill(0, WorkRequestId(id(0)), 0);
        world.window.fill(1, WorkRequestId(id(1)), 7);
        world.window.publish(2);
        world.device.store(2);
    }
    fn poll_last(world: &World) {
        if world.device.load() == 2 {
            let ended = world.window.ended(1).expect("a completion out of turn");
            assert_eq!((ended.id.0, ended.what), (id(1), 7));
            world.window.complete(&ended);
        }
    }
    fn check(world: &World) {
        let completed = world.window.completed();
        assert!(completed == 0 || completed == 2, "{completed}");
        assert_eq!(world.window.is_drained(), completed == 2);
    }
    run(3, world, [post_two, poll_last], check);
}

/// The device has some bits of the number of a request. The window tells those under way from all others.
#[test]
fn a_completion_of_none_under_way_is_no_end_within_2_preemptions() {
    fn post(world: &World) {
        world.post();
    }
    fn poll_wrong(world: &World) {
        assert!(world.window.ended(SLOTS + REQUESTS).is_none());
        assert!(world.window.ended(super::SEQUENCE_MASK).is_none());
    }
    run(2, world, [post, poll_wrong], World::check);
}

/// The protocol with a part left out: loom must find the mistake.
mod without {
    use super::*;

    #[test]
    #[should_panic = "a completion out of turn"]
    fn the_count_before_the_doorbell_a_completion_is_out_of_turn() {
        fn post(world: &World) {
            world.window.fill(0, WorkRequestId(id(0)), 7);
            world.device.store(1);
            world.window.publish(1);
        }
        run(2, world, [post, poll_twice], World::check);
    }

    #[test]
    #[should_panic = "a report is of another request"]
    fn the_copy_before_the_count_a_report_is_of_another_request() {
        fn poll(world: &World) {
            let mut reported = world.reported.lock();
            if world.device.load() > 0 {
                world.window.complete_all(1);
                reported.push(world.window.filled(0).0.0);
            }
        }
        fn post(world: &World) {
            world.window.fill(0, WorkRequestId(id(0)), 7);
            world.window.publish(1);
            world.device.store(1);
            if world.window.completed() > 0 {
                world.window.fill(SLOTS, WorkRequestId(id(SLOTS)), 7);
            }
        }
        fn check(world: &World) {
            let reported = world.reported.lock();
            assert!(
                reported.iter().all(|&id| id == super::id(0)),
                "a report is of another request"
            );
        }
        run(3, world, [post, poll], check);
    }

    #[test]
    #[should_panic = "the slot is of another request"]
    fn room_before_the_slot_a_report_is_of_another_request() {
        fn post(world: &World) {
            for posted in 0..REQUESTS {
                world
                    .window
                    .fill(posted, WorkRequestId(id(posted)), 7 + u32::from(posted == SLOTS));
                world.window.publish(posted + 1);
                world.device.store(posted + 1);
            }
        }
        run(3, world, [post, poll_twice], World::check);
    }
}
