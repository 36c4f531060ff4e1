//! Where the times in a history come from. Relies on the kernel's monotonic clock or on a shared counter; used
//! by recorders.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A source of times for invocations and responses.
///
/// The one law: if a call of `now` returns before another begins, in any thread that shares the clock, the first
/// time is not greater than the second. Equal times are fine; operations that touch in one tick then count as
/// overlapping, which can only make the checker accept more.
pub trait Clock {
    /// The time now, in units of the clock's choice.
    fn now(&self) -> u64;
}

/// `CLOCK_MONOTONIC` in nanoseconds: one clock for all processes of a host, so that their histories can be merged.
/// Not comparable between hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    fn now(&self) -> u64 {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        // The clock starts at boot: neither part is negative.
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    }
}

/// A counter shared by its clones: each reading is one greater than the last, so that all events of a run are
/// totally ordered. For simulators, where wall time means nothing and runs must repeat exactly.
#[derive(Clone, Debug, Default)]
pub struct LogicalClock(Arc<AtomicU64>);

impl Clock for LogicalClock {
    fn now(&self) -> u64 {
        // SeqCst: between real threads the counter must agree with real time, and this is not a hot path.
        self.0.fetch_add(1, Ordering::SeqCst)
    }
}
