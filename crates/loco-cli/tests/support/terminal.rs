//! A command as seen on a terminal, which `script` plays.

use std::io::Result;
use std::process::{Command, Output, Stdio};

/// Runs `command` in a shell on a terminal; all that it prints is the output. `None`, and a word about it, without
/// `script`.
pub fn on_terminal(command: &str) -> Option<Output> {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", command, "/dev/null"]);
    let output: Result<Output> = script.stdin(Stdio::null()).output();
    if output.is_err() {
        eprintln!("SKIPPED: no `script` here (Debian: bsdutils)");
    }
    output.ok()
}
