//! `loco nic` with several devices, and with several hosts, which are addresses of the loopback here.
//!
//! The library is `loco_nic`, on which this package depends, so that cargo builds it. Programs of ibverbs-utils and rdmacm-utils are
//! needed. Without them a test says *skipped*; `LOCO_REQUIRE_RDMA_PROGRAMS` makes that a failure.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Instant;

/// Writes a hosts file of two hosts, and returns the names of their worlds.
fn hosts(folder: &Path) -> [String; 2] {
    let hosts = loco_testing::free_addresses(&["127.0.0.2", "127.0.0.3"]);
    fs::write(folder.join("hosts"), format!("0 {}\n5 {}\n", hosts[0], hosts[1])).unwrap();
    let user = rustix::process::getuid().as_raw();
    [0, 1].map(|at: usize| format!("loco-nic-{user}-{}-{}", hosts[at].ip(), hosts[at].port()))
}

/// Returns a command that runs a program on a host of the file.
fn nic(folder: &Path, host: &[&str], program: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
    command
        .args(["nic", "--stress", "none", "--hosts"])
        .arg(folder.join("hosts"))
        .args(host)
        .arg("--")
        .args(program)
        .env("TMPDIR", folder)
        .env("LOCO_SECRET", "a secret of two hosts")
        .stdin(Stdio::null());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns whether a program is there.
fn has(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).exists())
}

#[test]
fn a_program_has_as_many_devices_as_were_asked_for() {
    if !has("ibv_devinfo") {
        return loco_testing::skipped("RDMA_PROGRAMS", "there is no ibv_devinfo: install ibverbs-utils");
    }
    let folder = tempfile::tempdir().unwrap();
    let list = |devices: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loco"));
        command.args(["nic", "--world"]).arg(folder.path()).args(devices);
        command.args(["--", "ibv_devinfo", "-l"]).output().unwrap()
    };
    for (devices, last, next) in [
        (&[][..], "loco0", "loco1"),
        (&["--devices", "3"], "loco2", "loco3"),
    ] {
        let output = list(devices);
        let listed = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{output:?}");
        assert!(listed.contains(last) && !listed.contains(next), "{listed}");
    }
    let output = list(&["--devices", "9"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(said(&output).contains("from 1 to 8"), "{output:?}");
}

#[test]
fn programs_of_two_hosts_meet() {
    if !has("rping") {
        return loco_testing::skipped("RDMA_PROGRAMS", "there is no rping: install rdmacm-utils");
    }
    let folder = tempfile::tempdir().unwrap();
    let worlds = hosts(folder.path());
    let both = ["-a", "127.0.0.2", "-C", "10", "-V"];
    let server = nic(
        folder.path(),
        &["--host", "0"],
        &[&["rping", "-s"], &both[..]].concat(),
    )
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let listens = || {
        let entries = fs::read_dir(folder.path().join(&worlds[0]))
            .into_iter()
            .flatten()
            .flatten();
        let mut names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        names.any(|name| name.contains(".port-"))
    };
    let begun = Instant::now();
    while !listens() {
        assert!(begun.elapsed().as_secs() < 60, "nobody listens");
        std::thread::yield_now();
    }
    // A second launcher on the host waits for the port, and is no hindrance.
    let beside = nic(folder.path(), &["--host", "0"], &["true"]).output().unwrap();
    assert!(beside.status.success(), "{}", said(&beside));
    let client = nic(
        folder.path(),
        &["--host", "5"],
        &[&["rping", "-c"], &both[..]].concat(),
    );
    let client = { client }.output().unwrap();
    let server = server.wait_with_output().unwrap();
    assert!(client.status.success(), "{}\n{}", said(&client), said(&server));
    assert!(server.status.success(), "{}", said(&server));
    for world in worlds {
        let left = fs::read_dir(folder.path().join(world)).unwrap().flatten();
        let left: Vec<_> = left
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .collect();
        assert!(left.iter().all(|name| name.starts_with("lib-")), "{left:?}");
    }
}

#[test]
fn what_is_wrong_with_the_hosts_is_said() {
    let folder = tempfile::tempdir().unwrap();
    hosts(folder.path());
    let refused = |host: &[&str], remedy: &str| {
        let output = nic(folder.path(), host, &["true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(said(&output).contains(remedy), "{}", said(&output));
    };
    refused(&[], "hosts 0 and 5 are this machine: say which with --host ID");
    refused(&["--host", "1"], "there is no host 1");
    let output = nic(folder.path(), &["--host", "0"], &["true"])
        .env_remove("LOCO_SECRET")
        .output()
        .unwrap();
    assert!(said(&output).contains("set the same LOCO_SECRET or LOCO_SECRET_FILE on all hosts"));
    // Addresses for documentation: no host has them.
    fs::write(folder.path().join("hosts"), "0 198.51.100.1\n1 203.0.113.1\n").unwrap();
    refused(&[], "no host is this machine");
    fs::write(folder.path().join("hosts"), "0 127.0.0.1\n1 203.0.113.1\n").unwrap();
    refused(&[], "write its address into the file");
    fs::write(folder.path().join("hosts"), "0 127.0.0.2:1\n1 127.0.0.2:2\n").unwrap();
    refused(&["--host", "0"], "two hosts have the address 127.0.0.2");
}
