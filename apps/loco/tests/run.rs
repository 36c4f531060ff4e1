//! Tests `loco run` as a user sees it: output, exit codes and signals, and that nothing is left behind.

#![allow(clippy::unwrap_used)] // Helpers of tests unwrap, too.

#[path = "support/running.rs"]
mod running;
#[path = "support/terminal.rs"]
mod terminal;

use std::path::Path;
use std::process::{Child, Command};

use running::{Running, assert_gone, finish, sorted};
use rustix::process::{Pid, Signal, kill_process};
use terminal::on_terminal;

const LOCO: &str = env!("CARGO_BIN_EXE_loco");

fn loco(args: &[&str]) -> Command {
    let mut command = Command::new(LOCO);
    command.args(args);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command
}

/// Returns the command `loco run OPTIONS -- sh -c SCRIPT`.
fn run(options: &[&str], script: &str) -> Command {
    let mut args = vec!["run"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    loco(&args)
}

impl Running {
    /// Returns process ids, each with whether it was printed as `node pid ID`. Lines of different nodes come
    /// in any order.
    fn pids_of_nodes(&mut self, count: usize) -> Vec<(bool, Pid)> {
        let lines = self.lines.by_ref().map(Result::unwrap);
        let pids = lines.filter_map(|line| {
            let (before, pid) = line.split_once("pid ")?;
            Some((before.ends_with("node "), Pid::from_raw(pid.parse().ok()?)?))
        });
        pids.take(count).collect()
    }

    fn wait_for(&mut self, text: &str) {
        let mut lines = self.lines.by_ref().map(Result::unwrap);
        assert!(
            lines.any(|line| line.contains(text)),
            "the job ended without `{text}`"
        );
    }
}

#[test]
fn output_is_prefixed_by_node_and_keeps_its_stream() {
    let (code, out, err) = finish(run(
        &["-n", "3"],
        "echo \"one $LOCO_NODE/$LOCO_NODES\"; echo two >&2; printf three",
    ));
    assert_eq!(code, 0);
    let expected = [
        "[0] one 0/3",
        "[0] three",
        "[1] one 1/3",
        "[1] three",
        "[2] one 2/3",
        "[2] three",
    ];
    assert_eq!(sorted(&out), expected);
    assert_eq!(sorted(&err), ["[0] two", "[1] two", "[2] two"]);
}

#[test]
fn ids_are_aligned_and_prefixes_can_be_left_out() {
    let (_, out, _) = finish(run(&["-n", "11"], "echo x"));
    assert_eq!(sorted(&out)[0], "[ 0] x");
    let (_, out, _) = finish(run(&["-n", "2", "--no-prefix"], "echo x"));
    assert_eq!(out, "x\nx\n");
}

#[test]
fn the_first_failure_ends_the_job_and_is_its_exit_code() {
    let script = "if [ $LOCO_NODE = 1 ]; then exit 7; fi; sleep 300; echo late";
    let (code, out, err) = finish(run(&["-n", "3"], script));
    assert_eq!(code, 7);
    assert_eq!(out, "");
    assert_eq!(err, "loco: node 1 ended with exit code 7; ending the others\n");
}

#[test]
fn a_node_that_a_signal_killed_counts_as_128_plus_the_signal() {
    let script = "if [ $LOCO_NODE = 1 ]; then kill -9 $$; fi; sleep 300";
    let (code, _, err) = finish(run(&["-n", "2"], script));
    assert_eq!(code, 128 + 9);
    assert_eq!(err, "loco: node 1 was killed by signal 9; ending the others\n");
}

/// Node 0 ends as a survivor does, while node 1 is still dying.
#[test]
fn a_killed_node_is_blamed_and_not_one_that_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let script = "case $LOCO_NODE in
        1) echo $$ >pid.new; mv pid.new pid; sleep 300 ;;
        0) until [ -e pid ]; do sleep 0.01; done; kill -9 $(cat pid); exit 1 ;;
        *) sleep 300 ;;
        esac";
    let mut command = run(&["-n", "3"], script);
    command.current_dir(dir.path());
    let (code, _, err) = finish(command);
    assert_eq!(err, "loco: node 1 was killed by signal 9; ending the others\n");
    assert_eq!(code, 128 + 9);
}

#[test]
fn the_environment_names_the_fabric_and_the_command_line_overrides_it() {
    let fabrics = |options: &[&str]| {
        let mut command = run(&[&["-n", "1"], options].concat(), "echo $LOCO_FABRIC");
        command.env("LOCO_FABRIC", "verbs");
        finish(command).1
    };
    assert_eq!(fabrics(&[]), "[0] verbs\n");
    assert_eq!(fabrics(&["--fabric", "shm"]), "[0] shm\n");
    let mut command = run(&["-n", "1"], "true");
    command.env("LOCO_FABRIC", "wires");
    let (code, _, err) = finish(command);
    assert_eq!(code, 2);
    assert!(err.contains("no fabric `wires`"), "{err}");
}

#[test]
fn the_others_can_be_let_go_on() {
    let script = "if [ $LOCO_NODE = 1 ]; then exit 3; fi; sleep 0.3; echo done";
    let (code, out, err) = finish(run(&["-n", "3", "--keep-going"], script));
    assert_eq!(code, 3);
    assert_eq!(err, "loco: node 1 ended with exit code 3\n");
    assert_eq!(sorted(&out), ["[0] done", "[2] done"]);
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let (code, _, err) = finish(loco(&["run", "-n", "1", "--", "/nonexistent/program"]));
    assert_eq!(code, 127);
    assert!(
        err.contains("cannot start `/nonexistent/program`: No such file"),
        "{err}"
    );
}

#[test]
fn bad_usage_is_refused() {
    for (args, expected) in [
        (
            &["run", "-n", "0", "--", "true"][..],
            "not a whole number from 1 to 65535",
        ),
        (&["run", "--", "true"], "required"),
        (&["run", "-n", "1"], "required"),
        (
            &["run", "-n", "1", "--timeout", "soon", "--", "true"],
            "not a time such as 500ms",
        ),
    ] {
        let (code, _, err) = finish(loco(args));
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(expected), "{err}");
    }
}

#[test]
fn a_job_that_takes_too_long_is_ended() {
    let (code, _, err) = finish(run(&["-n", "2", "--timeout", "0.3"], "sleep 300"));
    assert_eq!(code, 124);
    assert!(err.contains("ran past its timeout"), "{err}");
}

#[test]
fn signals_reach_every_node_and_the_exit_code_tells_which() {
    for (signal, name, code) in [(Signal::TERM, "TERM", 143), (Signal::INT, "INT", 130)] {
        let script = format!("trap 'echo got it; exit 0' {name}; echo pid $$; while :; do sleep 0.05; done");
        Running::start(run(&["-n", "2"], &script)).assert_both_get(2, signal, code);
    }
}

#[test]
fn other_signals_are_passed_on_and_the_job_goes_on() {
    let script = "trap 'echo got it; exit 0' USR1; echo pid $$; while :; do sleep 0.05; done";
    Running::start(run(&["-n", "2"], script)).assert_both_get(2, Signal::USR1, 0);
}

#[test]
fn a_node_that_does_not_want_to_end_is_killed_after_the_grace() {
    let script = "trap 'echo and goes on' TERM INT; echo pid $$; while :; do sleep 0.05; done";
    let mut job = Running::start(run(&["-n", "2", "--grace", "0.3"], script));
    let pids = job.pids(2);
    job.signal(Signal::INT);
    assert_eq!(job.finish().1, Some(130));
    assert_gone(&pids);
    // A second signal ends the job without waiting.
    let mut job = Running::start(run(&["-n", "2", "--grace", "600"], script));
    let pids = job.pids(2);
    job.signal(Signal::TERM);
    // Two signals at the same time would arrive as one.
    job.wait_for("and goes on");
    job.signal(Signal::TERM);
    assert_eq!(job.finish().1, Some(143));
    assert_gone(&pids);
}

#[test]
fn what_nodes_leave_behind_is_ended_with_the_job() {
    // One process stays in the node's group, and one leaves it.
    let script = "sleep 300 & echo pid $!
        setsid sh -c 'echo pid $$; touch left$LOCO_NODE; exec sleep 300' &
        until [ -e left$LOCO_NODE ]; do sleep 0.01; done";
    let dir = tempfile::tempdir().unwrap();
    let mut command = run(&["-n", "2"], script);
    command.current_dir(dir.path());
    let mut job = Running::start(command);
    let pids = job.pids(4);
    assert_eq!(job.finish().1, Some(0));
    assert_gone(&pids);
}

#[test]
fn a_killed_node_takes_the_job_with_it() {
    // The lines of two nodes may interleave, so the process to kill says itself that it is a node.
    let script = "sleep 300 & echo pid $!; echo node pid $$; wait";
    let mut job = Running::start(run(&["-n", "3"], script));
    let pids = job.pids_of_nodes(6);
    let (_, node) = pids.iter().find(|(is_node, _)| *is_node).unwrap();
    kill_process(*node, Signal::KILL).unwrap();
    let (_, code) = job.finish();
    assert_eq!(code, Some(137));
    assert_gone(&pids.iter().map(|(_, pid)| *pid).collect::<Vec<_>>());
}

#[test]
fn a_killed_launcher_leaves_no_process() {
    let script = "sleep 300 & echo pid $!; trap '' TERM INT HUP; echo pid $$; while :; do sleep 0.05; done";
    let mut job = Running::start(run(&["-n", "3"], script));
    let pids = job.pids(6);
    let guard = guard_of(&job.launcher);
    job.signal(Signal::KILL);
    job.launcher.wait().unwrap();
    assert_gone(&pids);
    assert_gone(&[guard]);
}

/// Returns the launcher's own helper process.
fn guard_of(launcher: &Child) -> Pid {
    let children = std::fs::read_dir("/proc").unwrap().flatten();
    let mut found = children
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let parent = stat
                .rsplit_once(") ")
                .and_then(|(_, rest)| rest.split(' ').nth(1)?.parse().ok());
            let line = std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            parent == Some(launcher.id()) && line.contains("__guard")
        });
    Pid::from_raw(found.next().unwrap()).unwrap()
}

#[test]
fn a_reader_that_goes_away_ends_the_job() {
    let mut job = Running::start(run(&["-n", "2"], "echo pid $$; while :; do echo more; done"));
    let pids = job.pids(1);
    drop(job.lines);
    assert_eq!(job.launcher.wait().unwrap().code(), Some(141));
    assert_gone(&pids);
}

#[test]
fn no_file_is_left() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = loco(&["run", "-n", "3", "--", LOCO, "demo-node"]);
    command
        .current_dir(dir.path())
        .env("TMPDIR", dir.path())
        .env("HOME", dir.path());
    assert_eq!(finish(command).0, 0);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn nodes_find_one_another() {
    let (code, out, err) = finish(loco(&["run", "-n", "4", "--", LOCO, "demo-node"]));
    assert_eq!(code, 0, "{err}");
    for node in 0..4 {
        let meets =
            |line: &&str| line.starts_with(&format!("[{node}] process ")) && line.ends_with("meets 3 others");
        assert_eq!(out.lines().filter(meets).count(), 1, "{out}");
    }
}

fn write_hosts(dir: &Path, text: &str) -> String {
    let path = dir.join("hosts");
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn nodes_of_a_hosts_file_that_live_here_are_started() {
    let dir = tempfile::tempdir().unwrap();
    // The nodes use loopback addresses of their own, so that the default ports are free, in other runs of this test too.
    let [_, b, c, d] = std::process::id().to_be_bytes(); // at most 22 bits
    let (first, second) = (64 + b, 128 + b);
    let text = format!("5 127.{first}.{c}.{d}\n9 127.{second}.{c}.{d} # two hosts of one machine\n");
    let hosts = write_hosts(dir.path(), &text);
    let (code, out, err) = finish(loco(&["run", "--hosts", &hosts, "--", LOCO, "demo-node"]));
    assert_eq!(code, 0, "{err}");
    assert!(
        out.contains("[5] process ") && out.contains("[9] process "),
        "{out}"
    );
    assert_eq!(out.matches("meets 1 other\n").count(), 2, "{out}");
}

#[test]
fn a_malformed_hosts_file_is_named_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = write_hosts(dir.path(), "0 localhost\nzero localhost\n");
    let (code, _, err) = finish(loco(&["run", "--hosts", &hosts, "--", "true"]));
    assert_eq!(code, 2);
    assert!(err.contains("hosts:2: `zero` is not a node id"), "{err}");
    let hosts = write_hosts(
        dir.path(),
        "0 localhost\n1 localhost\n# again\n0 localhost:9000\n",
    );
    let (code, _, err) = finish(loco(&["run", "--hosts", &hosts, "--", "true"]));
    assert_eq!(code, 2);
    assert!(err.contains("hosts:4: ") && err.contains("line 1"), "{err}");
    // Nobody has an address of TEST-NET-1.
    let hosts = write_hosts(dir.path(), "0 192.0.2.1\n");
    let (code, _, err) = finish(loco(&["run", "--hosts", &hosts, "--", "true"]));
    assert_eq!(code, 2);
    assert!(
        err.contains("no node of") && err.contains("lives on this machine"),
        "{err}"
    );
    let (code, _, err) = finish(loco(&["run", "--hosts", "/nonexistent/hosts", "--", "true"]));
    assert_eq!(code, 2, "{err}");
    assert!(
        err.contains("reading hosts file /nonexistent/hosts: No such file"),
        "{err}"
    );
    let hosts = write_hosts(dir.path(), "0 192.0.2.1\n1 127.0.0.1\n");
    let (code, _, err) = finish(loco(&["run", "--hosts", &hosts, "--", "true"]));
    assert_eq!(code, 2);
    assert!(
        err.contains("not on this machine: node 0 (192.0.2.1:7700); set the same LOCO_SECRET"),
        "{err}"
    );
}

#[test]
fn the_fabric_is_passed_to_the_nodes() {
    let (_, out, _) = finish(run(&["-n", "1", "--fabric", "shm"], "echo $LOCO_FABRIC"));
    assert_eq!(out, "[0] shm\n");
    let (code, _, _) = finish(run(&["-n", "1", "--fabric", "pigeon"], "true"));
    assert_eq!(code, 2);
}

#[test]
fn the_demonstration_tells_what_happened() {
    let (code, out, err) = finish(loco(&["demo", "--fabric", "shm"]));
    assert_eq!(code, 0, "{err}");
    for node in 0..3 {
        let table =
            format!("[{node}] reads in its table: node 0 heard 0, node 1 heard 200003, node 2 heard 200003");
        assert!(out.contains(&table), "{out}");
    }
    assert_eq!(out.matches("hears: Hello from the writer").count(), 2, "{out}");
    assert!(
        out.contains("barriers:") && out.contains("million a second"),
        "{out}"
    );
}

/// Returns the records that a command prints. Each is one line and has the machine's facts.
fn records(args: &[&str]) -> Vec<serde_json::Value> {
    let (code, out, err) = finish(loco(args));
    assert_eq!(code, 0, "{err}");
    // On a busy machine a line may say how far it is.
    assert!(
        !err.contains(['\r', '\u{1b}']),
        "a progress bar without a terminal: {err}"
    );
    let records: Vec<serde_json::Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for record in &records {
        assert_eq!(record["fabric"], "shm");
        assert!(record["machine"]["cores"].as_u64().unwrap() >= 1);
        assert!(record["machine"]["page_size_bytes"].as_u64().unwrap() >= 4096);
        assert!(record["results"]["operations_per_second"].as_f64().unwrap() > 0.0);
    }
    records
}

fn names(records: &[serde_json::Value]) -> Vec<&str> {
    records
        .iter()
        .map(|record| record["name"].as_str().unwrap())
        .collect()
}

#[test]
fn the_demonstration_prints_one_json_line_a_result() {
    let records = records(&["demo", "--json", "--fabric", "shm"]);
    assert_eq!(names(&records), ["barrier", "broadcast"]);
    assert!(records.iter().all(|record| record["parameters"]["nodes"] == 3));
}

#[test]
fn every_benchmark_prints_one_json_line_a_result() {
    for (what, expected, options) in [
        ("put", &["put"][..], &["--threads", "2", "--size", "256"][..]),
        ("get", &["get"], &["--threads", "2"]),
        ("atomic", &["atomic"], &["--nodes", "3"]),
        (
            "barrier",
            &["barrier", "barrier-fenced"],
            &["--nodes", "4", "--threads", "2"],
        ),
        (
            "broadcast",
            &["broadcast", "broadcast-single"],
            &["--nodes", "3", "--size", "100", "--window", "7"],
        ),
        ("ping-pong", &["ping-pong"], &["--nodes", "3", "--size", "5000"]),
    ] {
        let mut args = vec![
            "bench", what, "--json", "--fabric", "shm", "--iters", "500", "--warmup", "100",
        ];
        args.extend(options);
        let records = records(&args);
        assert_eq!(names(&records), expected);
        for record in records {
            let parameters = &record["parameters"];
            assert_eq!(
                (&parameters["iters"], &parameters["warmup"]),
                (&500.into(), &100.into())
            );
            let latency = |name: &str| record["results"][format!("latency_ns_{name}")].as_u64().unwrap();
            assert!(0 < latency("p50") && latency("p50") <= latency("p99"), "{record}");
            assert!(
                latency("p99") <= latency("p999") && latency("p999") <= latency("max"),
                "{record}"
            );
        }
    }
}

#[test]
fn a_progress_bar_is_drawn_on_a_terminal_only() {
    let bench = format!("{LOCO} bench put --fabric shm --iters 300000 --size 8");
    let Some(output) = on_terminal(&bench) else {
        return;
    };
    let seen = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{seen}");
    let bar = |text: &str| text.contains("%  00:00:");
    assert!(bar(&seen) && seen.contains('\u{1b}'), "no bar: {seen:?}");
    let seen = on_terminal(&format!("{bench} 2>&1 | cat")).unwrap().stdout;
    let seen = String::from_utf8_lossy(&seen);
    assert!(
        !bar(&seen) && !seen.contains('\u{1b}'),
        "a bar in a pipe: {seen:?}"
    );
}

#[test]
fn benchmarks_refuse_what_cannot_be_measured() {
    for options in [
        &["put", "--nodes", "1"][..],
        &["put", "--size", "0"],
        &["put", "--threads", "0"],
        &["broadcast", "--window", "0"],
        &["jump"],
    ] {
        let (code, _, err) = finish(loco(&[&["bench"], options].concat()));
        assert_eq!(code, 2, "{options:?}: {err}");
    }
}

/// The others do not wait the thirty seconds that nodes otherwise wait for one another, both alone and with
/// --keep-going.
#[test]
fn a_node_that_ends_before_all_have_met_costs_the_others_no_patience() {
    for options in [&["-n", "3"][..], &["-n", "3", "--keep-going"]] {
        let script = format!("if [ $LOCO_NODE = 1 ]; then exit 0; fi; exec {LOCO} demo-node");
        let mut command = run(options, &script);
        // This is longer than anybody waits for this test.
        command.env("LOCO_CONNECT_TIMEOUT_MS", "3600000");
        let (code, _, err) = finish(command);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains("node 1") && err.contains("lost"), "{err}");
    }
}

/// A container that was made by hand often has an empty `/dev`.
#[test]
fn a_host_without_a_null_device_is_told_so() {
    let empty = "mount -t tmpfs none /dev && exec \"$@\"";
    let unshare = ["--user", "--map-root-user", "--mount", "sh", "-c", empty, "sh"];
    let mut tried = Command::new("unshare");
    if !tried
        .args(unshare)
        .arg("true")
        .output()
        .is_ok_and(|output| output.status.success())
    {
        return loco_testing::skipped("MOUNT_NAMESPACE", "this host makes no mount namespaces");
    }
    let mut command = loco_testing::launched::alone("unshare");
    command.args(unshare).args([LOCO, "run", "-n", "2", "--", "true"]);
    let (code, _, err) = finish(command);
    assert_eq!(code, 1, "{err}");
    assert!(
        err.contains("cannot open /dev/null: No such file or directory"),
        "{err}"
    );
    assert!(err.contains("mknod"), "{err}");
}
