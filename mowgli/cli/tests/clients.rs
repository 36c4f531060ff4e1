//! `mowgli outcomes`, `explain` and `refine` of clients: what they print, and how they end.

use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use loco_testing::launched::signal;

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
        assert!(text(&output).contains("Holds on"), "{}", text(&output));
    }
}

/// A bounded answer says which clients were judged.
#[test]
fn what_holds_says_what_was_covered() {
    let said = |args: &[&str]| text(&mowgli(args)).lines().last().unwrap_or_default().to_owned();
    assert_eq!(
        said(&["refine", "I_BAL", "--calls", "2", "--nodes", "1"]),
        "Holds on all clients of this size: up to 2 calls, up to 2 threads on up to 1 node, up to 1 object of each library; \
         calls of write_sv, read_sv, bcast_sv, barrier. Larger clients are not judged."
    );
    let drawn = said(&["refine", "I_SV", "--calls", "3", "--random", "20"]);
    assert!(
        drawn.starts_with("Holds on these random clients of this size: 3 calls, up to 2 threads"),
        "{drawn}"
    );
    let share = said(&["refine", "I_SV", "--calls", "2", "--shard", "2/3"]);
    assert!(
        share.starts_with("Holds on share 2/3 of the clients of this size: up to 2 calls"),
        "{share}"
    );
    let json: serde_json::Value =
        serde_json::from_slice(&mowgli(&["refine", "I_MSW", "--json"]).stdout).expect("it is JSON");
    assert!(json["bounds"]["calls"].as_u64() >= Some(4), "{json}");
    assert_eq!(json["bounds"]["random"], serde_json::Value::Null);
}

/// Where nobody chose a size, the command says which it chose: the least that refutes what is known, and more while there is time.
#[test]
fn the_default_size_grows_while_there_is_time() {
    let json: serde_json::Value = serde_json::from_slice(
        &mowgli(&["refine", "I_W", "--nodes", "1", "--threads", "1", "--json"]).stdout,
    )
    .expect("it is JSON");
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or(0);
    let (calls, larger) = (number(&json["bounds"]["calls"]), number(&json["larger"]["calls"]));
    assert!(calls >= 5 && json["clients"] == json["complete"], "{json}");
    assert!(larger == 0 || larger == calls + 1, "{json}");
    // Shared variables are tried beside barriers too, since some mistakes show only there.
    let said = text(&mowgli(&["refine", "I_SV", "--calls", "2"]));
    let (beside, own) = (
        "calls of write_sv, read_sv, bcast_sv, barrier",
        "; and of write_sv, read_sv, bcast_sv, wait_sv, gf_sv",
    );
    assert!(said.contains(beside) && said.contains(own), "{said}");
}

/// Runs the command, which must end by itself, without a panic, in so much time. The bound is generous; a hang has none.
fn ends(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mowgli"));
    let child = command
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command runs");
    let process = child.id();
    let (sender, receiver) = mpsc::channel();
    // The receiver is gone if the command did not end in time.
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let ended = receiver.recv_timeout(Duration::from_secs(60));
    let output = ended.unwrap_or_else(|_| {
        signal("-KILL", process);
        panic!("{args:?} does not end");
    });
    let output = output.expect("it is a child");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.code().is_some_and(|code| code <= 3),
        "{args:?}: {} {said}",
        output.status
    );
    assert!(!said.contains("panicked"), "{args:?}: {said}");
    output
}

#[test]
fn the_largest_sizes_end_at_the_limit() {
    let all = "words sv barrier ring mixed owned sst atomic lock queue store fences";
    let with: Vec<&str> = all.split(' ').flat_map(|word| ["--with", word]).collect();
    let most = [
        "--calls",
        "32",
        "--threads",
        "4",
        "--nodes",
        "4",
        "--objects",
        "4",
        "--limit",
        "total=1s",
    ];
    let seed = "18446744073709551615";
    for more in [&[][..], &with, &["--random", seed, "--seed", seed], &["--local"]] {
        for name in ["I_SV", "I_W", "I_BAL", "I_RBL"] {
            let output = ends(&[&["refine", name], &most[..], more].concat());
            assert_eq!(
                output.status.code(),
                Some(3),
                "{name} {more:?}: {}",
                text(&output)
            );
            assert!(text(&output).contains("Nothing refuted"), "{}", text(&output));
        }
    }
}

#[test]
fn numbers_that_the_input_bounds_are_refused_with_the_bound() {
    for (args, option, range) in [
        (
            &["explain", "SB3", "--query", "1000000"][..],
            "--query 1000000",
            "1 condition, numbered from 1",
        ),
        (
            &["explain", "LOCO-23", "--query", "1000000"],
            "--query 1000000",
            "2 conditions, numbered from 1",
        ),
        (
            &["explain", "SB3", "--cycle", "1000000"],
            "--cycle 1000000",
            "numbered from 1",
        ),
        (
            &["generate", "--model", "rdma-tso", "--size", "32"],
            "--size 32",
            "1 to 12",
        ),
        (
            &[
                "generate",
                "--model",
                "corerma",
                "--pivot",
                "IR",
                "--size",
                "4",
                "--processes",
                "12",
            ],
            "--processes 12",
            "1 to PROCESSES_MAX (4)",
        ),
        (
            &["generate", "--model", "corerma", "--table6", "--larger", "32"],
            "--larger 32",
            "at most SIZE_MAX (32)",
        ),
        (
            &["star", "TSO-1a", "--server", "18446744073709551615"],
            "--server 18446744073709551615",
            "threads, numbered from 0",
        ),
    ] {
        let output = ends(args);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(option) && said.contains(range), "{args:?}: {said}");
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

/// Settings compose; an implementation of a mistaken or an own kind is a part like any other.
#[test]
fn settings_compose() {
    let output = mowgli(&[
        "outcomes",
        "LOCO-23",
        "-s",
        "I_W+I_RBL+I_SV",
        "-s",
        "I_SV.impl+I_RBL",
    ]);
    assert_eq!(output.status.code(), Some(0));
    let words = text(&output);
    assert!(words.contains("Client LOCO-23 I_RBL+I_SV+I_W\n"), "{words}");
    assert!(words.contains("Client LOCO-23 I_RBL+I_SV.impl\n"), "{words}");
    assert_eq!(
        words
            .matches("LOCO-23: 0:a=true /\\ 1:b=bot is forbidden")
            .count(),
        2,
        "{words}"
    );
    let output = mowgli(&["outcomes", "LOCO-23", "-s", "I_RBL/head-first+I_SV"]);
    assert!(text(&output).contains("1:b=bot"), "{}", text(&output));
    for (wrong, words) in [
        ("I_SV+I_SV", "do not compose"),
        ("I_SV+nothing", "there is no implementation nothing"),
        ("shipped", "loco check --client"),
        ("I_SV/strong+I_SV", "both implement shared variable"),
    ] {
        let output = mowgli(&["outcomes", "LOCO-23", "-s", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(words), "{wrong}: {said}");
    }
}

/// An idea is checked as a file: the built-in text, with a line left out, is refuted.
#[test]
fn an_implementation_of_ones_own_is_refined() {
    let shown = text(&mowgli(&["show", "I_SV.impl"]));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("mine.impl");
    let path = path.to_str().expect("a name");
    let refine = |body: &str, more: &[&str]| {
        std::fs::write(path, body).expect("the file is written");
        let args: Vec<&str> = ["refine", path, "--of", "sv"]
            .iter()
            .chain(more)
            .copied()
            .collect();
        mowgli(&args)
    };
    let output = refine(&shown, &["--calls", "3"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let output = refine(&shown.replace("    wait(id(mine));\n", ""), &["--calls", "4"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("gf_sv("), "{}", text(&output));
    let output = refine(&shown.replace("put(x@n", "putt(x@n"), &[]);
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        said.contains("mine.impl:") && said.contains("did you mean `put`?"),
        "{said}"
    );
    let output = mowgli(&["refine", "I_SV.impl", "--of", "ring"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("implements shared variable"));
    let output = mowgli(&["refine", "I_BAL+I_SV+I_W", "--calls", "2"]);
    assert!(
        text(&output).starts_with("I_BAL+I_SV+I_W against spec (refinement)"),
        "{}",
        text(&output)
    );
    let output = mowgli(&["refine", "I_BAL+I_SV", "--local"]);
    assert!(String::from_utf8_lossy(&output.stderr).contains("Theorem 3.14"));
}
