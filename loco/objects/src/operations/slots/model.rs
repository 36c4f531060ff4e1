//! The slots under loom, with a poller that ends operations and a future that sleeps until one ends.
//!
//! A future leaves its waker, looks once more, and falls asleep if its operation has not ended. It stays asleep unless its waker is called.
//! When all threads have ended, nobody may be asleep whose operation has ended.

use std::sync::Arc;
use std::task::{Wake, Waker};

use loco_fabric::{AtomicCell, FabricError, Lock, NodeId, Platform};
use loco_loom::{Loom, run};

use super::{Slots, Status};

/// A window of two slots in one chunk: the third operation uses the slot of the first again.
const WINDOW: u64 = 2;

type U32 = <Loom as Platform>::AtomicU32;
type Mutex<T> = <Loom as Platform>::Mutex<T>;

/// The number of times that a waker was called.
struct Called(U32);

impl Wake for Called {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1);
    }
}

struct World {
    slots: Slots<Loom, WINDOW, WINDOW>,
    /// For each sleep, whether its future fell asleep after its last look.
    asleep: [U32; 2],
    called: [Arc<Called>; 2],
    /// Memory that the first operation writes: a get's.
    fetched: U32,
    /// What a waiting thread found.
    found: Mutex<Vec<Status>>,
}

fn world() -> World {
    World {
        slots: Slots::new(true),
        asleep: [U32::new(0), U32::new(0)],
        called: [Arc::new(Called(U32::new(0))), Arc::new(Called(U32::new(0)))],
        fetched: U32::new(0),
        found: Lock::new(Vec::new()),
    }
}

impl World {
    fn waker(&self, sleep: usize) -> Waker {
        Waker::from(Arc::clone(&self.called[sleep]))
    }

    /// Ends an operation, as a poller does, and wakes.
    fn end(&self, seq: u64, error: Option<FabricError>) {
        let mut woken = Vec::new();
        self.slots.end(seq, error, &mut woken);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Sleeps until operation `seq` ends, as a future does.
    fn sleep(&self, sleep: usize, seq: u64) {
        self.slots.leave_waker(seq, sleep as u64, &self.waker(sleep));
        self.look_and_sleep(sleep, seq);
    }

    fn look_and_sleep(&self, sleep: usize, seq: u64) {
        if self.slots.status(seq) == Status::Pending {
            self.asleep[sleep].store(1);
        }
    }

    /// Looks, once all threads have ended, whether everybody was woken who had to be.
    fn nobody_sleeps_on(&self) {
        for sleep in 0..2 {
            let is_asleep = self.asleep[sleep].load() == 1 && self.called[sleep].0.load() == 0;
            assert!(!is_asleep, "a wake-up is lost");
        }
    }
}

fn end_first(world: &World) {
    world.end(1, None);
}

fn end_second(world: &World) {
    world.end(2, None);
}

fn sleep_for_first(world: &World) {
    world.sleep(0, 1);
}

fn sleep_for_second(world: &World) {
    world.sleep(1, 2);
}

#[test]
fn no_wake_up_of_one_future_is_lost_within_5_preemptions() {
    run(5, world, [end_first, sleep_for_first], World::nobody_sleeps_on);
}

#[test]
fn no_wake_up_of_two_futures_is_lost_within_3_preemptions() {
    fn end_both(world: &World) {
        world.end(1, None);
        world.end(2, None);
    }
    run(
        3,
        world,
        [end_both, sleep_for_first, sleep_for_second],
        World::nobody_sleeps_on,
    );
}

#[test]
fn no_wake_up_by_two_pollers_is_lost_within_3_preemptions() {
    fn sleep_for_both(world: &World) {
        world.sleep(0, 1);
        world.sleep(1, 2);
    }
    run(
        3,
        world,
        [end_first, end_second, sleep_for_both],
        World::nobody_sleeps_on,
    );
}

/// A future that is dropped takes its own waker back and leaves that of the other.
#[test]
fn a_future_that_is_dropped_takes_no_wake_up_along_within_3_preemptions() {
    fn begin_and_drop(world: &World) {
        world.slots.leave_waker(1, 0, &world.waker(0));
        world.slots.take_waker_back(1, 0);
    }
    run(
        3,
        world,
        [end_second, begin_and_drop, sleep_for_second],
        World::nobody_sleeps_on,
    );
}

/// A future that gives a new waker is woken by that one, and one that is dropped by none.
#[test]
fn the_last_waker_is_called_and_none_of_a_dropped_future_within_3_preemptions() {
    fn renew_and_drop(world: &World) {
        // A sleep for the first operation that gives its second waker, and a sleep for the second that is dropped at once.
        world.slots.leave_waker(2, 5, &world.waker(0));
        world.slots.leave_waker(1, 1, &world.waker(0));
        world.slots.take_waker_back(2, 5);
        world.sleep(1, 1);
    }
    run(3, world, [end_first, renew_and_drop], |world| {
        world.end(2, None);
        let called = world.called[0].0.load();
        assert!(called <= 1, "a future is woken after it was dropped");
        assert!(
            called == 0 || world.called[1].0.load() == 0,
            "both wakers of one sleep were called"
        );
        world.nobody_sleeps_on();
    });
}

#[test]
fn whoever_sees_the_end_of_a_get_sees_what_it_brought_within_5_preemptions() {
    fn fetch(world: &World) {
        world.fetched.store(7);
        world.end(1, None);
    }
    fn look(world: &World) {
        if world.slots.status(1) == Status::Done {
            assert_eq!(world.fetched.load(), 7);
        }
    }
    run(5, world, [fetch, look], |_| ());
}

fn lost() -> FabricError {
    FabricError::PeerLost(NodeId(1))
}

/// Returns true if the operation failed for the reason that it has.
fn has_cause(world: &World) -> bool {
    matches!(world.slots.failure(1), FabricError::PeerLost(NodeId(1)))
}

#[test]
fn whoever_sees_a_failure_finds_its_cause_within_5_preemptions() {
    fn fail(world: &World) {
        world.end(1, Some(lost()));
    }
    fn look(world: &World) {
        if world.slots.status(1) == Status::Failed {
            assert!(has_cause(world), "a failure has no cause");
        }
    }
    run(5, world, [fail, look], |world| {
        assert_eq!(world.slots.status(1), Status::Failed);
    });
}

/// The third operation uses the slot of the first, which failed. A late look at the first finds that, and never that it is under way
/// again.
#[test]
fn the_failure_of_an_operation_outlives_its_slot_within_5_preemptions() {
    fn fail_and_use_again(world: &World) {
        world.end(1, Some(lost()));
        world.end(3, None);
    }
    fn look_twice(world: &World) {
        for _ in 0..2 {
            let status = world.slots.status(1);
            world.found.lock().push(status);
        }
    }
    run(5, world, [fail_and_use_again, look_twice], |world| {
        let found = world.found.lock();
        assert!(!found.contains(&Status::Done), "a failure is taken for success");
        assert!(*found != [Status::Failed, Status::Pending], "an end was undone");
        assert_eq!(world.slots.status(3), Status::Done);
    });
}

/// The same of an operation that succeeded, while a later one fails.
#[test]
fn the_success_of_an_operation_outlives_its_slot_within_5_preemptions() {
    fn end_and_use_again(world: &World) {
        world.end(1, None);
        world.end(3, Some(lost()));
    }
    fn look(world: &World) {
        let status = world.slots.status(1);
        world.found.lock().push(status);
    }
    run(5, world, [end_and_use_again, look], |world| {
        assert!(
            !world.found.lock().contains(&Status::Failed),
            "a success is taken for a failure"
        );
        assert_eq!(
            (world.slots.status(1), world.slots.status(3)),
            (Status::Done, Status::Failed)
        );
    });
}

/// The protocol with a part left out: loom must find the mistake.
mod without {
    use super::*;

    /// Leaves a waker with a store that a later load may overtake.
    fn leave_unfenced(world: &World) {
        let mut wakers = world.slots.wakers.lock();
        wakers.insert((1, 0), world.waker(0));
        world.slots.sleepers.store(1);
        drop(wakers);
        world.look_and_sleep(0, 1);
    }

    /// Ends the first operation with a store that a later load may overtake.
    fn end_unfenced(world: &World) {
        if let Some(chunk) = world.slots.chunk(1).get() {
            chunk[1].store(1 << 1);
        }
        wake_if_awaited(world);
    }

    fn wake_if_awaited(world: &World) {
        let mut woken = Vec::new();
        if world.slots.sleepers.load() != 0 {
            world.slots.take_wakers(1..=1, &mut woken);
        }
        woken.into_iter().for_each(Waker::wake);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_sleepers_fence_a_wake_up_is_lost() {
        run(3, world, [end_first, leave_unfenced], World::nobody_sleeps_on);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_pollers_fence_a_wake_up_is_lost() {
        run(3, world, [end_unfenced, sleep_for_first], World::nobody_sleeps_on);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_last_look_a_wake_up_is_lost() {
        fn sleep_at_once(world: &World) {
            if world.slots.status(1) == Status::Pending {
                world.slots.leave_waker(1, 0, &world.waker(0));
                world.asleep[0].store(1);
            }
        }
        run(2, world, [end_first, sleep_at_once], World::nobody_sleeps_on);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_slot_before_the_wake_up_a_wake_up_is_lost() {
        fn wake_first(world: &World) {
            wake_if_awaited(world);
            if let Some(chunk) = world.slots.chunk(1).get() {
                chunk[1].store_fence(1 << 1);
            }
        }
        run(2, world, [wake_first, sleep_for_first], |world| {
            assert_eq!(world.slots.status(1), Status::Done);
            world.nobody_sleeps_on();
        });
    }

    #[test]
    #[should_panic = "a failure has no cause"]
    fn the_cause_before_the_slot_a_failure_has_no_cause() {
        fn fail(world: &World) {
            if let Some(chunk) = world.slots.chunk(1).get() {
                chunk[1].store_fence(1 << 1 | 1);
            }
            world.slots.failures.lock().insert(1, lost());
        }
        fn look(world: &World) {
            if world.slots.status(1) == Status::Failed {
                assert!(has_cause(world), "a failure has no cause");
            }
        }
        run(2, world, [fail, look], |_| ());
    }
}
