//! `loco top`: deadlocks of locks and of barriers are named, and so are the nodes that are missing.
//!
//! Each test starts this very program, as the nodes.

#![allow(clippy::unwrap_used)]

use std::env;
use std::io::{BufRead as _, BufReader, Lines};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use loco::fabric::{NodeId, var};
use loco::fence::Scope;
use loco::{Barrier, Config, Result, SharedVar, Startup, TasLock, TicketLock};
use loco_testing::launched::{alone, signal};
use serde_json::Value;

/// The environment variable that says what a node does.
const ROLE: &str = "LOCO_TEST_TOP";
/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(3600);
/// The time that a busy machine may take until all nodes wait.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a node. This is not a test of its own.
#[test]
fn node() {
    let Ok(role) = env::var(ROLE) else { return };
    println!("job {}", env::var(var::JOB).unwrap());
    let config = Config::default().deadline(FOREVER);
    let ended = Startup::new().config(config).run(|node| -> Result<()> {
        let me = node.node().0;
        let locks = (
            TicketLock::new(node, "a", NodeId(0))?,
            TasLock::new(node, "b", NodeId(1))?,
        );
        let met = Barrier::new(node, "met")?;
        let x = Barrier::new(node, "x")?;
        let y = Barrier::new(node, "y")?;
        let never = SharedVar::<u64>::new(node, "never")?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        match (role.as_str(), me) {
            ("locks", 0) => {
                let _a = locks.0.lock(&thread, Scope::Thread)?;
                met.wait(&thread)?;
                locks.1.lock(&thread, Scope::Thread)?.release()
            }
            ("locks", _) => {
                let _b = locks.1.lock(&thread, Scope::Thread)?;
                met.wait(&thread)?;
                locks.0.lock(&thread, Scope::Thread)?.release()
            }
            ("twice", 0) => {
                let _a = locks.0.lock(&thread, Scope::Thread)?;
                locks.0.lock(&thread, Scope::Thread)?.release()
            }
            ("barriers", 0) => x.wait(&thread),
            ("barriers", _) => y.wait(&thread),
            ("missing", 0 | 2) => x.wait(&thread),
            ("set-up", 0) => {
                let alone = Barrier::new(node, "only here")?;
                alone.channel().wait_for_ready()
            }
            // It works, as far as others know.
            ("missing" | "set-up", _) => loop {
                std::thread::park();
            },
            ("twice", _) => never.wait_until(&thread, |value| value == 1).map(drop),
            (other, _) => panic!("no role {other}"),
        }
    });
    panic!("the job ended: {ended:?}");
}

/// A job that stands still until it is dropped.
struct Running {
    launcher: Child,
    id: String,
    /// The launcher ends the job when nobody reads its output any more.
    _output: Lines<BufReader<ChildStdout>>,
}

impl Running {
    fn start(role: &str, nodes: u16, fabric: &str) -> Running {
        let mut launcher = alone(env!("CARGO_BIN_EXE_loco"))
            .args([
                "run",
                "--timeout",
                "300s",
                "--grace",
                "0s",
                "--fabric",
                fabric,
                "--no-prefix",
                "-n",
            ])
            .arg(nodes.to_string())
            .arg(env::current_exe().unwrap())
            .args(["node", "--exact", "--nocapture", "--test-threads=1"])
            .env(ROLE, role)
            .env("LOCO_CONNECT_TIMEOUT_MS", "120000")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(launcher.stdout.take().unwrap()).lines();
        // The harness may have begun the line.
        let id = lines.by_ref().find_map(|line| {
            let line = line.unwrap();
            let (_, id) = line.split_once("job ")?;
            Some(id.to_owned())
        });
        Running {
            launcher,
            id: id.unwrap(),
            _output: lines,
        }
    }

    /// Runs `loco top`, and returns its exit code and output.
    fn top(&self, arguments: &[&str]) -> (Option<i32>, String) {
        let output = alone(env!("CARGO_BIN_EXE_loco"))
            .args(["top", "--job", &self.id])
            .args(arguments)
            .output()
            .unwrap();
        assert!(output.stderr.is_empty(), "{output:?}");
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    }

    /// Looks until the job is as it is awaited, and returns what was seen.
    fn until(&self, is_so: impl Fn(&Value) -> bool) -> Value {
        let begin = Instant::now();
        loop {
            let (_, text) = self.top(&["--json"]);
            let seen: Value = serde_json::from_str(&text).unwrap();
            if is_so(&seen["jobs"][0]) {
                return seen["jobs"][0].clone();
            }
            assert!(begin.elapsed() < PATIENCE, "{seen:#}");
        }
    }

    /// Waits for a deadlock, and returns what the report for people says of it.
    fn deadlock(&self) -> String {
        self.until(|job| job["deadlocks"].as_array().is_some_and(|list| !list.is_empty()));
        let (code, text) = self.top(&["--once"]);
        assert_eq!(code, Some(1), "{text}");
        let line = text.lines().find(|line| line.starts_with("  deadlock: "));
        // Names of threads are those of the harness.
        let name = |part: &str| match (part.split_once(" ("), part.split_once(") ")) {
            (Some((node, _)), Some((_, rest))) => format!("{node} {rest}"),
            _ => part.to_owned(),
        };
        let parts = line.expect(&text).trim_start_matches("  deadlock: ").split("; ");
        parts.map(name).collect::<Vec<_>>().join("; ")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        signal("-TERM", self.launcher.id());
        let _ = self.launcher.wait();
    }
}

/// Returns what the one thread of a node that waits waits for.
fn wait(job: &Value, node: usize) -> &Value {
    let threads = job["here"][node]["threads"].as_array();
    let mut threads = threads.into_iter().flatten();
    let waits = threads.find(|thread| !thread["waits"].is_null());
    waits.map_or(&Value::Null, |thread| &thread["waits"])
}

#[test]
fn a_deadlock_of_two_locks_names_who_holds_what() {
    for fabric in ["shm", "tcp"] {
        let job = Running::start("locks", 2, fabric);
        assert_eq!(
            job.deadlock(),
            "node 0 holds lock a and waits for lock b; node 1 holds lock b and waits for lock a",
            "{fabric}"
        );
        let seen = job.until(|_| true);
        let waits = wait(&seen, 0);
        assert_eq!(
            (&waits["for"], &waits["kind"]),
            (&Value::from("b"), &Value::from("lock"))
        );
        assert_eq!(waits["held_by"][0]["node"], 1, "{seen:#}");
        assert_eq!(waits["deadlock"], true, "{seen:#}");
        assert!(
            waits["gives_up_in_seconds"].as_f64().unwrap() > 3000.0,
            "{seen:#}"
        );
        assert_eq!(seen["here"][1]["threads"][0]["holds"][0], "b", "{seen:#}");
    }
}

#[test]
fn a_thread_that_wants_its_own_lock_is_a_deadlock() {
    let job = Running::start("twice", 2, "shm");
    assert_eq!(job.deadlock(), "node 0 holds lock a and waits for lock a");
}

#[test]
fn a_deadlock_of_two_barriers_names_who_is_missing_where() {
    let job = Running::start("barriers", 2, "shm");
    assert_eq!(
        job.deadlock(),
        "node 0 waits at barrier x for node 1; node 1 waits at barrier y for node 0"
    );
}

#[test]
fn nodes_that_are_missing_are_named_and_may_still_come() {
    let job = Running::start("missing", 3, "shm");
    // At first all others may be missing.
    let misses_one =
        |job: &Value, node| wait(job, node)["for"] == "x" && wait(job, node)["nodes"] == Value::from(vec![1]);
    let seen = job.until(|job| misses_one(job, 0) && misses_one(job, 2));
    assert_eq!(seen["nodes"], 3);
    assert_eq!(wait(&seen, 0)["kind"], "barrier");
    assert_eq!(seen["deadlocks"].as_array().unwrap().len(), 0, "{seen:#}");
    let (code, text) = job.top(&["--once"]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("at barrier x for node 1 (gives up in "), "{text}");
    assert!(text.contains("  node 1, process "), "{text}");
    let output = alone(env!("CARGO_BIN_EXE_loco"))
        .args(["top", "--job", "no such job"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(0));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("no node of a job"), "{said}");
}

#[test]
fn an_object_that_another_node_has_not_made_is_named() {
    let job = Running::start("set-up", 2, "shm");
    job.until(|job| wait(job, 0)["for"] == "only here");
    let (code, text) = job.top(&[]);
    assert_eq!(code, Some(0), "{text}");
    assert!(text.contains("until only here is set up on node 1"), "{text}");
}
