//! The doorbell's protocol under loom. It tries the interleavings of two or three threads with so many preemptions at most as the
//! name of each test says, and the values that the memory model of C11 lets a load return, except those of stores that come
//! later (load buffering), which loom does not have.
//!
//! Each thread that rings has a second word, its fence. Its light fence is a read-modify-write of that word, and a sleeper's heavy
//! fence is one of the word of each ringing thread, as in the model of the gate, whose head says why that is sound.
//!
//! The futex is a lock: a sleeper looks at the word with it held, and whoever wakes takes it. A sleeper that falls asleep stays so, and
//! ends. When all threads have ended, it must have been woken if there is a change that its last look did not show.

use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::sync::{Arc, Mutex};
use loom::thread;

use super::protocol::{BellWord, announce, ring};

/// A node with a bell, and a word of its memory for which its threads wait.
struct World {
    word: AtomicU32,
    /// The number of threads that have fallen asleep, without a change at their last look, and were not woken.
    asleep: Mutex<u32>,
    /// The fence of each thread that rings.
    fences: [AtomicU32; 2],
    /// The changes by each thread that rings.
    changes: [AtomicU32; 2],
}

/// The bell as a thread has it that may ring.
struct Ringer<'a> {
    world: &'a World,
    fence: &'a AtomicU32,
}

impl BellWord for Ringer<'_> {
    fn load(&self) -> u32 {
        self.world.word.load(Ordering::Acquire)
    }

    fn compare_exchange(&self, current: u32, new: u32) -> Result<u32, u32> {
        self.world
            .word
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    fn light_fence(&self) {
        self.fence.fetch_add(1, Ordering::AcqRel);
    }

    fn wake_all(&self) {
        *self.world.asleep.lock().unwrap() = 0;
    }
}

impl World {
    fn new() -> World {
        World {
            word: AtomicU32::new(0),
            asleep: Mutex::new(0),
            fences: [AtomicU32::new(0), AtomicU32::new(0)],
            changes: [AtomicU32::new(0), AtomicU32::new(0)],
        }
    }

    fn ringer(&self, index: usize) -> Ringer<'_> {
        Ringer {
            world: self,
            fence: &self.fences[index],
        }
    }

    /// Changes the memory as thread `index`, and rings.
    fn change(&self, index: usize) {
        self.changes[index].store(1, Ordering::Release);
        ring(&self.ringer(index));
    }

    fn heavy_fence(&self) {
        for fence in &self.fences {
            fence.fetch_add(1, Ordering::AcqRel);
        }
    }

    fn has_changed(&self) -> bool {
        let mut changes = self.changes.iter();
        changes.any(|change| change.load(Ordering::Acquire) != 0)
    }

    /// Sleeps while the word is `seen`.
    fn sleep_while(&self, seen: u32) {
        let mut asleep = self.asleep.lock().unwrap();
        if self.word.load(Ordering::Acquire) == seen {
            *asleep += 1;
        }
    }

    /// Falls asleep unless there is a change, with this heavy fence.
    fn sleep_with(&self, fence: fn(&World)) {
        let seen = announce(&self.ringer(0));
        fence(self);
        if !self.has_changed() {
            self.sleep_while(seen);
        }
    }

    fn sleep(&self) {
        self.sleep_with(World::heavy_fence);
    }

    /// Looks, once all threads have ended, whether everybody was woken who had to be.
    fn check(&self) {
        let is_lost = self.has_changed() && *self.asleep.lock().unwrap() != 0;
        assert!(!is_lost, "a wake-up is lost");
    }
}

/// Runs these threads, with this many preemptions at most.
fn run<const N: usize>(preemptions: usize, threads: [fn(&World); N]) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(move || {
        let world = Arc::new(World::new());
        let threads = threads.map(|does| {
            let world = Arc::clone(&world);
            thread::spawn(move || does(&world))
        });
        for thread in threads {
            thread.join().unwrap();
        }
        world.check();
    });
}

fn change_first(world: &World) {
    world.change(0);
}

fn change_second(world: &World) {
    world.change(1);
}

#[test]
fn no_wake_up_of_one_sleeper_is_lost_within_5_preemptions() {
    run(5, [change_first, World::sleep]);
}

#[test]
fn no_wake_up_by_one_of_two_ringers_is_lost_within_3_preemptions() {
    run(3, [change_first, change_second, World::sleep]);
}

#[test]
fn no_wake_up_of_two_sleepers_is_lost_within_3_preemptions() {
    run(3, [change_first, World::sleep, World::sleep]);
}

/// The protocol with a part left out: loom must find the mistake.
mod without {
    use super::*;
    use crate::bell::protocol::ARMED;

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_heavy_fence_a_wake_up_is_lost() {
        run(3, [change_first, |world| world.sleep_with(|_| ())]);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_light_fence_a_wake_up_is_lost() {
        fn change(world: &World) {
            world.changes[0].store(1, Ordering::Release);
            let word = world.ringer(0);
            let seen = word.load();
            if seen & ARMED != 0 && word.compare_exchange(seen, seen + 1).is_ok() {
                word.wake_all();
            }
        }
        run(3, [change, World::sleep]);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_last_look_a_wake_up_is_lost() {
        run(
            3,
            [change_first, |world| {
                let seen = announce(&world.ringer(0));
                world.heavy_fence();
                world.sleep_while(seen);
            }],
        );
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_change_before_the_ring_a_wake_up_is_lost() {
        fn change(world: &World) {
            ring(&world.ringer(0));
            world.changes[0].store(1, Ordering::Release);
        }
        run(3, [change, World::sleep]);
    }

    /// A thread that finds the word odd and does not make it even lets a sleeper fall asleep after the wake-up.
    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_change_of_the_word_a_wake_up_is_lost() {
        fn change(world: &World) {
            world.changes[0].store(1, Ordering::Release);
            let word = world.ringer(0);
            word.light_fence();
            if word.load() & ARMED != 0 {
                word.wake_all();
            }
        }
        run(3, [change, World::sleep]);
    }
}
