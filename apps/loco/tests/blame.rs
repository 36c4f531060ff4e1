//! Checks that `loco run` names the node that failed first, and not one that noticed. Each case is run several times, as often
//! as `LOCO_TEST_TRIES` says, because the kernel reports the ends of nodes in any order.
//!
//! Each test starts this very program under `loco run`, as the nodes.

#![allow(clippy::unwrap_used)]

use std::env;
use std::process::exit;
use std::time::Duration;

use loco::fabric::ofi::{self, OfiConfig};
use loco::{Barrier, Config, Error, Result, Startup};
use loco_testing::launched::alone;
use loco_testing::skipped;

/// The environment variable with the name of the case.
const CASE: &str = "LOCO_TEST_CASE";
/// The node that fails first.
const CULPRIT: u16 = 1;

/// Runs a node. This is not a test of its own.
#[test]
fn node() {
    let Ok(case) = env::var(CASE) else { return };
    // Long enough for nodes that share few processors to meet.
    let deadline = Duration::from_secs(if case == "no endpoint" { 3 } else { 60 });
    let ended = Startup::new()
        .config(Config::default().deadline(deadline))
        .run(|node| {
            let is_culprit = node.node().0 == CULPRIT;
            if is_culprit && case == "no endpoint" {
                return Ok(());
            }
            let barrier = Barrier::new(node, "meeting")?;
            node.wait_for_ready()?;
            let thread = node.thread()?;
            barrier.wait(&thread)?;
            if is_culprit {
                fail(&case)?;
            }
            barrier.wait(&thread)
        });
    match (ended, case.as_str()) {
        (Err(error), "all unwrap") => panic!("{error}"),
        (Err(error), _) => {
            eprintln!("{error}");
            exit(1);
        }
        (Ok(()), _) => {}
    }
}

fn fail(case: &str) -> Result<()> {
    match case {
        "panic" | "all unwrap" => panic!("on purpose"),
        "panic of another thread" => {
            let other = std::thread::spawn(|| panic!("on purpose"));
            other.join().unwrap();
            Ok(())
        }
        "error" => Err(Error::Config("on purpose".to_owned())),
        "early end" => exit(0),
        other => panic!("no case {other}"),
    }
}

/// Returns the fabrics over which nodes of one host can lose one another.
fn fabrics() -> Vec<&'static str> {
    match ofi::usable(&OfiConfig::default().provider(Some("tcp".to_owned()))) {
        Ok(_) => vec!["shm", "ofi:tcp"],
        Err(why) => {
            skipped("OFI", why);
            vec!["shm"]
        }
    }
}

/// Runs the case on three nodes over the fabric and returns what the launcher says, and everything.
fn said(fabric: &str, case: &str) -> (String, String) {
    let output = alone(env!("CARGO_BIN_EXE_loco"))
        .args(["run", "-n", "3", "--fabric", fabric, "--timeout", "300", "--"])
        .arg(env::current_exe().unwrap())
        .args(["node", "--exact", "--nocapture", "--test-threads=1"])
        .env(CASE, case)
        .env("LOCO_CONNECT_TIMEOUT_MS", "120000")
        .output()
        .unwrap();
    assert!(!output.status.success(), "{case}: {output:?}");
    let all = String::from_utf8(output.stderr).unwrap();
    let own = all
        .lines()
        .find_map(|line| line.strip_prefix("loco: "))
        .unwrap_or_default();
    (own.to_owned(), all)
}

fn is_always(case: &str, expected: impl Fn(&str) -> bool) {
    let tries = env::var("LOCO_TEST_TRIES").map_or(5, |tries| tries.parse().unwrap());
    for fabric in fabrics() {
        for number in 1..=tries {
            let (own, all) = said(fabric, case);
            assert!(expected(&own), "{case} over {fabric}, try {number}: {own}\n{all}");
            assert!(!all.contains("loco-run-end"), "an internal name: {all}");
        }
    }
}

#[test]
fn a_panic_is_named_and_not_who_noticed() {
    for case in ["panic", "panic of another thread", "all unwrap"] {
        is_always(case, |own| own.starts_with("node 1 ended with exit code 101"));
    }
}

#[test]
fn an_error_is_named_and_not_who_noticed() {
    is_always("error", |own| own.starts_with("node 1 ended with exit code 1"));
}

#[test]
fn a_node_that_ends_too_early_is_named() {
    is_always("early end", |own| {
        own.starts_with("node 1 was missed by node ") && own.contains("exit code 1")
    });
}

#[test]
fn a_node_that_made_no_endpoint_is_named() {
    is_always("no endpoint", |own| {
        own.starts_with("node 1 was missed by node ") && own.contains("exit code 1")
    });
}
