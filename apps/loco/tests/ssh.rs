//! Tests `loco run --hosts FILE --ssh` through a real `sshd`: what users see, and that nothing is left on the hosts.
//!
//! The hosts are addresses of this machine. Without `sshd` the tests say *skipped*; `LOCO_REQUIRE_SSH` makes that a failure.

#![allow(clippy::unwrap_used)] // Helpers of tests unwrap, too.

#[path = "support/full_pipe.rs"]
mod full_pipe;
#[path = "support/running.rs"]
mod running;
#[path = "support/sshd.rs"]
mod sshd;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::process::{Child, ChildStdin, Command, Stdio};

use full_pipe::wait_until_full;
use running::{Running, assert_gone, finish};
use rustix::process::{Pid, Signal, kill_process};
use sshd::{HOSTS, NO_HOST, Sshd};

const LOCO: &str = env!("CARGO_BIN_EXE_loco");
const A: &str = HOSTS[0];
const B: &str = HOSTS[1];

fn loco(args: &[&str]) -> Command {
    let mut command = Command::new(LOCO);
    command.args(args).stdin(Stdio::null());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command
}

/// Returns the command that runs `program` with a node on each of `hosts`.
fn run(sshd: &Sshd, hosts: &[&str], options: &[&str], program: &[&str]) -> Command {
    let (file, ssh) = (sshd.hosts(hosts), sshd.ssh());
    let mut args = vec!["run", "--hosts", &file, "--ssh", "--ssh-command", &ssh];
    args.extend(options);
    args.push("--");
    args.extend(program);
    let mut command = loco(&args);
    command.current_dir(sshd.dir.path());
    command
}

/// Returns the command that runs a shell script as each node.
fn script(sshd: &Sshd, hosts: &[&str], options: &[&str], script: &str) -> Command {
    run(sshd, hosts, options, &["sh", "-c", script])
}

#[test]
fn nodes_on_two_hosts_do_their_work() {
    let Some(sshd) = Sshd::start() else { return };
    let mut command = run(
        &sshd,
        &[A, B, B],
        &["--fabric", "shm"],
        &[LOCO, "demo-node", "--quick"],
    );
    command.env("LOCO_CONNECT_TIMEOUT_MS", "120000");
    let (code, out, err) = finish(command);
    assert_eq!(code, 0, "{out}{err}");
    for node in 0..3 {
        let meets =
            |line: &&str| line.starts_with(&format!("[{node}] process ")) && line.ends_with("meets 2 others");
        assert_eq!(out.lines().filter(meets).count(), 1, "{out}");
        let table = format!("[{node}] reads in its table: ");
        assert!(out.contains(&table), "{out}");
    }
    assert!(out.lines().all(|line| line.starts_with('[')), "{out}");
}

/// Nobody reads the output, which is more than fits into all pipes on the way.
#[test]
fn a_reader_that_has_stopped_reading_does_not_hold_up_the_end() {
    let Some(sshd) = Sshd::start() else { return };
    for signal in [None, Some((Signal::TERM, 143)), Some((Signal::INT, 130))] {
        let (reader, writer) = std::io::pipe().unwrap();
        // A timeout shorter than this may come before the first line on a busy machine.
        let timeout = if signal.is_some() { "600" } else { "10" };
        let text = "echo $$ >pid.new; mv pid.new pid; exec yes 'a line that nobody reads'";
        let mut command = script(&sshd, &[A, B], &["--timeout", timeout], text);
        let mut launcher = command.stdout(writer).spawn().unwrap();
        drop(command);
        wait_until_full(&reader);
        if let Some((signal, _)) = signal {
            kill_process(Pid::from_child(&launcher), signal).unwrap();
        }
        let code = launcher.wait().unwrap().code();
        assert_eq!(code, Some(signal.map_or(124, |(_, code)| code)));
        let pid = fs::read_to_string(sshd.dir.path().join("pid")).unwrap();
        assert_gone(&[Pid::from_raw(pid.trim().parse().unwrap()).unwrap()]);
        drop(reader);
    }
}

#[test]
fn a_failure_ends_the_job_and_is_its_exit_code() {
    let Some(sshd) = Sshd::start() else { return };
    for (end, code, said) in [
        (
            "exit 7",
            7,
            "loco: node 1 ended with exit code 7; ending the others",
        ),
        (
            "kill -9 $$",
            137,
            "loco: node 1 ended with exit code 137; ending the others",
        ),
        // `ssh` itself would end so if it had failed.
        (
            "printf unfinished; exit 255",
            255,
            "loco: node 1 ended with exit code 255; ending the others",
        ),
    ] {
        // Node 1 ends when the others are at work.
        let text = format!(
            "echo $$ >pid$LOCO_NODE.new; mv pid$LOCO_NODE.new pid$LOCO_NODE
            [ $LOCO_NODE = 1 ] || exec sleep 300
            until [ -e pid0 ] && [ -e pid2 ]; do sleep 0.01; done; {end}"
        );
        let (found, out, err) = finish(script(&sshd, &[A, B, B], &[], &text));
        assert_eq!(found, code, "{err}");
        assert!(err.lines().any(|line| line == said), "{err}");
        assert!(!err.contains("ssh"), "{err}");
        assert_eq!(out, if code == 255 { "[1] unfinished\n" } else { "" });
        let pids = [0, 1, 2].map(|node| {
            let path = sshd.dir.path().join(format!("pid{node}"));
            let pid = fs::read_to_string(&path).unwrap();
            fs::remove_file(path).unwrap();
            Pid::from_raw(pid.trim().parse().unwrap()).unwrap()
        });
        assert_gone(&pids);
    }
}

#[test]
fn a_program_that_is_not_there_is_named() {
    let Some(sshd) = Sshd::start() else { return };
    let (code, _, err) = finish(run(&sshd, &[B], &[], &["/nonexistent/program"]));
    assert_eq!(code, 127, "{err}");
    assert!(err.contains("/nonexistent/program"), "{err}");
}

/// Starts processes of a node, in its group and out of it, and prints their ids.
const FAMILY: &str = "sleep 300 & echo pid $!; setsid sh -c 'echo pid $$; exec sleep 300' & echo pid $$; ";

#[test]
fn signals_reach_every_node_and_leave_no_process() {
    let Some(sshd) = Sshd::start() else { return };
    for (signal, name, code) in [
        (Signal::TERM, "TERM", 143),
        (Signal::INT, "INT", 130),
        (Signal::USR1, "USR1", 0),
    ] {
        let text = format!("trap 'echo got it; exit 0' {name}; {FAMILY} while :; do sleep 0.05; done");
        let command = script(&sshd, &[A, B], &["--grace", "100"], &text);
        Running::start(command).assert_both_get(6, signal, code);
    }
}

#[test]
fn nodes_that_do_not_want_to_end_are_killed_after_the_grace() {
    let Some(sshd) = Sshd::start() else { return };
    let text = format!("trap '' TERM INT HUP; {FAMILY} while :; do sleep 0.05; done");
    let mut job = Running::start(script(&sshd, &[A, B], &["--grace", "0.1"], &text));
    let pids = job.pids(6);
    job.signal(Signal::INT);
    assert_eq!(job.finish().1, Some(130));
    assert_gone(&pids);
}

/// Nodes may or may not have begun by then.
#[test]
fn a_job_that_takes_too_long_is_ended() {
    let Some(sshd) = Sshd::start() else { return };
    let (code, _, err) = finish(script(&sshd, &[A, B], &["--timeout", "0.3"], "exec sleep 300"));
    assert_eq!(code, 124, "{err}");
    assert!(err.contains("ran past its timeout"), "{err}");
}

#[test]
fn a_killed_launcher_leaves_no_process() {
    let Some(sshd) = Sshd::start() else { return };
    let text = format!("trap '' TERM INT HUP; {FAMILY} while :; do sleep 0.05; done");
    let mut job = Running::start(script(&sshd, &[A, B], &[], &text));
    let pids = job.pids(6);
    job.signal(Signal::KILL);
    job.launcher.wait().unwrap();
    assert_gone(&pids);
}

/// Returns the parent of a process.
fn parent(pid: Pid) -> Option<Pid> {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    let (_, after) = stat.rsplit_once(')')?;
    Pid::from_raw(after.split_whitespace().nth(1)?.parse().ok()?)
}

#[test]
fn a_connection_that_breaks_ends_its_node_and_the_job() {
    let Some(sshd) = Sshd::start() else { return };
    let text = "echo pid $$ $LOCO_NODE; exec sleep 300";
    let mut command = script(&sshd, &[A, B], &[], text);
    let mut job = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut nodes = [None; 2];
    for line in std::io::BufRead::lines(std::io::BufReader::new(job.stdout.take().unwrap())) {
        let line = line.unwrap();
        let (pid, node) = line.split_once("pid ").unwrap().1.split_once(' ').unwrap();
        nodes[node.parse::<usize>().unwrap()] = Pid::from_raw(pid.parse().unwrap());
        if nodes.iter().all(Option::is_some) {
            break;
        }
    }
    let pids = nodes.map(Option::unwrap);
    // The server's process for this connection.
    let is_sshd = |pid: &Pid| {
        let name = fs::read_to_string(format!("/proc/{}/comm", pid.as_raw_nonzero()));
        name.is_ok_and(|name| name.trim() == "sshd")
    };
    let mut above = std::iter::successors(Some(pids[1]), |&pid| parent(pid));
    kill_process(above.find(is_sshd).unwrap(), Signal::KILL).unwrap();
    let output = job.wait_with_output().unwrap();
    let err = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(255), "{err}");
    assert!(
        err.contains(&format!("the connection to {B}, on which node 1 ran, was lost")),
        "{err}"
    );
    assert!(err.contains("node 1 was cut off; ending the others"), "{err}");
    assert_gone(&pids);
}

#[test]
fn a_host_that_cannot_be_reached_is_named_with_what_to_try() {
    let Some(sshd) = Sshd::start() else { return };
    let hosts = [A, NO_HOST, B];
    let (code, out, err) = finish(script(&sshd, &hosts, &[], "echo pid $$; exec sleep 300"));
    assert_eq!(code, 255, "{err}");
    assert!(
        err.contains("[1] ssh: connect to host") && err.contains("Connection refused"),
        "{err}"
    );
    assert!(
        err.contains(&format!("ssh to {NO_HOST} failed, where node 1 was to run")),
        "{err}"
    );
    assert!(
        err.contains(&format!(" -o BatchMode=yes {NO_HOST} true` must work")),
        "{err}"
    );
    assert!(err.contains("node 1 did not begin; ending the others"), "{err}");
    let pids = out
        .lines()
        .filter_map(|line| line.split_once("pid ")?.1.parse().ok());
    assert_gone(&pids.filter_map(Pid::from_raw).collect::<Vec<_>>());
}

/// Returns the command lines of all processes.
fn command_lines() -> Vec<Vec<u8>> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    lines.collect()
}

#[test]
fn no_process_list_shows_the_secret() {
    let Some(sshd) = Sshd::start() else { return };
    let given = "the-secret-that-the-user-has-set";
    let file = sshd.dir.path().join("secret");
    let in_file = "the-secret-that-is-in-a-file";
    fs::write(&file, format!("{in_file}\n")).unwrap();
    for (variable, expected) in [
        (Some(("LOCO_SECRET", OsStr::new(given))), Some(given)),
        (Some(("LOCO_SECRET_FILE", file.as_os_str())), Some(in_file)),
        (None, None),
    ] {
        // Processes come and go while the nodes start, so this looks all the time.
        let shows = |secret: &str| {
            let secret = secret.as_bytes();
            command_lines()
                .into_iter()
                .any(|line| line.windows(secret.len()).any(|part| part == secret))
        };
        let mut command = script(
            &sshd,
            &[A, B],
            &[],
            "echo $LOCO_SECRET $LOCO_SECRET_FILE; exec sleep 300",
        );
        command.envs(variable);
        let mut job = Running::start(command);
        let (sender, lines) = std::sync::mpsc::channel();
        let read = std::thread::spawn(move || {
            for line in job.lines.by_ref().map(Result::unwrap).take(2) {
                sender.send(line).unwrap();
            }
            job
        });
        let mut seen = Vec::new();
        while seen.len() < 2 {
            assert!(!expected.is_some_and(shows), "{variable:?}");
            seen.extend(lines.try_iter());
        }
        let job = read.join().unwrap();
        let secrets: Vec<_> = seen.iter().map(|line| &line[4..]).collect();
        assert_eq!(secrets[0], secrets[1]);
        assert!(
            secrets[0].len() >= 8 && expected.is_none_or(|secret| secret == secrets[0]),
            "{seen:?}"
        );
        assert!(!shows(secrets[0]), "{variable:?}");
        job.signal(Signal::TERM);
        job.finish();
    }
}

/// Returns text that no careless quoting survives.
fn odd() -> Vec<OsString> {
    let all: Vec<u8> = (1..=255).collect();
    let words = [
        "",
        " ",
        "two words",
        "it's \"quoted\"",
        "$HOME `id` $(id) \\ \\\\",
        "-n",
        "a\nb\n\n",
        "*",
        "~",
        "end",
        "é ł 漢",
    ];
    let mut words: Vec<OsString> = words.map(OsString::from).to_vec();
    words.push(OsString::from_vec(all));
    words
}

#[test]
fn arguments_arrive_unchanged() {
    let Some(sshd) = Sshd::start() else { return };
    let mut command = run(&sshd, &[B], &["--no-prefix"], &["printf", "%s\\0"]);
    let output = command.args(odd()).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let expected: Vec<u8> = odd()
        .iter()
        .flat_map(|word| [word.as_bytes(), b"\0"].concat())
        .collect();
    assert_eq!(output.stdout, expected);
}

#[test]
fn the_environment_is_that_of_the_job_and_the_directory_the_same() {
    let Some(sshd) = Sshd::start() else { return };
    let dir = sshd.dir.path().join("it's \"here\"\n é");
    fs::create_dir(&dir).unwrap();
    let mut command = run(
        &sshd,
        &[A, B],
        &["--no-prefix", "--export", "ODD"],
        &["env", "-0"],
    );
    let value = OsString::from_vec((1..=255).collect());
    command.current_dir(&dir).env_remove("PWD");
    command
        .env("LOCO_ODD", &value)
        .env("ODD", &value)
        .env("EVEN", "kept here");
    command
        .env("LOCO_NODES", "99")
        .env("LOCO_RENDEZVOUS", "nowhere:1")
        .env("LOCO_LOG", "warn");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let variables: Vec<_> = output.stdout.split(|&byte| byte == 0).collect();
    let count = |name: &str, value: &[u8]| {
        let expected = [name.as_bytes(), b"=", value].concat();
        variables.iter().filter(|variable| **variable == expected).count()
    };
    for name in ["LOCO_ODD", "ODD"] {
        assert_eq!(count(name, value.as_bytes()), 2, "{name}");
    }
    assert_eq!(count("LOCO_LOG", b"warn"), 2);
    assert_eq!((count("LOCO_NODE", b"0"), count("LOCO_NODE", b"1")), (1, 1));
    assert_eq!(count("PWD", dir.as_os_str().as_bytes()), 2);
    for absent in ["LOCO_NODES=", "LOCO_RENDEZVOUS=", "LOCO_HOSTS=", "EVEN="] {
        assert!(
            !variables
                .iter()
                .any(|variable| variable.starts_with(absent.as_bytes())),
            "{absent}"
        );
    }
}

/// Starts a job whose output is kept, and returns it with the pipe of its input.
fn with_input(mut command: Command) -> (Child, ChildStdin) {
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut job = command.spawn().unwrap();
    let pipe = job.stdin.take().unwrap();
    (job, pipe)
}

#[test]
fn the_lowest_node_gets_the_input_and_the_others_none() {
    let Some(sshd) = Sshd::start() else { return };
    // More than pipes and connections hold, and a piece of every byte.
    let input: Vec<u8> = (0..3_000_000_u32)
        .map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    let text = "case $LOCO_NODE in 0) cat ;; *) [ \"$(wc -c)\" = 0 ] ;; esac";
    let (job, mut pipe) = with_input(script(&sshd, &[A, B], &["--no-prefix"], text));
    let written = input.clone();
    let writer = std::thread::spawn(move || pipe.write_all(&written).unwrap());
    let output = job.wait_with_output().unwrap();
    writer.join().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == input, "{} bytes came", output.stdout.len());
}

#[test]
fn input_that_nobody_reads_holds_nobody_up() {
    let Some(sshd) = Sshd::start() else { return };
    // The writing end stays open.
    let (job, mut pipe) = with_input(script(&sshd, &[A], &[], "read -r line; echo $line"));
    pipe.write_all(b"first\nsecond\n").unwrap();
    let output = job.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"[0] first\n");
    assert_eq!(output.status.code(), Some(0));
}

/// The server turns away the ninth connection that has not logged in.
#[test]
fn a_host_with_many_nodes_is_not_overrun() {
    let Some(sshd) = Sshd::start() else { return };
    let (code, out, err) = finish(script(&sshd, &[B; 12], &[], "echo here"));
    assert_eq!(code, 0, "{err}");
    assert_eq!(out.matches("] here\n").count(), 12, "{out}");
}

#[test]
fn bad_usage_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "0 -v\n").unwrap();
    let hosts = hosts.to_str().unwrap();
    for (args, expected) in [
        (&["--ssh"][..], "--hosts"),
        (&["-n", "2", "--ssh"], "cannot be used with"),
        (&["--hosts", hosts, "--ssh-command", "ssh -v"], "--ssh"),
        (&["--hosts", hosts, "--export", "PATH"], "--ssh"),
        (&["--hosts", hosts, "--ssh", "--ssh-command", " "], "no command"),
        (
            &["--hosts", hosts, "--ssh", "--export", "A=1"],
            "cannot be the name of a variable",
        ),
        (&["--hosts", hosts, "--ssh"], "takes the host `-v` for an option"),
    ] {
        let (code, _, err) = finish(loco(&[&["run"], args, &["--", "true"]].concat()));
        assert_eq!(code, 2, "{args:?}: {err}");
        assert!(err.contains(expected), "{args:?}: {err}");
    }
}

#[test]
fn a_command_that_is_not_there_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let hosts = dir.path().join("hosts");
    fs::write(&hosts, "0 localhost\n").unwrap();
    let mut command = loco(&["run", "--hosts", hosts.to_str().unwrap(), "--ssh"]);
    command.args(["--ssh-command", "/nonexistent/ssh", "--", "true"]);
    let (code, _, err) = finish(command);
    assert_eq!(code, 127, "{err}");
    assert!(err.contains("/nonexistent/ssh"), "{err}");
}
