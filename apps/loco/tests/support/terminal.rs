//! Runs a command on a terminal, which `script` emulates.

use std::io::Result;
use std::process::{Command, Output, Stdio};

use loco_testing::skipped;

/// Runs `command` in a shell on a terminal. The result has everything that it prints. Returns `None` where
/// there is no `script`, and the test counts as skipped.
pub fn on_terminal(command: &str) -> Option<Output> {
    let mut script = Command::new("script");
    script.args(["--quiet", "--return", "--command", command, "/dev/null"]);
    // Without a name of the terminal, or with that of a dumb one, programs draw nothing.
    script.env("TERM", "xterm");
    let output: Result<Output> = script.stdin(Stdio::null()).output();
    if output.is_err() {
        skipped("SCRIPT", "there is no `script` here (Debian: bsdutils)");
    }
    output.ok()
}
