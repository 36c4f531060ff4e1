//! `loco litmus` as a command: processes that it starts itself or `loco run` starts, results that are kept, and what is said of them.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

const LOCO: &str = env!("CARGO_BIN_EXE_loco");

fn loco(arguments: &[&str]) -> Output {
    let mut command = Command::new(LOCO);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command
        .args(arguments)
        .env("LOCO_FABRIC", "shm")
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn lines(path: &Path) -> usize {
    std::fs::read_to_string(path).unwrap().lines().count()
}

#[test]
fn histograms_have_the_verdicts_of_the_model() {
    for nodes in ["1", "2"] {
        let output = loco(&["litmus", "run", "MP1", "SB1", "--runs", "100", "--nodes", nodes]);
        let out = text(&output.stdout);
        assert!(output.status.success(), "{output:?}");
        assert!(out.contains("Test MP1 Allowed\nHistogram ("), "{out}");
        assert!(
            out.contains("allowed, seen ") && out.contains("Observation SB1 "),
            "{out}"
        );
        assert!(!out.contains("FORBIDDEN"), "{out}");
    }
}

#[test]
fn a_job_of_the_launcher_runs_tests_and_the_same_command_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let (kept, model) = (folder.path().join("r.jsonl"), folder.path().join("m.cat"));
    let path = kept.to_str().unwrap();
    let first = [
        "run",
        "-n",
        "2",
        "--no-prefix",
        "--",
        LOCO,
        "litmus",
        "run",
        "tables",
        "--runs",
        "50",
        "-q",
        "-o",
        path,
    ];
    assert!(loco(&first).status.success());
    let there = lines(&kept);
    assert_eq!(there, 8);
    // A crash in the middle of a line: the rest of the line is lost, and its test is made again.
    let whole = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, &whole[..whole.len() - 30]).unwrap();
    let output = loco(&first);
    assert!(text(&output.stdout).contains("7 tests left out"), "{output:?}");
    assert_eq!(lines(&kept), there);

    let table = loco(&["litmus", "table", path]);
    assert!(text(&table.stdout).contains("tables"), "{table:?}");
    let inferred = loco(&["litmus", "infer", path, "--model", model.to_str().unwrap()]);
    assert!(
        text(&inferred.stdout).contains("never contradicted"),
        "{inferred:?}"
    );
    // The model judges tests in its turn.
    let judged = loco(&[
        "litmus",
        "run",
        "MP1",
        "--runs",
        "10",
        "--model",
        model.to_str().unwrap(),
    ]);
    assert!(text(&judged.stdout).contains("Observation MP1"), "{judged:?}");
}

#[test]
fn mistakes_are_reported_once_and_name_the_remedy() {
    for (arguments, said) in [
        (
            &["litmus", "run", "NOWHERE"][..],
            "NOWHERE is no file, no folder, and no test of the catalogue",
        ),
        (
            &["litmus", "run", "MP1", "--stress", "pin=near"],
            "expected one of free, together, apart",
        ),
        (&["litmus", "run", "MP1", "--model", "vax"], "unknown model 'vax'"),
        (
            &["litmus", "table", "/nowhere.jsonl"],
            "/nowhere.jsonl: No such file",
        ),
        (
            &["litmus", "infer", "/dev/null/x"],
            "/dev/null/x: Not a directory",
        ),
    ] {
        let output = loco(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert_eq!(error.matches(said).count(), 1, "{arguments:?}: {error}");
    }
}
