//! The sources of the times in a history: the kernel's monotonic clock, or a shared counter. Used by recorders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of times for invocations and responses.
///
/// A clock must obey one law: if a call of `now` returns before another begins, in any thread that shares the clock, the first
/// time is not greater than the second. Times may be equal. Operations with equal times count as overlapping, so the checker can
/// only accept more.
pub trait Clock {
    /// Returns the time now, in units of the clock's choice.
    fn now(&self) -> u64;
}

/// `CLOCK_MONOTONIC` in nanoseconds. All processes of a host share this clock, so their histories can be merged. Times
/// of different hosts cannot be compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // The clock starts at boot, so neither part is negative.
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// A counter shared by its clones. Each reading is one greater than the last, so all events of a run are totally
/// ordered. It is for simulators, where wall time means nothing and runs must repeat exactly.
#[derive(Clone, Debug, Default)]
pub struct LogicalClock(Arc<AtomicU64>);

impl Clock for LogicalClock {
    fn now(&self) -> u64 {
        // SeqCst: between real threads the counter must agree with real time, and this is not a hot path.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
