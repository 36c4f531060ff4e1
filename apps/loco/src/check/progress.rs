//! One line on the terminal that says how far an exploration has come.

use loco_app::counted;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use loco_check::Object;
use loco_sim::{Config, Estimate, Progress};

use super::target::MESH;

/// The least time between two lines, in milliseconds.
const INTERVAL_MS: u64 = 200;

/// Returns the function that prints progress. Only a terminal gets it: neither logs nor `--json` do.
pub(super) fn printer(json: bool) -> Option<fn(&Progress)> {
    (!json && std::io::stderr().is_terminal()).then_some(print as fn(&Progress))
}

/// Returns whether lines say what is being explored, since no terminal shows it.
pub(super) fn is_in_lines(json: bool) -> bool {
    !json && !std::io::stderr().is_terminal()
}

/// Returns the function that says which world is explored next, in a line of its own, where no terminal shows progress.
pub(super) fn teller(json: bool) -> Option<fn(Object, &str, &str)> {
    is_in_lines(json).then_some(|object, world, how| tell_begun(object.name(), world, how))
}

/// Does what [`teller`] does for the worlds of the agreement on who is in. On a terminal the line takes the place of the one before.
pub(super) fn mesh_teller(json: bool) -> Option<fn(&str, &str)> {
    match (json, is_in_lines(json)) {
        (true, _) => None,
        (false, true) => Some(|world, how| tell_begun(MESH, world, how)),
        (false, false) => Some(|world, how| tell(format_args!("{MESH}: exploring {world}: {how}"))),
    }
}

fn tell_begun(object: &str, world: &str, how: &str) {
    // An output that takes no more ends the command when it prints the result.
    let _ = loco_app::print(format_args!("{object}: exploring {world}: {how}"));
}

/// Removes the line.
pub(super) fn clear(config: &Config) {
    if config.progress.is_some() {
        clear_line();
    }
}

/// Removes the line, whoever wrote it.
pub(super) fn clear_line() {
    draw(format_args!("\r\x1b[K"));
}

/// Replaces the line on the terminal by this one.
pub(super) fn tell(text: std::fmt::Arguments<'_>) {
    draw(format_args!("\r\x1b[K{text}"));
}

/// Returns whether Ctrl-C was pressed.
pub(super) fn is_set(cancel: &AtomicBool) -> bool {
    // Relaxed: the flag publishes no other data.
    cancel.load(Ordering::Relaxed)
}

fn print(progress: &Progress) {
    static LAST_MS: AtomicU64 = AtomicU64::new(0);
    let now = progress.elapsed.as_millis() as u64;
    // Relaxed: it does no harm when two workers print at the same time. A new exploration begins at 0 again.
    let last = LAST_MS.load(Ordering::Relaxed);
    if now >= last && now - last < INTERVAL_MS {
        return;
    }
    LAST_MS.store(now, Ordering::Relaxed);
    draw(format_args!("\r\x1b[K{}", line(progress)));
}

/// Writes to the terminal. An exploration goes on even if the terminal takes no more.
fn draw(text: std::fmt::Arguments<'_>) {
    let _ = std::io::stderr().write_fmt(text);
}

/// Says how large an exploration would be of which a limit left so many states.
pub(super) fn in_all(estimate: &Estimate, states: u64) -> String {
    let at_least = estimate.states_min.max(states as f64);
    match estimate.exact {
        true => format!(
            "{} executions and {} states in all",
            about(estimate.executions),
            about(at_least)
        ),
        false => {
            let (low, high) = estimate.executions_range();
            format!(
                "some {} to {} executions in all, and at least {} states",
                about(low),
                about(high),
                about(at_least)
            )
        }
    }
}

/// Formats a number of which the first digits count.
fn about(number: f64) -> String {
    match number < 1e6 {
        true => format!("{number:.0}"),
        false => format!("{number:.1e}"),
    }
}

fn line(progress: &Progress) -> String {
    let seconds = progress.elapsed.as_secs();
    let done = 100.0 * progress.done;
    if progress.states == 0 {
        return format!(
            "{}, {done:.0} %, {seconds} s",
            counted(progress.executions, "execution")
        );
    }
    let expected = match progress.states_estimated() {
        // Far from the end the estimate is off by orders of magnitude, which is worse than no number.
        Some(states) if progress.done > 0.01 => format!(", about {states} in all"),
        _ => String::new(),
    };
    format!(
        "search {}: {}{expected}, {}, about {done:.1} % of the tree, {seconds} s",
        progress.pass,
        counted(progress.states, "state"),
        counted(progress.executions, "execution")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn the_size_of_the_whole_is_a_range_unless_it_is_known() {
        let estimate = Estimate {
            executions: 5e9,
            error: 1e9,
            states_min: 80.0,
            trials: 20,
            exact: false,
        };
        assert_eq!(
            in_all(&estimate, 1234),
            "some 2.0e9 to 8.0e9 executions in all, and at least 1234 states"
        );
        let exact = Estimate {
            executions: 124.0,
            error: 0.0,
            states_min: 786.0,
            trials: 1,
            exact: true,
        };
        assert_eq!(in_all(&exact, 12), "124 executions and 786 states in all");
    }

    #[test]
    fn estimates_are_shown_once_there_is_something_to_tell_from() {
        let early = Progress {
            pass: 2,
            states: 1_000,
            executions: 3,
            done: 0.000_1,
            elapsed: Duration::from_secs(4),
        };
        assert_eq!(
            line(&early),
            "search 2: 1000 states, 3 executions, about 0.0 % of the tree, 4 s"
        );
        let later = Progress { done: 0.25, ..early };
        assert_eq!(
            line(&later),
            "search 2: 1000 states, about 4000 in all, 3 executions, about 25.0 % of the tree, 4 s"
        );
    }
}
