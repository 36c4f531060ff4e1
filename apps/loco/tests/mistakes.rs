//! Mistakes of beginners that end a process: what the others and the launcher say. Those that a call reports are in
//! `loco/objects/tests/mistakes.rs`.
//!
//! Each test starts this very program, as the nodes.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::{Output, exit};
use std::time::Duration;

use loco::fence::Scope;
use loco::{Barrier, Config, Parent as _, Participants, Result, Startup, TicketLock};
use loco_testing::launched::alone;

/// The environment variable with the name of the mistake.
const MISTAKE: &str = "LOCO_TEST_MISTAKE";
/// The node that makes it.
const CULPRIT: u16 = 1;

/// Runs a node. This is not a test of its own.
#[test]
fn node() {
    let Ok(mistake) = env::var(MISTAKE) else { return };
    // Long enough for nodes that share few processors to meet.
    let config = Config::default().deadline(Duration::from_secs(60));
    let ended = Startup::new().config(config).run(|node| {
        let lock = TicketLock::new(node, "l", node.nodes()[0])?;
        let barrier = Barrier::new(node, "b")?;
        let survivors = Participants::of(node.nodes().iter().copied().filter(|node| node.0 != CULPRIT));
        let met = match node.node().0 {
            CULPRIT => None,
            _ => Some(Barrier::new(&node.among(&survivors), "survivors")?),
        };
        node.wait_for_ready()?;
        let thread = node.thread()?;
        barrier.wait(&thread)?;
        if node.node().0 == CULPRIT {
            let _guard = lock.lock(&thread, Scope::Thread)?;
            match mistake.as_str() {
                "held at exit" => exit(0),
                "panic" => panic!("on purpose"),
                other => panic!("no mistake {other}"),
            }
        }
        // Node 1 leaves with the lock. The others find it held or, if they come first, wait for node 1 at the barrier.
        let waited = wait(&barrier, &lock, &thread);
        // The lock is on node 0, which stays until all have asked for it.
        if let Some(met) = met {
            met.wait(&thread)?;
        }
        waited
    });
    if let Err(error) = ended {
        eprintln!("{error}");
        exit(1);
    }
}

/// Locks until the lock says that its holder is lost.
fn wait(barrier: &Barrier, lock: &TicketLock, thread: &loco::Thread) -> Result<()> {
    match barrier.wait(thread) {
        Err(lost) if lost.is_peer_lost() => {
            eprintln!("at the barrier: {lost}");
            lock.lock(thread, Scope::Thread).map(drop)
        }
        other => other,
    }
}

/// Starts this program as a node that makes a mistake, after these arguments.
fn run(arguments: &[&str], mistake: &str) -> Output {
    let this = env::current_exe().unwrap();
    let mut command = match arguments {
        [] => alone(&this),
        _ => {
            let mut launcher = alone(env!("CARGO_BIN_EXE_loco"));
            launcher.args(arguments).arg(&this);
            launcher
        }
    };
    command
        .args(["node", "--exact", "--nocapture", "--test-threads=1"])
        .env(MISTAKE, mistake)
        .env("LOCO_CONNECT_TIMEOUT_MS", "120000")
        .output()
        .unwrap()
}

/// Makes the mistake on node 1 of three and returns all that is said.
fn said(mistake: &str) -> String {
    let launcher = [
        "run",
        "-n",
        "3",
        "--fabric",
        "shm",
        "--timeout",
        "5m",
        "--keep-going",
    ];
    let output = run(&launcher, mistake);
    assert!(!output.status.success(), "{mistake}: {output:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn a_guard_that_is_held_at_the_exit() {
    let said = said("held at exit");
    for survivor in [0, 2] {
        let begin = format!("[{survivor}] ");
        let says = |words: &[&str]| {
            let own = said.lines().filter_map(|line| line.strip_prefix(&begin));
            own.into_iter()
                .any(|line| words.iter().all(|word| line.contains(word)))
        };
        assert!(says(&["node 1", "`b`", "is lost", "go on without it"]), "{said}");
        assert!(
            says(&["node 1 was lost while it held lock `l`", "`OnLoss::Recover`"]),
            "{said}"
        );
    }
}

#[test]
fn a_panic_with_a_guard() {
    let said = said("panic");
    assert!(said.contains("[1] ") && said.contains("on purpose"), "{said}");
    assert!(said.contains("loco: node 1 ended with exit code 101"), "{said}");
    assert!(said.contains("node 1, for which `b` waited, is lost"), "{said}");
}

#[test]
fn a_limit_that_is_too_low() {
    let limited = "ulimit -f 64; exec \"$0\" \"$@\"";
    let launcher = [
        "run",
        "-n",
        "2",
        "--fabric",
        "shm",
        "--timeout",
        "5m",
        "sh",
        "-c",
        limited,
    ];
    let output = run(&launcher, "panic");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("`ulimit -f unlimited` before the job"), "{said}");
}

#[test]
fn no_launcher() {
    let output = run(&[], "panic");
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("not part of a job"), "{said}");
    assert!(said.contains("start it with `loco run -n 3 PROGRAM`"), "{said}");
}
