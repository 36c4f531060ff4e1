//! Timelines of jobs: what they show of a lock, a barrier, a put and a loss, and what is said of nodes that were killed.
//!
//! Each test starts this very program, as the nodes.

#![allow(clippy::unwrap_used)]

use std::env;
use std::fs;
use std::process::{Output, exit};
use std::time::Duration;

use loco::fence::Scope;
use loco::{Barrier, Config, Result, SharedRegion, SharedVar, Startup, TicketLock};
use loco_testing::launched::alone;
use serde_json::Value;

/// The environment variable that makes a process a node.
const NODE: &str = "LOCO_TEST_TIMELINE";
/// The node that is lost.
const LOST: u16 = 2;

/// Runs a node. This is not a test of its own.
#[test]
fn node() {
    if env::var_os(NODE).is_none() {
        return;
    }
    let config = Config::default().deadline(Duration::from_secs(60));
    let ended = Startup::new().config(config).run(|node| -> Result<()> {
        let me = node.node().0;
        let home = node.nodes()[0];
        let lock = TicketLock::new(node, "the lock", home)?;
        let word = SharedRegion::new(node, "word", 8)?;
        let met = Barrier::new(node, "met")?;
        let taken = SharedVar::<u64>::new(node, "taken")?;
        node.wait_for_ready()?;
        let thread = node.thread()?;
        if me == 1 {
            let guard = lock.lock(&thread, Scope::Thread)?;
            thread.put_inline(&[1; 8], word.target(home, 0)?)?.wait(&thread)?;
            taken.write(1);
            taken.broadcast(&thread)?.wait(&thread)?;
            // Node 0 waits for the lock meanwhile. Both are seen however long that is.
            std::thread::sleep(Duration::from_millis(50));
            guard.release()?;
        } else {
            taken.wait_until(&thread, |taken| taken == 1)?;
            lock.lock(&thread, Scope::Thread)?.release()?;
        }
        met.wait(&thread)?;
        if me == LOST {
            exit(3);
        }
        match met.wait(&thread) {
            Err(lost) if lost.is_peer_lost() => Ok(()),
            other => panic!("{other:?}"),
        }
    });
    // The others cannot leave together with a node that is lost.
    exit(i32::from(ended.is_err()));
}

fn run(arguments: &[&str], file: &str) -> Output {
    alone(env!("CARGO_BIN_EXE_loco"))
        .args([
            "run",
            "-n",
            "3",
            "--timeout",
            "300s",
            "--keep-going",
            "--trace",
            file,
        ])
        .args(arguments)
        .arg(env::current_exe().unwrap())
        .args(["node", "--exact", "--nocapture", "--test-threads=1"])
        .env(NODE, "yes")
        .env("LOCO_CONNECT_TIMEOUT_MS", "120000")
        .output()
        .unwrap()
}

struct Timeline {
    events: Vec<Value>,
    file: Value,
}

impl Timeline {
    /// Returns the events of a node with this name.
    fn of(&self, node: u16, name: &str) -> Vec<&Value> {
        let named = |event: &&Value| event["pid"] == node && event["name"] == name;
        self.events.iter().filter(named).collect()
    }

    fn one(&self, node: u16, name: &str) -> &Value {
        let found = self.of(node, name);
        assert!(
            !found.is_empty(),
            "node {node} has no `{name}`: {:#?}",
            self.events
        );
        found[0]
    }

    /// Returns whether a span of the same thread is in another.
    fn is_in(inner: &Value, outer: &Value) -> bool {
        let begin = |span: &Value| span["ts"].as_f64().unwrap();
        let end = |span: &Value| begin(span) + span["dur"].as_f64().unwrap();
        inner["tid"] == outer["tid"] && begin(inner) >= begin(outer) && end(inner) <= end(outer) + 0.01
    }
}

/// Runs the job on a fabric.
fn timeline(fabric: &str) -> (Timeline, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = run(&["--fabric", fabric], path.to_str().unwrap());
    let err = String::from_utf8(output.stderr).unwrap();
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).expect(&err);
    let events = file["traceEvents"].as_array().unwrap().clone();
    (Timeline { events, file }, err)
}

#[test]
fn calls_waits_posts_and_a_loss_are_shown_with_names_and_peers() {
    for fabric in ["shm", "tcp"] {
        let (shown, err) = timeline(fabric);
        let locked = shown.one(0, "the lock lock");
        assert_eq!(locked["cat"], "call");
        assert_eq!(locked["args"]["object"], "the lock");
        assert_eq!(locked["args"]["method"], "lock");
        // The wait for the lock is in the call, and lasts as long as node 1 holds the lock.
        let waits = shown.of(0, "waits for the lock");
        let wait = waits
            .iter()
            .find(|wait| Timeline::is_in(wait, locked))
            .expect("a wait");
        assert_eq!(wait["cat"], "wait");
        assert!(
            wait["args"]["nodes"]
                .as_array()
                .unwrap()
                .contains(&Value::from(1)),
            "{wait}"
        );
        // Clocks are one: node 1 releases before node 0 has the lock.
        let time = |event: &Value| event["ts"].as_f64().unwrap();
        let released = shown.one(1, "the lock release");
        assert!(
            time(released) < time(locked) + locked["dur"].as_f64().unwrap(),
            "{fabric}"
        );
        // Over shared memory, operations are done at once, and only calls and waits are shown.
        if fabric == "tcp" {
            let puts = shown.of(1, "put");
            let to_home = |put: &&&Value| put["args"]["nodes"][0] == 0 && put["args"]["bytes"] == 8;
            assert!(puts.iter().any(|put| to_home(&put)), "{puts:?}");
            assert_eq!(shown.one(1, "completed")["cat"], "completion");
        }
        for node in [0, 1] {
            assert_eq!(shown.of(node, "met wait").len(), 2, "the second fails");
            let mut lost = shown.of(node, "lost");
            // The survivors end, too, and may miss one another.
            lost.retain(|event| event["args"]["nodes"][0] == LOST);
            assert_eq!(lost.len(), 1, "{fabric}: {lost:?}");
        }
        assert_eq!(
            shown.one(LOST, "process_labels")["args"]["labels"],
            "lacks the end"
        );
        // Node 2 did not leave, and so its file has no end.
        assert!(err.contains("the timeline of node 2 lacks the end"), "{err}");
        let notes = shown.file["otherData"]["notes"].to_string();
        assert!(
            notes.contains("node 2") && !notes.contains("wall clocks"),
            "{notes}"
        );
    }
}

/// The command joins its job without `loco::run`.
#[test]
fn a_program_that_connects_by_itself_has_a_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let output = alone(env!("CARGO_BIN_EXE_loco"))
        .args([
            "run",
            "-n",
            "2",
            "--fabric",
            "shm",
            "--trace",
            path.to_str().unwrap(),
        ])
        .args([env!("CARGO_BIN_EXE_loco"), "demo-node", "--quick"])
        .output()
        .unwrap();
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let events = file["traceEvents"].as_array().unwrap();
    for node in [0, 1] {
        let calls = events
            .iter()
            .filter(|event| event["pid"] == node && event["cat"] == "call");
        assert!(calls.count() > 0, "node {node}");
    }
}

#[test]
fn a_program_that_is_no_node_leaves_an_empty_timeline_that_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    let loco = |arguments: &[&str]| {
        let output = alone(env!("CARGO_BIN_EXE_loco"))
            .args(arguments)
            .output()
            .unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let (code, err) = loco(&["run", "-n", "2", "--trace", path.to_str().unwrap(), "true"]);
    assert_eq!(code, Some(0), "{err}");
    assert!(err.contains("no timeline of nodes 0, 1"), "{err}");
    let file: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    assert!(
        file["otherData"]["notes"][0]
            .as_str()
            .unwrap()
            .contains("nodes 0, 1")
    );
    let nowhere = folder.path().join("no/such/folder.json");
    let (code, err) = loco(&["run", "-n", "1", "--trace", nowhere.to_str().unwrap(), "true"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("no/such/folder.json"), "{err}");
    let empty = folder.path().to_str().unwrap();
    let (code, err) = loco(&["trace", empty, "--out", "/dev/null"]);
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("node-0.json"), "{err}");
}
