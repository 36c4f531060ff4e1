//! Runs the tests of a file again on the device of `loco nic`, whose libraries a process finds only from its start.

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// Returns the library, which cargo puts beside the tests.
fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let folder = test.parent().unwrap();
    let places = [folder.join("libloco_nic.so"), folder.join("../libloco_nic.so")];
    places.into_iter().find(|path| path.exists()).unwrap()
}

/// Runs all tests of this file but those called `own`, in a process that has the device. `set` are further variables.
pub fn runs_this_file(own: &str, tier: &str, stress: &str, set: &[(&str, &str)]) {
    // The tests of such a process run on the device already.
    if std::env::var_os("LOCO_NIC_WORLD").is_some() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["libibverbs.so.1", "librdmacm.so.1"] {
        symlink(library(), folder.path().join(name)).unwrap();
    }
    let report = folder.path().join("report");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--skip", own])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("LOCO_NIC_WORLD", folder.path().join("world"))
        .env("LOCO_NIC_TIER", tier)
        .env("LOCO_NIC_STRESS", stress)
        .env("LOCO_NIC_SEED", "5")
        .env("LOCO_NIC_REPORT", &report)
        .env("LOCO_VERBS_DEVICE", "loco0")
        .env("LOCO_REQUIRE_RDMA", "1")
        .envs(set.iter().copied());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tier}, {stress}: {said}");
    let counts = std::fs::read_to_string(&report).unwrap_or_default();
    let sent = counts
        .split_whitespace()
        .filter_map(|word| word.strip_prefix("sent="));
    let sent: u64 = sent.map(|count| count.parse::<u64>().unwrap()).sum();
    assert!(sent > 0, "the device was not used: {counts}");
}
