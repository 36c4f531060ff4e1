//! Checks that `loco run` ends when whoever reads its output has stopped reading, and that a reader that takes its time gets
//! everything.

#![allow(clippy::unwrap_used)]

#[path = "support/full_pipe.rs"]
mod full_pipe;

use std::io::{BufRead as _, BufReader, PipeReader, Read as _};
use std::process::{Child, Stdio};
use std::time::Duration;

use full_pipe::wait_until_full;
use loco_testing::launched::alone;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

/// The time for a command to end on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Starts `loco run` whose output, and with `both` also standard error, goes into a pipe that nobody reads, and waits until
/// the pipe is full.
fn start(options: &[&str], script: &str, both: bool) -> (Child, PipeReader) {
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = alone(env!("CARGO_BIN_EXE_loco"));
    command
        .args(["run", "-n", "2"])
        .args(options)
        .args(["--", "sh", "-c", script]);
    command.stderr(match both {
        true => Stdio::from(writer.try_clone().unwrap()),
        false => Stdio::piped(),
    });
    let launcher = command.stdout(writer).spawn().unwrap();
    // The command has the other copies of the writer.
    drop(command);
    wait_until_full(&reader);
    (launcher, reader)
}

/// Waits for the end of a process, for a time at most. Returns false if it goes on.
fn is_over(pid: Pid, patience: Duration) -> bool {
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else {
        return true;
    };
    let patience = Timespec::try_from(patience).unwrap();
    // Readable at its end.
    poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&patience)).unwrap() == 1
}

/// Waits for the end of the command, which must come, and returns its exit code and what it has said.
fn ends(mut launcher: Child) -> (Option<i32>, String) {
    if !is_over(Pid::from_child(&launcher), PATIENCE) {
        launcher.kill().unwrap();
        panic!("it hangs");
    }
    let mut said = String::new();
    if let Some(mut stderr) = launcher.stderr.take() {
        stderr.read_to_string(&mut said).unwrap();
    }
    (launcher.wait().unwrap().code(), said)
}

const ENDLESS: &str = "exec yes 'a line of sixteen'";

#[test]
fn the_timeout_ends_a_job_whose_reader_has_stopped_reading() {
    for both in [false, true] {
        let (launcher, reader) = start(&["--timeout", "1"], ENDLESS, both);
        let (code, said) = ends(launcher);
        assert_eq!(code, Some(124), "{said}");
        assert!(
            both || said.contains("ran past its timeout") && said.contains("nobody reads the output"),
            "{said}"
        );
        drop(reader);
    }
}

#[test]
fn signals_end_a_job_whose_reader_has_stopped_reading() {
    for both in [false, true] {
        for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
            let (launcher, reader) = start(&[], ENDLESS, both);
            kill_process(Pid::from_child(&launcher), signal).unwrap();
            assert_eq!(ends(launcher).0, Some(code));
            drop(reader);
        }
    }
}

/// The second signal does not wait for nodes that do not want to end, nor for the reader.
#[test]
fn a_second_signal_ends_the_job_at_once() {
    let script = format!("trap '' TERM; {ENDLESS}");
    let (launcher, reader) = start(&["--grace", "1000"], &script, true);
    let pid = Pid::from_child(&launcher);
    // Two signals at the same time would arrive as one, so they are sent until there is an end.
    kill_process(pid, Signal::TERM).unwrap();
    while !is_over(pid, Duration::from_millis(100)) {
        kill_process(pid, Signal::TERM).unwrap();
    }
    assert_eq!(ends(launcher).0, Some(143));
    drop(reader);
}

/// Nodes that have ended by themselves leave output behind, for which the reader may take its time, but not past a signal.
#[test]
fn a_job_that_has_ended_waits_for_its_reader_until_it_is_told_to_end() {
    let script = "yes 'a line of sixteen' | head -n 20000; echo node $$ >&2; exit 7";
    let (launcher, mut reader) = start(&["--keep-going"], script, false);
    let mut printed = String::new();
    reader.read_to_string(&mut printed).unwrap();
    assert_eq!(
        printed
            .lines()
            .filter(|line| line.ends_with("a line of sixteen"))
            .count(),
        2 * 20000
    );
    assert_eq!(ends(launcher).0, Some(7));

    // Here a node needs some 1,000 bytes more than its pipe has room for, so it ends when the launcher has read once from it: the launcher
    // is what waits.
    let script = "yes 'a line of sixteen' | head -n 3700; echo pid $$ >&2";
    let (mut launcher, reader) = start(&["--timeout", "2m"], script, false);
    let mut said = BufReader::new(launcher.stderr.take().unwrap());
    let mut nodes = Vec::new();
    while nodes.len() < 2 {
        let mut line = String::new();
        assert!(said.read_line(&mut line).unwrap() > 0);
        let pid = line
            .split_once("pid ")
            .and_then(|(_, pid)| Pid::from_raw(pid.trim().parse().ok()?));
        nodes.extend(pid);
    }
    assert!(nodes.into_iter().all(|node| is_over(node, PATIENCE)));
    kill_process(Pid::from_child(&launcher), Signal::TERM).unwrap();
    assert_eq!(ends(launcher).0, Some(143));
    drop(reader);
}
