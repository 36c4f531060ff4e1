//! Runs the `kv` command as a job, for its tests.

use std::io::Write as _;
use std::process::{Command, Output, Stdio};

/// Returns the command of a job of so many nodes.
pub fn job(nodes: usize, args: &[&str]) -> Command {
    loco_testing::launched::job(env!("CARGO_BIN_EXE_kv"), nodes, args)
}

/// Gives a shell on so many nodes these commands, and returns how it ended and what it printed.
pub fn shell(nodes: usize, commands: &str) -> Output {
    let mut child = job(nodes, &["shell"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(commands.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}
