//! Numbers of things in the words of reports, used by every crate that writes some.

use std::fmt::Display;

/// Writes a number of things: `1 test`, `2 tests`. The plural of `thing` must end in `s`.
pub fn counted<N: Display + PartialEq + From<bool>>(n: N, thing: &str) -> String {
    let plural = if n == N::from(true) { "" } else { "s" };
    format!("{n} {thing}{plural}")
}
