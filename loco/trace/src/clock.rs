//! The clocks of the system, in nanoseconds.

use rustix::time::{ClockId, clock_gettime};

/// Returns the time of `CLOCK_MONOTONIC`, which all processes of a host share.
pub fn now() -> u64 {
    nanos(ClockId::Monotonic)
}

/// Returns the time of a clock.
pub(crate) fn nanos(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}
