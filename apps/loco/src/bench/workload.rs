//! The workload of `lock`, `transfer`, `queue` and `kv`: the duration, the keys and the mix of operations.

use std::ffi::OsString;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use loco_app::some_time;
use loco_kv::pick::{Distribution, Mix};
use serde::Serialize;

use super::progress::Progress;
use crate::error::CliError;

/// Bytes of a key and a value.
const ENTRY_BYTES: u32 = 16;
/// The percentage of the key space that is filled.
const FILLED_PERCENT: u32 = 80;
/// The warm-up takes the measured time divided by this.
const WARM_UP: u32 = 10;

/// The workload with which the objects are measured.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Workload {
    /// Time for which `lock`, `transfer`, `queue` and `kv` are measured each.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = some_time)]
    #[serde(serialize_with = "as_seconds", rename = "duration_seconds")]
    pub(super) duration: Duration,
    /// For `kv`: the probabilities of the keys (Zipf's exponent is 0.99).
    #[arg(long, value_enum, default_value = "uniform")]
    pub(super) distribution: Distribution,
    /// For `kv`: lookups, updates, or half of each.
    #[arg(long, value_enum, default_value = "read-only")]
    pub(super) mix: Mix,
    /// For `kv`: size of the key space, in MB of 64-bit keys with 64-bit values; 80 % of it is filled.
    #[arg(long, value_name = "MB", default_value = "10", value_parser = loco_app::number::<u32>(1..=1000))]
    pub(super) key_space_mb: u32,
    /// For `kv` and `transfer`: locks that keys or accounts share; 1024 for `kv`, 341 for `transfer` unless given.
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u32>(1..=1 << 16))]
    pub(super) locks: Option<u32>,
    /// For `kv`: nodes that keep each value, at most as many as there are.
    #[arg(long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=64))]
    pub(super) copies: u16,
    /// For `transfer`: accounts.
    #[arg(long, value_name = "N", default_value = "1000000", value_parser = loco_app::number::<u32>(2..=1 << 31))]
    pub(super) accounts: u32,
}

fn as_seconds<S: serde::Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(duration.as_secs_f64())
}

impl Workload {
    /// Returns the workload as arguments for a node.
    pub(super) fn words(&self) -> Vec<OsString> {
        let name = |value: Option<clap::builder::PossibleValue>| {
            value.map_or_else(String::new, |value| value.get_name().to_owned())
        };
        let mut words = vec![
            format!("--duration={}", self.duration.as_secs_f64()),
            format!("--distribution={}", name(self.distribution.to_possible_value())),
            format!("--mix={}", name(self.mix.to_possible_value())),
            format!("--key-space-mb={}", self.key_space_mb),
            format!("--copies={}", self.copies),
            format!("--accounts={}", self.accounts),
        ];
        words.extend(self.locks.map(|locks| format!("--locks={locks}")));
        words.into_iter().map(OsString::from).collect()
    }

    /// Returns the number of keys that there is room for.
    pub(super) fn key_space(&self) -> u32 {
        self.key_space_mb * 1_000_000 / ENTRY_BYTES
    }

    /// Returns the number of keys that are filled in.
    pub(super) fn keys(&self) -> u32 {
        self.key_space() / 100 * FILLED_PERCENT
    }

    pub(super) fn warm_up(&self) -> Duration {
        self.duration / WARM_UP
    }

    /// Returns all of a thread's time, for the progress bar, in milliseconds.
    pub(super) fn milliseconds(&self) -> u64 {
        milliseconds(self.duration.saturating_add(self.warm_up()))
    }
}

/// Repeats `some`, which does some operations and returns their number, until `duration` is over. Returns the
/// rate per second. It looks at the clock only now and then.
pub(super) fn rate_for<E>(
    duration: Duration,
    progress: &Progress,
    mut some: impl FnMut() -> Result<u64, E>,
) -> Result<f64, E> {
    /// The approximate number of operations between two looks at the clock.
    const AT_ONCE: u64 = 2048;
    let begin = Instant::now();
    let (mut done, mut reported) = (0, 0);
    loop {
        let enough = done + AT_ONCE;
        while done < enough {
            done += some()?;
        }
        let elapsed = begin.elapsed();
        let now = milliseconds(elapsed);
        if now > reported + 50 {
            progress.add(now - reported);
            reported = now;
        }
        if elapsed >= duration {
            #[allow(clippy::cast_precision_loss)] // Exact up to 2^53.
            return Ok(done as f64 / elapsed.as_secs_f64());
        }
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the error of a failed check.
pub(super) fn wrong(what: String) -> CliError {
    CliError::Check(what)
}
