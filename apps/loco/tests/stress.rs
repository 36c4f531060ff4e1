//! Lets processes use the objects at the same time, as `loco stress` does, and checks that their history is
//! linearizable. That also holds when one of them is killed while it holds a lock, inside an insert,
//! inside a pop, or inside an append.

use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};

use rustix::fs::inotify;
use rustix::process::{Pid, Signal, kill_process};

const OBJECTS: [&str; 6] = ["atomic", "ticket-lock", "tas-lock", "queue", "kv", "log"];

/// Runs `loco stress` and returns its line of JSON.
fn stress(arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_") && name != "LOCO_FABRIC") {
        command.env_remove(name);
    }
    let fabric = std::env::var("LOCO_FABRIC").unwrap_or_else(|_| "shm".to_owned());
    let output = command
        .args(["stress", "--json", "--timeout", "120", "--fabric", &fabric])
        .args(arguments)
        .output()
        .expect("the command starts");
    let line = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    assert!(line.contains(r#""verdict":"ok""#), "{arguments:?}: {line}");
    line
}

/// Returns the number after `"name":`.
fn number(line: &str, name: &str) -> u64 {
    let (_, rest) = line.split_once(&format!(r#""{name}":"#)).expect("it is there");
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

fn between_processes(object: &str, ops: &str) {
    for nodes in ["2", "3", "4"] {
        let line = stress(&[object, "--nodes", nodes, "--threads", "2", "--ops", ops]);
        assert_eq!(number(&line, "open"), 0, "{line}");
    }
}

#[test]
fn atomic_variable() {
    between_processes("atomic", "10000");
}

/// No update is lost, and a waiting thread is overtaken a bounded number of times. Each other node overtakes
/// a node that has drawn its ticket at most once, and the threads of that other node as often as they may
/// hand over. Before the ticket is drawn, the scheduler may delay a thread that has asked already. The median
/// thread has not felt that.
#[test]
fn ticket_lock() {
    for nodes in ["2", "3", "4"] {
        let line = stress(&["ticket-lock", "--nodes", nodes, "--threads", "2", "--ops", "6000"]);
        assert_eq!(number(&line, "open"), 0, "{line}");
        let others = nodes.parse::<u64>().expect("a number") - 1;
        // The bound is doubled because the node's own other thread may have its turn in between.
        let bound = 2 * others * (1 + 4);
        assert!(number(&line, "p50") <= bound, "{line}");
    }
}

#[test]
fn tas_lock() {
    between_processes("tas-lock", "6000");
}

#[test]
fn queue() {
    between_processes("queue", "10000");
}

#[test]
fn kv() {
    between_processes("kv", "10000");
    // With so few keys, every slot is reused all the time.
    stress(&[
        "kv", "--nodes", "3", "--keys", "2", "--ops", "10000", "--seed", "2",
    ]);
    stress(&[
        "kv", "--nodes", "3", "--keys", "4", "--copies", "2", "--ops", "10000",
    ]);
}

#[test]
fn log() {
    between_processes("log", "6000");
}

/// Kills one of three nodes and checks that the others end in time. The history must be linearizable,
/// with the victim's last calls done or not. Repeats with other seeds until the node was killed in the wanted
/// place.
fn killed(object: &str, was_in: &str, ops: u32, more: &[&str]) {
    let ops = ops.to_string();
    for seed in 1..=60 {
        let seed = seed.to_string();
        let arguments = [
            object, "--nodes", "3", "--kill", "random", "--ops", &ops, "--seed", &seed,
        ];
        let line = stress(&[&arguments[..], more].concat());
        // On a busy machine the node may be killed between two calls.
        let (_, calls) = line.split_once(r#""victim_was_in":"#).expect("it is there");
        if calls.contains(was_in) {
            return;
        }
    }
    panic!("{object}: the victim was never in {was_in}");
}

/// Kills a node while it holds the lock, under either policy.
fn killed_with(lock: &str) {
    for on_loss in ["poison", "recover"] {
        killed(lock, "the critical section", 40_000, &["--on-loss", on_loss]);
    }
}

#[test]
fn killed_with_a_ticket_lock() {
    killed_with("ticket-lock");
}

#[test]
fn killed_with_a_tas_lock() {
    killed_with("tas-lock");
}

#[test]
fn killed_inside_a_pop() {
    killed("queue", "Pop", 40_000, &[]);
}

#[test]
fn killed_inside_an_insert() {
    killed("kv", "Insert", 20_000, &[]);
}

/// With copies the store goes on without the victim: no call of a survivor fails, whichever write the victim died in.
#[test]
fn killed_with_copies() {
    for was_in in ["Insert", "Update", "Delete"] {
        killed("kv", was_in, 20_000, &["--copies", "2"]);
    }
    stress(&[
        "kv", "--nodes", "4", "--copies", "3", "--kill", "random", "--ops", "12000",
    ]);
}

/// More nodes are killed than there are copies, each when the copies are whole again after the one before.
#[test]
fn killed_one_after_another_with_copies() {
    for seed in ["1", "2"] {
        stress(&[
            "kv", "--nodes", "5", "--copies", "2", "--kill", "random", "--kills", "3", "--ops", "20000",
            "--seed", seed,
        ]);
    }
}

/// A node that was stopped for too long may not change or show anything any more, and the others do not need it.
#[test]
fn given_up_with_copies() {
    for seed in ["1", "2"] {
        stress(&[
            "kv",
            "--nodes",
            "3",
            "--copies",
            "2",
            "--ops",
            "12000",
            "--seed",
            seed,
            "--pause",
            "random",
            "--pause-for",
            "2000",
            "--silence",
            "500",
        ]);
    }
}

/// The killed node leads, so another one has to go on.
#[test]
fn killed_inside_an_append() {
    killed("log", "Append", 20_000, &[]);
}

/// Returns the command without the environment of this test.
fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command.args([&["stress", "--fabric", "shm"], arguments].concat());
    command
}

/// Nobody gives up a node that is stopped for less than the others' patience.
#[test]
fn stopped_and_resumed() {
    for object in OBJECTS {
        for seed in ["1", "2"] {
            let line = stress(&[
                object,
                "--nodes",
                "3",
                "--ops",
                "6000",
                "--pause",
                "random",
                "--pause-for",
                "100",
                "--silence",
                "60000",
                "--seed",
                seed,
            ]);
            assert_eq!(number(&line, "open"), 0, "{line}");
        }
    }
}

/// A node that is stopped and resumed goes on. It is killed only then.
#[test]
fn stopped_resumed_and_killed() {
    for object in OBJECTS {
        let line = stress(&[
            object,
            "--nodes",
            "3",
            "--ops",
            "20000",
            "--pause",
            "random",
            "--pause-for",
            "50",
            "--kill",
            "random",
            "--silence",
            "60000",
        ]);
        // The run passes, so the node was killed, though perhaps not during a call.
        assert!(line.contains(r#""kill":"random""#), "{line}");
    }
}

#[test]
fn faults_that_cannot_be_are_refused() {
    for (arguments, said) in [
        (&["queue", "--kill", "0"][..], "from 1ms to"),
        (&["queue", "--pause", "0"], "from 1ms to"),
        (&["queue", "--kill", "soon"], "random"),
        (&["queue", "--kill", "1", "--nodes", "2"], "--nodes 3"),
        (&["kv", "--copies", "4", "--nodes", "3"], "fewer --nodes"),
        (&["queue", "--copies", "2"], "--copies"),
        (&["log", "--report", "log.html"], "--report"),
        (
            &["queue", "--pause", "1", "--pause-for", "900", "--silence", "1000"],
            "--pause-for",
        ),
        (
            &["queue", "--ops", "100", "--kill", "600000"],
            "--kill: the calls were over",
        ),
        (
            &["queue", "--ops", "100", "--pause", "600000"],
            "--pause: the calls were over",
        ),
    ] {
        let output = command(arguments).output().expect("the command starts");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {output:?}");
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(errors.contains(said), "{arguments:?}: {errors}");
    }
}

/// Waits for changes of a directory.
struct Changes {
    place: tempfile::TempDir,
    inotify: OwnedFd,
}

impl Changes {
    fn new() -> Changes {
        let place = tempfile::tempdir().expect("a directory");
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC).expect("inotify");
        let changes = inotify::WatchFlags::CREATE | inotify::WatchFlags::DELETE;
        inotify::add_watch(&inotify, place.path(), changes).expect("it is there");
        Changes { place, inotify }
    }

    fn files(&self) -> usize {
        std::fs::read_dir(self.place.path()).expect("it is there").count()
    }

    fn wait_until(&self, is_so: impl Fn(usize) -> bool) {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut changes = inotify::Reader::new(&self.inotify, &mut buffer);
        while !is_so(self.files()) {
            changes.next().expect("an event");
        }
    }
}

/// No file is left whether the program ends by itself, by Ctrl-C, or by `kill -9`.
#[test]
fn no_file_is_left() {
    for signal in [None, Some(Signal::INT), Some(Signal::KILL)] {
        let changes = Changes::new();
        let ops = if signal.is_some() { "100000000" } else { "600" };
        let mut child = command(&["atomic", "--ops", ops])
            .env("TMPDIR", changes.place.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        if let Some(signal) = signal {
            changes.wait_until(|files| files != 0);
            kill_process(Pid::from_child(&child), signal).expect("it runs");
        }
        let status = child.wait().expect("it ends");
        assert_eq!(status.success(), signal.is_none(), "{signal:?}: {status:?}");
        if signal == Some(Signal::KILL) {
            // The guard, which outlives a killed launcher by a moment, removes them.
            changes.wait_until(|files| files == 0);
        }
        assert_eq!(changes.files(), 0, "left behind after {signal:?}");
    }
}
