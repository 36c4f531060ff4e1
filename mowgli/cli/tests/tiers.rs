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
