//! Models over networks that order less, on the command line.

mod support;

use support::{exits, mowgli, stderr, stdout};

#[test]
fn a_model_takes_a_tier() {
    let checked = mowgli(&[
        "check",
        "MP+puts",
        "--engine",
        "both",
        "--model",
        "rdma-tso,rdma-tso+ooo-rw",
    ]);
    exits(&checked, 0);
    assert!(
        stdout(&checked).contains("Model rdma-tso+ooo-rw"),
        "{}",
        stdout(&checked)
    );
    let explained = mowgli(&["explain", "MP+put-rfaa", "--model", "rdma-tso+ooo-rw"]);
    assert!(
        stdout(&explained).contains("docs/ordering-models.md"),
        "{}",
        stdout(&explained)
    );
    let compared = mowgli(&[
        "compare",
        "MP+rfaas",
        "--models",
        "rdma-tso+ooo-rw,rdma-tso+ooo-all",
    ]);
    exits(&compared, 1);
    let separated = mowgli(&[
        "distinguish",
        "rdma-tso+ooo-rw",
        "rdma-tso+ooo-all",
        "--size",
        "2",
    ]);
    exits(&separated, 0);
}

#[test]
fn an_unknown_tier_lists_the_known_ones() {
    let refused = mowgli(&["check", "MP+puts", "--model", "rdma-tso+ooo"]);
    exits(&refused, 2);
    for tier in ["ooo-rw", "ooo-all", "pcie-relaxed", "unordered"] {
        assert!(stderr(&refused).contains(tier), "{}", stderr(&refused));
    }
}

/// A model that lacks something else, or stands beside one that applies, is reported as with any other test.
#[test]
fn relaxed_regions_are_no_error_beside_a_model_that_has_them() {
    for models in ["rdma-tso,rdma-tso+pcie-relaxed", "tso"] {
        let output = mowgli(&["check", "MP+relaxed", "--model", models, "-q"]);
        assert_eq!(output.status.code(), Some(0), "{models}: {}", stderr(&output));
        assert!(stdout(&output).contains("n/a"), "{models}: {}", stdout(&output));
    }
}

#[test]
fn relaxed_regions_under_a_model_without_them_are_an_error_that_names_the_remedy() {
    for arguments in [
        vec!["check", "MP+relaxed", "--model", "rdma-tso"],
        vec!["explain", "MP+relaxed", "--model", "rdma-tso+ooo-rw"],
        vec!["compare", "MP+relaxed", "--models", "rdma-tso,rdma-sc"],
        vec!["robust", "MP+relaxed", "--model", "rdma-tso"],
    ] {
        let refused = mowgli(&arguments);
        exits(&refused, 2);
        assert!(
            stderr(&refused).contains("rdma-tso+pcie-relaxed"),
            "{arguments:?}: {}",
            stderr(&refused)
        );
    }
}

#[test]
fn mending_names_the_requests() {
    let mended = mowgli(&["robust", "MP+puts", "--model", "rdma-tso+unordered", "--fix"]);
    exits(&mended, 0);
    assert!(stdout(&mended).contains("strong y^2 := 1"), "{}", stdout(&mended));
}

/// The base is the least on the papers' network, and the requests after it. Nobody has proved that of both together.
#[test]
fn what_mends_on_a_tier_is_not_called_the_least() {
    let asked = ["robust", "MP+puts", "--model", "rdma-tso+unordered", "--fix"];
    let text = stdout(&mowgli(&asked));
    assert!(
        text.contains("whether less would do in all was left open"),
        "{text}"
    );
    let document = stdout(&mowgli(&[&asked[..], &["--json"]].concat()));
    let document: serde_json::Value = serde_json::from_str(&document).expect("it is JSON");
    assert_eq!(document["rows"][0]["fix"]["minimal"], "not-proved", "{document}");
}

#[test]
fn clients_and_implementations_stand_on_a_tier() {
    let ring = |tier: &str| mowgli(&["refine", "I_RBL", "--calls", "2", "--tier", tier, "--json"]);
    for (tier, status) in [("ibta", 0), ("ooo-rw", 1), ("unordered", 1)] {
        let refined = ring(tier);
        exits(&refined, status);
        let report: serde_json::Value = serde_json::from_str(&stdout(&refined)).expect("it is JSON");
        assert_eq!(report["tier"], tier);
    }
    let mended = mowgli(&["refine", "I_RBL/strong", "--calls", "3", "--tier", "unordered"]);
    exits(&mended, 0);
    assert!(
        stdout(&mended).contains("over a network of tier unordered"),
        "{}",
        stdout(&mended)
    );
    // The message may be missing where its puts have no order. Verdicts are stated about the papers' network.
    let outcomes = |tier: &str| {
        let listed = mowgli(&[
            "outcomes",
            "LOCO-23",
            "--setting",
            "I_RBL",
            "--tier",
            tier,
            "--json",
        ]);
        exits(&listed, 0);
        let report: serde_json::Value = serde_json::from_str(&stdout(&listed)).expect("it is JSON");
        assert_eq!(report[0]["tier"], tier);
        report[0]["outcomes"].as_array().expect("a list").len()
    };
    assert!(outcomes("ooo-rw") >= outcomes("ibta"));
    let explained = mowgli(&["explain", "LOCO-13", "--setting", "spec+ooo-rw"]);
    exits(&explained, 0);
    for command in [
        vec!["refine", "I_SV", "--tier", "ooo"],
        vec!["outcomes", "LOCO-23", "--tier", "ooo"],
        vec!["explain", "LOCO-23", "--setting", "spec+ooo"],
    ] {
        let refused = mowgli(&command);
        exits(&refused, 2);
        let known = "expected one of ibta, ooo-rw, ooo-all, pcie-relaxed, unordered";
        assert!(
            stderr(&refused).contains(known),
            "{command:?}: {}",
            stderr(&refused)
        );
    }
}

#[test]
fn tests_that_ask_for_an_order_are_generated() {
    let made = mowgli(&[
        "generate",
        "--model",
        "rdma-tso+ooo-rw",
        "--pivot",
        "strong",
        "--size",
        "4",
        "--processes",
        "2",
        "--without",
        "cas,mfence,rfence,poll",
    ]);
    exits(&made, 0);
    let separated = mowgli(&[
        "distinguish",
        "rdma-tso",
        "rdma-tso+pcie-relaxed",
        "--size",
        "4",
        "--smallest",
        "--without",
        "cas,mfence,rfence",
    ]);
    exits(&separated, 1);
    assert!(
        stdout(&separated).contains("relaxed x@"),
        "{}",
        stdout(&separated)
    );
    assert!(
        stdout(&separated).contains("confirmed by the machines"),
        "{}",
        stdout(&separated)
    );
}
