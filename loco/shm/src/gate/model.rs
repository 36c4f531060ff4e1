//! The gate's protocol under loom. It tries the interleavings of two or three threads with so many preemptions at most as
//! the name of each test says, and the values that the memory model of C11 lets a load return, except those of stores that
//! come later (load buffering), which loom does not have.
//!
//! A word of the model has a second word beside it, its fence. The light fence of a slot is a read-modify-write of the
//! slot's fence; the heavy fence is one of the fence of each slot, one after the other. Two read-modify-writes of one
//! word are in an order, and the later one synchronizes with the earlier one. This gives each pair of a light and a
//! heavy fence what the asymmetric fence gives it: what comes before one of them is visible after the other. It gives
//! two light fences nothing, since they are of different words, and two threads never share a slot. Fences of SeqCst in
//! their place would order the light ones, too, which no kernel promises.
//!
//! It is sound for the kernel's barrier (`membarrier`): each processor executes a full fence at some point of its
//! program, either before the light fence or after it, which are the two orders of the read-modify-writes; different
//! processors execute theirs at different times.
//!
//! The victim's stores to a survivor are accesses of a cell of loom's, which reports two accesses without an order. So
//! a test fails if a section may be open, or its store under way, when the survivor goes on.

use std::ops::ControlFlow;
use std::sync::Arc as StdArc;

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering, fence};
use loom::thread;

use super::protocol::{FENCE, GateWord, OUT, enter, enter_log, leave, shut, take_slot};

/// A word, and its fence.
#[derive(Clone)]
struct Word(Arc<(AtomicU64, AtomicU64)>);

impl Word {
    fn new(value: u64) -> Word {
        Word(Arc::new((AtomicU64::new(value), AtomicU64::new(0))))
    }

    /// Executes this slot's part of a heavy fence.
    fn heavy_fence(&self) {
        self.0.1.fetch_add(1, Ordering::AcqRel);
    }
}

impl GateWord for Word {
    fn load(&self) -> u64 {
        self.0.0.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.0.0.store(value, Ordering::Release);
    }

    fn fetch_add(&self, add: u64) -> u64 {
        self.0.0.fetch_add(add, Ordering::AcqRel)
    }

    fn compare_exchange(&self, current: u64, new: u64) -> Result<u64, u64> {
        self.0
            .0
            .compare_exchange(current, new, Ordering::AcqRel, Ordering::Acquire)
    }

    fn light_fence(&self) {
        self.0.1.fetch_add(1, Ordering::AcqRel);
    }

    fn full_fence(&self) {
        fence(Ordering::SeqCst);
    }
}

/// The kernel of a world.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kernel {
    /// It has the barrier for all processors.
    Barrier,
    /// It has none, so sections execute their own fences.
    NoBarrier,
}

/// A gate with room for two threads, and the memory of a survivor that each of them writes.
struct World {
    kernel: Kernel,
    revoked: Word,
    slots_used: Word,
    slots: [Word; 2],
    written: [UnsafeCell<()>; 2],
}

// SAFETY: nobody follows the cells' pointers; loom checks the order of the accesses.
unsafe impl Sync for World {}
// SAFETY: as above.
unsafe impl Send for World {}

impl World {
    fn new(kernel: Kernel) -> World {
        World {
            kernel,
            revoked: Word::new(if kernel == Kernel::Barrier { 0 } else { FENCE }),
            slots_used: Word::new(0),
            slots: [Word::new(0), Word::new(0)],
            written: [UnsafeCell::new(()), UnsafeCell::new(())],
        }
    }

    /// Writes to the survivor in sections of the slot at `index`, until the node is out.
    fn write(&self, index: u64, sections: usize) {
        let index = usize::try_from(index).unwrap();
        let busy = &self.slots[index];
        for _ in 0..sections {
            if !enter(busy, &self.revoked) {
                return;
            }
            self.written[index].with_mut(|_| ());
            leave(busy);
        }
    }

    fn heavy_fence(&self) {
        if self.kernel == Kernel::Barrier {
            self.slots.iter().for_each(Word::heavy_fence);
        }
    }

    fn slot(&self, index: u64) -> loco_fabric::Result<Option<Word>> {
        Ok(self.slots.get(usize::try_from(index).unwrap()).cloned())
    }

    /// Shuts the node out as a survivor, and then takes its own memory for its own.
    fn shut(&self) {
        self.shut_with(|| self.heavy_fence(), &self.slots_used, look_again);
        self.read();
    }

    /// Shuts the node out with this fence, this count of slots, and this done while a slot is busy.
    fn shut_with(&self, fence: impl FnOnce(), used: &Word, busy: fn() -> ControlFlow<()>) {
        shut(&self.revoked, fence, used, |index| self.slot(index), busy).unwrap();
    }

    fn read(&self) {
        for written in &self.written {
            written.with_mut(|_| ());
        }
    }
}

/// Waits for a busy slot.
fn look_again() -> ControlFlow<()> {
    thread::yield_now();
    ControlFlow::Continue(())
}

/// Waits for no busy slot.
fn give_up() -> ControlFlow<()> {
    ControlFlow::Break(())
}

/// Explores a world with this many preemptions at most.
fn explore(preemptions: usize, world: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.check(world);
}

/// Runs `victims` beside a survivor that does `survivor`.
fn run(preemptions: usize, kernel: Kernel, victims: &[fn(&World)], survivor: fn(&World)) {
    let victims: StdArc<[fn(&World)]> = victims.into();
    explore(preemptions, move || {
        let world = Arc::new(World::new(kernel));
        let threads: Vec<_> = victims
            .iter()
            .map(|&victim| {
                let world = Arc::clone(&world);
                thread::spawn(move || victim(&world))
            })
            .collect();
        survivor(&world);
        for thread in threads {
            thread.join().unwrap();
        }
    });
}

fn one_section(world: &World) {
    world.write(take_slot(&world.slots_used), 1);
}

fn two_sections(world: &World) {
    world.write(take_slot(&world.slots_used), 2);
}

#[test]
fn no_section_outlives_a_shut_gate_of_two_threads_within_3_preemptions() {
    run(3, Kernel::Barrier, &[one_section, one_section], World::shut);
}

#[test]
fn no_section_outlives_a_shut_gate_of_one_thread_within_5_preemptions() {
    run(5, Kernel::Barrier, &[two_sections], World::shut);
}

#[test]
fn no_section_outlives_a_shut_gate_without_a_barrier_within_3_preemptions() {
    run(3, Kernel::NoBarrier, &[one_section, one_section], World::shut);
}

/// Another survivor that shuts the node out at the same time changes nothing for this one. (It does not wait: loom cannot
/// explore two threads that poll each for itself.)
#[test]
fn two_survivors_may_shut_one_node_out_within_3_preemptions() {
    let another_survivor = |world: &World| {
        world.shut_with(|| world.heavy_fence(), &world.slots_used, give_up);
    };
    run(3, Kernel::Barrier, &[one_section, another_survivor], World::shut);
}

/// Of two nodes that suspect each other, one stays.
#[test]
fn of_two_that_enter_each_other_into_the_log_one_stays_within_3_preemptions() {
    explore(3, || {
        let log = Arc::new([Word::new(0), Word::new(0), Word::new(0)]);
        let enter = |own: usize, victim: usize| {
            let log = Arc::clone(&log);
            thread::spawn(move || enter_log(|index| Ok(log[index].clone()), 3, own, victim).unwrap())
        };
        let stays = [enter(0, 1), enter(1, 0)].map(|thread| thread.join().unwrap());
        assert_eq!(stays.into_iter().filter(|&stays| stays).count(), 1);
        let entries = log.iter().filter(|entry| entry.load() != 0).count();
        assert_eq!(entries, 1, "the other places are for other nodes");
    });
}

/// The tests below show that loom finds what the protocol's parts are for: each leaves one out.
mod without {
    use super::*;

    /// Takes an index from a counter of the node's own and raises the shared one afterwards. So a thread that took its
    /// index later may be in a section that the survivor does not look for.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_index_from_the_shared_count_a_section_is_missed_within_2_preemptions() {
        explore(2, || {
            let world = Arc::new(World::new(Kernel::Barrier));
            let counter = Arc::new(AtomicU64::new(0));
            let threads = [(); 2].map(|()| {
                let (world, counter) = (Arc::clone(&world), Arc::clone(&counter));
                thread::spawn(move || {
                    let index = counter.fetch_add(1, Ordering::Relaxed);
                    world.slots_used.fetch_add(1);
                    world.write(index, 1);
                })
            });
            world.shut();
            for thread in threads {
                thread.join().unwrap();
            }
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_light_fence_a_section_is_missed_within_2_preemptions() {
        let victim = |world: &World| {
            let slot = &world.slots[usize::try_from(take_slot(&world.slots_used)).unwrap()];
            slot.store(1);
            if world.revoked.load() == 0 {
                world.written[0].with_mut(|_| ());
            }
            slot.store(0);
        };
        run(2, Kernel::Barrier, &[victim], World::shut);
    }

    /// Where no barrier is, a section that sees as much executes a fence of its own.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_fence_of_a_section_without_a_barrier_a_section_is_missed_within_2_preemptions() {
        let victim = |world: &World| {
            let slot = &world.slots[usize::try_from(take_slot(&world.slots_used)).unwrap()];
            slot.store(1);
            slot.light_fence();
            if world.revoked.load() & OUT == 0 {
                world.written[0].with_mut(|_| ());
            }
            slot.store(0);
        };
        run(2, Kernel::NoBarrier, &[victim], World::shut);
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_heavy_fence_a_section_is_missed_within_2_preemptions() {
        run(2, Kernel::Barrier, &[one_section], |world| {
            world.shut_with(|| (), &world.slots_used, look_again);
            world.read();
        });
    }

    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_wait_a_section_is_missed_within_2_preemptions() {
        run(2, Kernel::Barrier, &[one_section], |world| {
            world.shut_with(|| world.heavy_fence(), &world.slots_used, give_up);
            world.read();
        });
    }

    /// The count of slots is read before the fence, when a thread may still take its slot unseen.
    #[test]
    #[should_panic(expected = "Causality violation")]
    fn the_order_of_fence_and_count_a_section_is_missed_within_2_preemptions() {
        run(2, Kernel::Barrier, &[one_section], |world| {
            let used = Word::new(world.slots_used.load());
            world.shut_with(|| world.heavy_fence(), &used, look_again);
            world.read();
        });
    }
}
