//! Model files from outside: wherever the command takes a model, it takes a file.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use std::fs;

use support::{exits, mowgli, stderr, stdout};

/// RDMA^TSO with cell G7 of `oppo` crossed out.
const VARIANT: &str = "\"without G7\"\ninclude \"rdma-tables.cat\"\nlet oppo = oppo \\ (nrW * nrW)\n\
    let buffer = same-thread & (lW * lR)\nlet flush = nfo\ninclude \"rdma-axioms.cat\"\n";

fn variant() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("variant.cat");
    fs::write(&path, VARIANT).unwrap();
    let path = path.to_str().unwrap().to_owned();
    (folder, path)
}

#[test]
fn check_takes_files_beside_built_in_models() {
    let (_folder, path) = variant();
    let models = format!("rdma-tso,{path},rdma-tso.cat");
    let output = mowgli(&["check", "MP1", "--json", "--model", &models]);
    exits(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let settings: Vec<&str> = rows.iter().map(|r| r["setting"].as_str().unwrap()).collect();
    assert_eq!(settings, ["rdma-tso", &path, "rdma-tso.cat"]);
    let verdicts: Vec<&str> = rows.iter().map(|r| r["verdict"].as_str().unwrap()).collect();
    assert_eq!(verdicts, ["forbidden", "allowed", "forbidden"]);
    assert_eq!(rows[1]["expected"], serde_json::Value::Null);
}

#[test]
fn a_model_file_that_does_not_apply_is_marked() {
    let output = mowgli(&["check", "SB3", "--json", "--model", "x86tso.cat"]);
    exits(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let reason = json["rows"][0]["not_applicable"].as_str().unwrap();
    assert!(reason.contains("requires no-remote-operations"), "{reason}");
}

#[test]
fn compare_finds_what_a_variant_allows() {
    let (_folder, path) = variant();
    let models = format!("rdma-tso,{path}");
    let output = mowgli(&["compare", "MP1", "--models", &models]);
    exits(&output, 1);
    let text = stdout(&output);
    assert!(text.contains(&format!("Only {path}: 1")), "{text}");
    let file = mowgli(&[
        "compare",
        "RDMA-3e",
        "--models",
        "rdma-tso.cat,rdma-tso-nopcie.cat",
        "--json",
    ]);
    let built_in = mowgli(&[
        "compare",
        "RDMA-3e",
        "--models",
        "rdma-tso,rdma-tso-nopcie",
        "--json",
    ]);
    exits(&file, built_in.status.code().unwrap());
    let only = |output: &std::process::Output| {
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        json["models"][1]["only_here"].clone()
    };
    assert_eq!(only(&file), only(&built_in));
    let atomicity = mowgli(&[
        "compare",
        "RCAS-fail",
        "--models",
        "rdma-tso.cat/glob,rdma-tso/glob",
    ]);
    exits(&atomicity, 0);
    let text = stdout(&atomicity);
    assert!(text.contains("Only rdma-tso.cat/glob: 0"), "{text}");
}

#[test]
fn explain_names_the_axiom_of_the_file() {
    let output = mowgli(&["explain", "MP1", "--model", "rdma-tso.cat"]);
    exits(&output, 0);
    let text = stdout(&output);
    assert!(
        text.contains("It violates irreflexive \"ob\" (built-in rdma-axioms.cat, line"),
        "{text}"
    );
    assert!(text.contains("-> oppo"), "{text}");
    let output = mowgli(&["explain", "SB3", "--model", "rdma-tso.cat", "--json"]);
    exits(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "allowed");
    assert!(json["witness"]["relations"]["rf"].is_array());
    let output = mowgli(&["explain", "MP1", "--model", "rdma-tso.cat", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["violations"][0]["axiom"], "ob");
    assert!(json["violations"][0]["links"][0]["relation"].is_string());
    let svg = stdout(&mowgli(&[
        "explain",
        "MP1",
        "--model",
        "rdma-tso.cat",
        "--svg",
        "-",
    ]));
    assert!(svg.starts_with("<svg") && svg.contains("oppo"), "{svg}");
    exits(&mowgli(&["explain", "SB3", "--model", "tso.cat"]), 2);
}

#[test]
fn errors_show_file_line_and_remedy_and_exit_with_2() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.cat");
    fs::write(&path, "let a = po | rfx\nacyclic a as x\n").unwrap();
    let path = path.to_str().unwrap();
    for command in [
        &["check", "SB3", "--model", path][..],
        &["explain", "SB3", "--model", path],
        &["compare", "SB3", "--models", &format!("sc,{path}")],
    ] {
        let output = mowgli(command);
        exits(&output, 2);
        let text = stderr(&output);
        assert!(
            text.contains("error[undefined-name]") && text.contains("bad.cat:1:14"),
            "{text}"
        );
        assert!(text.contains("did you mean `rf"), "{text}");
    }
    let output = mowgli(&["check", "SB3", "--model", "missing.cat"]);
    exits(&output, 2);
    assert!(
        stderr(&output).contains("cannot read missing.cat"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_file_includes_what_is_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("part.cat"), "let order = po | rf | rb | mo\n").unwrap();
    let path = folder.path().join("main.cat");
    fs::write(&path, "include \"part.cat\"\nacyclic order as sc\n").unwrap();
    let models = format!("sc,{}", path.display());
    exits(&mowgli(&["compare", "TSO-1a", "--models", &models]), 0);
}

#[test]
fn a_file_has_no_machine() {
    let output = mowgli(&["check", "SB3", "--model", "rdma-tso.cat", "--engine", "both"]);
    exits(&output, 2);
    assert!(
        stderr(&output).contains("has axioms and no machine"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_unknown_model_lists_the_names() {
    let output = mowgli(&["check", "SB3", "--model", "rdma"]);
    exits(&output, 2);
    let text = stderr(&output);
    assert!(
        text.contains("rdma-tso-nopcie") && text.contains("FILE.cat"),
        "{text}"
    );
}
