//! Tests the `kv` command as nodes of a job.
#![allow(clippy::unwrap_used)]

mod support;

use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

use loco_testing::launched::{alone, interrupted};

use support::{job, shell};

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn a_load_on_three_nodes_checks_what_it_finds_and_prints_json() {
    for mix in ["read-only", "mixed", "write-only"] {
        for distribution in ["uniform", "zipf"] {
            let args = [
                "load",
                "--json",
                "--keys",
                "300",
                "--ops",
                "2000",
                "--threads",
                "2",
                "--duration",
                "20",
                "--mix",
                mix,
                "--distribution",
                distribution,
            ];
            let output = job(3, &args).output().unwrap();
            assert!(output.status.success(), "{output:?}");
            let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            let (reads, writes) = (
                outcome["reads"].as_u64().unwrap(),
                outcome["writes"].as_u64().unwrap(),
            );
            // There are 3 nodes, with 2 threads each and batches of 16.
            assert_eq!(reads + writes, 6 * 2000);
            assert_eq!(
                (reads == 0, writes == 0),
                (mix == "write-only", mix == "read-only")
            );
            assert_eq!(
                (outcome["nodes"].as_u64(), &outcome["mix"]),
                (Some(3), &mix.into())
            );
        }
    }
}

/// Parts of a run by its figures are no longer than the run by the clock of this test, and no shorter than was asked for.
#[test]
fn the_figures_of_a_load_fit_the_time_that_it_took() {
    let begin = std::time::Instant::now();
    let args = [
        "load",
        "--json",
        "--keys",
        "1000",
        "--duration",
        "0.3",
        "--mix",
        "read-only",
    ];
    let output = job(2, &args).output().unwrap();
    let whole = begin.elapsed().as_secs_f64();
    assert!(output.status.success(), "{output:?}");
    let outcome: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |name: &str| outcome[name].as_f64().unwrap();
    let seconds = number("reads") / number("operations_per_second");
    assert!(
        (0.299..whole).contains(&seconds),
        "{outcome}: {seconds} of {whole} s"
    );
    let (middle, late) = (number("latency_ns_p50"), number("latency_ns_p99"));
    assert!(0.0 < middle && middle <= late, "{outcome}");
    // Half of ten thousand lookups take the middle time at least.
    assert!(middle * 5000.0 <= whole * 1e9, "{outcome}: more than {whole} s");
}

#[test]
fn the_summary_for_people_says_what_was_done() {
    let output = job(2, &["load", "--keys", "100", "--ops", "160", "--window", "3"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    assert!(
        text.contains("on 2 nodes with 1 thread each") && text.contains("; 100 keys, uniform, window 3"),
        "{text}"
    );
}

#[test]
fn the_shell_answers_commands_from_a_pipe() {
    let output = shell(
        3,
        "get a\nput a 1 and more\nget a\ninsert a 2\nupdate a 3\nget a\nput b x\nlist\nlist b\nstats\n\
         delete a\ndelete a\nget a\n# remark\n\nquit\nget never\n",
    );
    assert!(output.status.success(), "{output:?}");
    let text = text(&output.stdout);
    let answers: Vec<&str> = text.lines().skip(1).collect();
    let mut expected = vec![
        "no key `a`",
        "inserted",
        "1 and more",
        "the key `a` is there already; nothing changed",
        "updated",
        "3",
        "inserted",
        "a",
        "b",
        "b",
    ];
    assert_eq!(answers[..expected.len()], expected);
    assert!(answers[expected.len()].starts_with("2 keys; on this node 4094 free slots"));
    expected = vec!["deleted", "no key `a`", "no key `a`"];
    assert_eq!(answers[answers.len() - expected.len()..], expected);
}

#[test]
fn lines_that_are_no_command_are_answered_and_counted() {
    let long = "x".repeat(5000);
    let output = shell(2, &format!("fetch a\nget\nput a {long}\nput a 1"));
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let text = text(&output.stdout);
    let answers: Vec<&str> = text.lines().skip(1).collect();
    assert!(answers[0].contains("no command `fetch`"), "{text}");
    assert!(answers[1].contains("`get` needs a key"), "{text}");
    assert!(
        answers[2].starts_with("error: ") && answers[2].contains("5000"),
        "{text}"
    );
    assert_eq!(answers[3], "inserted", "the end of the input needs no newline");
}

#[test]
fn help_and_mistakes_on_the_command_line() {
    let kv = |args: &[&str]| {
        Command::new(env!("CARGO_BIN_EXE_kv"))
            .args(args)
            .output()
            .unwrap()
    };
    for args in [&["--help"][..], &["load", "--help"], &["shell", "--help"]] {
        let help = kv(args);
        assert!(help.status.success() && !help.stdout.is_empty(), "{help:?}");
    }
    assert_eq!(kv(&[]).status.code(), Some(2));
    assert_eq!(kv(&["load", "--window", "0"]).status.code(), Some(2));
    assert_eq!(kv(&["load", "--mix", "some"]).status.code(), Some(2));
    // Outside of a job it says how to start one.
    let alone = alone(env!("CARGO_BIN_EXE_kv")).arg("load").output().unwrap();
    assert_eq!(alone.status.code(), Some(2), "{alone:?}");
    assert!(text(&alone.stderr).contains("loco run"), "{alone:?}");
}

#[test]
fn an_interrupted_load_ends_early_with_its_summary() {
    let output = interrupted(job(2, &["load", "--keys", "100", "--duration", "1000"]), 2);
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(text(&output.stdout).contains("lookups"), "{output:?}");
}

/// A node that waits for one that never comes has nothing to finish.
#[test]
fn a_node_that_still_waits_for_others_ends_at_once_when_it_is_told_to() {
    let mut command = loco_testing::launched::launched(env!("CARGO_BIN_EXE_kv"), 2, "sh");
    let script = format!(
        "if [ $LOCO_NODE = 1 ]; then exec sleep 300; fi; echo $$; exec {} shell",
        env!("CARGO_BIN_EXE_kv")
    );
    let mut child = command
        .args(["-c", &script])
        // It says there that it waits, which it does with its handlers of signals in place.
        .env("LOCO_LOG", "loco_job=info")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut seen = String::new();
    while !seen.contains("waiting for node 1") {
        assert!(said.read_line(&mut seen).unwrap() > 0, "it ended early: {seen}");
    }
    loco_testing::launched::signal("-TERM", line.trim().parse().unwrap());
    said.read_to_string(&mut seen).unwrap();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(128 + 15), "{seen}");
    assert!(seen.contains("node 0 was killed by signal 15"), "{seen}");
}

#[test]
fn the_log_is_on_standard_error_where_it_is_asked_for() {
    let load = ["load", "--keys", "10", "--ops", "10"];
    let silent = job(1, &load).output().unwrap();
    assert_eq!(text(&silent.stderr), "", "{silent:?}");
    let logged = job(1, &load).env("LOCO_LOG", "info").output().unwrap();
    assert!(text(&logged.stderr).contains("at work"), "{logged:?}");
    let wrong = job(1, &load).env("LOCO_LOG", "loco=loud").output().unwrap();
    assert!(wrong.status.success(), "{wrong:?}");
    assert!(
        text(&wrong.stderr).contains("LOCO_LOG=`loco=loud` is ignored"),
        "{wrong:?}"
    );
}

/// The job has one node and is started without our launcher, whose own output would be in between.
#[test]
fn a_full_disk_is_an_error_with_its_reason() {
    for (args, code) in [(&["load", "--keys", "10", "--ops", "10"][..], 1), (&["shell"], 1)] {
        let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
        let output = alone(env!("CARGO_BIN_EXE_kv"))
            .args(args)
            .envs([("OMPI_COMM_WORLD_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "1")])
            .envs([("LOCO_SECRET", "of one node"), ("LOCO_FABRIC", "shm")])
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(code), "{output:?}");
        let said = text(&output.stderr);
        assert!(said.contains("kv: writing the output: No space left"), "{said}");
    }
}

#[test]
fn the_command_gives_its_own_name_as_that_of_the_version() {
    loco_testing::launched::gives_its_name(env!("CARGO_BIN_EXE_kv"), "kv");
}

#[test]
fn a_load_without_time_or_operations_is_refused() {
    for option in ["--duration", "--ops"] {
        loco_testing::launched::refuses(env!("CARGO_BIN_EXE_kv"), &["load"], option, "0");
    }
}

#[test]
fn nodes_with_different_options_are_told_so() {
    loco_testing::launched::refuses_different(
        env!("CARGO_BIN_EXE_kv"),
        "load --keys 10 --ops 10",
        "--threads",
        1,
    );
}
