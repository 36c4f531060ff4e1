//! The times of single operations, of which the commands print quantiles. Relies on `hdrhistogram`.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Significant digits of a time.
const DIGITS: u8 = 3;
/// Longest time that is recorded without growing, which would disturb a measurement: a minute.
const USUAL_MAX: Duration = Duration::from_secs(60);

/// Times in nanoseconds, each to three significant digits. Any time fits: longer times than usual make it grow.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

impl Latencies {
    /// Begins without times.
    pub fn new() -> Latencies {
        let times = Histogram::new_with_max(nanoseconds(USUAL_MAX), DIGITS);
        // Not by the maximum and number of digits that are given here.
        let mut times = times.expect("a histogram has any range of times");
        times.auto(true);
        Latencies(times)
    }

    /// Records one time. A time of more than 584 years counts as that.
    pub fn record(&mut self, time: Duration) {
        // This grows. What no histogram has room for is recorded as the longest time that there is room for.
        if self.0.record(nanoseconds(time)).is_err() {
            self.0.saturating_record(nanoseconds(time));
        }
    }

    /// Adds all of the other's times.
    pub fn add(&mut self, other: &Latencies) {
        // The number of digits is the same, and this one grows, so it cannot fail.
        let _ = self.0.add(&other.0);
    }

    /// Forgets all times.
    pub fn clear(&mut self) {
        self.0.reset();
    }

    /// Returns whether there is no time.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the time that this fraction of the times do not exceed, in nanoseconds; 0 without times.
    pub fn at(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// Returns the shortest time in nanoseconds; 0 without times.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// Returns the longest time in nanoseconds; 0 without times.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// Returns the mean time in nanoseconds; 0 without times.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }
}

impl Default for Latencies {
    fn default() -> Latencies {
        Latencies::new()
    }
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers of every magnitude that a time can have, from a fixed seed.
    fn times(count: usize) -> Vec<u64> {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state >> (state % 60)
        };
        std::iter::repeat_with(next).take(count).collect()
    }

    /// The second way is to sort the times.
    #[test]
    fn quantiles_are_those_of_the_sorted_times() {
        let mut sorted = times(10_001);
        let (mut all, mut other) = (Latencies::new(), Latencies::new());
        for (i, &time) in sorted.iter().enumerate() {
            let half = if i % 2 == 0 { &mut all } else { &mut other };
            half.record(Duration::from_nanos(time));
        }
        all.add(&other);
        sorted.sort_unstable();
        let close = |found: u64, expected: u64| {
            let (found, expected) = (found as f64, expected as f64);
            assert!(
                (found - expected).abs() <= expected * 1e-3 + 1.0,
                "{found}, not {expected}"
            );
        };
        for quantile in [0.5, 0.9, 0.99, 0.999] {
            let rank = (quantile * sorted.len() as f64).ceil() as usize;
            close(all.at(quantile), sorted[rank - 1]);
        }
        close(all.min(), sorted[0]);
        close(all.max(), sorted[sorted.len() - 1]);
        let mean = sorted.iter().map(|&time| time as f64).sum::<f64>() / sorted.len() as f64;
        assert!(
            (all.mean() - mean).abs() <= mean * 1e-3,
            "{}, not {mean}",
            all.mean()
        );
    }

    /// Histograms with a range of 1 to 2, which once stood here, give such times as 2.
    #[test]
    fn a_time_alone_is_itself() {
        for time in [1, 2047, 2048, 5000, 1_000_000, 3_600_000_000_000] {
            let mut one = Latencies::new();
            one.record(Duration::from_nanos(time));
            let found = one.at(0.5);
            assert!(found.abs_diff(time) <= time / 1000, "{found}, not {time}");
        }
        assert!(Latencies::new().is_empty());
    }
}
