//! `mowgli generate` for models with rules, `mowgli distinguish` and `mowgli faults` as commands.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use support::{exits, mowgli, stderr, stdout};

fn files(folder: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(folder).unwrap().map(Result::unwrap);
    let read = |e: fs::DirEntry| {
        let name = e.file_name().into_string().unwrap();
        (name, fs::read_to_string(e.path()).unwrap())
    };
    entries.map(read).collect()
}

#[test]
fn tests_of_a_cell_hold_and_do_not_depend_on_the_threads() {
    let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    for (folder, threads) in folders.iter().zip(["1", "3"]) {
        let out = folder.path().to_str().unwrap();
        let generate = [
            "generate", "--model", "rdma-tso", "--pivot", "oppo:B2", "--size", "3",
        ];
        exits(
            &mowgli(&[&generate[..], &["--out", out, "--threads", threads]].concat()),
            0,
        );
    }
    let made = files(folders[0].path());
    assert_eq!(made, files(folders[1].path()));
    let tests = made.iter().filter(|(name, _)| name.ends_with(".litmus"));
    assert!(tests.clone().count() > 3);
    assert!(
        tests
            .clone()
            .all(|(_, text)| text.contains("its pivot oppo:B2") && text.contains("forbidden [rdma-tso;]"))
    );
    let out = folders[0].path().to_str().unwrap();
    let checked = mowgli(&["check", out, "--model", "rdma-tso", "--engine", "both", "-q"]);
    exits(&checked, 0);
    assert!(stdout(&checked).contains(" 0 differ"), "{}", stdout(&checked));
}

#[test]
fn axioms_and_named_relations_of_a_file_are_pivots() {
    let folder = tempfile::tempdir().unwrap();
    let model = folder.path().join("mine.cat");
    let text = "\"Coherence and no more\"\nlet com = rf | rb | mo\nacyclic po & loc | com as coherence\n";
    fs::write(&model, text).unwrap();
    let model = model.to_str().unwrap();
    let out = folder.path().join("out");
    let generate = |pivot: &str| {
        let out = out.to_str().unwrap();
        let _ = fs::remove_dir_all(out);
        let bounds = ["--size", "2", "--without", "cas,put"];
        mowgli(
            &[
                &["generate", "--model", model, "--pivot", pivot, "--out", out],
                &bounds[..],
            ]
            .concat(),
        )
    };
    exits(&generate("coherence"), 0);
    // CoWW, CoRW1, CoWR of one thread, each with two instructions.
    let tests: Vec<String> = files(&out)
        .into_iter()
        .filter(|f| f.0.ends_with(".litmus"))
        .map(|f| f.1)
        .collect();
    assert_eq!(tests.len(), 3, "{tests:#?}");
    assert!(
        tests
            .iter()
            .all(|t| t.contains("~exists") && t.contains("its pivot coherence"))
    );
    exits(&generate("com"), 0);
    let refused = generate("con");
    exits(&refused, 2);
    let error = stderr(&refused);
    assert!(
        error.contains("no rule 'con' (did you mean com?)") && error.contains("coherence com"),
        "{error}"
    );
}

#[test]
fn corerma_and_rdma_are_compared_on_their_common_language() {
    let compare = |first: &str, second: &str, size: &str| {
        let bounds = ["--size", size, "--smallest", "--processes", "2", "--nodes", "2"];
        stdout(&mowgli(&[&["distinguish", first, second], &bounds[..]].concat()))
    };
    let found = compare("corerma", "rdma-tso", "3");
    assert!(
        found.contains("separating corerma and rdma-tso (size 3, 2 threads, 2 nodes"),
        "{found}"
    );
    assert!(!found.contains("cas(") && !found.contains("mfence"), "{found}");
}

/// Two models of coreRMA are separated by tests of coreRMA, and what these state holds.
#[test]
fn models_of_corerma_are_separated_by_their_own_tests() {
    let separated = mowgli(&["distinguish", "corerma", "corerma-IR", "--smallest", "--json"]);
    exits(&separated, 1);
    let document: serde_json::Value = serde_json::from_str(&stdout(&separated)).unwrap();
    assert_eq!(document["complete"], true);
    let tests = document["tests"].as_array().unwrap();
    assert!(!tests.is_empty());
    let folder = tempfile::tempdir().unwrap();
    for test in tests {
        assert_eq!(test["forbidden_by"], "corerma", "{test}");
        let text = test["litmus"].as_str().unwrap();
        assert!(text.starts_with("coreRMA corerma-corerma-unordered-S"), "{text}");
        let path = folder
            .path()
            .join(format!("{}.litmus", test["name"].as_str().unwrap()));
        fs::write(path, text).unwrap();
    }
    let models = "corerma,corerma-IR";
    let checked = mowgli(&["check", folder.path().to_str().unwrap(), "-q", "--model", models]);
    exits(&checked, 0);
    exits(&mowgli(&["distinguish", "corerma", "corerma-fig4"]), 1);
    exits(
        &mowgli(&["distinguish", "sc", "corerma", "--size", "5", "--processes", "1"]),
        1,
    );
    let refused = mowgli(&["distinguish", "corerma", "sc", "--without", "put"]);
    exits(&refused, 2);
    assert!(stderr(&refused).contains("--without"), "{}", stderr(&refused));
}

#[test]
fn one_of_a_kind_is_not_many() {
    let bounds = ["--size", "1", "--processes", "1", "--nodes", "1"];
    let found = stdout(&mowgli(
        &[&["distinguish", "sc", "rdma-tso"], &bounds[..]].concat(),
    ));
    assert!(found.contains("1 thread, 1 node, "), "{found}");
}

#[test]
fn a_suite_is_told_what_it_misses() {
    let output = mowgli(&[
        "faults",
        "rdma-tso",
        "--size",
        "2",
        "--without",
        "cas",
        "--suite",
        "ST1",
    ]);
    exits(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("oppo:B6: oppo B6: CPU write before NIC local read, not ordered; 2 instructions, forbidden, suite: ST1"), "{text}");
    let missed = text.lines().find(|l| l.starts_with("The suite misses:")).unwrap();
    assert!(
        missed.contains(" oppo:B2 ") && !missed.contains(" oppo:B6 "),
        "{missed}"
    );
    exits(&mowgli(&["faults", "rdma-tso", "--size", "2"]), 0);
    exits(&mowgli(&["faults", "rdma-tso", "--size", "0"]), 2);
}
