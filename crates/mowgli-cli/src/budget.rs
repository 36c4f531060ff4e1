//! `--limit` and Ctrl-C: when a search has to stop.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mowgli::outcome::Budget;

/// Limits of each search (one test under one model).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Limits {
    time: Option<Duration>,
    states: Option<u64>,
}

impl Limits {
    /// The budget of a search that starts now.
    pub(crate) fn budget(self, cancel: &AtomicBool) -> Budget<'_> {
        Budget {
            deadline: self.time.and_then(|t| Instant::now().checked_add(t)),
            states_max: self.states,
            cancel: Some(cancel),
        }
    }
}

impl FromStr for Limits {
    type Err = String;

    /// `time=10s,states=1000000`; times take `ms`, `s` or `m`.
    fn from_str(s: &str) -> Result<Limits, String> {
        let mut limits = Limits::default();
        for part in s.split(',') {
            match part.split_once('=') {
                Some(("time", value)) => limits.time = Some(duration(value)?),
                Some(("states", value)) => {
                    let states = value.replace('_', "").parse();
                    limits.states = Some(states.map_err(|_| format!("`{value}` is no number of states"))?);
                }
                _ => {
                    return Err(format!(
                        "unknown limit `{part}`: write time=10s, states=1000000 or both with a comma"
                    ));
                }
            }
        }
        Ok(limits)
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let wrong = || format!("`{text}` is no time: write 500ms, 10s or 2m");
    let value: f64 = digits.parse().map_err(|_| wrong())?;
    let seconds = match &text[digits.len()..] {
        "ms" => value / 1e3,
        "s" | "" => value,
        "m" => value * 60.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

/// A flag that Ctrl-C raises. A second Ctrl-C ends the process at once.
pub(crate) fn interrupt_flag() -> Arc<AtomicBool> {
    let flag = Arc::new(AtomicBool::new(false));
    // Without a handler Ctrl-C ends the process, which is the system's own behaviour: nothing to report.
    let _ =
        signal_hook::flag::register_conditional_shutdown(signal_hook::consts::SIGINT, 130, Arc::clone(&flag));
    let _ = signal_hook::flag::register(signal_hook::consts::SIGINT, Arc::clone(&flag));
    flag
}

/// Whether Ctrl-C was pressed.
pub(crate) fn interrupted(flag: &AtomicBool) -> bool {
    // Relaxed: the flag carries no data, and a late view of it only delays the stop.
    flag.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_or_refused_with_the_right_form() {
        let limits: Limits = "time=1.5s,states=1_000".parse().unwrap();
        assert_eq!(
            limits,
            Limits {
                time: Some(Duration::from_millis(1500)),
                states: Some(1000)
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
            "time=1h",
            "time=1e999s",
            "states=many",
            "memory=1",
        ] {
            assert!(wrong.parse::<Limits>().is_err(), "{wrong}");
        }
    }
}
