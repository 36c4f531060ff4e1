//! The pauses of a waiting thread: it spins, then yields, then sleeps.
//!
//! Spinning answers fastest. It is right as long as the thread that will answer runs at the same time. Where
//! nodes or other programs share the cores, that thread may be off its core *because* we spin. A node
//! therefore learns how long its waits may spin. Waits that are answered while spinning make this time
//! longer, and other waits make it shorter. Yielding costs little where nobody else wants the core. Sleeping
//! comes last, in growing steps: a long wait leaves the cores to others, and is answered at most one step
//! late. A wait whose steps have reached their maximum [may sleep](Backoff::is_long) by the doorbell until it is
//! answered: `last_look`.
//!
//! Used by [`membership`](crate::membership). In `model`, a test, both run under loom.

pub(crate) mod last_look;
#[cfg(test)]
mod model;

use std::hint;
use std::sync::atomic::AtomicU32;
use std::thread;
use std::time::Duration;

use loco_fabric::AtomicCell;

/// The maximum number of rounds of spinning, if every node can have a core: some 20 us.
const SPINS_MAX: u32 = 1000;
/// The minimum number of rounds of spinning, which take about as long as a message between two cores. If nodes share
/// cores, waits spin only this long.
const SPINS_MIN: u32 = 20;
/// The number of first rounds without the `pause` instruction. That instruction takes 40 to 140 cycles, which
/// can be as long as a message takes, so a wait that is about to be answered ends sooner without it. More
/// such rounds do harm: loads without pauses run ahead of the answer and have to be undone.
const SPINS_TIGHT: u32 = 6;
/// The rounds of yielding before the first sleep. They take some 0.3 ms if nobody else wants the core.
const YIELDS: u32 = 1000;
const SLEEP_MIN: Duration = Duration::from_micros(5);
/// The longest sleep of a wait's first second or so.
const SLEEP_MAX: Duration = Duration::from_micros(100);
/// The number of sleeps in that time. Each takes some 60 us longer than asked for.
const SLEEPS_MAX: u32 = 6000;
/// The sleep of waits that have lasted longer. Such a wait costs less than 1 % of a core, and notices its answer up to
/// this much later.
const SLEEP_LONG: Duration = Duration::from_millis(2);
/// The number of spins between two looks at the clock. A look costs as much as several spins.
const SPINS_PER_CLOCK: u32 = 32;

/// The time that the waits of a node spin, learned from earlier waits. `A` is the word that has it.
#[derive(Debug)]
pub struct Patience<A = AtomicU32> {
    spins: A,
    spins_max: u32,
}

/// The pauses of one wait.
#[derive(Debug)]
pub struct Backoff<'a, A = AtomicU32> {
    patience: &'a Patience<A>,
    /// The number of spins made.
    spun: u32,
    /// The number of spins left.
    spins: u32,
    yields: u32,
    /// The number of sleeps before the long ones.
    sleeps: u32,
    sleep: Duration,
}

impl<A: AtomicCell<u32>> Patience<A> {
    /// Returns the initial patience. `crowded` says that there are more nodes than cores.
    pub fn new(crowded: bool) -> Patience<A> {
        let spins_max = if crowded { SPINS_MIN } else { SPINS_MAX };
        Patience {
            spins: A::new(spins_max),
            spins_max,
        }
    }

    /// Returns true if there are more nodes than cores.
    pub fn is_crowded(&self) -> bool {
        self.spins_max == SPINS_MIN
    }

    /// Returns this patience with at most `spins` rounds of spinning, for waits whose looks take longer than a load.
    #[must_use]
    pub fn at_most(self, spins: u32) -> Patience<A> {
        let spins_max = self.spins_max.min(spins.max(SPINS_MIN));
        Patience {
            spins: A::new(spins_max),
            spins_max,
        }
    }

    /// Starts a wait.
    #[inline]
    pub fn backoff(&self) -> Backoff<'_, A> {
        Backoff {
            patience: self,
            spun: 0,
            // The number is a guess, here and below: a lost update does no harm.
            spins: self.spins.load(),
            yields: YIELDS,
            sleeps: SLEEPS_MAX,
            sleep: SLEEP_MIN,
        }
    }
}

impl<A: AtomicCell<u32>> Backoff<'_, A> {
    /// Pauses, longer each time. Returns true if it is time to look at the clock.
    #[inline]
    pub fn pause(&mut self) -> bool {
        if self.spins == 0 {
            self.give_way();
            return true;
        }
        self.spins -= 1;
        self.spun += 1;
        if self.spun <= SPINS_TIGHT {
            return false;
        }
        hint::spin_loop();
        // Counted from the beginning, so that a wait for one message is over before the first look.
        self.spun.is_multiple_of(SPINS_PER_CLOCK)
    }

    #[cold]
    fn give_way(&mut self) {
        if self.yields > 0 {
            self.yields -= 1;
            thread::yield_now();
        } else {
            thread::sleep(self.sleep);
            self.grow();
        }
    }

    /// Returns true once the wait has spun as long as it may.
    #[inline]
    pub fn has_spun(&self) -> bool {
        self.spins == 0
    }

    /// Returns the length of the next sleep of a wait that does not yield before it sleeps. The sleeps grow.
    pub fn next_sleep(&mut self) -> Duration {
        let sleep = self.sleep;
        self.grow();
        sleep
    }

    fn grow(&mut self) {
        self.sleeps = self.sleeps.saturating_sub(1);
        self.sleep = match self.sleeps {
            0 => SLEEP_LONG,
            _ => (self.sleep * 2).min(SLEEP_MAX),
        };
    }

    /// Returns true if the sleeps have grown to the longest of a wait's first second, or beyond.
    #[inline]
    pub fn is_long(&self) -> bool {
        self.sleep >= SLEEP_MAX
    }

    /// Makes the next sleep as short as the first, because the doorbell has rung for something else.
    pub fn restart_sleeps(&mut self) {
        self.sleep = SLEEP_MIN;
    }

    /// Notes that the wait has ended with what it waited for, to adapt how long later waits spin.
    #[inline]
    pub fn succeeded(&self) {
        let spins = self.patience.spins.load();
        let next = if self.spins > 0 {
            spins + spins / 8 + 1
        } else {
            spins / 2
        };
        let next = next.clamp(SPINS_MIN, self.patience.spins_max);
        if next != spins {
            self.patience.spins.store(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_learns_how_long_to_spin() {
        let patience: Patience = Patience::new(false);
        for _ in 0..10 {
            let mut backoff = patience.backoff();
            while backoff.spins > 0 {
                backoff.pause();
            }
            backoff.succeeded();
        }
        assert_eq!(patience.backoff().spins, SPINS_MIN, "in vain");
        for _ in 0..100 {
            patience.backoff().succeeded();
        }
        assert_eq!(patience.backoff().spins, SPINS_MAX, "answered at once");
        let crowded: Patience = Patience::new(true);
        crowded.backoff().succeeded();
        assert_eq!(crowded.backoff().spins, SPINS_MIN);
    }

    #[test]
    fn a_wait_for_one_message_looks_at_no_clock() {
        for crowded in [false, true] {
            let patience: Patience = Patience::new(crowded);
            let mut backoff = patience.backoff();
            let looks: Vec<u32> = (1..SPINS_MIN).filter(|_| backoff.pause()).collect();
            assert_eq!(looks, [], "crowded: {crowded}");
        }
    }

    #[test]
    fn waits_spin_no_more_rounds_than_asked_for() {
        let limited = |spins| Patience::<AtomicU32>::new(false).at_most(spins).backoff().spins;
        assert_eq!(limited(100), 100);
        assert_eq!(limited(0), SPINS_MIN, "as long as a message takes");
        assert_eq!(limited(u32::MAX), SPINS_MAX);
    }

    #[test]
    fn sleeps_of_a_wait_that_does_not_yield_grow() {
        let patience: Patience = Patience::new(true);
        let mut backoff = patience.backoff();
        let sleeps: Vec<_> = (0..8).map(|_| backoff.next_sleep()).collect();
        assert_eq!(sleeps[..2], [SLEEP_MIN, 2 * SLEEP_MIN]);
        assert_eq!(sleeps[6..], [SLEEP_MAX; 2]);
    }

    #[test]
    fn pauses_grow_up_to_a_bound() {
        let patience: Patience = Patience::new(true);
        let mut backoff = patience.backoff();
        for _ in 0..SPINS_MIN + YIELDS + 10 {
            backoff.pause();
        }
        assert_eq!((backoff.spins, backoff.yields, backoff.sleep), (0, 0, SLEEP_MAX));
        assert!(backoff.is_long());
        backoff.restart_sleeps();
        assert!(!backoff.is_long());
        backoff.sleeps = 1;
        backoff.pause();
        assert_eq!(backoff.sleep, SLEEP_LONG, "a wait that lasts");
    }
}
