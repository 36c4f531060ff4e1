//! `loco check` keeps the built-in objects to their specifications, in worlds small enough to explore completely, and says
//! how much it has explored.

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

fn passes_completely(arguments: &[&str]) {
    let output = check(&[arguments, &["--time", "60", "--json"]].concat());
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {line}");
    assert!(line.contains(r#""passed":true"#), "{arguments:?}: {line}");
    assert!(
        line.contains(r#""completeness":"Complete""#),
        "{arguments:?}: {line}"
    );
}

#[test]
fn every_object_keeps_its_promises() {
    for object in [
        "barrier",
        "shared-var",
        "owned-var",
        "wide-owned-var",
        "sst",
        "msw",
        "ring-buffer",
        "atomic",
        "ticket-lock",
        "tas-lock",
        "queue",
    ] {
        passes_completely(&[object]);
    }
    for object in ["ticket-lock", "tas-lock"] {
        passes_completely(&[object, "--nodes", "2", "--ops", "2"]);
    }
}

#[test]
fn random_schedules_are_counted_and_nothing_more_is_claimed() {
    for strategy in ["random", "pct"] {
        let arguments = [
            "barrier",
            "--ops",
            "2",
            "--nodes",
            "3",
            "--strategy",
            strategy,
            "--executions",
            "50",
        ];
        let output = check(&arguments);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert!(
            text(&output.stdout).contains("ok, 50 random schedules"),
            "{}",
            text(&output.stdout)
        );
    }
}

/// A count from a line of JSON.
fn count(line: &str, name: &str) -> u64 {
    let at = line.find(&format!(r#""{name}":"#)).expect("the count is there") + name.len() + 3;
    let digits: String = line[at..].chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

#[test]
fn bounded_explorations_claim_their_bound() {
    let arguments = ["ring-buffer", "--ops", "3", "--strategy", "bounded"];
    let output = check(&[&arguments[..], &["--delays", "2", "--preemptions", "4"]].concat());
    assert_eq!(output.status.code(), Some(0));
    let shown = text(&output.stdout);
    assert!(
        shown.contains("ok, complete up to 4 preemptions and 2 delays"),
        "{shown}"
    );
    let states = |delays: &str| {
        let output = check(&[&arguments[..], &["--delays", delays, "--json"]].concat());
        let line = text(&output.stdout);
        assert!(
            line.contains(&format!(
                r#""completeness":{{"UpTo":{{"preemptions":null,"delays":{delays}}}}}"#
            )),
            "{line}"
        );
        count(&line, "states")
    };
    assert!(states("1") < states("2"));
}

#[test]
fn a_bound_is_for_the_bounded_strategy_and_that_for_a_bound() {
    for arguments in [&["sst", "--delays", "1"][..], &["sst", "--strategy", "bounded"]] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            text(&output.stderr).contains("--strategy bounded"),
            "{}",
            text(&output.stderr)
        );
    }
}

#[test]
fn a_soak_ends_in_time_and_says_what_it_did() {
    let begun = std::time::Instant::now();
    let output = check(&["--soak", "3s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(begun.elapsed() < std::time::Duration::from_secs(30));
    let line = text(&output.stdout);
    assert_eq!(line.lines().count(), 1, "{line}");
    assert!(line.contains(r#""passed":true"#), "{line}");
    assert!(count(&line, "executions") > 100, "{line}");
}

#[test]
fn a_repeated_execution_is_drawn() {
    let folder = std::env::temp_dir().join(format!("loco-check-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let (svg, dot) = (folder.join("run.svg"), folder.join("run.dot"));
    let paths = [&svg, &dot].map(|path| path.to_str().expect("a plain name"));
    let output = check(&["sst", "--replay", "", "--svg", paths[0], "--dot", paths[1]]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let [svg, dot] = [svg, dot].map(|path| std::fs::read_to_string(path).expect("it was written"));
    // What a node pushes of its row is a put: read by its network card, written at the other's.
    assert!(svg.contains("nlR(") && svg.contains("nrW("), "{svg}");
    assert!(dot.starts_with("digraph") && dot.contains("nrW("), "{dot}");
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn progress_is_for_terminals() {
    let output = check(&["barrier", "--ops", "2", "--json"]);
    assert_eq!(text(&output.stderr), "");
    assert_eq!(text(&output.stdout).lines().count(), 1);
}

#[test]
fn a_schedule_that_does_not_fit_is_an_error() {
    let output = check(&["barrier", "--replay", "t4 n4.1b"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("is not possible here"),
        "{}",
        text(&output.stderr)
    );
    let output = check(&["barrier", "--replay", "nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("not a move of a schedule"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn not_every_object_has_several_threads_a_node() {
    let output = check(&["msw", "--threads", "2"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("one thread a node"),
        "{}",
        text(&output.stderr)
    );
}

#[test]
fn the_store_is_searched_at_random() {
    let arguments = ["kv", "--ops", "3", "--strategy", "pct", "--executions", "500"];
    let output = check(&arguments);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert!(text(&output.stdout).contains("ok, 500 random schedules"));
}
