//! `mowgli outcomes`, `explain` and `refine` of clients: what they print, and how they end.

use std::process::{Command, Output};

fn mowgli(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mowgli"));
    command.args(args).output().expect("the command runs")
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn outcomes_are_listed_and_verdicts_compared() {
    let output = mowgli(&["outcomes", "LOCO-23", "--setting", "spec"]);
    assert_eq!(output.status.code(), Some(0));
    let text = text(&output);
    assert!(text.contains("0:a=true 1:b=1"), "{text}");
    assert!(text.contains("is forbidden (stated: forbidden)"), "{text}");
}

#[test]
fn outcomes_are_json() {
    let output = mowgli(&["outcomes", "RING-own", "--setting", "paper-ring", "--json"]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json[0]["version"], 1);
    assert_eq!(json[0]["client"], "RING-own");
    assert_eq!(json[0]["complete"], true);
    assert_eq!(json[0]["verdicts"][0]["verdict"], "forbidden");
    let bottoms = json[0]["outcomes"].as_array().expect("a list").iter();
    assert!(bottoms.filter(|o| o["1:f"] == "bot").count() > 0, "{json}");
}

#[test]
fn a_forbidden_outcome_is_explained_by_its_cycle() {
    let output = mowgli(&["explain", "LOCO-23"]);
    let text = text(&output);
    assert!(text.contains("Forbidden."), "{text}");
    for edge in ["--fb of ring buffer-->", "--barrier of barrier-->", "--ppo-->"] {
        assert!(text.contains(edge), "{edge} in {text}");
    }
}

#[test]
fn a_litmus_test_keeps_its_name() {
    let output = mowgli(&["explain", "LOCO-3a", "--model", "rdma-wait"]);
    assert!(
        text(&output).contains("LOCO-3a under rdma-wait"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_wrong_implementation_is_refuted_with_status_1() {
    let output = mowgli(&["refine", "I_BAL/no-fence", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    assert_eq!(json["version"], 1);
    let client = json["refuted_by"]["client"].as_str().expect("a client");
    assert!(client.contains("barrier(b1)"), "{client}");
}

#[test]
fn a_correct_implementation_holds_with_status_0() {
    for more in [&["--local"][..], &["--random", "50"]] {
        let output = mowgli(&[&["refine", "I_SV", "--calls", "2"], more].concat());
        assert_eq!(output.status.code(), Some(0), "{}", text(&output));
        assert!(
            text(&output).contains("Holds on all of them."),
            "{}",
            text(&output)
        );
    }
}

#[test]
fn what_does_not_exist_is_named_with_status_2() {
    for args in [
        &["refine", "I_BAR"][..],
        &["outcomes", "LOCO-24"],
        &["outcomes", "x.client"],
    ] {
        let output = mowgli(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(!output.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn a_refutation_explains_and_draws_what_is_missing() {
    let folder = tempfile::tempdir().expect("there is room for a folder");
    let (svg, missing) = (folder.path().join("made.svg"), folder.path().join("missing.svg"));
    let output = mowgli(&[
        "refine",
        "I_RBL/head-first",
        "--svg",
        &svg.display().to_string(),
        "--svg-missing",
        &missing.display().to_string(),
    ]);
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("The specification has no execution"), "{text}");
    let drawn = std::fs::read_to_string(&svg).expect("the execution is drawn");
    assert!(drawn.starts_with("<svg") && drawn.contains("write_sv"), "{drawn}");
    let drawn = std::fs::read_to_string(&missing).expect("the missing one is drawn");
    assert!(drawn.starts_with("<svg"), "{drawn}");
}

#[test]
fn an_explanation_of_a_client_is_drawn() {
    let output = mowgli(&["explain", "LOCO-23", "--svg", "-"]);
    let drawn = String::from_utf8_lossy(&output.stdout);
    assert!(drawn.starts_with("<svg"), "{drawn}");
    assert!(
        drawn.contains("submit(x, 1)") && drawn.contains("class=\"arrow cycle\""),
        "{drawn}"
    );
}
