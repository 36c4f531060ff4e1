//! Turns `--limit` and Ctrl-C into budgets of searches and an end of the whole run.

use std::alloc::System;
use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use cap::Cap;
use mowgli::outcome::{Budget, MemoryLimit};

use crate::INTERRUPTED_STATUS;

/// Counts the bytes in use, for the memory limit. It bounds nothing itself.
#[global_allocator]
static ALLOCATOR: Cap<System> = Cap::new(System, usize::MAX);

/// Set when the user has pressed Ctrl-C.
static INTERRUPTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);

/// Returns whether Ctrl-C has stopped the run.
pub(crate) fn is_interrupted() -> bool {
    // Relaxed: the flag publishes no other data.
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The help text of `--limit`.
pub(crate) const HELP: &str = "Limits, as in time=10s,total=10m,memory=2G,states=1000000";

/// The long help text of `--limit`.
pub(crate) const LONG_HELP: &str = "\
Limits, as in time=10s,total=10m,memory=2G,states=1000000

time bounds each search (one test under one model), total the whole run; times take ms, s, m or h. memory bounds the bytes in \
use (K, M or G, in powers of 1024), states the states or candidate executions of each search. A verdict that a limit leaves \
open is unknown.";

/// The limits that `--limit` states.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The longest time of a search.
    time: Option<Duration>,
    /// The longest time of the run.
    total: Option<Duration>,
    /// The most bytes in use.
    memory: Option<u64>,
    /// The most states of a search.
    states: Option<u64>,
}

impl FromStr for Limits {
    type Err = String;

    fn from_str(s: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        for part in s.split(',') {
            match part.split_once('=') {
                Some(("time", value)) => limits.time = Some(duration(value)?),
                Some(("total", value)) => limits.total = Some(duration(value)?),
                Some(("memory", value)) => limits.memory = Some(bytes(value)?),
                Some(("states", value)) => {
                    let states = value.replace('_', "").parse();
                    limits.states = Some(states.map_err(|_| {
                        format!(
                            "`{value}` is no number of states: write one from 0 to {}",
                            u64::MAX
                        )
                    })?);
                }
                _ => {
                    return Err(format!(
                        "unknown limit `{part}`: write time=10s, total=10m, memory=2G or states=1000000, \
                         several with commas"
                    ));
                }
            }
        }
        Ok(limits)
    }
}

/// The most hours of a limit.
const HOURS_MAX: u64 = 1_000_000;
/// The most GiB of a limit.
const GIB_MAX: u64 = u64::MAX >> 30;

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wrong = || format!("`{text}` is no time: write 500ms, 10s, 2m or 1h, from 0 to {HOURS_MAX}h");
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => value / 1e3,
        "s" | "" => value,
        "m" => value * 60.0,
        "h" => value * 3600.0,
        _ => return Err(wrong()),
    };
    let time = Duration::try_from_secs_f64(seconds).map_err(|_| wrong())?;
    (time <= Duration::from_secs(3600 * HOURS_MAX))
        .then_some(time)
        .ok_or_else(wrong)
}

fn bytes(text: &str) -> Result<u64, String> {
    let wrong = || format!("`{text}` is no amount of memory: write 500M or 2G, from 0 to {GIB_MAX}G");
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let value: u64 = digits.parse().map_err(|_| wrong())?;
    let unit = match &text[digits.len()..] {
        "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => return Err(wrong()),
    };
    value.checked_mul(unit).ok_or_else(wrong)
}

/// The reason why a run ended before its work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stop {
    /// The user pressed Ctrl-C.
    Interrupted,
    /// The total limit was reached.
    Total,
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stop::Interrupted => "interrupted",
            Stop::Total => "total time limit reached",
        })
    }
}

/// The limits of a run that is under way.
#[derive(Debug)]
pub(crate) struct Run {
    limits: Limits,
    interrupted: Arc<AtomicBool>,
    deadline: Option<Instant>,
}

impl Run {
    /// Starts the clock of the total limit. From now on Ctrl-C stops the search under way; a second Ctrl-C ends the process.
    pub(crate) fn start(limits: Limits) -> Run {
        let flag = Arc::clone(&INTERRUPTED);
        let interrupt = signal_hook::consts::SIGINT;
        // Without a handler Ctrl-C ends the process, which is the system's own behaviour: nothing to report.
        let _ = signal_hook::flag::register_conditional_shutdown(
            interrupt,
            INTERRUPTED_STATUS.into(),
            Arc::clone(&flag),
        );
        let _ = signal_hook::flag::register(interrupt, Arc::clone(&flag));
        Run {
            limits,
            interrupted: flag,
            deadline: limits.total.and_then(|t| Instant::now().checked_add(t)),
        }
    }

    /// Returns the budget of a search that starts now.
    pub(crate) fn budget(&self) -> Budget<'_> {
        self.budget_of(self.limits.time)
    }

    /// Returns the budget of a search that starts now, which takes at most `time` unless the limits state another time.
    pub(crate) fn budget_within(&self, time: Duration) -> Budget<'_> {
        self.budget_of(Some(self.longest(time)))
    }

    /// Returns the longest time of a search: `time` unless the limits state another.
    pub(crate) fn longest(&self, time: Duration) -> Duration {
        self.limits.time.unwrap_or(time)
    }

    fn budget_of(&self, time: Option<Duration>) -> Budget<'_> {
        let own = time.and_then(|t| Instant::now().checked_add(t));
        Budget {
            deadline: own.into_iter().chain(self.deadline).min(),
            states_max: self.limits.states,
            cancel: Some(&self.interrupted),
            memory: self.limits.memory.map(|bytes_max| MemoryLimit {
                used: || ALLOCATOR.allocated() as u64,
                bytes_max,
            }),
        }
    }

    /// Returns the limits of each search, and its default time where none is given.
    pub(crate) fn of_searches(&self, time: Duration) -> mowgli_web::Limits {
        let Budget {
            states_max, memory, ..
        } = self.budget();
        mowgli_web::Limits {
            time: self.limits.time.unwrap_or(time),
            memory,
            states: states_max,
        }
    }

    /// Says why no further search may start, if so.
    pub(crate) fn stopped(&self) -> Option<Stop> {
        // Relaxed: the flag publishes no other data.
        if self.interrupted.load(Ordering::Relaxed) {
            return Some(Stop::Interrupted);
        }
        self.deadline
            .is_some_and(|d| Instant::now() >= d)
            .then_some(Stop::Total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_or_refused_with_the_right_form() {
        let limits: Limits = "time=1.5s,states=1_000,total=2h,memory=2G".parse().unwrap();
        assert_eq!(
            limits,
            Limits {
                time: Some(Duration::from_millis(1500)),
                total: Some(Duration::from_secs(7200)),
                memory: Some(2 << 30),
                states: Some(1000),
            }
        );
        assert_eq!(
            "time=250ms".parse::<Limits>().unwrap().time,
            Some(Duration::from_millis(250))
        );
        assert_eq!(
            "time=2m".parse::<Limits>().unwrap().time,
            Some(Duration::from_secs(120))
        );
        for wrong in [
            "",
            "10s",
            "time=-1s",
            "time=1d",
            "time=1e999s",
            "states=many",
            "memory=1",
            "memory=99999999999G",
        ] {
            assert!(wrong.parse::<Limits>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_search_ends_with_the_run_if_that_is_sooner() {
        let limits = "time=1h,total=0s".parse().unwrap();
        let run = Run::start(limits);
        assert!(run.budget().deadline.unwrap() <= Instant::now());
        assert_eq!(run.stopped(), Some(Stop::Total));
        let run = Run::start("total=1h".parse().unwrap());
        assert_eq!(run.stopped(), None);
    }
}
