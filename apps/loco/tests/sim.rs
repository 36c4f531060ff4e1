//! Checks what `loco sim` says of programs: that nothing was found in so many executions, or what it cannot run.
#![allow(clippy::unwrap_used)]

use std::process::{Command, Output, Stdio};

fn sim(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loco"))
        .arg("sim")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_program_without_options_gets_small_ones_and_says_which() {
    let output = sim(&["--seconds", "2", "transfer"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.contains("transfer --accounts 3"), "{said}");
    assert!(said.contains("no failure found"), "{said}");
    assert!(said.contains("on tier unordered and on fabric shm"), "{said}");
}

#[test]
fn without_delays_a_program_is_explored_to_its_end() {
    let output = sim(&[
        "--delays",
        "0",
        "--",
        "transfer",
        "--single-lock",
        "--transfers",
        "1",
    ]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(
        said.contains("complete up to 0 delays, on tier unordered and on fabric shm"),
        "{said}"
    );
}

#[test]
fn what_may_happen_is_part_of_the_result() {
    let options = ["--seconds", "2", "--crashes", "1", "--expiries", "2"];
    let output = sim(&[
        &options[..],
        &["--", "transfer", "--single-lock", "--transfers", "1"],
    ]
    .concat());
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    assert!(said.contains("for at most 2 expiries and 1 crash"), "{said}");
}

#[test]
fn one_line_of_json_says_what_was_run() {
    let call = ["--", "transfer", "--single-lock", "--transfers", "1"];
    let options = ["--seconds", "2", "--seed", "9", "--fabric", "shm", "--json"];
    let output = sim(&[&options[..], &call[..]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["program"].as_array().unwrap().len(), 4, "{line}");
    assert_eq!(
        (
            line["mode"].as_str(),
            line["seed"].as_u64(),
            line["fabric"].as_str()
        ),
        (Some("random"), Some(9), Some("shm"))
    );
    assert_eq!(line["passed"].as_bool(), Some(true), "{line}");
    assert_eq!(line["faults"]["crashes"].as_u64(), Some(0), "{line}");
    let executions = line["stats"]["executions"].as_u64();
    assert_eq!(line["completeness"]["Random"].as_u64(), executions, "{line}");
}

#[test]
fn a_failure_has_a_schedule_that_repeats_it() {
    // The shell gets no input, and a line that is no command is a failure of the program.
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    let run = |command: &mut Command, arguments: &[&str]| {
        command
            .arg("sim")
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"fetch a\n").unwrap();
        child.wait_with_output().unwrap()
    };
    let output = run(&mut command, &["--json", "--nodes", "1", "--", "kv", "shell"]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let schedule = line["schedule"].as_str().unwrap();
    let mut again = Command::new(env!("CARGO_BIN_EXE_loco"));
    let output = run(
        &mut again,
        &["--nodes", "1", "--replay", schedule, "--", "kv", "shell"],
    );
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("no command `fetch`"), "{said}");
    assert!(said.contains("again: loco sim --nodes 1 --replay"), "{said}");
    let output = run(
        &mut Command::new(env!("CARGO_BIN_EXE_loco")),
        &["--nodes", "1", "--crashes", "1", "--", "kv", "shell"],
    );
    let said = text(&output.stdout);
    assert!(
        said.contains("again: loco sim --nodes 1 --crashes 1 --replay"),
        "{said}"
    );
}

#[test]
fn calls_that_cannot_be_run_are_bad_usage() {
    for (arguments, part) in [
        (&["power"][..], "no program `power`: there are kv, transfer"),
        (&["--", "transfer", "--accounts", "3"], "give --transfers N"),
        (
            &["--seed", "2", "--delays", "1", "transfer"],
            "cannot be used with",
        ),
        (
            &["--crashes", "1", "--delays", "1", "transfer"],
            "cannot be used with",
        ),
        (
            &["--tier", "ibta", "--fabric", "shm", "transfer"],
            "cannot be used with",
        ),
        (&[], "PROGRAM"),
    ] {
        let output = sim(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(text(&output.stderr).contains(part), "{arguments:?}: {output:?}");
    }
}
