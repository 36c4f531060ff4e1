//! How a waiting thread spends its time: spin, then yield, then sleep.
//!
//! Spinning answers fastest, and is right as long as the awaited one runs at the same time. With more nodes than cores
//! it may be off its core *because* we spin, so then we yield from the start. Sleeping comes last, in growing
//! steps: a wait that lasts leaves the cores to others, and is answered at most one step late.

use std::hint;
use std::thread;
use std::time::Duration;

/// Rounds of spinning where every node can have a core: some 20 us.
const SPINS: u32 = 1000;
/// Rounds of spinning where nodes share cores: about the time that a message between two cores takes.
const SPINS_CROWDED: u32 = 20;
/// Rounds of yielding before the first sleep: some 0.3 ms if nobody else wants the core.
const YIELDS: u32 = 1000;
const SLEEP_MIN: Duration = Duration::from_micros(5);
const SLEEP_MAX: Duration = Duration::from_micros(100);
/// Spins between two looks at the clock, which cost as much as several spins.
const SPINS_PER_CLOCK: u32 = 32;

/// The pauses of one wait.
#[derive(Debug)]
pub(super) struct Backoff {
    spins: u32,
    yields: u32,
    sleep: Duration,
}

impl Backoff {
    pub(super) fn new(crowded: bool) -> Backoff {
        Backoff {
            spins: if crowded { SPINS_CROWDED } else { SPINS },
            yields: YIELDS,
            sleep: SLEEP_MIN,
        }
    }

    /// Pauses, longer each time. True if it is time to look at the clock.
    pub(super) fn pause(&mut self) -> bool {
        if self.spins > 0 {
            self.spins -= 1;
            hint::spin_loop();
            return self.spins.is_multiple_of(SPINS_PER_CLOCK);
        }
        if self.yields > 0 {
            self.yields -= 1;
            thread::yield_now();
        } else {
            thread::sleep(self.sleep);
            self.sleep = (self.sleep * 2).min(SLEEP_MAX);
        }
        true
    }
}
