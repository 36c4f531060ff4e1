//! Checks commands whose standard output cannot be written. A full disk is an error with its reason, a reader
//! that has gone ends the command quietly, and nothing panics.

#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::process::{Command, Stdio};

const LOCO: &str = env!("CARGO_BIN_EXE_loco");

/// Every subcommand that prints a result, as quick as it can be.
const COMMANDS: [&[&str]; 15] = [
    &["--help"],
    &["--version"],
    &["help", "check"],
    &["fabrics"],
    &["fabrics", "--json"],
    &["doctor"],
    &["doctor", "--json"],
    &["check", "sst", "--nodes", "2"],
    &["check", "sst", "--nodes", "2", "--json"],
    &["bench", "put", "--iters", "100", "--json"],
    &["stress", "atomic", "--ops", "20"],
    &["demo", "--quick"],
    &["litmus", "run", "MP1", "--runs", "20"],
    &["litmus", "run", "MP1", "--runs", "20", "--json"],
    &["run", "-n", "2", "--", "echo", "hello"],
];

/// Returns exit code and standard error of the command with this standard output.
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
            said.starts_with("loco: writing the output: No space left on device"),
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

#[test]
fn the_version_is_that_of_the_command() {
    let output = Command::new(LOCO).arg("--version").output().unwrap();
    assert!(output.stdout.starts_with(b"loco "), "{output:?}");
}

#[test]
fn records_name_the_fabric_that_was_used() {
    let output = Command::new(LOCO)
        .args(["stress", "atomic", "--ops", "20", "--json", "--fabric", "auto"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let record: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let fabric = record["fabric"].as_str();
    assert!(
        fabric.is_some_and(|name| !["", "auto"].contains(&name)),
        "{record}"
    );
}

/// A command whose messages cannot be written ends as it would otherwise.
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

/// Collects every field name in `value`, at any depth, that the page does not have in backquotes.
fn undocumented(value: &serde_json::Value, page: &str, found: &mut Vec<String>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (name, value) in fields {
                if !page.contains(&format!("`{name}`")) {
                    found.push(name.clone());
                }
                // These hold a type of a library, which the page names.
                if !["completeness", "stats", "ports", "chosen"].contains(&name.as_str()) {
                    undocumented(value, page, found);
                }
            }
        }
        serde_json::Value::Array(values) => {
            values.iter().for_each(|value| undocumented(value, page, found));
        }
        _ => {}
    }
}

#[test]
fn what_json_prints_is_documented() {
    let page = include_str!("../../../docs/json.md");
    for arguments in [
        &["fabrics", "--json"][..],
        &["doctor", "--json"],
        &["check", "sst", "--nodes", "2", "--json"],
        &["check", "sst", "--soak", "1s", "--json"],
        &["check", "barrier", "--clients", "threads<=2,calls<=1", "--json"],
        &["check", "--client", "LOCO-5.1-fail", "--json"],
        &["bench", "put", "--iters", "100", "--json"],
        &["bench", "barrier", "--iters", "100", "--json"],
        &["bench", "lock", "--duration", "0.1", "--json"],
        &["bench", "kv", "--duration", "0.1", "--json"],
        &["demo", "--quick", "--json"],
        &["stress", "ticket-lock", "--ops", "600", "--json"],
        &["litmus", "run", "MP1", "SB1", "--runs", "20", "--json"],
    ] {
        let mut command = Command::new(LOCO);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
            command.env_remove(name);
        }
        let output = command
            .args(arguments)
            .env("LOCO_FABRIC", "shm")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(!text.is_empty(), "{arguments:?}: {:?}", output.stderr);
        for line in text.lines() {
            let mut found = Vec::new();
            undocumented(&serde_json::from_str(line).unwrap(), page, &mut found);
            assert!(found.is_empty(), "{arguments:?}: docs/json.md lacks {found:?}");
        }
    }
}

/// Figures that were not measured are left out, and not given as 0.
#[test]
fn results_that_do_not_apply_are_left_out() {
    let output = Command::new(LOCO)
        .args(["bench", "lock", "--duration", "0.1", "--json", "--fabric", "shm"])
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let records: Vec<serde_json::Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let results = |name: &str| &records.iter().find(|record| record["name"] == name).unwrap()["results"];
    assert!(
        results("lock")["latency_ns_p50"]
            .as_u64()
            .is_some_and(|time| time > 0),
        "{text}"
    );
    assert!(results("lock").get("bytes_per_second").is_none(), "{text}");
    let hand_overs = results("lock-hand-overs").as_object().unwrap();
    assert_eq!(
        hand_overs.keys().collect::<Vec<_>>(),
        ["operations_per_second"],
        "{text}"
    );
}

/// Longer lines would break in the middle of a sentence.
#[test]
fn help_fits_a_terminal_of_eighty_columns() {
    for command in ["run", "demo", "check", "fabrics", "doctor", "bench", "stress"] {
        let output = Command::new(LOCO)
            .args([command, "--help"])
            .env("COLUMNS", "80")
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        for line in text.lines() {
            assert!(line.chars().count() <= 80, "loco {command} --help: {line}");
        }
    }
}
