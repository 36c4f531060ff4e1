//! The choices of the NIC: when a step is late, and which of several allowed steps it takes.
//!
//! A step is the read of a source, an execution, a placement, a completion, a pause between two words, or the choice of their order.
//! (By [`Schedule::Pct`] that order is random, and no step.) Steps that a tier keeps in order stay in order whatever is chosen here.
//! The engine asks; nothing here knows of requests.

use std::collections::HashMap;

use rand::rngs::SmallRng;
use rand::seq::SliceRandom as _;
use rand::{Rng, SeedableRng};

use crate::settings::{Schedule, Stress};

const MICROSECOND: u64 = 1000;
/// The length of a phase of [`Stress::Auto`].
const PHASE: u64 = 20_000 * MICROSECOND;
/// So many steps make a window, in which a schedule has its few deviations. It begins again in the next one, since nobody knows how
/// many steps a program will have.
const WINDOW: u64 = 256;
/// The chains of steps of one sort and queue pair that have priorities of their own.
const CHAINS: u8 = 4;
/// The priorities of chains.
const PRIORITIES: u64 = 8;
/// A chain lags by so much for each priority above its own.
const LAG: u64 = 25 * MICROSECOND;
/// The least and the greatest length of a deviation.
const DEVIATION: std::ops::Range<u64> = 50 * MICROSECOND..4000 * MICROSECOND;

/// A sort of step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    /// A source is read.
    Source,
    /// A request is carried out at its target.
    Execution,
    /// Data or a result becomes visible.
    Placement,
    /// A completion is reported.
    Completion,
}

/// The steps of one sort of one queue pair.
pub(crate) type Lane = (u32, Step);

/// A source of choices.
pub(crate) struct Dice {
    rng: SmallRng,
    stress: Stress,
    schedule: Schedule,
    /// The phase that was last looked at, and whether it is a harsh one.
    phase: (u64, bool),
    /// The steps of this window so far, and those of it that deviate.
    steps: u64,
    deviating: Vec<u64>,
    /// For how long the chains of this window lag.
    lags: HashMap<(Lane, u8), u64>,
}

impl Dice {
    /// Makes the source of one process: each process of a world has its own number.
    pub fn new(seed: u64, number: u32, stress: Stress, schedule: Schedule) -> Dice {
        let mixed = seed
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .wrapping_add(u64::from(number));
        let mut dice = Dice {
            rng: SmallRng::seed_from_u64(mixed),
            stress,
            schedule,
            phase: (0, true),
            steps: 0,
            deviating: Vec::new(),
            lags: HashMap::new(),
        };
        dice.begin_window();
        dice
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

    /// Returns for how long a step is late, in nanoseconds. By [`Schedule::Random`], it is often not late at all, and seldom for
    /// milliseconds.
    pub fn delay(&mut self, now: u64, lane: Lane) -> u64 {
        if self.is_plain() {
            return 0;
        }
        let harsh = self.is_harsh(now);
        match self.schedule {
            Schedule::Random => self.random_delay(harsh),
            Schedule::Pct(_) => {
                let chain = (lane, self.rng.random_range(0..CHAINS));
                let deviates = self.deviates() && harsh;
                let drawn = LAG * self.rng.random_range(0..PRIORITIES);
                let lag = self.lags.entry(chain).or_insert(drawn);
                if deviates {
                    // Its priority is now below all others.
                    *lag = DEVIATION.end / 2;
                }
                if harsh { *lag } else { 0 }
            }
            Schedule::Delays(_) => self.deviation(harsh),
        }
    }

    fn random_delay(&mut self, harsh: bool) -> u64 {
        let most = match self.rng.random_range(0..100) {
            0..50 => return 0,
            50..85 => 20 * MICROSECOND,
            85..98 if harsh => 300 * MICROSECOND,
            98.. if harsh => 4000 * MICROSECOND,
            _ => return 0,
        };
        self.rng.random_range(0..most)
    }

    /// Returns for how long a step pauses between two of its words, in nanoseconds. By [`Schedule::Random`], it may do so in so many
    /// per cent of the cases.
    pub fn pause(&mut self, now: u64, lane: Lane, percent: u32) -> u64 {
        if self.is_plain() {
            return 0;
        }
        match self.schedule {
            Schedule::Random if self.rng.random_range(0..100) < percent => self.delay(now, lane),
            Schedule::Random => 0,
            Schedule::Pct(_) | Schedule::Delays(_) => {
                let harsh = self.is_harsh(now);
                self.deviation(harsh)
            }
        }
    }

    /// Returns for how long a step is late of a schedule that has few deviations.
    fn deviation(&mut self, harsh: bool) -> u64 {
        match self.deviates() && harsh {
            true => self.rng.random_range(DEVIATION),
            false => 0,
        }
    }

    /// Counts a step. Returns whether it is one of the window's deviations.
    fn deviates(&mut self) -> bool {
        if self.steps == WINDOW {
            self.begin_window();
        }
        self.steps += 1;
        self.deviating.contains(&(self.steps - 1))
    }

    fn begin_window(&mut self) {
        let count = match self.schedule {
            Schedule::Random => 0,
            Schedule::Pct(depth) => depth - 1,
            Schedule::Delays(count) => count,
        };
        self.steps = 0;
        self.lags.clear();
        self.deviating.clear();
        while self.deviating.len() < count as usize {
            let step = self.rng.random_range(0..WINDOW);
            if !self.deviating.contains(&step) {
                self.deviating.push(step);
            }
        }
    }

    /// Chooses one of several steps that may be taken now, each of which has been ready since a time. Returns its index.
    pub fn choose(&mut self, ready: &[u64]) -> usize {
        match self.schedule {
            _ if ready.len() == 1 => 0,
            Schedule::Random => self.rng.random_range(0..ready.len()),
            // Their delays have decided.
            Schedule::Pct(_) | Schedule::Delays(_) => {
                (0..ready.len()).min_by_key(|&at| ready[at]).unwrap_or(0)
            }
        }
    }

    /// Brings what has no order into one.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        if self.is_plain() || items.len() < 2 {
            return;
        }
        match self.schedule {
            Schedule::Random | Schedule::Pct(_) => items.shuffle(&mut self.rng),
            Schedule::Delays(_) => {
                if self.deviates() {
                    let from = self.rng.random_range(0..items.len() - 1);
                    items[from..].rotate_left(1);
                }
            }
        }
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

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    const LANE: Lane = (1, Step::Source);

    fn delays(schedule: Schedule, steps: u64) -> Vec<u64> {
        let mut dice = Dice::new(7, 1, Stress::Default, schedule);
        (0..steps).map(|_| dice.delay(0, LANE)).collect()
    }

    #[test]
    fn a_bounded_schedule_has_its_delays_in_every_window_and_no_more() {
        for count in [1, 2, 5] {
            for window in delays(Schedule::Delays(count), 40 * WINDOW).chunks(256) {
                let late: Vec<_> = window.iter().filter(|delay| **delay > 0).collect();
                assert_eq!(late.len(), count as usize);
                assert!(late.iter().all(|delay| DEVIATION.contains(delay)));
            }
        }
    }

    #[test]
    fn pauses_and_choices_of_order_are_steps_of_a_bounded_schedule() {
        const COUNT: u32 = 5;
        let mut dice = Dice::new(7, 1, Stress::Default, Schedule::Delays(COUNT));
        let mut deviations = [0; 3];
        for _ in 0..40 {
            let before: u32 = deviations.iter().sum();
            for step in 0..WINDOW {
                let mut items = [1, 2, 3];
                let kind = usize::try_from(step % 3).unwrap();
                deviations[kind] += u32::from(match kind {
                    0 => dice.delay(0, LANE) > 0,
                    1 => dice.pause(0, LANE, 0) > 0,
                    _ => {
                        dice.shuffle(&mut items);
                        items != [1, 2, 3]
                    }
                });
            }
            assert_eq!(deviations.iter().sum::<u32>() - before, COUNT);
        }
        assert!(deviations.iter().all(|of_kind| *of_kind > 0), "{deviations:?}");
    }

    #[test]
    fn by_priorities_pauses_are_steps_and_the_order_of_words_is_random() {
        const DEPTH: u32 = 4;
        let mut dice = Dice::new(7, 1, Stress::Default, Schedule::Pct(DEPTH));
        for _ in 0..40 {
            let mut late = 0;
            let mut orders = HashSet::new();
            for _ in 0..WINDOW {
                let mut items = [1, 2, 3];
                dice.shuffle(&mut items);
                orders.insert(items);
                late += u32::from(dice.pause(0, LANE, 0) > 0);
            }
            assert_eq!((late, orders.len()), (DEPTH - 1, 6));
        }
    }

    #[test]
    fn chains_keep_their_priority_but_at_the_points_of_change() {
        for depth in [1, 2, 4] {
            for window in delays(Schedule::Pct(depth), 40 * WINDOW).chunks(256) {
                let mut kinds = window.to_vec();
                kinds.sort_unstable();
                kinds.dedup();
                let (lowest, drawn): (Vec<_>, Vec<_>) =
                    kinds.into_iter().partition(|lag| *lag > PRIORITIES * LAG);
                assert!(drawn.len() <= usize::from(CHAINS), "{drawn:?}");
                assert_eq!(lowest.is_empty(), depth == 1);
            }
        }
    }

    #[test]
    fn a_plain_card_is_never_late_whatever_the_schedule() {
        for schedule in [Schedule::Random, Schedule::Pct(3), Schedule::Delays(9)] {
            let mut dice = Dice::new(7, 1, Stress::None, schedule);
            let mut items = [1, 2, 3];
            for _ in 0..1000 {
                dice.shuffle(&mut items);
                assert_eq!((dice.delay(0, LANE), dice.pause(0, LANE, 100)), (0, 0));
            }
            assert_eq!(items, [1, 2, 3]);
        }
    }

    #[test]
    fn the_delayed_of_two_goes_second_in_a_bounded_schedule() {
        let mut dice = Dice::new(7, 1, Stress::Default, Schedule::Delays(1));
        assert_eq!(dice.choose(&[9, 4, 4]), 1);
        assert_eq!(dice.choose(&[4, 9]), 0);
    }

    #[test]
    fn phases_of_auto_are_harsh_and_mild_in_turn() {
        let mut dice = Dice::new(7, 1, Stress::Auto, Schedule::Random);
        let mut harsh_phases = 0;
        for phase in 0..100 {
            let now = phase * PHASE;
            let most = (0..1000).map(|_| dice.delay(now, LANE)).max().unwrap_or(0);
            assert!(most > 0);
            harsh_phases += u32::from(most > 20 * MICROSECOND);
        }
        assert!((20..80).contains(&harsh_phases), "{harsh_phases}");
    }
}
