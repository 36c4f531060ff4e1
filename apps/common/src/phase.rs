//! How far a long part of a command is, on standard error: a line now and then, so that a pipe and a log hear of it too.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use crate::output::complain;

/// The time before the first line and between two lines. What takes less than this is not mentioned.
const EVERY: Duration = Duration::from_secs(3);

/// A part of a command that may take long, and how much of it is done.
#[derive(Debug)]
pub struct Phase {
    what: &'static str,
    total: u64,
    done: AtomicU64,
    /// The time of the first report.
    begin: OnceLock<Instant>,
    /// The time of the next line, after `begin`. `None` for a phase that says nothing.
    next: Option<Mutex<Duration>>,
}

impl Phase {
    /// Makes a phase, `what`, of `total` equal pieces, which begins with the first report. It says nothing unless it `speaks`: of a job's nodes only one should.
    pub fn new(what: &'static str, total: u64, speaks: bool) -> Phase {
        Phase {
            what,
            total,
            done: AtomicU64::new(0),
            begin: OnceLock::new(),
            next: speaks.then(|| Mutex::new(EVERY)),
        }
    }

    /// Returns whether it says anything.
    pub fn speaks(&self) -> bool {
        self.next.is_some()
    }

    /// Notes that `more` pieces are done, and says how far the phase is if it is time to.
    pub fn add(&self, more: u64) {
        // Relaxed: the counter publishes no other data.
        let done = self.done.fetch_add(more, Ordering::Relaxed) + more;
        if let Some(line) = self.line(done, self.begin.get_or_init(Instant::now).elapsed()) {
            complain(line);
        }
    }

    /// Returns the line to say when `done` pieces are done after `elapsed`, if one is due.
    fn line(&self, done: u64, elapsed: Duration) -> Option<String> {
        // Another thread that holds the lock says it.
        let mut next = self.next.as_ref()?.try_lock().ok()?;
        if elapsed < *next {
            return None;
        }
        *next = elapsed + EVERY;
        let percent = u128::from(done.min(self.total)) * 100 / u128::from(self.total.max(1));
        Some(format!(
            "{}: {percent} % after {} s",
            self.what,
            elapsed.as_secs()
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_phase_is_heard_of_and_a_short_one_is_not() {
        let phase = Phase::new("counting", 1000, true);
        assert_eq!(phase.line(900, EVERY - Duration::from_nanos(1)), None);
        let first = phase.line(250, EVERY);
        assert_eq!(first.as_deref(), Some("counting: 25 % after 3 s"));
        assert_eq!(phase.line(300, EVERY + Duration::from_secs(1)), None);
        let second = phase.line(2000, 2 * EVERY);
        assert_eq!(second.as_deref(), Some("counting: 100 % after 6 s"));
        assert_eq!(Phase::new("counting", 1, false).line(0, 9 * EVERY), None);
    }
}
