//! Skips tests that need something that a host may lack.

use std::fmt::Display;
use std::io::Write as _;

/// Reports that the calling test is skipped because the host lacks `need`. The message is seen although the
/// harness hides the output of tests that pass.
///
/// Fails the test instead where the variable `LOCO_REQUIRE_` and `need` is set: `test.sh` and the virtual machines set it
/// for everything that they provide.
pub fn skipped(need: &str, why: impl Display) {
    let variable = format!("LOCO_REQUIRE_{need}");
    assert!(
        std::env::var_os(&variable).is_none(),
        "{variable} is set, and {why}"
    );
    let test = std::thread::current();
    let test = test.name().unwrap_or("a test");
    // The harness would capture the output of `eprintln!`.
    let _ = writeln!(std::io::stderr(), "*skipped* {test}: {why}");
}
