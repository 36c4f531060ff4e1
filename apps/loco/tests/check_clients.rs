//! `loco check --client` and `--clients`: what they run, what they print, how they end.

use std::fs;
use std::process::{Command, Output};

fn check(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_loco"))
        .arg("check")
        .args(arguments)
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn clients_of_an_object_are_counted() {
    let output = check(&["barrier", "--clients", "threads<=2,calls<=2", "--json"]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{line}{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(json["object"], "barrier");
    assert_eq!(json["passed"], true);
    assert!(json["clients"].as_u64() > Some(5), "{line}");
    assert_eq!(json["clients"], json["complete"], "{line}");
    assert_eq!(json["unfinished"], false, "{line}");
}

/// Three threads of three calls are too many for a second.
#[test]
fn clients_that_were_not_run_are_no_success() {
    let size = "threads<=3,calls<=3";
    let output = check(&["owned-var", "--clients", size, "--time", "1", "--json"]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{line}{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_str(&line).expect("it is JSON");
    assert_eq!(json["passed"], serde_json::Value::Null, "{line}");
    assert_eq!(json["unfinished"], true, "{line}");
    let output = check(&["owned-var", "--clients", size, "--time", "1"]);
    let said = text(&output.stdout);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("unknown:") && !said.contains("ok:"), "{said}");
}

#[test]
fn a_built_in_client_has_its_outcomes_and_verdicts() {
    let output = check(&["--client", "LOCO-13"]);
    let text = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}");
    assert!(text.contains("is forbidden (stated: forbidden)"), "{text}");
    assert!(text.contains("On ring buffers from registered memory:"), "{text}");
    assert_eq!(text.matches("ok: complete").count(), 2, "{text}");
}

#[test]
fn a_wrong_statement_is_status_1() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.client");
    let client = "RDMA mine\n{ }\nobjects { sv x; }\n P0@1 ;\n write_sv(x, 1) ;\n a := read_sv(x) ;\n\nexists (0:a=1)\nforbidden [shipped;]\n";
    fs::write(&path, client).expect("it can be written");
    let output = check(&["--client", &path.to_string_lossy()]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("is required (stated: forbidden)"));
}

#[test]
fn wrong_usage_is_status_2_and_says_why() {
    for (arguments, why) in [
        (&["barrier", "--clients", "lines<=3"][..], "says no size"),
        (
            &["barrier", "--clients", "threads<=9"],
            "threads is a whole number from 1 to 4",
        ),
        (&["--client", "LOCO-99"], "no built-in client"),
        (&["--client", "LOCO-13", "--nodes", "3"], "cannot be used with"),
        (&["--random", "3"], "--clients"),
    ] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(
            text(&output.stderr).contains(why),
            "{arguments:?}: {}",
            text(&output.stderr)
        );
    }
}
