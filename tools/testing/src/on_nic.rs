//! Runs the tests of a file again on the device of `loco nic`, whose libraries a process finds only from its start.
//!
//! The library is `loco-nic`, on which the tests' package must depend, so that cargo builds it.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// Returns the library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder.join("libloco_nic.so"), folder.join("../libloco_nic.so")];
    let found = places.into_iter().find(|path| path.exists());
    found.expect("cargo builds libloco_nic.so for a package that depends on loco-nic")
}

/// Runs all tests of this file but those called `own` in a process that has the device of a tier and stress, and in which
/// `LOCO_REQUIRE_RDMA` is set. `set` are further variables. Returns what the tests printed: nothing where a host's own device is
/// required, on which they run anyway.
///
/// # Panics
/// If a test fails, or if nothing was sent.
pub fn again(own: &str, tier: &str, stress: &str, set: &[(&str, &str)]) -> String {
    if std::env::var_os("LOCO_REQUIRE_RDMA").is_some() {
        return String::new();
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        symlink(library(), folder.path().join(name)).unwrap();
    }
    let report = folder.path().join("report");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--show-output", "--skip", own])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("LOCO_NIC_WORLD", folder.path().join("world"))
        .env("LOCO_NIC_TIER", tier)
        .env("LOCO_NIC_STRESS", stress)
        .env("LOCO_NIC_SEED", "5")
        .env("LOCO_NIC_REPORT", &report)
        .env("LOCO_VERBS_DEVICE", "loco0")
        .env("LOCO_REQUIRE_RDMA", "1")
        .envs(set.iter().copied())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tier}, {stress}: {said}");
    let counts = std::fs::read_to_string(&report).unwrap_or_default();
    let sent = counts
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("sent="));
    let sent: u64 = sent.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(sent > 0, "the device was not used: {counts}");
    said.into_owned()
}
