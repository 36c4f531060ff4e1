//! The random choices of the NIC: when it is late, and which of several allowed steps it takes.

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use crate::settings::Stress;

const MICROSECOND: u64 = 1000;
/// The length of a phase of [`Stress::Auto`].
const PHASE: u64 = 20_000 * MICROSECOND;

/// A source of random choices.
pub(crate) struct Dice {
    rng: SmallRng,
    stress: Stress,
    /// The phase that was last looked at, and whether it is a harsh one.
    phase: (u64, bool),
}

impl Dice {
    /// Makes the source of one process: each process of a world has its own number.
    pub fn new(seed: u64, number: u32, stress: Stress) -> Dice {
        let mixed = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(number));
        Dice {
            rng: SmallRng::seed_from_u64(mixed),
            stress,
            phase: (0, true),
        }
    }

    /// Returns true if the NIC takes no liberties.
    pub fn is_plain(&self) -> bool {
        self.stress == Stress::None
    }

    fn is_harsh(&mut self, now: u64) -> bool {
        if self.stress == Stress::Auto && self.phase.0 != now / PHASE {
            self.phase = (now / PHASE, self.rng.random_bool(0.5));
        }
        match self.stress {
            Stress::None => false,
            Stress::Default => true,
            Stress::Auto => self.phase.1,
        }
    }

    /// Returns for how long something is late, in nanoseconds: often not at all, seldom for milliseconds.
    pub fn delay(&mut self, now: u64) -> u64 {
        if self.is_plain() {
            return 0;
        }
        let harsh = self.is_harsh(now);
        let most = match self.rng.random_range(0..100) {
            0..50 => return 0,
            50..85 => 20 * MICROSECOND,
            85..98 if harsh => 300 * MICROSECOND,
            98.. if harsh => 4000 * MICROSECOND,
            _ => return 0,
        };
        self.rng.random_range(0..most)
    }

    /// Returns true with this probability in per cent, and never where the NIC takes no liberties.
    pub fn percent(&mut self, percent: u32) -> bool {
        !self.is_plain() && self.rng.random_range(0..100) < percent
    }

    /// Returns true once in so many calls on average, and never for 0.
    pub fn one_in(&mut self, calls: u64) -> bool {
        calls > 0 && self.rng.random_range(0..calls) == 0
    }

    /// Returns a number below another, which is not 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.rng.random_range(0..bound)
    }
}
