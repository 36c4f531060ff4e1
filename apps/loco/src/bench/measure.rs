//! Measures times: a rate over a whole run, and a histogram of single operations.
//!
//! The two are measured apart, because looking at the clock takes about as long as a put over shared memory.

use std::time::Instant;

use loco_app::{Latencies, Phase};
use serde::Serialize;

use super::progress::Progress;

/// Operations between two reports of progress.
const PROGRESS_EVERY: u64 = 1024;
/// Operations that are timed one by one between two reports.
const TIMING_EVERY: u64 = 256;
/// Round trips between two looks at the clock, where the clock is not to be part of the time.
const PIECE: u64 = 64;

/// The results of a measurement. Figures that do not apply to it are left out.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Results {
    /// Rate of all threads of all nodes together.
    pub(super) operations_per_second: f64,
    /// Rate in bytes, where bytes are moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) bytes_per_second: Option<f64>,
    /// Latency, where single operations are timed.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub(super) latency: Option<Latency>,
    /// Time of a message from one node to the other, without that of looking at the clock.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) one_way_ns: Option<f64>,
}

/// The times that single operations took, in nanoseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Latency {
    #[serde(rename = "latency_ns_min")]
    min: u64,
    #[serde(rename = "latency_ns_mean")]
    mean: f64,
    #[serde(rename = "latency_ns_p50")]
    p50: u64,
    #[serde(rename = "latency_ns_p90")]
    p90: u64,
    #[serde(rename = "latency_ns_p99")]
    p99: u64,
    #[serde(rename = "latency_ns_p999")]
    p999: u64,
    #[serde(rename = "latency_ns_max")]
    max: u64,
}

/// The measurements of one thread.
pub(super) struct Sample {
    pub(super) operations_per_second: f64,
    pub(super) latencies: Latencies,
    /// The time of a message one way, where nodes send each other messages in turn.
    pub(super) one_way_ns: Option<f64>,
}

impl Results {
    /// Makes the results. `bytes` is the number of bytes that one operation moves, if it moves any.
    pub(super) fn new(
        operations_per_second: f64,
        bytes: Option<usize>,
        latencies: &Latencies,
        one_way_ns: Option<f64>,
    ) -> Results {
        let at = |quantile| latencies.at(quantile);
        Results {
            operations_per_second,
            #[allow(clippy::cast_precision_loss)] // Sizes are small.
            bytes_per_second: bytes.map(|bytes| operations_per_second * bytes as f64),
            latency: (!latencies.is_empty()).then(|| Latency {
                min: latencies.min(),
                mean: latencies.mean(),
                p50: at(0.5),
                p90: at(0.9),
                p99: at(0.99),
                p999: at(0.999),
                max: latencies.max(),
            }),
            one_way_ns,
        }
    }

    /// Formats the results for people, in two lines, so that they fit a terminal.
    pub(super) fn text(&self, name: &str) -> String {
        let mut text = format!("{name:<18} {:>12.0} /s", self.operations_per_second);
        if let Some(bytes) = self.bytes_per_second {
            text += &format!("  {:>9.1} MB/s", bytes / 1e6);
        }
        if let Some(one_way_ns) = self.one_way_ns {
            text += &format!("  {one_way_ns:.1} ns one way");
        }
        if let Some(latency) = &self.latency {
            let Latency {
                p50, p99, p999, max, ..
            } = latency;
            text += &format!(
                "\n{:18} latency p50 {p50}, p99 {p99}, p99.9 {p999}, max {max} ns",
                ""
            );
        }
        text
    }
}

/// Runs `operation` `count` times and returns the rate per second. `finish` is part of the measured time.
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

/// Runs `some(n)`, which does `n` operations, until `count` are done. Returns the rate per second.
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

/// Runs `operation` `count` times and records the time of each, divided by `share`.
pub(super) fn latencies<E>(
    count: u64,
    share: u32,
    timing: &Phase,
    into: &mut Latencies,
    mut operation: impl FnMut(u64) -> Result<(), E>,
) -> Result<(), E> {
    for i in 0..count {
        let begin = Instant::now();
        operation(i)?;
        into.record(begin.elapsed() / share);
        if (i + 1).is_multiple_of(TIMING_EVERY) {
            timing.add(TIMING_EVERY);
        }
    }
    Ok(())
}

/// Runs `round_trip` `count` times and returns half the time of one, in nanoseconds. A look at the clock takes about as
/// long as a message, so the clock times pieces of many round trips. The result is the median of the pieces, because a
/// piece that other work interrupts says nothing.
pub(super) fn one_way_ns<E>(count: u64, mut round_trip: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut pieces = Vec::new();
    let mut left = count;
    while left > 0 {
        let now = left.min(PIECE);
        let begin = Instant::now();
        for _ in 0..now {
            round_trip()?;
        }
        #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
        pieces.push(begin.elapsed().as_secs_f64() * 1e9 / (2 * now) as f64);
        left -= now;
    }
    pieces.sort_by(f64::total_cmp);
    Ok(pieces.get(pieces.len() / 2).copied().unwrap_or(0.0))
}
