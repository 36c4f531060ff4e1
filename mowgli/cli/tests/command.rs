//! The `mowgli` command from outside: reports, exit statuses, and its errors.
#![allow(clippy::unwrap_used)] // Helpers of tests are tests.

use std::fs;
use std::io::Write;
use std::process::{Command, Stdio};

mod support;

use support::{ENDLESS, exits, folder_with, mowgli, stderr, stdout, write};

#[test]
fn report_in_the_form_of_herd7() {
    let output = mowgli(&["check", "SB3", "--model", "rdma-tso"]);
    exits(&output, 0);
    let text = stdout(&output);
    let report: Vec<&str> = text.lines().take_while(|l| !l.is_empty()).collect();
    let expected = [
        "Model rdma-tso",
        "Test SB3 Allowed",
        "States 4",
        "0:a=0; 1:b=0;",
        "0:a=0; 1:b=1;",
        "0:a=1; 1:b=0;",
        "0:a=1; 1:b=1;",
        "Ok",
        "Witnesses",
        "Positive: 1 Negative: 3",
        "Condition exists (0:a=0 /\\ 1:b=0)",
        "Observation SB3 Sometimes 1 3",
    ];
    assert_eq!(&report[..expected.len()], expected);
    assert!(report[expected.len()].starts_with("Time SB3 "), "{text}");
    assert!(report[expected.len() + 1].starts_with("Hash="), "{text}");
}

#[test]
fn the_catalogue_is_as_stated_by_both_engines() {
    let output = mowgli(&["check", "--quiet", "--engine", "both"]);
    exits(&output, 0);
    let text = stdout(&output);
    assert!(
        text.contains(" 0 differ, 0 unknown, 0 vacuous, 0 engine disagreements, 0 tests refused"),
        "{text}"
    );
}

#[test]
fn a_wrong_statement_exits_with_1_and_is_marked() {
    let folder = folder_with("exists (z=1)\nforbidden [rdma-tso;]");
    let output = mowgli(&["check", folder.path().to_str().unwrap()]);
    exits(&output, 1);
    let text = stdout(&output);
    assert!(
        text.contains("Expected t: forbidden under rdma-tso (DIFFERS)"),
        "{text}"
    );
    assert!(text.contains("allowed !"), "{text}");
}

#[test]
fn errors_exit_with_2_and_show_the_place() {
    let folder = folder_with("exists (y=1)");
    let file = folder.path().join("t.litmus");
    let output = mowgli(&["check", file.to_str().unwrap()]);
    exits(&output, 2);
    let text = stderr(&output);
    assert!(
        text.contains("error[unknown-location]: unknown location `y`"),
        "{text}"
    );
    assert!(text.contains("t.litmus:6:9"), "{text}");
    exits(&mowgli(&["check", "no-such-test"]), 2);
    exits(&mowgli(&["check", "--model", "pso"]), 2);
    exits(&mowgli(&["check", "--limit", "10"]), 2);
    exits(&mowgli(&["explain", "SB3", "--model", "tso"]), 2);
    exits(&mowgli(&["compare", "SB3", "--models", "rdma-tso"]), 2);
    let empty = tempfile::tempdir().unwrap();
    exits(&mowgli(&["check", empty.path().to_str().unwrap()]), 2);
}

#[test]
fn one_bad_file_does_not_hide_the_others() {
    let folder = folder_with("exists (z=1)\nallowed [rdma-tso;]");
    write(
        folder.path(),
        "bad",
        "RDMA bad\n{ }\nP0@1 ;\nnothing ;\nexists (true)\n",
    );
    fs::write(folder.path().join("binary.litmus"), [0xff, 0xfe]).unwrap();
    let output = mowgli(&["check", "-q", folder.path().to_str().unwrap()]);
    exits(&output, 2);
    assert!(stdout(&output).contains("allowed ="), "{}", stdout(&output));
    assert!(stdout(&output).contains("2 tests refused"), "{}", stdout(&output));
    assert!(
        stderr(&output).contains("binary.litmus:1:1"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn a_limit_gives_unknown_and_exits_with_3() {
    for engine in ["declarative", "operational"] {
        let output = mowgli(&[
            "check", "MP1", "--model", "rdma-tso", "--engine", engine, "--limit", "states=1",
        ]);
        exits(&output, 3);
        assert!(
            stdout(&output).contains("Unknown (limit of"),
            "{}",
            stdout(&output)
        );
        assert!(
            !stdout(&output).contains("\nNo\n"),
            "never a wrong verdict: {}",
            stdout(&output)
        );
    }
}

#[test]
fn a_loop_without_an_end_is_unknown_not_wrong_and_says_what_grows() {
    let folder = tempfile::tempdir().unwrap();
    let test = "RDMA spin\n{ x@1=0; 0:s; }\nP0@1 | P1@1 ;\nr := 0 | x := 1 ;\nwhile (r == 0) bound 2 { s := s + 1; r := x } | ;\n\
                exists (0:r=0)\nforbidden [sc;]\n";
    write(folder.path(), "spin", test);
    let output = mowgli(&[
        "check",
        folder.path().to_str().unwrap(),
        "--model",
        "sc",
        "--engine",
        "both",
    ]);
    exits(&output, 3);
    assert!(
        stdout(&output).contains(
            "a loop of thread 0 needs more than 2 iterations, and each may leave other values in its registers"
        ),
        "{}",
        stdout(&output)
    );
}

#[test]
fn a_model_without_meaning_for_a_test_is_not_applicable() {
    let output = mowgli(&["check", "SB3", "--model", "tso,rdma-wait,rdma-tso"]);
    exits(&output, 0);
    let text = stdout(&output);
    assert!(
        text.contains("tso does not apply: it has no remote operations"),
        "{text}"
    );
    assert!(
        text.contains("rdma-wait does not apply: it has no poll"),
        "{text}"
    );
    assert!(text.contains("n/a"), "{text}");
}

#[test]
fn json_has_every_row_and_the_totals() {
    let output = mowgli(&["check", "ST1", "RMW+store", "--json", "--engine", "both"]);
    exits(&output, 0);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let row = |name: &str, setting: &str| {
        rows.iter()
            .find(|r| r["name"] == name && r["setting"] == setting)
            .unwrap()
    };
    assert_eq!(row("ST1", "rdma-tso")["verdict"], "forbidden");
    assert_eq!(row("ST1#2", "rdma-tso")["verdict"], "required");
    assert_eq!(row("ST1#2", "rdma-tso")["expected"], "allowed");
    assert_eq!(row("ST1#2", "rdma-tso")["as_expected"], true);
    assert_eq!(row("RMW+store", "rdma-tso/glob")["verdict"], "forbidden");
    assert_eq!(json["totals"]["differ"], 0);
    assert_eq!(json["totals"]["conditions"], 3);
}

#[test]
fn lists_folders_and_standard_input() {
    let folder = folder_with("exists (z=1)\nallowed [rdma-tso;]");
    fs::create_dir(folder.path().join("deep")).unwrap();
    let inner = "RDMA u\n{ x@1=0; }\nP0@1 ;\nx := 1 ;\nforall (x=1)\nrequired [sc;]\n";
    write(&folder.path().join("deep"), "u", inner);
    fs::write(
        folder.path().join("all.list"),
        "# both\nt.litmus\ndeep # a folder\n",
    )
    .unwrap();
    let list = format!("@{}", folder.path().join("all.list").display());
    for argument in [list.as_str(), folder.path().to_str().unwrap()] {
        let output = mowgli(&["check", "-q", argument]);
        exits(&output, 0);
        assert!(stdout(&output).contains("2 conditions"), "{}", stdout(&output));
    }
    let mut child = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(["check", "-q", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(mowgli(&["show", "SB3"]).stdout.as_slice())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    exits(&output, 0);
    assert!(stdout(&output).contains("SB3"));
}

#[test]
fn compare_names_the_outcome_that_separates() {
    let output = mowgli(&["compare", "TSO-1a", "--models", "sc,tso"]);
    exits(&output, 1);
    let text = stdout(&output);
    assert!(text.contains("Only sc: 0\n"), "{text}");
    assert!(
        text.contains("Only tso: 1\n0:a=0; 1:b=0; [x]=1; [y]=1;"),
        "{text}"
    );
    exits(&mowgli(&["compare", "TSO-1b", "--models", "sc,tso"]), 0);
    exits(
        &mowgli(&["compare", "RMW+store", "--models", "rdma-tso,rdma-tso/glob"]),
        1,
    );
}

#[test]
fn list_show_and_completions() {
    let listed = mowgli(&["list", "rmw"]);
    exits(&listed, 0);
    assert!(stdout(&listed).contains("RMW+store"));
    assert!(!stdout(&listed).contains("IRIW1"));
    let json: serde_json::Value = serde_json::from_slice(&mowgli(&["list", "--json"]).stdout).unwrap();
    assert!(json.as_array().unwrap().len() > 100);
    let shown = stdout(&mowgli(&["show", "SB3"]));
    assert!(shown.starts_with("RDMA SB3\n\"RDMA-TSO'24 Fig. 12"), "{shown}");
    assert!(stdout(&mowgli(&["show", "SB3", "--print"])).starts_with("RDMA SB3\n"));
    let tree: serde_json::Value = serde_json::from_slice(&mowgli(&["show", "SB3", "--json"]).stdout).unwrap();
    assert_eq!(tree["program"]["threads"].as_array().unwrap().len(), 2);
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            stdout(&mowgli(&["completions", shell])).contains("mowgli"),
            "{shell}"
        );
    }
}

#[test]
fn explain_shows_how_the_machine_gets_there() {
    let output = mowgli(&["explain", "ST2", "--outcome", "z=1", "--model", "rdma-tso"]);
    exits(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("Allowed"), "{text}");
    let steps = text
        .lines()
        .filter(|l| l.trim_start().starts_with(|c: char| c.is_ascii_digit()))
        .count();
    assert!(steps >= 3, "{text}");
    assert!(
        text.contains("P0: posts put z^2 := x"),
        "nodes are written from 1, as in the test: {text}"
    );
    let output = mowgli(&["explain", "ST1", "--query", "1"]);
    exits(&output, 0);
    let text = stdout(&output);
    assert!(text.contains("Forbidden"), "{text}");
    assert!(text.contains("cycle"), "{text}");
    exits(&mowgli(&["explain", "ST1", "--query", "3"]), 2);
    exits(&mowgli(&["explain", "ST1", "--outcome", "nowhere=1"]), 2);
}

#[test]
fn explain_draws_the_execution() {
    let folder = tempfile::tempdir().unwrap();
    for (test, name) in [("SB3", "witness"), ("MP1", "cycle")] {
        let svg = folder.path().join(format!("{name}.svg"));
        let dot = folder.path().join(format!("{name}.dot"));
        exits(
            &mowgli(&[
                "explain",
                test,
                "--svg",
                svg.to_str().unwrap(),
                "--dot",
                dot.to_str().unwrap(),
            ]),
            0,
        );
        assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
        assert!(fs::read_to_string(dot).unwrap().starts_with("digraph"));
    }
    let nowhere = folder.path().join("no/such/folder.svg");
    exits(
        &mowgli(&["explain", "SB3", "--svg", nowhere.to_str().unwrap()]),
        2,
    );
}

#[test]
fn a_time_limit_stops_both_engines() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "endless", ENDLESS);
    for engine in ["declarative", "operational"] {
        let path = folder.path().to_str().unwrap();
        let output = mowgli(&[
            "check",
            path,
            "-m",
            "rdma-tso",
            "-e",
            engine,
            "--limit",
            "time=200ms",
        ]);
        exits(&output, 3);
        assert!(
            stdout(&output).contains("Unknown (time limit reached)"),
            "{}",
            stdout(&output)
        );
    }
}

/// Waits until the process handles SIGINT itself (bit 1 of the caught signals); before that the signal would end it.
#[cfg(target_os = "linux")]
fn wait_for_handler(child: &mut std::process::Child) {
    let handles = |pid: u32| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let caught = status.lines().find_map(|l| l.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    };
    while !handles(child.id()) {
        assert_eq!(
            child.try_wait().unwrap(),
            None,
            "it ended before it handled signals"
        );
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn control_c_stops_a_search_and_still_reports() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "endless", ENDLESS);
    let mut child = Command::new(env!("CARGO_BIN_EXE_mowgli"))
        .args(["check", folder.path().to_str().unwrap(), "-m", "rdma-tso"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for_handler(&mut child);
    Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut child.stdout.take().unwrap(), &mut text).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{text}");
    assert!(text.contains("Unknown (cancelled)"), "{text}");
    assert!(text.contains("Interrupted: the table is not complete."), "{text}");
}

/// The bench times every engine on every program of the recorded set.
#[test]
fn the_bench_has_a_recorded_set() {
    let bench = mowgli(&["bench", "--repeat", "1", "--limit", "time=1ms", "--json"]);
    exits(&bench, 0);
    let report: serde_json::Value = serde_json::from_str(&stdout(&bench)).unwrap();
    let recorded = &report["recorded"];
    assert_eq!(
        recorded["fingerprint"].as_str().map(str::len),
        Some(32),
        "{recorded}"
    );
    assert_eq!(recorded["gives_up_after_s"], 0.001);
    let sizes = recorded["sizes"].as_array().unwrap();
    assert_eq!(sizes.len(), 10);
    for size in sizes {
        assert_eq!(size["seeds"].as_array().unwrap().len(), 4, "{size}");
        for engine in size["engines"].as_array().unwrap() {
            let count = |key: &str| engine[key].as_u64().unwrap();
            assert_eq!(count("finished") + count("gave_up"), 4, "{size}");
        }
        assert_eq!(size["differ"], 0, "{size}");
    }
    let table = mowgli(&["bench", "--repeat", "1", "--limit", "time=1ms"]);
    exits(&table, 0);
    let text = stdout(&table);
    assert!(text.contains("gives up after 1.0 ms"), "{text}");
    assert_eq!(text.lines().filter(|l| l.contains("/4 ")).count(), 10, "{text}");
}

#[test]
fn help_has_examples() {
    for command in [
        "check",
        "explain",
        "compare",
        "list",
        "show",
        "bench",
        "completions",
    ] {
        let help = mowgli(&["help", command]);
        exits(&help, 0);
        assert!(stdout(&help).contains("EXAMPLES"), "{command}");
    }
}

/// The examples of `mowgli star --help` and `mowgli robust --help` that need no file of the reader's can be run.
#[test]
fn examples_in_the_help_can_be_run() {
    for command in ["star", "robust"] {
        let help = stdout(&mowgli(&[command, "--help"]));
        let examples = help.split("EXAMPLES").nth(1).unwrap();
        let examples = examples.split("EXIT STATUS").next().unwrap();
        let lines = examples.lines().filter(|l| l.trim_start().starts_with("mowgli "));
        let mut run = 0;
        for line in lines.filter(|l| !l.contains("mine.") && !l.contains('|')) {
            let folder = tempfile::tempdir().unwrap();
            let words = line
                .split("   ")
                .find(|w| !w.trim().is_empty())
                .unwrap()
                .split_whitespace();
            let args: Vec<String> = words
                .skip(1)
                .map(
                    |word| match word.ends_with(".svg") || word == "translated.litmus" {
                        true => folder.path().join(word).to_str().unwrap().to_owned(),
                        false => word.to_owned(),
                    },
                )
                .collect();
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            exits(&mowgli(&args), 0);
            run += 1;
        }
        assert!(run >= 3, "{help}");
    }
}

#[test]
fn the_examples_of_star_name_tests_that_can_be_translated() {
    let help = stdout(&mowgli(&["help", "star"]));
    let examples: Vec<Vec<&str>> = help
        .lines()
        .filter_map(|line| line.strip_prefix("  mowgli "))
        .map(|line| line.split([' ', '|']).take_while(|word| *word != "-o").collect())
        .filter(|words: &Vec<&str>| !words.contains(&"mine.x86"))
        .collect();
    assert_eq!(examples.len(), 3, "{help}");
    for example in examples {
        exits(&mowgli(&example), 0);
    }
}

#[test]
fn the_star_translation_is_a_test_with_the_outcomes_of_sc() {
    let folder = tempfile::tempdir().unwrap();
    let (file, x86) = (folder.path().join("t.litmus"), folder.path().join("SB.x86"));
    let text = "X86_64 SB\n{ }\n P0 | P1 ;\n movl $1,(x) | movl $1,(y) ;\n movl (y),%eax | movl (x),%eax ;\n\
                exists (0:rax=0 /\\ 1:rax=0)\n";
    fs::write(&x86, text).unwrap();
    let to = file.to_str().unwrap();
    exits(&mowgli(&["star", x86.to_str().unwrap(), "--early", "-o", to]), 0);
    let report = mowgli(&["check", to, "--model", "rdma-tso"]);
    exits(&report, 0);
    let report = stdout(&report);
    assert!(report.contains("Observation SB+star-early Never 0 3"), "{report}");
    let listed = stdout(&mowgli(&["star", "shm-MP", "--model", "rdma-sc"]));
    assert!(listed.contains("forbidden [sc; rdma-sc;]"), "{listed}");
    // Swapped by a client and by the server: only `glob` makes that atomic.
    exits(&mowgli(&["star", "shm-ticket-lock"]), 2);
    exits(&mowgli(&["star", "shm-ticket-lock", "--rmw", "glob"]), 0);
    exits(&mowgli(&["star", "SB3"]), 2);
    exits(&mowgli(&["star", "shm-SB", "--server", "P7"]), 2);
    let wrong = folder.path().join("wrong.x86");
    fs::write(&wrong, text.replace("movl $1,(x)", "shll $1,(x)")).unwrap();
    let output = mowgli(&["star", wrong.to_str().unwrap()]);
    exits(&output, 2);
    assert!(stderr(&output).contains("wrong.x86:4:2"), "{}", stderr(&output));
}
