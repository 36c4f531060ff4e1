//! Commands whose standard output takes no more: a full disk is an error with its reason, a reader that has gone ends the
//! command quietly, and nothing panics.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::process::{Command, Stdio};

const LOCO: &str = env!("CARGO_BIN_EXE_loco");

/// Every subcommand that prints a result, as quick as it can be.
const COMMANDS: [&[&str]; 9] = [
    &["fabrics"],
    &["fabrics", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["check", "sst"],
    &["check", "sst", "--json"],
    &["bench", "put", "--iters", "100", "--json"],
    &["demo", "--quick"],
    &["run", "-n", "2", "--", "echo", "hello"],
];

/// Exit code and standard error of the command with this standard output.
fn ends(arguments: &[&str], output: Stdio) -> (Option<i32>, String) {
    let mut command = Command::new(LOCO);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    let ended = command
        .args(arguments)
        .env("LOCO_FABRIC", "shm")
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    (ended.status.code(), String::from_utf8(ended.stderr).unwrap())
}

#[test]
fn a_full_disk_is_an_error_with_its_reason() {
    for arguments in COMMANDS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, said) = ends(arguments, full.into());
        assert_eq!(code, Some(1), "{arguments:?}: {said}");
        assert!(
            said.contains("writing the output: No space left on device"),
            "{arguments:?}: {said}"
        );
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

#[test]
fn a_reader_that_has_gone_ends_the_command_quietly() {
    for arguments in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, said) = ends(arguments, writer.into());
        assert_eq!(code, Some(128 + 13), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}

/// Messages have nowhere to go; that is no reason to end otherwise.
#[test]
fn a_full_standard_error_changes_nothing() {
    for (arguments, expected) in [
        (&["run", "-n", "1", "--", "false"][..], 1),
        (&["check", "sst", "--replay", "nonsense"], 2),
    ] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let status = Command::new(LOCO).args(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(expected), "{arguments:?}");
    }
}
