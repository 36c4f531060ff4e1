//! `mowgli generate`: files that `mowgli check` confirms, shards that make up the whole, runs that go on, and refusals. And tests of
//! coreRMA in `check`, `list` and `show`.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use support::{exits, mowgli, stderr, stdout};

const IR: &[&str] = &[
    "generate",
    "--model",
    "corerma",
    "--pivot",
    "IR",
    "--processes",
    "2",
    "--size",
    "10",
];

/// Runs `generate` for the rule IR with further arguments.
fn generate(out: &Path, more: &[&str]) -> std::process::Output {
    let out = out.to_str().unwrap();
    mowgli(&[IR, &["--out", out], more].concat())
}

/// Returns the files of a folder by name.
fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |e: fs::DirEntry| {
        let name = e.file_name().into_string().unwrap();
        (name, fs::read_to_string(e.path()).unwrap())
    };
    entries.map(read).collect()
}

fn tests(folder: &Path) -> BTreeMap<String, String> {
    let mut files = files(folder);
    files.retain(|name, _| name.ends_with(".litmus"));
    files
}

#[test]
fn generated_tests_hold_and_do_not_depend_on_the_threads() {
    let (one, four) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let output = generate(one.path(), &["--threads", "1"]);
    exits(&output, 0);
    assert!(stdout(&output).starts_with("corerma, pivot IR, 2 processes, size 10: "));
    exits(&generate(four.path(), &["--threads", "4"]), 0);
    assert_eq!(files(one.path()), files(four.path()));
    let made = tests(one.path());
    assert!(made.len() > 50, "{}", made.len());
    let checked = mowgli(&["check", "-q", "--model", "corerma", one.path().to_str().unwrap()]);
    exits(&checked, 0);
    assert!(
        stdout(&checked).contains(" 0 differ, 0 unknown"),
        "{}",
        stdout(&checked)
    );
}

#[test]
fn shards_make_up_the_whole_and_slurm_is_understood() {
    let (whole, parts) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    exits(&generate(whole.path(), &[]), 0);
    exits(&generate(parts.path(), &["--shard", "1/3"]), 0);
    let first = tests(parts.path()).len();
    for task in ["11", "12"] {
        let output = Command::new(env!("CARGO_BIN_EXE_mowgli"))
            .args(IR)
            .args(["--out", parts.path().to_str().unwrap(), "--shard", "slurm"])
            .envs([
                ("SLURM_ARRAY_TASK_ID", task),
                ("SLURM_ARRAY_TASK_COUNT", "3"),
                ("SLURM_ARRAY_TASK_MIN", "10"),
            ])
            .output()
            .unwrap();
        exits(&output, 0);
    }
    let (whole, parts) = (tests(whole.path()), tests(parts.path()));
    assert!(0 < first && first < parts.len());
    assert_eq!(whole, parts);
    let outside = mowgli(&[IR, &["--shard", "slurm"]].concat());
    exits(&outside, 2);
    assert!(
        stderr(&outside).contains("SLURM_ARRAY_TASK_ID"),
        "{}",
        stderr(&outside)
    );
}

#[test]
fn a_run_that_was_interrupted_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().to_str().unwrap().to_owned();
    let large = |threads: &'static str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mowgli"));
        command
            .args([
                "generate",
                "--model",
                "corerma",
                "--pivot",
                "R1",
                "--processes",
                "1",
                "--size",
                "10",
            ])
            .args(["--out", out.as_str(), "--threads", threads])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    };
    // Ctrl-C comes when the first unit is on disk: the run is under way.
    let running = large("1").spawn().unwrap();
    let manifest = folder.path().join("manifest.jsonl");
    let lines = || fs::read_to_string(&manifest).map_or(0, |text| text.lines().count());
    while lines() < 3 {
        std::thread::yield_now();
    }
    let interrupted = Command::new("kill")
        .args(["-INT", &running.id().to_string()])
        .status()
        .unwrap();
    assert!(interrupted.success());
    let output = running.wait_with_output().unwrap();
    exits(&output, 130);
    assert!(
        stdout(&output).contains("start again with the same folder"),
        "{}",
        stdout(&output)
    );
    let before = lines();
    assert!(before >= 3);
    // The folder of another run is not gone on with.
    let other = generate(folder.path(), &[]);
    exits(&other, 2);
    assert!(
        stderr(&other).contains("was begun for corerma, pivot R1"),
        "{}",
        stderr(&other)
    );
    assert_eq!(lines(), before);
}

#[test]
fn what_cannot_be_made_is_refused_with_the_remedy() {
    let refused = |args: &[&str], words: &str| {
        let output = mowgli(&[&["generate", "--model"], args].concat());
        exits(&output, 2);
        assert!(stderr(&output).contains(words), "{}", stderr(&output));
    };
    refused(&["corerma"], "--pivot RULE");
    refused(&["corerma", "--pivot", "IR"], "--size S");
    refused(&["corerma", "--pivot", "X9", "--size", "8"], "unknown rule 'X9'");
    refused(
        &["corerma-ib", "--pivot", "IR", "--size", "8"],
        "pivots are R1, R2, F1",
    );
    refused(
        &["corerma", "--pivot", "IR", "--size", "8", "--processes", "9"],
        "PROCESSES_MAX",
    );
    refused(
        &["corerma", "--pivot", "IR", "--size", "8", "--shard", "3/2"],
        "I/N",
    );
    refused(&["nonsense", "--pivot", "IR", "--size", "8"], "corerma");
    let file = tempfile::NamedTempFile::new().unwrap();
    let output = generate(&file.path().join("below"), &[]);
    exits(&output, 2);
    assert!(stderr(&output).contains("cannot write"), "{}", stderr(&output));
}

#[test]
fn json_has_a_row_for_each_source() {
    let output = mowgli(&[IR, &["--json"]].concat());
    exits(&output, 0);
    let json: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    let row = &json["rows"][0];
    assert_eq!(json["version"], 1);
    assert_eq!(row["source"], "corerma, pivot IR, 2 processes, size 10");
    assert_eq!(
        (row["complete"].clone(), row["folder"].clone()),
        (true.into(), "".into())
    );
    assert!(row["tests"].as_u64().unwrap() > 50 && row["outcomes"].as_u64() > row["tests"].as_u64());
}

#[test]
fn tests_of_corerma_are_checked_listed_and_shown() {
    let checked = mowgli(&[
        "check",
        "RMA-6",
        "SB3",
        "-q",
        "--model",
        "corerma,corerma-ib,rdma-tso",
    ]);
    exits(&checked, 0);
    let table = stdout(&checked);
    assert!(
        table.contains("Test     rdma-tso     corerma      corerma-ib"),
        "{table}"
    );
    assert!(
        table.contains("SB3      allowed =    n/a          n/a"),
        "{table}"
    );
    assert!(
        table.contains("RMA-6#4  n/a          forbidden =  allowed"),
        "{table}"
    );
    let report = stdout(&mowgli(&["check", "rma-3a-plain", "--model", "corerma"]));
    assert!(report.contains("States 1\n0:a=T;\nOk\n"), "{report}");
    assert!(stdout(&mowgli(&["list", "corerma16"])).contains("RMA-MP4"));
    assert!(stdout(&mowgli(&["show", "RMA-6"])).starts_with("coreRMA RMA-6\n"));
    let printed = stdout(&mowgli(&["show", "--print", "RMA-3a-plain"]));
    assert!(printed.contains("X.n := get(Y^2)"), "{printed}");
    let json = stdout(&mowgli(&["show", "--json", "RMA-6"]));
    assert!(json.contains("\"Put\""), "{json}");
    let refined = mowgli(&["outcomes", "RMA-6"]);
    exits(&refined, 2);
}

#[test]
fn a_wrong_test_of_corerma_is_drawn_with_its_remedy() {
    let folder = tempfile::tempdir().unwrap();
    support::write(
        folder.path(),
        "t",
        "coreRMA t\n{ x@1=0; y@2=0; }\n P0@1 ;\n x := gte(y^2) ;\nexists (x=0)\n",
    );
    let output = mowgli(&["check", folder.path().to_str().unwrap()]);
    exits(&output, 2);
    let text = stderr(&output);
    assert!(
        text.contains("unknown statement `gte`") && text.contains("did you mean `get`?"),
        "{text}"
    );
    assert!(text.contains("t.litmus:4:7"), "{text}");
}
