//! Checks that `loco check` holds the built-in objects to their specifications, in worlds small enough to
//! explore completely, and that it says how much it has explored.

#[path = "support/terminal.rs"]
mod terminal;

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use terminal::on_terminal;

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
    let output = check(&[arguments, &["--time", "900", "--json"]].concat());
    let lines = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {lines}");
    for fabric in ["model", "shm"] {
        let named = format!(r#""fabric":"{fabric}""#);
        let line = lines.lines().find(|line| line.contains(&named));
        let line = line.unwrap_or_else(|| panic!("nothing on {fabric}: {lines}"));
        assert!(line.contains(r#""passed":true"#), "{arguments:?}: {line}");
        assert!(
            line.contains(r#""completeness":"Complete""#),
            "{arguments:?}: {line}"
        );
    }
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
        passes_completely(&[object, "--nodes", "2"]);
    }
    for object in ["ticket-lock", "tas-lock"] {
        passes_completely(&[object, "--nodes", "2", "--ops", "2"]);
    }
}

#[test]
fn a_ladder_says_what_each_world_has_seen() {
    let output = check(&["fence", "--time", "30", "--json"]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{line}");
    let report: serde_json::Value = serde_json::from_str(&line).expect("one line of JSON");
    let worlds = report["worlds"].as_array().expect("a list");
    let is_complete = |world: &serde_json::Value| world["completeness"] == "Complete";
    let world = |name: &str| {
        worlds
            .iter()
            .find(|world| world["world"] == name)
            .expect("it is a world")
    };
    assert!(is_complete(world("another-thread")), "{line}");
    // How much of the worlds with crashes is seen in this time depends on the machine; that it is said does not.
    assert_eq!(report["complete"], worlds.iter().all(is_complete), "{line}");
    assert_eq!(report["unreached"], serde_json::json!([]), "{line}");
}

#[test]
fn worlds_are_listed_and_others_refused() {
    for listing in ["--worlds", "--rungs"] {
        let output = check(&["barrier", listing]);
        assert!(
            text(&output.stdout).contains("two-threads-puts-twice"),
            "{listing}"
        );
    }
    // The options' old names still work, and no help shows them.
    for naming in ["--world", "--rung"] {
        let output = check(&["barrier", naming, "nonsense"]);
        assert_eq!(output.status.code(), Some(2), "{naming}");
        assert!(text(&output.stderr).contains("no world `nonsense`"), "{naming}");
    }
    assert!(!text(&check(&["--help"]).stdout).contains("rung"));
}

/// The agreement on who is in has a ladder as objects have, and reports in the same form.
#[test]
fn the_agreement_on_who_is_in_is_checked_by_name() {
    let output = check(&[
        "mesh",
        "--world",
        "three",
        "--world",
        "three-two-faults",
        "--json",
    ]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{line}");
    let report: serde_json::Value = serde_json::from_str(&line).expect("one line of JSON");
    assert_eq!(report["object"], "mesh", "{line}");
    assert_eq!(
        (&report["passed"], &report["complete"]),
        (&true.into(), &true.into()),
        "{line}"
    );
    let worlds = report["worlds"].as_array().expect("a list");
    assert_eq!(worlds.len(), 2, "{line}");
    for world in worlds {
        assert_eq!(world["completeness"], "Complete", "{line}");
        assert!(world["states"].as_u64() > Some(1000), "{line}");
    }
    let listed = text(&check(&["mesh", "--worlds"]).stdout);
    assert!(
        listed
            .lines()
            .any(|line| line == "mesh             three-two-faults"),
        "{listed}"
    );
    assert!(
        text(&check(&["--worlds"]).stdout).contains(&listed),
        "without OBJECT, too"
    );
}

/// The agreement has no fabric and no schedules: what asks for one is refused.
#[test]
fn options_of_objects_are_refused_for_the_agreement() {
    for (arguments, option) in [
        (&["--fabric", "shm"][..], "--fabric"),
        (&["--nodes", "3"], "--nodes"),
        (&["--replay", "t0"], "--replay"),
        (&["--html", "film.html"], "--html"),
        (&["--robust"], "--robust"),
        (&["--soak", "1s"], "--soak"),
    ] {
        let output = check(&[&["mesh"], arguments].concat());
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            error.contains(&format!("{option} has no effect with `mesh`")),
            "{arguments:?}: {error}"
        );
    }
    let output = check(&["mesh", "--world", "crash"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        text(&output.stderr).contains("no world `crash`; there are two, "),
        "{}",
        text(&output.stderr)
    );
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

/// Returns a count from a line of JSON.
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
fn an_exploration_of_nothing_is_refused() {
    for arguments in [
        &["sst", "--strategy", "random", "--executions", "0"][..],
        &["sst", "--strategy", "pct", "--depth", "0"],
        &["sst", "--time", "0"],
    ] {
        let output = check(arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        assert!(
            text(&output.stderr).contains("not a whole number from 1 to "),
            "{output:?}"
        );
    }
}

#[test]
fn a_soak_ends_in_time_and_says_what_it_did() {
    let output = check(&["--soak", "3s", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
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
    assert!(
        text(&output.stdout).contains("ok, one schedule replayed"),
        "{}",
        text(&output.stdout)
    );
    let [svg, dot] = [svg, dot].map(|path| std::fs::read_to_string(path).expect("it was written"));
    // A node pushes its row by a put, which its network card reads and the other's card writes.
    assert!(svg.contains("nlR(") && svg.contains("nrW("), "{svg}");
    assert!(dot.starts_with("digraph") && dot.contains("nrW("), "{dot}");
    std::fs::remove_dir_all(folder).expect("a folder");
}

#[test]
fn progress_is_for_terminals() {
    let output = check(&["barrier", "--ops", "2", "--json"]);
    assert_eq!(text(&output.stderr), "");
    // One line for each fabric.
    assert_eq!(text(&output.stdout).lines().count(), 2);
}

/// A terminal shows a line of progress, which is removed when the result comes.
#[test]
fn progress_is_shown_on_a_terminal() {
    let command = format!(
        "{} check barrier --nodes 3 --ops 2 --time 2 --fabric model",
        env!("CARGO_BIN_EXE_loco")
    );
    let Some(output) = on_terminal(&command) else {
        return;
    };
    let seen = text(&output.stdout);
    assert!(
        seen.contains(" states") && seen.contains("% of the tree"),
        "{seen:?}"
    );
    let (progress, result) = seen.rsplit_once("\r\u{1b}[K").expect("the line is taken away");
    assert!(
        progress.contains("% of the tree") && result.contains("no failure found"),
        "{seen:?}"
    );
}

/// Returns true once the process has a handler for SIGINT.
fn handles_interrupts(process: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    caught.is_some_and(|mask| u64::from_str_radix(mask.trim(), 16).is_ok_and(|mask| mask & 0b10 != 0))
}

#[test]
fn an_interrupted_check_says_what_it_did() {
    for (kind, said) in [
        (&["barrier", "--nodes", "3", "--ops", "3"][..], r#""Incomplete":"#),
        (
            &["queue", "--strategy", "random", "--executions", "100000000"],
            r#""Random":"#,
        ),
        (&["--soak", "1h"], r#""soak":"#),
    ] {
        let mut check = Command::new(env!("CARGO_BIN_EXE_loco"))
            .args([&["check", "--json"], kind].concat())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the command starts");
        while !handles_interrupts(check.id()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        let process = rustix::process::Pid::from_child(&check);
        rustix::process::kill_process(process, rustix::process::Signal::INT).expect("it runs");
        // Without the interrupt it would run for an hour at least.
        let status = check.wait().expect("it ends");
        assert_eq!(status.code(), Some(130), "{kind:?}");
        let mut line = String::new();
        let mut output = check.stdout.expect("a pipe");
        output.read_to_string(&mut line).expect("it printed text");
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(said) && line.contains(r#""passed":true"#), "{line}");
    }
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

/// The text of a failure on shared memory can be repeated there, and a network cannot be asked of it.
#[test]
fn fabrics_are_chosen_and_schedules_name_them() {
    let output = check(&["sst", "--nodes", "2", "--fabric", "shm"]);
    let shown = text(&output.stdout);
    assert!(shown.contains("ok, complete, on fabric shm"), "{shown}");
    assert!(!shown.contains("on tier"), "{shown}");
    let output = check(&["sst", "--nodes", "2", "--fabric", "verbs", "--tier", "ibta"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("ok, complete, on fabric verbs, tier ibta"),
        "{shown}"
    );
    let output = check(&["sst", "--replay", "@shm"]);
    let shown = text(&output.stdout);
    assert!(
        shown.contains("ok, one schedule replayed, on fabric shm"),
        "{shown}"
    );
    for wrong in [
        &["sst", "--fabric", "shm", "--tier", "ibta"][..],
        &["sst", "--fabric", "nonsense"],
        &["sst", "--replay", "@shm:ibta"],
    ] {
        assert_eq!(check(wrong).status.code(), Some(2), "{wrong:?}");
    }
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

#[test]
fn objects_are_compared_with_a_strong_memory() {
    let output = check(&["owned-var", "--robust", "--time", "900", "--json"]);
    let line = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{line}");
    let report: serde_json::Value = serde_json::from_str(&line).expect("one line of JSON");
    assert_eq!(report["as_documented"], true, "{line}");
    let worlds = report["worlds"].as_array().expect("a list");
    let answers: Vec<_> = worlds.iter().map(|world| &world["answer"]).collect();
    assert_eq!(answers, ["weak", "robust"], "{line}");
    assert!(worlds[0]["schedule"].is_string(), "{line}");
    assert_eq!(worlds[1]["model"], "Complete", "{line}");
    let output = check(&["owned-var", "--robust", "--nodes", "2"]);
    assert_eq!(output.status.code(), Some(2));
}

/// An option of another strategy is refused, whether or not there is one.
#[test]
fn options_without_effect_are_refused() {
    for (arguments, option, remedy) in [
        (&["barrier", "--depth", "3"][..], "--depth", "--strategy pct"),
        (
            &["barrier", "--strategy", "random", "--depth", "3"],
            "--depth",
            "--strategy pct",
        ),
        (
            &["barrier", "--nodes", "2", "--depth", "3"],
            "--depth",
            "--strategy pct",
        ),
        (
            &["barrier", "--executions", "5"],
            "--executions",
            "--strategy random",
        ),
        (&["barrier", "--robust", "--seed", "5"], "--seed", "the ladder"),
        (
            &["barrier", "--nodes", "2", "--random", "5"],
            "--random",
            "--clients",
        ),
    ] {
        let output = check(arguments);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(
            error.contains(&format!("{option} has no effect with")),
            "{arguments:?}: {error}"
        );
        assert!(error.contains(remedy), "{arguments:?}: {error}");
        assert_eq!(text(&output.stdout), "", "{arguments:?}");
    }
}

/// A line comes while the command works, though no terminal shows its progress.
#[test]
fn a_pipe_gets_a_line_before_the_end() {
    for arguments in [
        &["barrier", "--time", "3600"][..],
        &[
            "barrier",
            "--nodes",
            "3",
            "--ops",
            "3",
            "--strategy",
            "random",
            "--executions",
            "1000000000000",
        ],
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
        command
            .arg("check")
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut running = command.spawn().expect("the command starts");
        let mut lines = BufReader::new(running.stdout.take().expect("a pipe")).lines();
        let (sender, line) = mpsc::channel();
        std::thread::spawn(move || sender.send(lines.next()));
        let line = line.recv_timeout(Duration::from_secs(120));
        let ended = running.try_wait().expect("its state");
        running.kill().expect("it runs");
        running.wait().expect("it ends");
        let line = line
            .expect("a line while it works")
            .expect("a line")
            .expect("text");
        assert!(line.contains("barrier"), "{arguments:?}: {line}");
        assert_eq!(ended, None, "{arguments:?}");
    }
}
