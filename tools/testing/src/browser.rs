//! Says whether this host has a browser for tests.

use std::path::Path;
use std::process::{Command, Stdio};

/// Returns true if Chromium, Node.js or the packages in `folder` are missing, and says what is. Fails then if `LOCO_REQUIRE_BROWSER` is
/// set.
pub fn is_missing(folder: &Path) -> bool {
    let has = |program: &str| {
        let found = Command::new(program)
            .arg("--version")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
        found.is_ok_and(|status| status.success())
    };
    let lacking = [
        (!has("chromium")).then_some("chromium"),
        (!has("node")).then_some("node"),
        (!folder.join("node_modules/playwright-core").exists()).then_some("playwright-core"),
    ];
    let lacking: Vec<&str> = lacking.into_iter().flatten().collect();
    if lacking.is_empty() {
        return false;
    }
    let message = format!("no {}: run ci/install-browser", lacking.join(", no "));
    assert!(std::env::var_os("LOCO_REQUIRE_BROWSER").is_none(), "{message}");
    eprintln!("SKIPPED: nothing is tested in a browser: {message}");
    true
}
