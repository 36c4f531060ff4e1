//! `mowgli robust`: verdicts, reasons, statements, exit statuses, JSON and drawings.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::process::Output;

use serde_json::Value;

use support::{folder_with, mowgli, stdout as text, write};

mod support;

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_catalogue_is_as_it_states() {
    let output = mowgli(&["robust", "--quiet"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert!(
        text(&output).contains("0 wrong, 0 unchecked"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_weak_program_gets_its_pair_its_cell_and_its_cycle() {
    let output = mowgli(&["robust", "ROB-3b", "--model", "rdma-tso", "--exact"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output);
    for part in [
        "Test ROB-3b under rdma-tso: not robust",
        "P0 may reorder `a := y^2` and `z^3 := 1`",
        "cell D3 of Fig. 5",
        "needed: a poll of the earlier operation",
        "cycle",
        "-rf->",
        "1 not robust",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
}

#[test]
fn every_verdict_has_a_name() {
    let verdict = |name: &str| text(&mowgli(&["robust", name, "--model", "rdma-sc"]));
    assert!(verdict("ROB-1a").contains("robust by Cor. 1"));
    assert!(verdict("ROB-2c").contains("robust by Thm. 5"));
    assert!(verdict("ROB-6b").contains("robust, exhaustively"));
    // The test states nothing, so that no search runs.
    assert!(verdict("nrW-nlR").contains("under rdma-sc: not shown"));
}

/// Under TSO the clause that fails is the one of appendix B.
#[test]
fn clauses_are_those_of_the_model() {
    let clause = |model: &str| {
        let output = mowgli(&["robust", "ROB-3b", "--model", model, "--json"]);
        json(&output)["rows"][0]["conditions"][1]["clause"].clone()
    };
    assert_eq!(clause("rdma-sc"), "Def. 8");
    assert_eq!(clause("rdma-tso"), "Def. 13");
}

/// Nothing was asked, so no time has passed: not even a negative one.
#[test]
fn a_run_without_rows_says_so() {
    let folder = tempfile::tempdir().unwrap();
    write(
        folder.path(),
        "x",
        "PPC SB\n{ }\n P0 ;\n li r1,1 ;\nexists (x=1)\n",
    );
    let output = mowgli(&["robust", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output).contains("0 rows") && text(&output).contains("; 0.00 s"),
        "{}",
        text(&output)
    );
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .contains("for `PPC`, not for `RDMA`")
    );
}

#[test]
fn a_wrong_statement_is_a_difference() {
    let folder = folder_with("exists (z=1)\nrobust [rdma-sc;]");
    let output = mowgli(&["robust", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("The test states `robust`: DIFFERS"));
}

#[test]
fn a_test_without_an_execution_is_vacuous() {
    let folder = tempfile::tempdir().unwrap();
    let source = "RDMA v\n{ x@1=0; }\n P0@1 ;\n x := 1 ;\n assume(0) ;\nexists (x=1)\n";
    write(folder.path(), "v", source);
    let output = mowgli(&["robust", folder.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("vacuous"));
}

#[test]
fn a_limit_leaves_the_verdict_unknown() {
    let output = mowgli(&[
        "robust", "ROB-6b", "--exact", "--model", "rdma-sc", "--limit", "states=1",
    ]);
    assert_eq!(output.status.code(), Some(3), "{}", text(&output));
}

#[test]
fn json_has_the_documented_fields() {
    let output = mowgli(&[
        "robust", "ROB-3b", "ROB-2c", "--model", "rdma-sc", "--exact", "--json",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let document = json(&output);
    assert_eq!(document["version"], 1);
    let weak = &document["rows"][0];
    assert_eq!(weak["verdict"], "not-robust");
    assert_eq!(weak["conditions"][1]["name"], "fenced");
    assert_eq!(weak["conditions"][1]["holds"], false);
    assert_eq!(weak["conditions"][1]["pair"]["cell"], "D3");
    assert_eq!(weak["conditions"][1]["pair"]["later_at"], serde_json::json!([1]));
    let cycle = weak["cycle"].as_array().unwrap();
    for (at, edge) in cycle.iter().enumerate() {
        assert_eq!(edge["to"], cycle[(at + 1) % cycle.len()]["from"]);
    }
    assert_eq!(document["rows"][1]["by"], "theorem-5");
    assert_eq!(document["totals"]["differ"], 0);
}

#[test]
fn drawings_show_the_execution_or_the_pair() {
    for (args, marked) in [(vec!["--exact"], ">rf<"), (vec![], ">po<")] {
        // ROB-3b states its robustness and is searched anyway; nrW-nlR states nothing.
        let name = if args.is_empty() { "nrW-nlR" } else { "ROB-3b" };
        let all = [vec!["robust", name, "--model", "rdma-sc", "--svg", "-"], args].concat();
        let output = mowgli(&all);
        assert_eq!(output.status.code(), Some(0));
        let svg = text(&output);
        assert!(svg.starts_with("<svg") && svg.contains(marked), "{svg}");
    }
    let several = mowgli(&["robust", "ROB-3b", "--svg", "-"]);
    assert_eq!(several.status.code(), Some(2), "two models, one drawing");
}

fn refused(args: &[&str]) -> String {
    let output = mowgli(&[&["robust"], args].concat());
    assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output));
    String::from_utf8(output.stderr).unwrap()
}

/// Under a model file the search answers, and the conditions, which are theorems about other models, are not asked.
#[test]
fn a_model_file_gets_the_exact_answer() {
    let output = mowgli(&["robust", "ROB-6b", "ROB-3b", "--model", "rdma-sc.cat"]);
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output);
    for part in [
        "Test ROB-6b under rdma-sc.cat: robust, exhaustively",
        "Test ROB-3b under rdma-sc.cat: not robust",
        "not asked: they are about rdma-sc, rdma-tso and rdma-wait",
        "-rf->",
        "1 robust, 1 not robust",
    ] {
        assert!(shown.contains(part), "no {part:?} in\n{shown}");
    }
    let document = json(&mowgli(&["robust", "ROB-3b", "--model", "rdma-sc.cat", "--json"]));
    let row = &document["rows"][0];
    assert_eq!(row["setting"], "rdma-sc.cat");
    assert_eq!(row["verdict"], "not-robust");
    assert_eq!(row["conditions"], serde_json::json!([]));
    assert_eq!(row["pre_executions"], Value::Null);
    assert!(row["cycle"].is_array());
    let drawn = mowgli(&["robust", "ROB-3b", "--model", "rdma-sc.cat", "--svg", "-"]);
    assert!(text(&drawn).starts_with("<svg") && text(&drawn).contains(">rf<"));
}

#[test]
fn a_model_file_of_ones_own_is_read_and_checked() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let coherent = file("coherent.cat", "acyclic po-loc | com as coherence\n");
    let output = mowgli(&["robust", "shm-SB", "--model", &coherent]);
    assert!(text(&output).contains("not robust"), "{}", text(&output));
    let nothing = file("nothing.cat", "empty po as nothing-runs\n");
    let output = mowgli(&["robust", "shm-SB", "--model", &nothing]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output).contains("vacuous"), "{}", text(&output));
    let wrong = file("wrong.cat", "acyclic po | nowhere\n");
    assert!(refused(&["shm-SB", "--model", &wrong]).contains("nowhere"));
    assert!(refused(&["shm-SB", "--model", "absent.cat"]).contains("absent.cat"));
    assert!(refused(&["shm-SB", "--model", &coherent, "--fix"]).contains("--fix"));
}

/// Built-in models for which the paper has no theorem are asked exactly; what has no meaning is refused with the remedy.
#[test]
fn every_built_in_model_has_an_answer_or_a_reason() {
    let output = mowgli(&["robust", "ROB-1a", "--model", "rdma-tso-nopcie"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(
        text(&output).contains("under rdma-tso-nopcie: robust, exhaustively"),
        "{}",
        text(&output)
    );
    let output = mowgli(&["robust", "shm-SB", "--model", "sc,tso"]);
    assert!(
        text(&output).contains("1 robust, 1 not robust"),
        "{}",
        text(&output)
    );
    assert!(refused(&["ROB-3c", "--model", "rdma-wait"]).contains("wait(d)"));
    assert!(refused(&["ROB-3b", "--model", "tso"]).contains("no remote operations"));
    assert!(refused(&["ROB-3b", "--model", "tso.cat"]).contains("requires"));
    assert!(refused(&["ROB-3b", "--model", "corerma"]).contains("coreRMA"));
    // Among several tests those without a meaning are counted.
    let output = mowgli(&["robust", "ROB-3c", "shm-SB", "--model", "tso", "--json"]);
    assert_eq!(json(&output)["totals"]["not_applicable"], 1);
    let output = mowgli(&["robust", "ROB-3c", "shm-SB", "--model", "tso.cat", "--json"]);
    assert_eq!(json(&output)["totals"]["not_applicable"], 1);
}

#[test]
fn a_weak_test_is_mended_and_verified() {
    let output = mowgli(&["robust", "ROB-1b", "--model", "rdma-tso", "--fix"]);
    let report = text(&output);
    assert!(
        report.contains("Mended at cost 20 (rfence=1,mfence=2,poll=20,move=10,get=4)"),
        "{report}"
    );
    assert!(
        report.contains("robust by Theorem 5 and exhaustively")
            || report.contains("by Corollary 1 and exhaustively"),
        "{report}"
    );
    assert!(report.contains(" poll(2) (* added *) ;"), "{report}");
    // The printed program is a test again, and robust.
    let listing = report.split("RDMA ROB-1b+mended").nth(1).unwrap();
    let listing = listing.split("\nTest ").next().unwrap();
    let end = listing.find("robust [rdma-tso;]").unwrap() + "robust [rdma-tso;]".len();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mended.litmus");
    std::fs::write(&file, format!("RDMA ROB-1b+mended{}\n", &listing[..end])).unwrap();
    let again = mowgli(&["robust", file.to_str().unwrap(), "--model", "rdma-tso"]);
    assert_eq!(again.status.code(), Some(0), "{}", text(&again));
    let output = mowgli(&[
        "robust", "SB3", "--model", "rdma-tso", "--fix", "--exact", "--json",
    ]);
    let document = json(&output);
    let fix = &document["rows"][0]["fix"];
    assert_eq!(fix["mended"], true, "{fix}");
    assert_eq!(fix["minimal"], "proved", "{fix}");
    assert_eq!(fix["exactly_robust"], true, "{fix}");
    for wrong in [&["--fix", "--cost", "poll=0"][..], &["--cost", "poll=2"]] {
        let output = mowgli(&[&["robust", "SB3"], wrong].concat());
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    }
}
