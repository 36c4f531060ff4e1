//! Tests that need what a host may lack. Each crate whose tests do includes this file.

use std::fmt::Display;
use std::io::Write as _;

/// Says that the calling test is skipped for want of `need`. This is seen although the harness shows no output of tests
/// that pass.
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
    // `eprintln!` would go to the harness, which keeps it.
    let _ = writeln!(std::io::stderr(), "*skipped* {test}: {why}");
}
