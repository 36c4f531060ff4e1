//! The deferred NIC's choices: how long a stage rests, and in which pieces a transfer moves.

use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

/// The moment at which the NIC takes a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// The number of calls (posts and polls) that threads of the node have made.
    pub(super) calls: u64,
}

/// The end of a rest. A rest in time alone would be over before a thread without a processor goes on. A rest in calls
/// lasts until the threads of the node have gone some way in their programs, however fast they are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rest {
    pub(super) until: Instant,
    /// See [`Moment::calls`].
    pub(super) calls: u64,
}

/// The number of powers of two to choose the length of a rest from, up to 8 calls. That is about the time until the
/// next run of a litmus test. Longer rests show less, since rests of several nodes end at one time less often.
const CALL_DOUBLINGS: u64 = 4;

/// The source of the NIC's choices.
#[derive(Debug)]
pub(super) struct Dice(SmallRng);

impl Dice {
    pub(super) fn new(seed: u64) -> Dice {
        Dice(SmallRng::seed_from_u64(seed))
    }

    /// Returns a number below `bound`, or 0 if `bound` is 0.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 {
            0
        } else {
            self.0.random_range(0..bound)
        }
    }

    pub(super) fn coin(&mut self) -> bool {
        self.below(2) == 0
    }

    /// Returns the end of a rest that begins now. Half of the rests need no calls, and half need no time.
    pub(super) fn rest(&mut self, at: Moment, delay_max: Duration) -> Rest {
        let calls = match self.coin() {
            true => 0,
            false => (1 << self.below(CALL_DOUBLINGS)) - 1 + self.below(2),
        };
        Rest {
            until: at.now + self.delay(delay_max),
            calls: at.calls + calls,
        }
    }

    /// Draws a delay up to `max`, log-uniformly, or none: rests of some hundred nanoseconds and of many microseconds
    /// lead to different races.
    fn delay(&mut self, max: Duration) -> Duration {
        if max.is_zero() || self.coin() {
            return Duration::ZERO;
        }
        let max = u64::try_from(max.as_nanos()).unwrap_or(u64::MAX);
        let decade = self.below(1 + u64::from(max.ilog10())) as u32;
        Duration::from_nanos(self.below(max / 10u64.pow(decade)))
    }
}

/// Cuts a transfer of `len` bytes into pieces, and shuffles them.
pub(super) fn pieces(phase: usize, len: usize, dice: &mut Dice) -> Vec<(usize, usize)> {
    let mut pieces = Vec::new();
    let mut from = 0;
    while from < len {
        let to = piece_end(phase, from, len, dice);
        pieces.push((from, to));
        from = to;
    }
    for last in (1..pieces.len()).rev() {
        #[allow(clippy::cast_possible_truncation)] // At most `last`.
        pieces.swap(last, dice.below(last as u64 + 1) as usize);
    }
    pieces
}

/// Returns the end of the piece that starts at `from`: `len`, or an earlier end of an aligned word. `phase`
/// is the address of the first byte modulo the size of a word.
fn piece_end(phase: usize, from: usize, len: usize, dice: &mut Dice) -> usize {
    if dice.coin() {
        return len;
    }
    #[allow(clippy::cast_possible_truncation)] // Below 8.
    let words = 1 + dice.below(8) as usize;
    let in_word = (phase + from) % 8;
    (from + 8 * words - in_word).min(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_end_at_words() {
        let mut dice = Dice::new(1);
        for phase in 0..8 {
            let (mut from, len) = (0, 300);
            while from < len {
                let to = piece_end(phase, from, len, &mut dice);
                assert!(to > from && (to == len || (phase + to).is_multiple_of(8)));
                from = to;
            }
        }
    }

    #[test]
    fn pieces_cover_a_transfer_in_any_order() {
        let mut dice = Dice::new(2);
        let mut shuffled = false;
        for len in 0..200 {
            let mut pieces = pieces(3, len, &mut dice);
            shuffled |= !pieces.is_sorted();
            pieces.sort_unstable();
            let ends = pieces.iter().fold(0, |at, &(from, to)| {
                assert_eq!(from, at);
                to
            });
            assert_eq!(ends, len);
        }
        assert!(shuffled);
    }
}
