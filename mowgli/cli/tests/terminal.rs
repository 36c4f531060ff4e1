//! Help texts, tables and lists fit the terminal.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::process::Command;

use support::{exits, stdout};

const COMMANDS: [&str; 12] = [
    "",
    "check",
    "explain",
    "compare",
    "outcomes",
    "refine",
    "robust",
    "serve",
    "list",
    "show",
    "bench",
    "completions",
];

fn in_columns(columns: usize, args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(args)
        .env("COLUMNS", columns.to_string())
        .output()
        .unwrap();
    exits(&output, 0);
    stdout(&output)
}

/// Paragraphs fill their lines: the first word of a line would not have fitted on the line before.
#[test]
fn help_is_broken_at_the_end_of_the_line_only() {
    for command in COMMANDS {
        for columns in [80, 100] {
            let arguments: Vec<&str> = [command, "--help"]
                .into_iter()
                .filter(|a| !a.is_empty())
                .collect();
            let help = in_columns(columns, &arguments);
            let prose = help.split("Usage:").next().unwrap();
            let lines: Vec<&str> = prose.lines().collect();
            for pair in lines.windows(2) {
                let word = pair[1].split(' ').next().unwrap();
                let fits = pair[0].chars().count() + 1 + word.chars().count() <= columns;
                let both = !pair[0].is_empty() && !word.is_empty();
                assert!(
                    !(both && fits),
                    "{command} in {columns} columns:\n{}\n{}",
                    pair[0],
                    pair[1]
                );
            }
        }
    }
}

/// Examples and tables of the help are laid out by hand: they are the same in every terminal of 80 columns or more.
#[test]
fn examples_of_the_help_are_not_broken() {
    for command in COMMANDS {
        let arguments: Vec<&str> = [command, "--help"]
            .into_iter()
            .filter(|a| !a.is_empty())
            .collect();
        let examples = |columns| {
            let help = in_columns(columns, &arguments);
            help[help.find("EXAMPLES").unwrap()..].to_owned()
        };
        assert_eq!(examples(80), examples(110), "{command}");
        assert!(examples(80).lines().all(|l| l.chars().count() <= 80), "{command}");
    }
}

#[test]
fn tables_and_lists_fit() {
    let tests = ["check", "-q", "RMW+store", "SB3", "LOCO-3b"];
    for args in [&tests[..], &["list"], &["explain", "GFP1"], &["explain", "SB3"]] {
        for columns in [80, 132] {
            let text = in_columns(columns, args);
            for line in text.lines() {
                assert!(
                    line.chars().count() <= columns,
                    "{args:?} in {columns} columns: {line}"
                );
            }
        }
    }
    let blocks = in_columns(80, &tests);
    assert_eq!(
        blocks.lines().filter(|l| l.starts_with("Test ")).count(),
        3,
        "{blocks}"
    );
    let one = in_columns(400, &tests);
    assert_eq!(one.lines().filter(|l| l.starts_with("Test ")).count(), 1, "{one}");
}

/// A command whose messages cannot be written ends as it would otherwise.
#[test]
fn a_full_standard_error_changes_nothing() {
    for arguments in [
        &["check", "no-such-test"][..],
        &["merge", "/dev/null"],
        &["--no-such-option"],
    ] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_mowgli"));
        let status = command.args(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(2), "{arguments:?}");
    }
}

/// Output that cannot be written is an error with its reason, also that of clap; a reader that has gone away is none.
#[test]
fn a_full_disk_is_an_error_and_a_closed_pipe_is_not() {
    for arguments in [
        &["--help"][..],
        &["help", "check"],
        &["check", "SB3"],
        &["check", "SB3", "--json"],
        &["explain", "SB3"],
        &["compare", "--models", "rdma-sc,rdma-tso", "SB3"],
        &["robust", "SB3"],
        &["outcomes", "LOCO-13"],
        &["list"],
        &["show", "SB3"],
        &["completions", "bash"],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mowgli"));
        command.args(arguments);
        let normal = command.output().unwrap().status.code();
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = command.stdout(full).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains("No space left on device"), "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = command.stdout(writer).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), normal, "{arguments:?}: {said}");
        assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    }
}
