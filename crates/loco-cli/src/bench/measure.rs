//! Timing: a rate over a whole run, and a histogram of single operations.
//!
//! The two are measured apart, because looking at the clock takes about as long as a put over shared memory.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use super::progress::Progress;
use crate::error::CliError;

/// Longest time that the histogram tells apart.
const LATENCY_MAX: Duration = Duration::from_secs(60);
/// Significant digits.
const DIGITS: u8 = 3;
/// Operations between two reports of progress.
const PROGRESS_EVERY: u64 = 1024;

/// A result; times in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Results {
    /// Of all threads of all nodes together.
    pub(super) operations_per_second: f64,
    pub(super) bytes_per_second: f64,
    pub(super) latency_ns_min: u64,
    pub(super) latency_ns_mean: f64,
    pub(super) latency_ns_p50: u64,
    pub(super) latency_ns_p90: u64,
    pub(super) latency_ns_p99: u64,
    pub(super) latency_ns_p999: u64,
    pub(super) latency_ns_max: u64,
}

/// What one thread measured.
pub(super) struct Sample {
    pub(super) operations_per_second: f64,
    pub(super) latencies: Histogram<u64>,
}

/// An empty histogram.
pub(super) fn histogram() -> Result<Histogram<u64>, CliError> {
    Histogram::new_with_max(nanoseconds(LATENCY_MAX), DIGITS)
        .map_err(|error| CliError::Usage(format!("making a histogram: {error}")))
}

impl Results {
    pub(super) fn new(operations_per_second: f64, bytes: usize, latencies: &Histogram<u64>) -> Results {
        Results {
            operations_per_second,
            #[allow(clippy::cast_precision_loss)] // Sizes are small.
            bytes_per_second: operations_per_second * bytes as f64,
            latency_ns_min: latencies.min(),
            latency_ns_mean: latencies.mean(),
            latency_ns_p50: latencies.value_at_quantile(0.5),
            latency_ns_p90: latencies.value_at_quantile(0.9),
            latency_ns_p99: latencies.value_at_quantile(0.99),
            latency_ns_p999: latencies.value_at_quantile(0.999),
            latency_ns_max: latencies.max(),
        }
    }

    /// For people.
    pub(super) fn line(&self, name: &str) -> String {
        format!(
            "{name:<18} {:>12.0} /s {:>9.1} MB/s   latency p50 {:>8} p99 {:>8} p99.9 {:>8} max {:>9} ns",
            self.operations_per_second,
            self.bytes_per_second / 1e6,
            self.latency_ns_p50,
            self.latency_ns_p99,
            self.latency_ns_p999,
            self.latency_ns_max,
        )
    }
}

/// Runs `operation` `count` times and returns how many that is a second. `finish` belongs to the time.
pub(super) fn rate<E>(
    count: u64,
    progress: &Progress,
    mut operation: impl FnMut(u64) -> Result<(), E>,
    finish: impl FnOnce() -> Result<(), E>,
) -> Result<f64, E> {
    let mut done = 0;
    let some = |more| {
        for i in done..done + more {
            operation(i)?;
        }
        done += more;
        Ok(())
    };
    rate_of_batches(count, progress, some, finish)
}

/// The same where `some(n)` does `n` operations.
pub(super) fn rate_of_batches<E>(
    count: u64,
    progress: &Progress,
    mut some: impl FnMut(u64) -> Result<(), E>,
    finish: impl FnOnce() -> Result<(), E>,
) -> Result<f64, E> {
    let begin = Instant::now();
    let mut left = count;
    while left > 0 {
        let now = left.min(PROGRESS_EVERY);
        some(now)?;
        progress.add(now);
        left -= now;
    }
    finish()?;
    #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
    Ok(count as f64 / begin.elapsed().as_secs_f64())
}

/// Runs `operation` `count` times and records how long each takes, divided by `share`.
pub(super) fn latencies<E>(
    count: u64,
    share: u32,
    into: &mut Histogram<u64>,
    mut operation: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    for i in 0..count {
        let begin = Instant::now();
        operation(i)?;
        into.saturating_record(nanoseconds(begin.elapsed() / share));
    }
    Ok(())
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
