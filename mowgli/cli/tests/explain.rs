//! `mowgli explain` from outside: which cycle comes first, what an edge says, and where drawings go.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::fs;

mod support;

use support::{exits, folder_with, mowgli, stderr, stdout};

#[test]
fn a_limit_makes_the_explanation_incomplete_and_exits_with_3() {
    let output = mowgli(&["explain", "IRIW2", "--limit", "states=20"]);
    exits(&output, 3);
    let text = stdout(&output);
    assert!(text.contains("limit of"), "{text}");
    assert!(!text.contains("No execution"), "{text}");
}

/// No run satisfies the `assume`, so that no outcome is allowed, required or forbidden.
#[test]
fn a_test_without_executions_is_vacuous_and_exits_with_1() {
    let folder = folder_with("exists (z=0)");
    let file = folder.path().join("t.litmus");
    let text = fs::read_to_string(&file)
        .unwrap()
        .replace("x := 1 ;", "r := x ;\nassume(r==2) ;");
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
    for model in ["rdma-tso", &format!("{models}/rdma-tso.cat")] {
        let output = mowgli(&["explain", file, "--model", model]);
        exits(&output, 1);
        let text = stdout(&output);
        assert!(text.contains("Vacuous.") && !text.contains("Forbidden"), "{text}");
        let output = mowgli(&["explain", file, "--model", model, "--json"]);
        exits(&output, 1);
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(json["vacuous"], true, "{json:#}");
        assert!(json["verdict"].is_null() && json["cycles"].is_null(), "{json:#}");
    }
    exits(&mowgli(&["check", file]), 1);
}

/// The loop ends only after more iterations than its bound, with which there is no execution.
#[test]
fn a_loop_that_needs_more_than_its_bound_leaves_the_answer_open_under_a_model_file() {
    let folder = folder_with("exists (z=0)");
    let file = folder.path().join("t.litmus");
    let loops = "r := 0 ;\nwhile (r<3) bound 2 { r := r+1; } ;";
    let text = fs::read_to_string(&file).unwrap().replace("x := 1 ;", loops);
    fs::write(&file, text).unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models/rdma-tso.cat");
    let output = mowgli(&["explain", file.to_str().unwrap(), "--model", model]);
    exits(&output, 3);
    assert!(stdout(&output).contains("Unknown"), "{}", stdout(&output));
}

/// The wrong order of a thread's own writes is the reason where nothing else is wrong. Sources for the values there are.
#[test]
fn the_order_of_a_threads_own_writes_is_a_reason_and_no_lack_of_sources() {
    let folder = folder_with("exists (z=0)");
    let file = folder.path().join("t.litmus");
    fs::write(
        &file,
        "RDMA t\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nx := 2 ;\nexists (x=1)\n",
    )
    .unwrap();
    let file = file.to_str().unwrap();
    let models = concat!(env!("CARGO_MANIFEST_DIR"), "/../../models");
    for model in ["tso", &format!("{models}/tso.cat")] {
        let text = stdout(&mowgli(&["explain", file, "--model", model]));
        assert!(
            text.contains("Forbidden") && !text.contains("no choice of sources"),
            "{text}"
        );
        assert!(text.contains("lW(x,2)"), "{text}");
        let text = stdout(&mowgli(&["explain", file, "--model", model, "--outcome", "x=7"]));
        assert!(text.contains("no choice of sources"), "{text}");
    }
}

/// One of GFP1's cycles is coherence alone: two reads of one location in the wrong order. The other shows what the test is about.
#[test]
fn the_cycle_that_teaches_comes_before_coherence() {
    let text = stdout(&mowgli(&["explain", "GFP1"]));
    let first = text.split("It would be allowed").next().unwrap();
    assert!(first.contains("nlR(t,"), "{text}");
    let all = stdout(&mowgli(&["explain", "GFP1", "--all"]));
    assert!(
        all.contains("Cycle 1 of 2") && all.contains("Cycle 2 of 2"),
        "{all}"
    );
    let second = stdout(&mowgli(&["explain", "GFP1", "--cycle", "2"]));
    assert!(
        second.contains("Cycle 2 of 2") && !second.contains("Cycle 1 of 2"),
        "{second}"
    );
    assert!(second.contains("oppo A1"), "{second}");
    exits(&mowgli(&["explain", "GFP1", "--cycle", "3"]), 2);
}

#[test]
fn a_flush_edge_says_what_forces_its_direction() {
    let text = stdout(&mowgli(&["explain", "ST9", "--outcome", "z=1"]));
    assert!(text.contains("nfo in ob"), "{text}");
    assert!(text.contains("this way round because of rfence(2)"), "{text}");
    assert!(text.contains("ippo I10") && text.contains("ippo J6"), "{text}");
}

#[test]
fn cells_off_the_cycle_shown_are_suggested_too() {
    let cases: [(&str, &[&str]); 3] = [
        ("ST9", &["--outcome", "z=1"]),
        ("GFP1", &[]),
        ("ROB-1i", &["--query", "2"]),
    ];
    for (test, options) in cases {
        let text = stdout(&mowgli(&[&["explain", test], options].concat()));
        for cell in ["I10", "J6"] {
            let wanted = format!("if cell {cell} ordered nothing");
            assert!(text.contains(&wanted), "{test}: {cell}\n{text}");
        }
    }
}

#[test]
fn events_of_one_label_are_told_apart() {
    let text = stdout(&mowgli(&["explain", "LOCO-3b", "--model", "rdma-wait"]));
    assert!(
        text.contains("nlR(x,0)#2") && text.contains("nrW(z,0)#2"),
        "{text}"
    );
    assert!(text.contains("mo: P0: nrW(z,0) -> P0: nrW(z,0)#2"), "{text}");
}

#[test]
fn a_dash_sends_the_drawing_alone_to_standard_output() {
    let here = tempfile::tempdir().unwrap();
    for (option, start) in [("--svg", "<svg"), ("--dot", "digraph")] {
        let output = std::process::Command::new(env!("CARGO_BIN_EXE_mowgli"))
            .args(["explain", "SB3", option, "-"])
            .current_dir(here.path())
            .output()
            .unwrap();
        exits(&output, 0);
        assert!(stdout(&output).starts_with(start), "{}", stdout(&output));
        assert!(!here.path().join("-").exists());
    }
    let both = mowgli(&["explain", "SB3", "--svg", "-", "--json"]);
    exits(&both, 2);
    assert!(stderr(&both).contains("standard output"), "{}", stderr(&both));
}

#[test]
fn json_has_the_witness_with_steps_or_every_cycle() {
    let json = |arguments: &[&str]| -> serde_json::Value {
        let output = mowgli(arguments);
        exits(&output, 0);
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let allowed = json(&["explain", "SB3", "--json"]);
    assert_eq!(allowed["verdict"], "allowed");
    assert_eq!(allowed["complete"], true);
    assert!(allowed["steps"].as_array().unwrap().len() > 4, "{allowed:#}");
    let events = allowed["witness"]["events"].as_array().unwrap();
    assert!(
        events
            .iter()
            .any(|e| e["label"] == "nrW(x,1)" && e["thread"] == "P0"),
        "{allowed:#}"
    );
    assert!(
        !allowed["witness"]["relations"]["rf"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    let forbidden = json(&["explain", "GFP1", "--json"]);
    assert_eq!(forbidden["verdict"], "forbidden");
    assert_eq!(forbidden["cycles"].as_array().unwrap().len(), 2);
    let edge = &forbidden["cycles"][0]["edges"][0];
    assert!(
        edge["reason"].is_string() && edge["from"].is_u64() && edge["part"].is_string(),
        "{edge:#}"
    );
    assert!(forbidden["relaxations"].as_array().unwrap().len() > 2);
}

/// A test of coreRMA is explained by the rules of coreRMA, in text, as JSON and as a drawing.
#[test]
fn tests_of_corerma_are_explained_by_rules() {
    let asked = ["explain", "RMA-6", "--query", "4"];
    let text = stdout(&mowgli(&asked));
    assert!(text.starts_with("RMA-6 under corerma: 0:a=0 /\\ 1:b=1"), "{text}");
    assert!(
        text.contains("Forbidden.") && text.contains("-> IR: remote actions"),
        "{text}"
    );
    assert!(text.contains("under corerma-unordered"), "{text}");
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("a.svg");
    let drawn = mowgli(&[&asked[..], &["--svg", svg.to_str().unwrap(), "--json"]].concat());
    exits(&drawn, 0);
    let document: serde_json::Value = serde_json::from_str(&stdout(&drawn)).unwrap();
    assert_eq!(document["verdict"], "forbidden");
    let violation = &document["violations"][0];
    assert!(
        violation["rules"].as_array().unwrap().contains(&"IR".into()),
        "{violation}"
    );
    let (links, events) = (&violation["links"], &violation["execution"]["events"]);
    for (at, link) in links.as_array().unwrap().iter().enumerate() {
        let next = &links[(at + 1) % links.as_array().unwrap().len()];
        assert_eq!(link["to"], next["from"]);
        let place = link["from"].as_u64().unwrap() as usize;
        assert_eq!(events[place]["id"], link["from"]);
    }
    let drawing = fs::read_to_string(svg).unwrap();
    assert!(
        drawing.starts_with("<svg") && drawing.contains(">IR<"),
        "{drawing}"
    );

    let allowed = mowgli(&["explain", "RMA-6", "--outcome", "0:a=1 /\\ 1:b=0", "--json"]);
    exits(&allowed, 0);
    let document: serde_json::Value = serde_json::from_str(&stdout(&allowed)).unwrap();
    assert_eq!(document["verdict"], "allowed");
    assert_eq!(
        document["witness"]["relations"]["rf"].as_array().unwrap().len(),
        4
    );
}

/// A model that does not apply is refused with those that do.
#[test]
fn models_and_tests_that_do_not_fit_are_refused_with_a_remedy() {
    for args in [
        ["explain", "RMA-6", "--model", "rdma-tso"],
        ["explain", "RMA-6", "--model", "rdma-tso.cat"],
        ["compare", "RMA-6", "--models", "corerma,rdma-tso"],
    ] {
        let refused = mowgli(&args);
        exits(&refused, 2);
        assert!(
            stderr(&refused).contains("corerma, corerma-fig4"),
            "{}",
            stderr(&refused)
        );
    }
    for args in [
        ["explain", "MP1", "--model", "corerma"],
        ["compare", "MP1", "--models", "rdma-tso,corerma"],
    ] {
        let refused = mowgli(&args);
        exits(&refused, 2);
        assert!(
            stderr(&refused).contains("mowgli distinguish"),
            "{}",
            stderr(&refused)
        );
    }
    exits(&mowgli(&["explain", "RMA-6", "--query", "9"]), 2);
    exits(&mowgli(&["robust", "RMA-6"]), 2);
}

#[test]
fn tests_of_corerma_are_compared() {
    let output = mowgli(&[
        "compare",
        "RMA-MP4",
        "--models",
        "corerma,corerma-unordered",
        "--json",
    ]);
    exits(&output, 1);
    let document: serde_json::Value = serde_json::from_str(&stdout(&output)).unwrap();
    assert_eq!(document["models"][0]["only_here"].as_array().unwrap().len(), 0);
    assert!(!document["models"][1]["only_here"].as_array().unwrap().is_empty());
    exits(
        &mowgli(&["compare", "RMA-6", "--models", "corerma,corerma-fig4"]),
        0,
    );
    // The test has an outcome that sequential consistency forbids.
    let weaker = mowgli(&["compare", "RMA-8", "--models", "sc,corerma", "--json"]);
    exits(&weaker, 1);
    let document: serde_json::Value = serde_json::from_str(&stdout(&weaker)).unwrap();
    assert_eq!(document["models"][0]["model"], "sc");
    assert_eq!(document["models"][0]["only_here"].as_array().unwrap().len(), 0);
}

/// `sc` is a model of either language: a test of coreRMA is checked and explained under it, by its rules.
#[test]
fn tests_of_corerma_are_asked_about_under_sc() {
    let checked = mowgli(&["check", "RMA-6", "-q", "--model", "sc,corerma"]);
    exits(&checked, 0);
    assert!(
        stdout(&checked).contains("RMA-6#4  forbidden    forbidden ="),
        "{}",
        stdout(&checked)
    );
    let explained = mowgli(&["explain", "RMA-6", "--query", "4", "--model", "sc"]);
    exits(&explained, 0);
    let text = stdout(&explained);
    assert!(text.starts_with("RMA-6 under sc: 0:a=0 /\\ 1:b=1"), "{text}");
    assert!(text.contains("Forbidden.") && text.contains("-> PO: "), "{text}");
    assert!(text.contains("under corerma-unordered"), "{text}");
    // A rule left out by name.
    let explained = mowgli(&["explain", "RMA-6", "--query", "4", "--model", "corerma-IR"]);
    exits(&explained, 0);
    assert!(stdout(&explained).contains("Allowed."), "{}", stdout(&explained));
}
