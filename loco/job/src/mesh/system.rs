//! Threads and time, as the parts of the mesh use them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use loco_fabric::{FabricError, Platform, Result, Std, Time};

/// Starts a thread.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<thread::JoinHandle<()>> {
    thread::Builder::new()
        .name(name.to_owned())
        .spawn(body)
        .map_err(|e| FabricError::os(format!("starting thread `{name}`"), &e))
}

/// Tells threads that look at the flag to end, also when this one fails to start them all.
pub(super) struct StopOnDrop<'a>(pub(super) &'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        // Relaxed: only hastens the end.
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the time until `deadline`; none when it has passed.
pub(super) fn time_left(deadline: Option<Time>) -> Option<Duration> {
    // Without a deadline the waiter still wakes now and then; it looks at its condition again and sleeps on.
    const IDLE: Duration = Duration::from_secs(3600);
    let Some(deadline) = deadline else {
        return Some(IDLE);
    };
    let left = deadline.since(Std.now());
    (!left.is_zero()).then_some(left)
}
