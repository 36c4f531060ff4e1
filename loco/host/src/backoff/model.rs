//! Waits under loom: the last look before a sleep, and what a node learns from its waits.
//!
//! The doorbell here has a word that is odd while a sleep is announced, and a lock in place of the kernel's futex: a thread looks
//! at the word with the lock held before it falls asleep, and whoever wakes takes it. Its fences are full ones on both sides; those of the
//! doorbell over shared memory have a model of their own (`loco/shm/src/bell/model.rs`). A thread that falls asleep stays so, and ends.

use std::time::Duration;

use loco_fabric::{Armed, AtomicCell, Doorbell, Lock, Platform};
use loco_loom::{Loom, run};

use super::last_look::{LastLook, last_look};
use super::{Patience, SPINS_MAX, SPINS_MIN};

type U32 = <Loom as Platform>::AtomicU32;
type U64 = <Loom as Platform>::AtomicU64;

struct Bell {
    word: U32,
    /// The number of threads that are asleep.
    asleep: <Loom as Platform>::Mutex<u32>,
}

impl std::fmt::Debug for Bell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bell")
    }
}

impl Doorbell for Bell {
    fn arm(&self) -> Option<Armed> {
        Some(Armed(self.word.fetch_or(1) | 1))
    }

    fn sleep(&self, armed: Armed, _: Duration) {
        let mut asleep = self.asleep.lock();
        if self.word.load() == armed.0 {
            *asleep += 1;
        }
    }

    fn ring(&self) {
        // A read-modify-write, for its fence.
        let seen = self.word.fetch_or(0);
        if seen & 1 == 1 && self.word.compare_exchange(seen, seen.wrapping_add(1)).is_ok() {
            *self.asleep.lock() = 0;
        }
    }
}

/// A node, with what its threads wait for.
struct World {
    bell: Bell,
    memory: U32,
    departures: U64,
}

fn world() -> World {
    World {
        bell: Bell {
            word: U32::new(0),
            asleep: Lock::new(0),
        },
        memory: U32::new(0),
        departures: U64::new(0),
    }
}

impl World {
    fn change(&self) {
        self.memory.store(1);
        self.bell.ring();
    }

    fn depart(&self) {
        self.departures.fetch_add(1);
        self.bell.ring();
    }

    fn ready(&self) -> Option<()> {
        (self.memory.load() == 1).then_some(())
    }

    /// Waits for the memory, and for no peer, as [`Membership`](crate::membership::Membership) does.
    fn wait(&self) {
        // There is one departure at most.
        for _ in 0..2 {
            let seen = self.departures.load();
            match last_look(&self.bell, &mut || self.ready(), || self.departures.load(), seen) {
                LastLook::Ready(()) => return,
                LastLook::Departed => {}
                LastLook::Nothing(armed) => return self.sleep(armed),
            }
        }
    }

    /// Waits for the memory, and ends when a peer has departed.
    fn wait_for_peer(&self) {
        if let LastLook::Nothing(armed) =
            last_look(&self.bell, &mut || self.ready(), || self.departures.load(), 0)
        {
            self.sleep(armed);
        }
    }

    fn sleep(&self, armed: Option<Armed>) {
        if let Some(armed) = armed {
            self.bell.sleep(armed, Duration::MAX);
        }
    }

    fn is_asleep(&self) -> bool {
        *self.bell.asleep.lock() != 0
    }

    fn change_wakes(&self) {
        assert!(!(self.ready().is_some() && self.is_asleep()), "a wake-up is lost");
    }

    fn departure_wakes(&self) {
        let has_departed = self.departures.load() != 0;
        assert!(!(has_departed && self.is_asleep()), "a departure wakes nobody");
    }
}

#[test]
fn a_change_ends_a_sleep_within_5_preemptions() {
    run(5, world, [World::change, World::wait], World::change_wakes);
}

#[test]
fn a_change_ends_two_sleeps_within_3_preemptions() {
    run(
        3,
        world,
        [World::change, World::wait, World::wait],
        World::change_wakes,
    );
}

#[test]
fn a_departure_ends_a_sleep_within_5_preemptions() {
    run(
        5,
        world,
        [World::depart, World::wait_for_peer],
        World::departure_wakes,
    );
}

/// The ring for a departure that the thread does not mind takes the ring for a change along.
#[test]
fn a_change_ends_a_sleep_beside_a_departure_within_3_preemptions() {
    run(
        3,
        world,
        [World::change, World::depart, World::wait],
        World::change_wakes,
    );
}

/// Two waits learn at once, one that was answered while it spun, and one that spun in vain.
#[test]
fn the_time_to_spin_stays_within_its_bounds_within_5_preemptions() {
    type Node = Patience<U32>;
    fn answered(node: &Node) {
        node.backoff().succeeded();
    }
    fn in_vain(node: &Node) {
        let mut backoff = node.backoff();
        while !backoff.has_spun() {
            backoff.pause();
        }
        backoff.succeeded();
    }
    let threads: [fn(&Node); 2] = [in_vain, answered];
    run(
        5,
        || Node::new(false),
        threads,
        |node| {
            let learned = node.backoff().spins;
            assert!((SPINS_MIN..=SPINS_MAX).contains(&learned), "{learned}");
        },
    );
}

/// The protocol with a part left out: loom must find the mistake.
mod without {
    use super::*;

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_look_after_the_announcement_a_wake_up_is_lost() {
        fn wait(world: &World) {
            let found = world.ready();
            if let LastLook::Nothing(armed) =
                last_look(&world.bell, &mut || found, || world.departures.load(), 0)
            {
                world.sleep(armed);
            }
        }
        run(2, world, [World::change, wait], World::change_wakes);
    }

    #[test]
    #[should_panic = "a departure wakes nobody"]
    fn a_look_at_the_departures_a_departure_wakes_nobody() {
        fn wait(world: &World) {
            let departures = world.departures.load();
            if let LastLook::Nothing(armed) = last_look(&world.bell, &mut || world.ready(), || departures, 0)
            {
                world.sleep(armed);
            }
        }
        run(2, world, [World::depart, wait], World::departure_wakes);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn the_announcement_a_wake_up_is_lost() {
        fn wait(world: &World) {
            let armed = Armed(world.bell.word.load());
            if world.ready().is_none() {
                world.bell.sleep(armed, Duration::MAX);
            }
        }
        run(2, world, [World::change, wait], World::change_wakes);
    }

    #[test]
    #[should_panic = "a wake-up is lost"]
    fn a_change_before_the_ring_a_wake_up_is_lost() {
        fn change(world: &World) {
            world.bell.ring();
            world.memory.store(1);
        }
        run(2, world, [change, World::wait], World::change_wakes);
    }
}
