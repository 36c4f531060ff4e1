//! Tests that a job of many processes sets up and works. No time is asserted here; `docs/networks.md` has what it takes.

#![allow(clippy::unwrap_used)] // Helpers of tests unwrap, too.

use std::process::{Command, Output};

use loco_testing::skipped;

const NODES: usize = 64;

/// Runs `loco` without the settings of this process's own job. Processes that share few cores have any time to meet.
fn loco(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("LOCO_")) {
        command.env_remove(name);
    }
    command
        .env("LOCO_CONNECT_TIMEOUT_MS", "600000")
        .args(args)
        .output()
        .unwrap()
}

/// Runs the demonstration, and checks that every node has met every other, and has its word in its own table.
fn demonstrate(fabric: &str) {
    let nodes = NODES.to_string();
    let output = loco(&["demo", "--quick", "-n", &nodes, "--fabric", fabric]);
    let (out, err) = (
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr),
    );
    assert!(output.status.success(), "{out}\n{err}");
    // 200 messages and three lines, which their writer does not hear.
    let heard = (1..NODES).map(|node| format!(", node {node} heard 203"));
    let table = format!("reads in its table: node 0 heard 0{}", heard.collect::<String>());
    for node in 0..NODES {
        let line = format!("[{node:>2}] {table}");
        assert!(
            out.lines().any(|found| found == line),
            "no `{line}` in\n{out}\n{err}"
        );
    }
    assert!(
        out.contains(&format!("meets {} others", NODES - 1)),
        "{out}\n{err}"
    );
}

#[test]
fn sixty_four_processes_over_shared_memory() {
    demonstrate("shm");
}

#[test]
fn sixty_four_processes_over_tcp() {
    demonstrate("tcp");
}

#[test]
fn sixty_four_processes_over_libfabric() {
    if has_libfabric() {
        demonstrate("ofi:tcp");
    }
}

/// Returns true if this host can use libfabric over TCP. Where it has the library and the provider, `loco doctor` must call
/// the fabric usable.
fn has_libfabric() -> bool {
    let doctor = loco(&["doctor", "--fabric", "ofi:tcp", "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
    let lacks = |check: &&serde_json::Value| check["verdict"] != "ok";
    let checks = report["checks"].as_array().unwrap();
    if let Some(check) = checks[..2].iter().find(lacks) {
        skipped("OFI", check);
        return false;
    }
    assert_eq!(report["usable"], true, "{report:#}");
    assert_eq!(doctor.status.code(), Some(0));
    true
}
