//! Runs one test again in a process of its own, for tests of what a process has only one of, as the NIC of altered devices.

use std::process::Command;

/// Set in processes that run one test.
const OWN: &str = "LOCO_TEST_OWN_PROCESS";

/// Runs the test of this file that is called `test` in a process of its own, and returns what it printed. Returns `None` in that
/// process, where the test is to do its work.
///
/// # Panics
/// If the test fails there, or if there is no test of that name.
pub fn own_process(test: &str) -> Option<String> {
    if std::env::var_os(OWN).is_some_and(|own| own == test) {
        return None;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "--show-output", test])
        .env(OWN, test)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{test}: {}: {said}", output.status);
    assert!(said.contains("1 passed"), "{test} did not run: {said}");
    Some(said.into_owned())
}
