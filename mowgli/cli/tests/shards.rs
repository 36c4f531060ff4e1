//! Shares of a run: their JSON, joined by `mowgli merge`, is that of the whole run, for every command that has shares.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use support::{exits, mowgli, stderr, stdout};

/// Removes times, which differ from run to run.
fn timeless(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| name != "time_s" && name != "seconds");
            members.values_mut().for_each(timeless);
        }
        Value::Array(items) => items.iter_mut().for_each(timeless),
        _ => {}
    }
}

fn json(text: &str) -> Value {
    let mut value = serde_json::from_str(text).unwrap();
    timeless(&mut value);
    value
}

/// Writes the JSON of each of three shares into a file.
fn shares(folder: &Path, arguments: &[&str]) -> Vec<PathBuf> {
    let share = |index: usize| {
        let shard = format!("{index}/3");
        let output = mowgli(&[arguments, &["--json", "--shard", &shard]].concat());
        let path = folder.join(format!("{index}.json"));
        fs::write(&path, stdout(&output)).unwrap();
        path
    };
    (1..=3).map(share).collect()
}

fn merge(paths: &[PathBuf]) -> std::process::Output {
    let paths: Vec<&str> = paths.iter().map(|p| p.to_str().unwrap()).collect();
    mowgli(&[&["merge"], paths.as_slice()].concat())
}

/// Asserts that the shares of a run make up the whole, and returns the whole.
fn make_up_the_whole(arguments: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let mut paths = shares(folder.path(), arguments);
    // The order of the files does not matter.
    paths.reverse();
    let merged = merge(&paths);
    exits(&merged, 0);
    let whole = json(&stdout(&mowgli(&[arguments, &["--json"]].concat())));
    assert_eq!(json(&stdout(&merged)), whole, "{arguments:?}");
    whole
}

#[test]
fn shares_of_check() {
    let whole = make_up_the_whole(&["check", "MP1", "SB1", "ST8", "TSO-1a", "RDMA-3e"]);
    assert!(whole["rows"].as_array().unwrap().len() > 10);
}

#[test]
fn shares_of_robust() {
    let whole = make_up_the_whole(&["robust", "SB3", "ROB-3b", "MP1", "ST8", "--exact"]);
    assert!(whole["rows"].as_array().unwrap().len() > 3);
}

#[test]
fn shares_of_refine() {
    let whole = make_up_the_whole(&["refine", "I_SV", "--calls", "2"]);
    assert!(whole["clients"].as_u64().unwrap() > 10 && whole["refuted_by"].is_null());
    make_up_the_whole(&["refine", "I_SV", "--calls", "3", "--random", "50"]);
}

#[test]
fn shares_of_a_refutation() {
    let whole = make_up_the_whole(&["refine", "I_BAL/no-fence", "--calls", "4"]);
    assert!(whole["refuted_by"]["number"].as_u64().unwrap() > 1, "{whole}");
}

#[test]
fn shares_of_distinguish() {
    let whole = make_up_the_whole(&[
        "distinguish",
        "rdma-sc",
        "rdma-tso",
        "--size",
        "4",
        "--processes",
        "2",
        "--nodes",
        "2",
        "--without",
        "cas,rfence,poll",
    ]);
    let tests = whole["tests"].as_array().unwrap();
    assert!(tests.len() > 3);
    assert!(tests.iter().all(|test| test["confirmed"] == Value::Bool(true)));
    let sizes: Vec<u64> = tests.iter().map(|t| t["size"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted(), "the smallest come first");
}

#[test]
fn shares_of_generate() {
    let whole = make_up_the_whole(&["generate", "--model", "rdma-tso", "--pivot", "G8", "--size", "3"]);
    assert!(whole["rows"][0]["tests"].as_u64().unwrap() > 1, "{whole}");
}

#[test]
fn slurm_says_which_share() {
    let task = |id: &str| {
        Command::new(env!("CARGO_BIN_EXE_mowgli"))
            .args(["check", "MP1", "SB1", "--json", "--shard", "slurm"])
            .env("SLURM_ARRAY_TASK_ID", id)
            .env("SLURM_ARRAY_TASK_COUNT", "2")
            .env("SLURM_ARRAY_TASK_MIN", "0")
            .output()
            .unwrap()
    };
    let named = mowgli(&["check", "MP1", "SB1", "--json", "--shard", "2/2"]);
    assert_eq!(json(&stdout(&task("1"))), json(&stdout(&named)));
    exits(&task("2"), 2);
}

#[test]
fn lines_of_loco_check_are_put_into_the_order_of_the_whole() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let second = write("b", "{\"shard\":\"2/2\"}\n{\"object\":\"y\"}\n");
    let first = write(
        "a",
        "{\"shard\":\"1/2\"}\n{\"object\":\"x\"}\n{\"object\":\"z\"}\n",
    );
    let merged = merge(&[second, first]);
    exits(&merged, 0);
    assert_eq!(
        stdout(&merged),
        "{\"object\":\"x\"}\n{\"object\":\"y\"}\n{\"object\":\"z\"}\n"
    );
}

#[test]
fn shares_that_do_not_make_up_a_run_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let paths = shares(folder.path(), &["check", "MP1", "SB1", "--model", "rdma-tso"]);
    let refused = |paths: &[PathBuf], wanted: &str| {
        let output = merge(paths);
        exits(&output, 2);
        assert!(stderr(&output).contains(wanted), "{}", stderr(&output));
    };
    refused(&paths[..2], "no file has share 3/3");
    refused(
        &[paths[0].clone(), paths[1].clone(), paths[1].clone()],
        "are both share 2/3",
    );
    let whole = folder.path().join("whole.json");
    fs::write(&whole, stdout(&mowgli(&["check", "MP1", "--json"]))).unwrap();
    refused(&[whole], "is not the JSON of a share");
    let other = folder.path().join("other.json");
    let engine = ["check", "MP1", "--engine", "both", "--json", "--shard", "3/3"];
    fs::write(&other, stdout(&mowgli(&engine))).unwrap();
    refused(
        &[paths[0].clone(), paths[1].clone(), other],
        "different runs: engine",
    );
    refused(&[folder.path().join("none.json")], "cannot read");
}

/// Shares of two runs are refused even if they fit by number and kind.
#[test]
fn shares_of_different_runs_are_refused() {
    let runs: [[&[&str]; 2]; 4] = [
        [&["check", "MP1", "SB1"], &["check", "MP1", "SB3"]],
        [
            &["check", "MP1", "SB1", "-m", "rdma-tso"],
            &["check", "MP1", "SB1", "-m", "rdma-sc"],
        ],
        [&["robust", "SB3", "MP1"], &["robust", "SB3", "MP1", "--exact"]],
        [
            &["refine", "I_SV", "--calls", "1"],
            &["refine", "I_SV", "--calls", "2"],
        ],
    ];
    for [one, other] in runs {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let (mut mixed, others) = (shares(folders[0].path(), one), shares(folders[1].path(), other));
        exits(&merge(&mixed), 0);
        mixed[2] = others[2].clone();
        let refused = merge(&mixed);
        exits(&refused, 2);
        assert!(
            stderr(&refused).contains("different runs"),
            "{}",
            stderr(&refused)
        );
    }
}
