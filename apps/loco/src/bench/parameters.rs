//! The options of `loco bench`: the operation to measure, and the sizes and counts.

use std::ffi::OsString;

use clap::ValueEnum;
use serde::Serialize;

use super::workload::Workload;
use crate::effect::Mode;

/// The most operations: with a nanosecond for each, a fortnight.
const COUNT_MAX: u64 = 1_000_000_000_000_000;

/// The operation or object to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// Write to a peer's memory.
    Put,
    /// Read a peer's memory.
    Get,
    /// Fetch-and-add on a peer's memory.
    Atomic,
    /// All nodes wait for each other.
    Barrier,
    /// One node sends messages to all others.
    Broadcast,
    /// Two nodes send each other messages in turn.
    PingPong,
    /// All threads increment one word under one lock.
    Lock,
    /// Transfers between accounts, under two locks each.
    Transfer,
    /// All threads push and pop.
    Queue,
    /// Lookups and updates of a key-value store.
    Kv,
}

/// The options that each measurement depends on, in the order of [`What`].
pub(super) static MODES: [Mode; 10] = [
    Mode::new(
        "`put`",
        &["--threads", "--size", "--window", "--iters", "--warmup"],
    ),
    Mode::new(
        "`get`",
        &["--threads", "--size", "--window", "--iters", "--warmup"],
    ),
    // It moves a word.
    Mode::new("`atomic`", &["--threads", "--window", "--iters", "--warmup"]),
    Mode::new("`barrier`", &["--threads", "--iters", "--warmup"]),
    Mode::new("`broadcast`", &["--size", "--window", "--iters", "--warmup"]),
    Mode::new("`ping-pong`", &["--size", "--iters", "--warmup"]),
    Mode::new("`lock`", &["--threads", "--duration"]),
    Mode::new(
        "`transfer`",
        &["--threads", "--duration", "--locks", "--accounts"],
    ),
    Mode::new("`queue`", &["--threads", "--duration"]),
    Mode::new(
        "`kv`",
        &[
            "--threads",
            "--window",
            "--duration",
            "--distribution",
            "--mix",
            "--key-space-mb",
            "--locks",
            "--copies",
        ],
    ),
];

impl What {
    /// Returns the options that the measurement depends on.
    pub(super) fn mode(self) -> &'static Mode {
        &MODES[self as usize]
    }

    /// Returns whether it runs for a time, and not for a number of operations.
    pub(super) fn is_timed(self) -> bool {
        matches!(self, What::Lock | What::Transfer | What::Queue | What::Kv)
    }
}

/// Sizes and counts of a measurement.
#[derive(Clone, Debug, clap::Args, Serialize)]
pub struct Parameters {
    /// Threads of each node that work at the same time (`broadcast` and `ping-pong` have one on each node).
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = loco_app::number::<u16>(1..=256))]
    pub(super) threads: u16,
    /// Bytes moved at a time (8 unless given; 64 for `broadcast` and `ping-pong`)
    #[arg(short, long = "size", value_name = "BYTES", value_parser = loco_app::number::<u32>(1..=1 << 24))]
    #[serde(rename = "size_bytes", skip_serializing_if = "Option::is_none")]
    pub(super) size: Option<u32>,
    /// Operations under way at a time.
    #[arg(short, long, value_name = "N", default_value = "64", value_parser = loco_app::number::<u32>(1..=32768))]
    pub(super) window: u32,
    /// Operations measured.
    #[arg(short, long, value_name = "N", default_value = "200000", value_parser = loco_app::number::<u64>(1..=COUNT_MAX))]
    pub(super) iters: u64,
    /// Operations before the measured ones (a tenth of --iters unless given)
    #[arg(long, value_name = "N", value_parser = loco_app::number::<u64>(..=COUNT_MAX))]
    pub(super) warmup: Option<u64>,
    #[command(flatten)]
    #[serde(skip)]
    pub(super) workload: Workload,
}

impl Parameters {
    /// Returns the number of bytes moved at a time.
    pub(super) fn size(&self, default: u32) -> usize {
        self.size.unwrap_or(default) as usize
    }

    pub(super) fn warmup(&self) -> u64 {
        self.warmup.unwrap_or(self.iters / 10)
    }

    /// Returns the parameters as arguments for a node.
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = vec![
            format!("--threads={}", self.threads),
            format!("--window={}", self.window),
            format!("--iters={}", self.iters),
        ];
        words.extend(self.size.map(|size| format!("--size={size}")));
        words.extend(self.warmup.map(|warmup| format!("--warmup={warmup}")));
        let words = words.into_iter().map(OsString::from);
        words.chain(self.workload.words()).collect()
    }
}
