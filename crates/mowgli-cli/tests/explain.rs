//! `mowgli explain` from outside: which cycle comes first, what an edge says, and where drawings go.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

mod support;

use support::{exits, mowgli, stderr, stdout};

#[test]
fn a_limit_makes_the_explanation_incomplete_and_exits_with_3() {
    let output = mowgli(&["explain", "IRIW2", "--limit", "states=20"]);
    exits(&output, 3);
    let output = mowgli(&["explain", "GFP1", "--limit", "states=60"]);
    let text = stdout(&output);
    assert!(text.contains("Forbidden"), "{text}");
    assert!(text.contains("limit of"), "{text}");
    exits(&output, 3);
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
