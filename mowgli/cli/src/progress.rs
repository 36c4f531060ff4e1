//! Shows on standard error that long work goes on.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// Makes a progress bar on standard error. It is hidden unless standard error is a terminal.
pub(crate) fn bar(jobs: usize) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(jobs as u64);
    // One search may take long; the clock shows that the command is alive.
    bar.enable_steady_tick(Duration::from_millis(100));
    // The template is a constant that parses; the fallback is the crate's own style.
    if let Ok(style) = ProgressStyle::with_template("{bar:30} {pos}/{len} {elapsed} {msg}") {
        bar.set_style(style);
    }
    bar
}

/// Makes a progress bar on standard error for work that is counted in `units`, with an estimate of the time left. It is
/// hidden unless standard error is a terminal.
pub(crate) fn work(units: &str) -> ProgressBar {
    let bar = bar(0);
    let template = format!("{{bar:30}} {{pos}}/{{len}} {units} {{elapsed}}, {{eta}} left, {{msg}}");
    // The template parses, since `units` is a word.
    if let Ok(style) = ProgressStyle::with_template(&template) {
        bar.set_style(style);
    }
    bar
}

/// Makes a clock with a message on standard error. It is hidden unless standard error is a terminal.
pub(crate) fn clock(message: String) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let clock = ProgressBar::new_spinner().with_message(message);
    clock.enable_steady_tick(Duration::from_millis(100));
    // The template is a constant that parses.
    if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {msg}") {
        clock.set_style(style);
    }
    clock
}
